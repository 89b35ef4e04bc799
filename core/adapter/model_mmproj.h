// core/adapter/model_mmproj.h -- writes the picture encoder and projector of the current model as a
// GGUF file, which stands beside that of its language model (core/adapter/model_gguf.h).
//
//   char *path = model_mmproj_path("out/small.gguf");     // "out/mmproj-small.gguf"
//   if (model_write_mmproj(m, NULL, "q4_k", path, &progress, &summary, &file, &err) < 0) ...
//   if (whole_file_finish(file, &err) < 0) ...
#ifndef CORE_ADAPTER_MODEL_MMPROJ_H
#define CORE_ADAPTER_MODEL_MMPROJ_H

struct err;
struct gguf_summary;
struct load_progress;
struct model;
struct whole_file;

// The encoder's file beside a language model's; the caller frees it.
char *model_mmproj_path(const char *model);
// Checks the name of a type for its matrices. -1: unknown; the message lists the types.
int model_mmproj_type(const char *type, struct err *err);
// Can it be written? -1 and why not.
int model_mmproj_check(const struct model *m, struct err *err);
// Matrices get that type (NULL: 16 bits beside a language model of type `model`), or f16 where its
// blocks do not fit; tables of positions, norms and biases stay f32.
int model_write_mmproj(const struct model *m, const char *type, const char *model, const char *path,
                       const struct load_progress *progress, struct gguf_summary *summary,
                       struct whole_file **file, struct err *err);

#endif
