// kernels/tensor.h -- a tensor: memory with a dtype and a shape.
//
// Contiguous, row-major: the last dimension varies fastest. The struct owns nothing: an arena
// (core/graph/arena.h) or a mapped file owns the memory. Shapes are written [rows, columns, ...].
#ifndef KERNELS_TENSOR_H
#define KERNELS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I32, DTYPE_U8, DTYPE_COUNT };

enum { TENSOR_MAX_RANK = 4 };

struct grad; // core/graph/tape.h

struct tensor {
    void *data; // in the memory of its backend or of the host (on_host)
    enum dtype dtype;
    int rank;                       // 0..TENSOR_MAX_RANK
    int64_t shape[TENSOR_MAX_RANK]; // shape[0..rank-1]
    struct grad *grad;              // gradient accumulator; NULL: no gradient
    bool on_host;                   // data is host memory on every device (backend_of)
};

// Bytes of one element.
static inline size_t dtype_size(enum dtype dtype)
{
    static const size_t size[DTYPE_COUNT] = { 4, 2, 2, 4, 1 };
    return size[dtype];
}

// Number of elements. Does not check for overflow: shapes are validated when a file is read.
static inline int64_t tensor_count(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

static inline size_t tensor_bytes(const struct tensor *t)
{
    return (size_t)tensor_count(t) * dtype_size(t->dtype);
}

// The shape of a tensor in a file. One of more dimensions than tensors have is a matrix: the first
// one, and all others together.
static inline void tensor_set_shape(struct tensor *t, int rank, const int64_t *shape)
{
    t->rank = rank <= TENSOR_MAX_RANK ? rank : 2;
    for (int i = 0; i < t->rank; i++) t->shape[i] = shape[i];
    for (int i = 2; rank > TENSOR_MAX_RANK && i < rank; i++) t->shape[1] *= shape[i];
}

// Elements per row; a row spans all dimensions but the first.
static inline int64_t tensor_row(const struct tensor *t)
{
    return t->rank && t->shape[0] ? tensor_count(t) / t->shape[0] : 0;
}

#endif
