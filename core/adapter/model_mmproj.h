// core/adapter/model_mmproj.h -- writes the picture encoder and projector of the current model as a
// GGUF file, which stands beside that of its language model (core/adapter/model_gguf.h).
//
//   char *path = model_mmproj_path("out/small.gguf");     // "out/mmproj-small.gguf"
//   if (model_write_mmproj(m, DTYPE_F16, path, &progress, &summary, &file, &err) < 0) ...
//   if (whole_file_finish(file, &err) < 0) ...
#ifndef CORE_ADAPTER_MODEL_MMPROJ_H
#define CORE_ADAPTER_MODEL_MMPROJ_H

#include "core/adapter/gguf_tensors.h"
#include "core/files/whole_file.h"
#include "core/model/model.h"

// The encoder's file beside a language model's; the caller frees it.
char *model_mmproj_path(const char *model);
// The dtype of its matrices where the layers of the language model have that one: 16 bits.
enum dtype model_mmproj_dtype(const struct model *m, enum dtype matrix);
// Can it be written? -1 and why not.
int model_mmproj_check(const struct model *m, struct err *err);
// Matrices get that dtype (f16, bf16, q8_0), or f16 where its blocks do not fit; tables of
// positions, norms and biases stay f32.
int model_write_mmproj(const struct model *m, enum dtype dtype, const char *path,
                       const struct load_progress *progress, struct gguf_summary *summary,
                       struct whole_file **file, struct err *err);

#endif
