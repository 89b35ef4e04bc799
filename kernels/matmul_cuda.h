// kernels/matmul_cuda.h -- matrix products on the GPU: few rows by our own kernels; many rows by
// cuBLASLt, or by our own kernel if cuBLASLt has no algorithm.
#ifndef KERNELS_MATMUL_CUDA_H
#define KERNELS_MATMUL_CUDA_H

#include "kernels/cuda.h"

extern "C" {
#include "kernels/fused.h"
}

// Opens cuBLASLt on the current GPU; returns 0, or -1 after recording the failure.
int matmul_open(void);

// Up to this number of rows, each row has the same bits as if computed alone.
static constexpr int64_t FEW_ROWS = CUDA_FEW_ROWS;

// y[rows,M] = x[rows,K] w[M,K]^T + bias, for rows <= FEW_ROWS, any K and alignment, and any dtype
// of weights. (gemv.cu)
int matmul_few(float *y, const float *x, const struct tensor *w, const float *bias, int64_t rows);

// Weights in blocks (blocks.cu): blocks_widen widens n elements to f32 or bf16; blocks_rows widens
// the rows `ids` of a table to f32.
int blocks_widen(void *y, enum dtype to, const void *x, int64_t n, enum dtype from);
int blocks_rows(float *y, const struct tensor *table, const struct tensor *ids);

// y[n] = x rounded to bf16 or f16. (matmul.cu)
int matmul_narrow(uint16_t *y, enum dtype to, const void *x, int64_t n, enum dtype from);

extern const struct fused fused_cuda; // fused.cu

// Takes the next n elements of an op's scratch, aligned to 256 bytes.
template <typename T> static inline T *scratch_take(char **scratch, int64_t n)
{
    T *taken = reinterpret_cast<T *>(*scratch);
    *scratch += ((size_t)n * sizeof(T) + 255) / 256 * 256;
    return taken;
}

// --- few rows (few_rows.cu) ----------------------------------------------------------------------

// Queries are rotated, keys are rotated and cached, values are cached (struct few_rows_heads).
enum few_rows_what { FEW_ROWS_QUERIES, FEW_ROWS_KEYS, FEW_ROWS_VALUES };

struct few_rows_part {
    const void *w;     // [rows,K]
    enum dtype dtype;  // of w
    void *y;           // f32 [n,rows]; keys and values have heads.dtype
    const float *bias; // or NULL
    int64_t rows;
    // Column r of y uses row first + r / run * step + r % run of w and bias; run 0: row r.
    int first, run, step;
    enum few_rows_what what; // used with FEW_ROWS_HEADS
};

// Epilogue of the products: store; add to y; store silu(product 0) * product 1 in y of part 0; or
// finish queries, keys and values of tokens (struct few_rows_heads).
enum few_rows_epilogue { FEW_ROWS_STORE, FEW_ROWS_ADD, FEW_ROWS_SWIGLU, FEW_ROWS_HEADS };

// Queries and keys are rotated (pairs as in struct fused_qkv); keys and values of
// row i become row cache_row[i] of y.
struct few_rows_heads {
    const float *cos, *sin;   // [n,half]
    const int32_t *cache_row; // [n]
    int half, adjacent;
    enum dtype dtype; // of keys and values: f32 or bf16
};

struct few_rows {
    const float *x, *gain; // [n,K], [K]; gain NULL: x unchanged, else rmsnorm(x)
    float eps;
    int64_t n, k;                 // n at most FEW_ROWS
    struct few_rows_part part[3]; // FEW_ROWS_SWIGLU: two, with equal numbers of rows
    int parts;
    enum few_rows_epilogue epilogue;
    struct few_rows_heads heads;
    bool early; // may read weights before the two previous kernels end: neither writes them
};

// Returns a product of n rows without a norm, with `early`; the caller then sets the parts.
static inline struct few_rows few_rows_of(const float *x, int64_t n, int64_t k, int parts,
                                          enum few_rows_epilogue epilogue)
{
    return { x, nullptr, 0, n, k, {}, parts, epilogue, {}, true };
}

// Index of element r (0 or 1) of pair i within a head (struct fused_qkv).
static __device__ inline int pair_number(int i, int r, int half, int adjacent)
{
    if (i < adjacent) return 2 * i + r;
    return r ? i + half : i + adjacent;
}

// Returns 0; -1; or FUSED_NOT if the result is incomplete, because lanes cannot read these weights
// or x does not fit into shared memory. The number of rows n does not affect this choice.
int few_rows_product(const struct few_rows *p);

// --- cuBLASLt (lt.cu) ----------------------------------------------------------------------------

// One operand: vectors of K elements, stored as a matrix [rows,K] or, if `transposed`, [K,rows].
// Its rows are called lines; the elements of a line are contiguous.
struct lt_side {
    const void *data;
    enum dtype dtype; // the same for both operands
    bool transposed;
    int64_t line; // stride from one line to the next; 0: lines are contiguous
};

// y[n,m] = a[n,K] b[m,K]^T (+ bias[m]) (+ addend[n,m]); y is f32 or, without bias, may have the
// operands' dtype (overflow in f16 gives infinity). With gelu, y is the tanh form of GELU of this
// sum, and bias is required.
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

// Returns a product with contiguous rows of y, without bias and addend.
static inline struct lt_product lt_product_of(void *y, enum dtype y_dtype, struct lt_side a,
                                              struct lt_side b, int64_t n, int64_t m, int64_t k)
{
    return { y, y_dtype, a, b, n, m, k, m, nullptr, nullptr, false };
}

// Computes the product by cuBLASLt, or by product_plain if cuBLASLt has no algorithm. lt_supports:
// true if cuBLASLt has one.
int lt_multiply(const struct lt_product *p);
bool lt_supports(const struct lt_product *p);

// Computes the product by our own kernel, for any shape and alignment; many times slower.
// (product.cu)
int product_plain(const struct lt_product *p);

#endif
