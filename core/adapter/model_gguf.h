// core/adapter/model_gguf.h -- writes the current model (trained, or with an adapter) as a GGUF
// file.
//
//   struct whole_file *file;
//   if (model_write_gguf(m, "q4_k", "out.gguf", &progress, &summary, &file, &err) < 0) ...
//   if (whole_file_finish(file, &err) < 0) ...   // the complete file gets its name
//
// LoRA is added to its weight in f32, and the sum is rounded once. Norms and biases stay f32.
//
//   char *path = model_mmproj_path("out/small.gguf");     // "out/mmproj-small.gguf"
//   if (model_write_mmproj(m, NULL, "q4_k", path, &progress, &summary, &file, &err) < 0) ...
#ifndef CORE_ADAPTER_MODEL_GGUF_H
#define CORE_ADAPTER_MODEL_GGUF_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct load_progress;
struct model;
struct whole_file;

// Contents of a written file.
struct gguf_summary {
    uint64_t bytes;     // of the tensors
    int matrices;       // number of matrices
    int misfits;        // matrices of another type, because their rows are not whole blocks
    char types[160];    // of matrices: "12 q8_0, 3 f16"
    const char *unread; // parts of the model that were not written, in words; NULL: none
    size_t ends;        // number of tokens that end an answer
};

// Checks the name of a type. -1: unknown; the message lists the types.
int model_gguf_type(const char *type, struct err *err);
// Writes the language model of m. Returns 0 or -1, with "cancelled" if `progress` stops it.
int model_write_gguf(const struct model *m, const char *type, const char *path,
                     const struct load_progress *progress, struct gguf_summary *summary,
                     struct whole_file **file, struct err *err);

// --- the picture encoder and projector, in a separate file (mmproj) ------------------------------

// Returns the path of the encoder's file that belongs to the language model's file; the caller
// frees it.
char *model_mmproj_path(const char *model);
// Checks the name of a type for the encoder's matrices. -1: unknown; the message lists the types.
int model_mmproj_type(const char *type, struct err *err);
// Returns 0 if the encoder can be written; -1 with the reason.
int model_mmproj_check(const struct model *m, struct err *err);
// Writes the encoder and the projector, their matrices in `type`. NULL: in `model`, the type of the
// language model's file, or in 16 bits if that type is quantised. A matrix whose rows are not whole
// blocks becomes f16. Convolutions are f16 if the matrices are, else f32. Tables of positions,
// norms and biases stay f32.
int model_write_mmproj(const struct model *m, const char *type, const char *model, const char *path,
                       const struct load_progress *progress, struct gguf_summary *summary,
                       struct whole_file **file, struct err *err);

#endif
