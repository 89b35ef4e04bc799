// core/files/gguf_kind.h -- the types in which weights are written: of layers, and of what is
// around them.
//
//   const struct gguf_kind *kind = gguf_kind_find("q4_k");
#ifndef CORE_FILES_GGUF_KIND_H
#define CORE_FILES_GGUF_KIND_H

#include <stdint.h>

#include "kernels/tensor.h"

struct gguf_kind {
    const char *name;
    enum dtype matrix;  // of the layers' matrices
    enum dtype outer;   // of the embedding and the head
    uint32_t file_type; // llama.cpp's number for it (general.file_type)
};

// NULL: unknown.
const struct gguf_kind *gguf_kind_find(const char *name);
char *gguf_kind_names(void); // "q8_0, q4_k, ..."; the caller frees it

// The first of these dtypes whose blocks rows of that width fill: `first`, q8_0, f16.
enum dtype gguf_dtype_that_fits(enum dtype first, int64_t width);

#endif
