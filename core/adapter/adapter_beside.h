// core/adapter/adapter_beside.h -- other files in an adapter's folder, and keys of
// adapter_config.json without effect: parts of the training that are not used here.
#ifndef CORE_ADAPTER_ADAPTER_BESIDE_H
#define CORE_ADAPTER_ADAPTER_BESIDE_H

struct adapter;
struct adapter_config;
struct names;

// Adds the sentence `before` LIST `after` to a->notices, unless the list is empty; names a few of a
// long list. Releases the list.
void adapter_notice(struct adapter *a, const char *before, struct names *list, const char *after);
// Each adds sentences to a->notices.
void adapter_beside(struct adapter *a);
void adapter_config_notices(struct adapter *a, const struct adapter_config *c);

#endif
