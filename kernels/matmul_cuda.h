// kernels/matmul_cuda.h -- matrix products on the GPU: few rows by our own kernels, many by
// cuBLASLt, or our own kernel if it has no algorithm.
#ifndef KERNELS_MATMUL_CUDA_H
#define KERNELS_MATMUL_CUDA_H

#include "kernels/cuda.h"

extern "C" {
#include "kernels/fused.h"
}

// Makes cuBLASLt ready; 0 or -1 with the failure noted.
int matmul_open(void);

static constexpr int64_t FEW_ROWS = CUDA_FEW_ROWS; // in gemv.cu

// y[rows,M] = x[rows,K] w[M,K]^T + bias, rows <= FEW_ROWS; w of any dtype of weights. (gemv.cu)
int matmul_few(float *y, const float *x, const struct tensor *w, const float *bias, int64_t rows);

// Weights in blocks (blocks.cu): n numbers to f32 or bf16; rows of a table by number to f32.
int blocks_widen(void *y, enum dtype to, const void *x, int64_t n, enum dtype from);
int blocks_rows(float *y, const struct tensor *table, const struct tensor *ids);

// y[n] = x rounded to bf16 or f16. (matmul.cu)
int matmul_narrow(uint16_t *y, enum dtype to, const void *x, int64_t n, enum dtype from);

extern const struct fused fused_cuda; // fused.cu

// The next n numbers of an op's scratch, aligned to 256 bytes.
template <typename T> static inline T *scratch_take(char **scratch, int64_t n)
{
    T *taken = reinterpret_cast<T *>(*scratch);
    *scratch += ((size_t)n * sizeof(T) + 255) / 256 * 256;
    return taken;
}

// --- one row (one_row.cu) ------------------------------------------------------------------------

struct one_row_part {
    const void *w;     // [rows,K]
    void *y;           // f32; with ONE_ROW_PLACE keys and values of its dtype
    const float *bias; // or NULL
    int64_t rows;
    int first, run,
        step; // row r is row first + r / run * step + r % run of w and bias; run 0: row r
};

// Epilogue of the products: store, add to y, or y_0 = silu(product 0) * product 1; or the three are
// queries, keys and values of a token (struct one_row_place).
enum one_row_end { ONE_ROW_STORE, ONE_ROW_ADD, ONE_ROW_SWIGLU, ONE_ROW_PLACE };

// Queries and keys are rotated (struct fused_qkv says which numbers are pairs); keys and values
// become row *row of y.
struct one_row_place {
    const float *cos, *sin; // [half]
    const int32_t *row;
    int half, adjacent;
    enum dtype dtype; // of keys and values: f32 or bf16
};

struct one_row {
    const float *x, *gain; // [K]; gain NULL: x unchanged, else rmsnorm(x)
    float eps;
    int64_t k;
    struct one_row_part part[3]; // with silu two of the same number of rows
    int parts;
    enum one_row_end end;
    struct one_row_place place;
    enum dtype dtype; // of all weights
    bool early;       // neither of the two previous kernels writes the weights
};

// Number r (0 or 1) of pair i of a head: struct fused_qkv.
static __device__ inline int pair_number(int i, int r, int half, int adjacent)
{
    if (i < adjacent) return 2 * i + r;
    return r ? i + half : i + adjacent;
}

// 0, -1, or FUSED_NOT: nothing was computed, a reader cannot read these weights.
int one_row_product(const struct one_row *p);

// --- cuBLASLt (lt.cu) ----------------------------------------------------------------------------

// One operand: `rows` vectors of K numbers, [rows,K], or [K,rows] if `turned`; the numbers of a
// vector, or of a line of K, are contiguous.
struct lt_side {
    const void *data;
    enum dtype dtype; // the same for both operands
    bool turned;
    int64_t line; // stride from one vector (turned: line of K) to the next; 0: contiguous
};

// y[n,m] = a[n,K] b[m,K]^T (+ bias[m]) (+ addend[n,m]); y is f32, or without bias also the
// operands' dtype: overflow in f16 is infinite. gelu: the tanh form of that, with bias.
struct lt_product {
    void *y;
    enum dtype y_dtype; // DTYPE_F32, which is 0, or the operands' dtype
    struct lt_side a, b;
    int64_t n, m, k;
    int64_t row;        // row strides of y and of addend
    const float *bias;  // or NULL
    const void *addend; // of y's dtype, may be y; or NULL
    bool gelu;
};

// By cuBLASLt if it has an algorithm for it, else by product_plain.
int lt_multiply(const struct lt_product *p);
bool lt_can(const struct lt_product *p);

// The same by our own kernel, for any shape and alignment; many times slower. (product.cu)
int product_plain(const struct lt_product *p);

#endif
