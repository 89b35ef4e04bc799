// core/model_write.h -- a model as it is now (trained, or with an adapter on it) into a folder of
// its own, as Hugging Face reads it.
//
//   model_write(m, NULL, 0, "out/merged", &err);
//
// Names, shapes, types and division into files are those of the folder the model came from; LoRA is
// added to its weight in f32 and rounded once. Other files are copied, other weight files are not.
#ifndef CORE_MODEL_WRITE_H
#define CORE_MODEL_WRITE_H

#include "core/adapter.h"

// `folder` must be absent or empty; it appears when it is complete. Parts that are extras go to
// extra.safetensors beside the model, which is then an adapter folder too.
int model_write(const struct model *m, const struct adapter_part *parts, size_t count,
                const char *folder, struct err *err);
// The same into a folder that is there (core/folder.h).
int model_write_into(const struct model *m, const struct adapter_part *parts, size_t count,
                     const char *folder, struct err *err);

// Logits of a model on a fixed prompt, with a picture where it sees: to compare a model with what
// was written of it. All rows; the caller frees.
float *model_fixed_logits(const struct model *m, int64_t *rows, struct err *err);

#endif
