// kernels/tensor.h -- a tensor: memory with a dtype and a shape.
//
// Contiguous, row-major: the last dimension varies fastest. The struct owns nothing: an arena
// (core/graph/arena.h) or a mapped file owns the memory. Shapes are written [rows, columns, ...].
#ifndef KERNELS_TENSOR_H
#define KERNELS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Dtypes of single elements, then dtypes of weights in blocks, as GGUF files store them: a row
// consists of whole blocks, and the elements of a block share scales.
enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I32,
    DTYPE_U8,
    DTYPE_Q8_0,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_COUNT
};

enum { TENSOR_MAX_RANK = 4 };

struct grad; // core/graph/tape.h

// The row order of a query or key weight in a GGUF file whose order differs from Hugging Face's.
// Heads have `head` rows (0: the orders are the same). Rotary positions rotate a head's first
// `rotary` rows, in pairs that are adjacent in the file and rotary/2 apart in Hugging Face's order;
// if `rotary` is negative, pairs are -rotary/2 apart in the file and adjacent in Hugging Face's.
struct head_order {
    int16_t head, rotary;
};

struct tensor {
    void *data; // in the memory of its backend or of the host (on_host)
    enum dtype dtype;
    int rank;                       // 0..TENSOR_MAX_RANK
    int64_t shape[TENSOR_MAX_RANK]; // shape[0..rank-1]
    struct grad *grad;              // gradient accumulator; NULL: no gradient
    bool on_host;                   // data is host memory on every device (backend_of)
    struct head_order order;        // row order of a weight
};

// A dtype's name ("f32", "q4_k"), elements per block (1: no blocks), and bytes per block.
struct dtype_form {
    const char *name;
    int numbers, bytes;
};

static inline struct dtype_form dtype_form(enum dtype dtype)
{
    static const struct dtype_form form[DTYPE_COUNT] = {
        // clang-format off
        { "f32", 1, 4 },        { "f16", 1, 2 },      { "bf16", 1, 2 },     { "i32", 1, 4 },
        { "u8", 1, 1 },         { "q8_0", 32, 34 },   { "q4_0", 32, 18 },   { "q4_1", 32, 20 },
        { "q5_0", 32, 22 },     { "q5_1", 32, 24 },   { "q2_k", 256, 84 },  { "q3_k", 256, 110 },
        { "q4_k", 256, 144 },   { "q5_k", 256, 176 }, { "q6_k", 256, 210 }, { "iq4_nl", 32, 18 },
        { "iq4_xs", 256, 136 },
        // clang-format on
    };
    return form[dtype];
}

// True if elements are stored in blocks. Such a tensor is only read: as the weight of a product, as
// a table of rows, or by the op widen.
static inline bool dtype_in_blocks(enum dtype dtype)
{
    return dtype_form(dtype).numbers > 1;
}

// Bytes of one element of a dtype without blocks.
static inline size_t dtype_size(enum dtype dtype)
{
    return (size_t)dtype_form(dtype).bytes;
}

// Bytes of n elements; n must be a multiple of the block size.
static inline size_t dtype_bytes(enum dtype dtype, int64_t n)
{
    const struct dtype_form form = dtype_form(dtype);
    return (size_t)(n / form.numbers) * (size_t)form.bytes;
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
    return dtype_bytes(t->dtype, tensor_count(t));
}

// Sets the shape of a tensor in a file. A tensor with too many dimensions becomes a matrix: its
// columns join all dimensions but the first.
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
