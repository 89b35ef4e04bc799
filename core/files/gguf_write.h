// core/files/gguf_write.h -- writes GGUF files, version 3; defines the types that weights can have.
//
//   struct gguf_writer *w = gguf_writer_new(path);
//   gguf_writer_text(w, "general.architecture", "llama");
//   gguf_writer_declare(w, "token_embd.weight", DTYPE_Q6_K, 2, (int64_t[]){ vocab, width });
//   gguf_writer_data(w, bytes, size, &err);          // in the order of the declarations, in pieces
//   if (gguf_writer_finish(w, &err) < 0) ...
//
//   const struct gguf_kind *kind = gguf_kind_find("q4_k");
//
// The file gets its name only when complete (core/files/whole_file.h).
#ifndef CORE_FILES_GGUF_WRITE_H
#define CORE_FILES_GGUF_WRITE_H

#include "core/base/err.h"
#include "core/files/whole_file.h"
#include "kernels/tensor.h"

struct gguf_kind {
    const char *name;
    enum dtype matrix;  // type of the layers' matrices
    enum dtype outer;   // type of embedding and head
    uint32_t file_type; // the kind's number in general.file_type
};

const struct gguf_kind *gguf_kind_find(const char *name); // NULL: unknown
char *gguf_kind_names(void);                              // "q8_0, q4_k, ..."; the caller frees it
// Returns the first of `first`, q8_0 and f16 whose block size divides the row width.
enum dtype gguf_fitting_dtype(enum dtype first, int64_t width);

struct gguf_writer;

struct gguf_writer *gguf_writer_new(const char *path);

// The metadata must be written before the first data. Keys that begin with '.', such as
// ".block_count", get the prefix, which must outlive the writer.
void gguf_writer_prefix(struct gguf_writer *w, const char *prefix);
void gguf_writer_text(struct gguf_writer *w, const char *key, const char *value);
void gguf_writer_u32(struct gguf_writer *w, const char *key, int64_t value);
void gguf_writer_f32(struct gguf_writer *w, const char *key, double value);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_writer_i32s(struct gguf_writer *w, const char *key, const int32_t *values, size_t count);
void gguf_writer_bools(struct gguf_writer *w, const char *key, const bool *values, size_t count);
void gguf_writer_f32s(struct gguf_writer *w, const char *key, const float *values, size_t count);
// Begins a list of `count` texts; gguf_writer_text_of then writes each of them. The texts may
// contain any bytes.
void gguf_writer_texts(struct gguf_writer *w, const char *key, size_t count);
void gguf_writer_text_of(struct gguf_writer *w, const char *text, size_t length);

// Declares a tensor of f32, f16, bf16 or blocks; each row must consist of whole blocks. The last
// dimension of the shape is the length of a row, as everywhere in vlmsh; GGUF files store it first.
void gguf_writer_declare(struct gguf_writer *w, const char *name, enum dtype dtype, int rank,
                         const int64_t *shape);
// Writes the next bytes of the tensors. Returns 0 or -1.
int gguf_writer_data(struct gguf_writer *w, const void *bytes, uint64_t size, struct err *err);
// Like gguf_writer_data, for n floats that form whole rows of `width`: rounds them to the tensor's
// dtype, and sets `floats` to the rounded values. Also returns -1 if a float is not finite
// or overflows.
int gguf_writer_floats(struct gguf_writer *w, const char *tensor, enum dtype dtype, float *floats,
                       int64_t n, int64_t width, struct err *err);

// Completes the file and frees the writer. Returns -1 on any failure, or if data is missing.
int gguf_writer_finish(struct gguf_writer *w, struct err *err);
// Like gguf_writer_finish, but does not rename the file: whole_file_finish(*file) does.
int gguf_writer_seal(struct gguf_writer *w, struct whole_file **file, struct err *err);
void gguf_writer_abandon(struct gguf_writer *w);

#endif
