// core/model/small.h -- a folder whose language model is computed with smaller weights,
// "FOLDER::q8_0".
//
//   char *name = small_name(folder, settings);         // weights.dtype
//   if (small_use(m, kind, &progress, &err) < 0) ...   // before the weights are bound
//
// They are written once and kept (core/files/weight_cache.h); everything else is the folder's.
#ifndef CORE_MODEL_SMALL_H
#define CORE_MODEL_SMALL_H

#include "core/files/gguf_write.h"
#include "core/model/model.h"
#include "core/settings/settings.h"

// A matrix's dtype: the kind's, or one with smaller blocks or without blocks if its rows do not
// fit. The router of experts stays f32 if others are in blocks.
enum dtype small_dtype(const struct gguf_kind *kind, enum model_part_kind part, const char *name,
                       int64_t width);

// The name of a folder with the settings' weights, or the same name (a GGUF file has its own); the
// caller frees it.
char *small_name(const char *name, const struct settings *s);
// Splits such a name; *kind NULL: the folder's own weights. The caller frees the folder.
char *small_split(const char *name, const struct gguf_kind **kind);

// Replaces weights of m->checkpoint, which is open and not read yet; m is configured.
int small_use(struct model *m, const struct gguf_kind *kind, const struct load_progress *progress,
              struct err *err);
// Opens a kept file; NULL if it is missing, has other weights, or lacks some. Its content may be
// damaged: small_use compares its hash.
struct gguf *small_open(const struct model *m, const struct gguf_kind *kind, const char *path);
// Bytes of the checkpoint's weights with weights.dtype, also before they are written.
uint64_t small_bytes(const struct model *m, const struct settings *s);
// Removes kept files beyond weights.cache. 0 or -1.
int small_trim(const struct settings *s, struct err *err);

#endif
