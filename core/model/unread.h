// core/model/unread.h -- tensors of a checkpoint that nothing reads.
//
//   if (unread_keys(m, &err) < 0) ...              // after the config is read
//   if (unread_check(m, &err) < 0) ...             // after the weights are bound
//   unread_metadata(m);                            // after all files are read
//   if (m->unread) ...                             // a notice, and a row of /info
//
// A tensor that no part of the model binds is either harmless (such as rotary tables, pooling heads
// and layers for speculative decoding), or outside the computed parts (m->unread names it), or
// inside a computed part. A model with tensors of the last kind is refused, because its answers
// would be wrong, unless the user asks to ignore them. The same holds for a config.json key that
// changes the result and that the model's family does not support.
#ifndef CORE_MODEL_UNREAD_H
#define CORE_MODEL_UNREAD_H

#include <stdbool.h>

#include "core/base/err.h"

struct model;

// Splits "MODEL::ignore-weights", which opens a model despite unread tensors or keys: sets *ignore
// and returns the name without the option. The caller frees it.
char *unread_split(const char *name, bool *ignore);
char *unread_join(const char *name); // the inverse

// Metadata key under which a GGUF file lists the ignored weights and keys of its source model.
#define UNREAD_IGNORED "vlmsh.ignored"

// unread_check fails if nothing reads a tensor inside a computed part; unread_keys fails if
// config_keys_check does. With m->ignore, m->unread says so instead. unread_check also lists
// tensors outside the computed parts there.
int unread_check(struct model *m, struct err *err);
int unread_keys(struct model *m, struct err *err);
// Adds unknown keys of a GGUF file to m->unread.
void unread_metadata(struct model *m);

// Refuses configs with a key that changes the result and that the model's family does not support
// (core/model/config_keys.c).
int config_keys_check(const struct model *m, struct err *err);

#endif
