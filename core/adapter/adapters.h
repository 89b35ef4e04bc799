// core/adapter/adapters.h -- the adapters loaded for a model, at most one of them applied.
//
//   struct adapter *a = adapters_open(&list, "out/ln", false, model, &err);   // reads it if needed
//   adapters_use(&list, a, settings);                                         // NULL: none
//   adapters_drop(&list, a);
//   adapters_release(&list);                                                  // before the model
#ifndef CORE_ADAPTER_ADAPTERS_H
#define CORE_ADAPTER_ADAPTERS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

struct merge_report;
struct model;
struct settings;

struct adapters {
    struct adapter **list; // in loading order
    size_t count;
    struct adapter *active; // NULL: none
};

// Finds a loaded adapter by name or folder; NULL: none.
struct adapter *adapters_find(const struct adapters *s, const char *name);
// Returns a loaded adapter, or reads it. `reload`: always reads, because the folder may have
// changed. adapters_find then returns the new adapter instead of the old one, and adapters_use
// drops the old one; before adapters_use, dropping the new adapter restores the old one. Changes
// nothing on failure.
struct adapter *adapters_open(struct adapters *s, const char *name, bool reload, struct model *m,
                              struct err *err);
// Applies the adapter according to adapter.scale and adapter.when; NULL: applies none.
void adapters_use(struct adapters *s, struct adapter *a, const struct settings *settings);
void adapters_drop(struct adapters *s, struct adapter *a);
void adapters_release(struct adapters *s);
// Writes the model with the applied adapter into a new folder (core/adapter/model_write.h).
int adapters_merge(const struct adapters *s, const char *folder, struct merge_report *report,
                   struct err *err);

// For a job: reads the adapter that the settings select and applies it to a model that has none.
// The caller frees *a (adapter_free) before the model. *a is NULL if they select none.
int adapter_apply_settings(struct adapter **a, struct model *m, const struct settings *s,
                           struct err *err);
// Returns an adapter's extra tensors for methods; none if `a` is NULL.
struct method_tensors adapter_tensors(const struct adapter *a);

#endif
