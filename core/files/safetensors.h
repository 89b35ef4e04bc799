// core/files/safetensors.h -- safetensors files: a memory-mapped reader for untrusted files, and a
// writer.
//
//   struct safetensors *f = safetensors_open(path, &err);
//   const struct safetensor *t = safetensors_find(f, "lm_head.weight");
//   ... t->dtype, t->shape, t->data (in the mapping, valid until safetensors_close) ...
//
// Opening checks every rule of the format: header length, UTF-8, JSON, duplicate names, known
// dtype, offsets without gaps or overlaps up to the end of the file, shape x dtype size = span,
// overflow of every product. Memory stays proportional to the number of tensors in any file.
#ifndef CORE_FILES_SAFETENSORS_H
#define CORE_FILES_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "kernels/tensor.h"

enum { SAFETENSORS_MAX_RANK = 8 };

struct safetensor {
    char *name;         // must come first, for text_sort
    const char *stored; // its name in a GGUF file, owned by the file; NULL: the same
    const char *type;   // its type as the file spells it, such as "BF16"
    int dtype;          // enum dtype, or -1 for a valid type that is not supported
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *data; // in the mapping, possibly unaligned
    uint64_t bytes;
    uint64_t offset;         // offset of the data from the first byte after the header
    struct head_order order; // order of its rows; set only for GGUF files
    // A matrix made of other tensors, without data: see core/files/quantised/quantised.h.
    const struct quantised *quantised;
};

struct safetensors {
    char *path;
    void *map; // whole file, read-only
    uint64_t size;
    struct safetensor *tensors; // sorted by name
    int64_t count;
    char **metadata; // key, value, key, value, ... NULL
    uint64_t header; // bytes before the data: length field and header
    bool borrowed;   // from safetensors_parse: the memory is borrowed
};

struct safetensors *safetensors_open(const char *path, struct err *err);
// Like safetensors_open, for a file in memory (fuzzing, tests); the bytes are borrowed.
struct safetensors *safetensors_parse(const void *bytes, uint64_t size, const char *name,
                                      struct err *err);
void safetensors_close(struct safetensors *f);
int64_t safetensor_count(const struct safetensor *t); // number of elements
bool safetensor_is_float(const struct safetensor *t); // f32, f16 or bf16
const struct safetensor *safetensors_find(const struct safetensors *f, const char *name);
// Returns how many bytes of the mapping are resident in memory.
uint64_t safetensors_resident(const struct safetensors *f);
const char *safetensors_metadata(const struct safetensors *f, const char *key); // NULL if absent
// Returns -1 if the file does not match the hash stored in it (safetensors_writer_hash) or cannot
// be read, 0 if it matches or stores none.
int safetensors_check_hash(const struct safetensors *f, struct err *err);

// Writing: declare tensors first (name, dtype, shape), then write the data in the same order, in
// pieces of any size. The file gets its name only when complete: it is written under a temporary
// name in the same folder, synced and renamed.

struct safetensors_writer *safetensors_writer_new(const char *path);
void safetensors_writer_metadata(struct safetensors_writer *w, const char *key, const char *value);
// Stores a hash of the file under the metadata key "hash". Call it before adding other metadata.
void safetensors_writer_hash(struct safetensors_writer *w);
void safetensors_writer_declare(struct safetensors_writer *w, const char *name, enum dtype dtype,
                                int rank, const int64_t *shape);
// Like safetensors_writer_declare, for any type, given by its name in the format ("I64") and its
// size in bytes per element.
void safetensors_writer_declare_type(struct safetensors_writer *w, const char *name,
                                     const char *type, size_t size, int rank, const int64_t *shape);
int safetensors_writer_data(struct safetensors_writer *w, const void *bytes, uint64_t size,
                            struct err *err);
// Writes `size` zero bytes, as a hole in the file.
int safetensors_writer_zeros(struct safetensors_writer *w, uint64_t size, struct err *err);
// Completes the file and frees the writer. Returns -1 on any failure, or if data is missing.
int safetensors_writer_finish(struct safetensors_writer *w, struct err *err);
// Discards the file and frees the writer.
void safetensors_writer_abandon(struct safetensors_writer *w);

#endif
