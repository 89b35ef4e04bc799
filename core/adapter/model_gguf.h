// core/adapter/model_gguf.h -- writes the current model (trained, or with an adapter) as a GGUF
// file.
//
//   const struct gguf_kind *kind = gguf_kind_find("q4_k");
//   struct whole_file *file;
//   if (model_write_gguf(m, kind, "out.gguf", &progress, &summary, &file, &err) < 0) ...
//   if (whole_file_finish(file, &err) < 0) ...   // the complete file gets its name
//
// LoRA is added to its weight in f32 and rounded once. Norms and biases stay f32.
#ifndef CORE_ADAPTER_MODEL_GGUF_H
#define CORE_ADAPTER_MODEL_GGUF_H

#include "core/adapter/gguf_tensors.h"
#include "core/files/gguf_kind.h"
#include "core/files/whole_file.h"
#include "core/model/model.h"

// The language model of m. 0 or -1; "cancelled" where `progress` says so.
int model_write_gguf(const struct model *m, const struct gguf_kind *kind, const char *path,
                     const struct load_progress *progress, struct gguf_summary *summary,
                     struct whole_file **file, struct err *err);

#endif
