// core/files/safetensors.h -- safetensors files: mapped reader that trusts nothing, and a writer.
//
//   struct safetensors *f = safetensors_open(path, &err);
//   const struct safetensor *t = safetensors_find(f, "lm_head.weight");
//   ... t->dtype, t->shape, t->data (in the mapping: valid until safetensors_close) ...
//
// Every rule of the format is checked before anything is allocated from it: header length, UTF-8,
// JSON, duplicate names, known dtype, offsets contiguous without hole or overlap up to the end of
// the file, shape x dtype size = span, overflow of every product.
#ifndef CORE_FILES_SAFETENSORS_H
#define CORE_FILES_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "kernels/tensor.h"

enum { SAFETENSORS_MAX_RANK = 8 };

struct safetensor {
    char *name;
    const char *type; // as in the file: "BF16"
    int dtype;        // enum dtype, or -1 for a legal type we do not compute with
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *data; // in the mapping, perhaps not aligned
    uint64_t bytes;
    uint64_t offset; // of the data, counted from the first byte after the header
};

struct safetensors {
    char *path;
    void *map; // whole file, read-only
    uint64_t size;
    struct safetensor *tensors; // sorted by name
    int64_t count;
    char **metadata; // key, value, key, value, ... NULL
    uint64_t header; // bytes before the data: length field and header
    bool borrowed;   // from safetensors_parse: `map` is not ours
};

struct safetensors *safetensors_open(const char *path, struct err *err);
// The same checks on memory (fuzzing, tests); the bytes are borrowed.
struct safetensors *safetensors_parse(const void *bytes, uint64_t size, const char *name,
                                      struct err *err);
void safetensors_close(struct safetensors *f);
const struct safetensor *safetensors_find(const struct safetensors *f, const char *name);
// Bytes of the mapping that are in memory now.
uint64_t safetensors_resident(const struct safetensors *f);
const char *safetensors_metadata(const struct safetensors *f, const char *key); // NULL if absent
// A file cut short by another program while it is mapped kills the reader with SIGBUS. Called once
// by the program: then it ends through the fatal hook, with a message that says so.
void safetensors_guard(void);

// Writing: tensors are declared first (name, dtype, shape), then the data follows in the order of
// declaration, in as many pieces as one likes. The file appears under its name only when complete
// (written beside, fsync, rename).
struct safetensors_writer;

struct safetensors_writer *safetensors_writer_new(const char *path);
void safetensors_writer_metadata(struct safetensors_writer *w, const char *key, const char *value);
void safetensors_writer_declare(struct safetensors_writer *w, const char *name, enum dtype dtype,
                                int rank, const int64_t *shape);
// The same for any type as a file spells it ("I64"), `size` bytes an element.
void safetensors_writer_declare_type(struct safetensors_writer *w, const char *name,
                                     const char *type, size_t size, int rank, const int64_t *shape);
int safetensors_writer_data(struct safetensors_writer *w, const void *bytes, uint64_t size,
                            struct err *err);
// So many bytes that are zero: a hole in the file.
int safetensors_writer_zeros(struct safetensors_writer *w, uint64_t size, struct err *err);
// Completes or abandons the file and frees the writer. -1 if anything went wrong or data is
// missing.
int safetensors_writer_finish(struct safetensors_writer *w, struct err *err);
void safetensors_writer_abandon(struct safetensors_writer *w);

#endif
