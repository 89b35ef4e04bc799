// core/model/converted.h -- runs a folder's language model with converted weights,
// "FOLDER::q8_0".
//
//   char *name = converted_name(folder, settings);         // weights.dtype
//   if (converted_use(m, kind, &progress, &err) < 0) ...   // before the weights are bound
//
// Converted weights are written once and cached (core/files/weight_cache.h); everything else comes
// from the folder.
#ifndef CORE_MODEL_CONVERTED_H
#define CORE_MODEL_CONVERTED_H

#include "core/files/gguf_write.h"
#include "core/model/model.h"
#include "core/settings/settings.h"

// Returns the dtype to which a matrix is converted: the kind's, or, if the blocks do not divide
// rows of `width` elements, one with smaller blocks or without blocks. Filters of convolutions and
// the gate of a shared expert get f32; so does the router of experts if the kind has a block dtype.
enum dtype converted_dtype(const struct gguf_kind *kind, enum model_part_kind part,
                           const char *name, int64_t width);

// Adds the dtype that the settings choose to a folder's name. A GGUF file's name is returned
// unchanged, because the file has its own dtypes. The caller frees the result.
char *converted_name(const char *name, const struct settings *s);
// Returns the folder part of such a name, which the caller frees. *kind NULL: the name asks for the
// folder's own weights.
char *converted_split(const char *name, const struct gguf_kind **kind);

// Replaces weights of m->checkpoint. Call it with an open checkpoint and a configured m, before any
// weights are read.
int converted_use(struct model *m, const struct gguf_kind *kind,
                  const struct load_progress *progress, struct err *err);
// Opens a cached file; NULL if it is missing, cannot be read, belongs to other weights, or lacks
// some tensors. Does not check the hash of its content; converted_use does.
struct gguf *converted_open(const struct model *m, const struct gguf_kind *kind, const char *path);
// Returns the size in bytes of the checkpoint's weights in the format of weights.dtype, cached or
// not.
uint64_t converted_bytes(const struct model *m, const struct settings *s);
// Removes cached files beyond weights.cache. 0 or -1.
int converted_trim(const struct settings *s, struct err *err);

#endif
