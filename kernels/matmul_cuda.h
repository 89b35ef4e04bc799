// kernels/matmul_cuda.h -- matrix products on the GPU: few rows by kernels of ours, many by
// cuBLASLt.
#ifndef KERNELS_MATMUL_CUDA_H
#define KERNELS_MATMUL_CUDA_H

#include "kernels/cuda.h"

// Makes cuBLASLt ready; 0 or -1 with the failure noted.
int matmul_open(void);

static constexpr int64_t FEW_ROWS = 8; // up to here a product reads the weights directly

// y[rows,M] = x[rows,K] w[M,K]^T + bias, rows <= FEW_ROWS; w of any float dtype. (gemv.cu)
int matmul_few(float *y, const float *x, const struct tensor *w, const float *bias, int64_t rows);

// --- cuBLASLt (lt.cu) ----------------------------------------------------------------------------

// One side: `rows` vectors of K numbers, [rows,K], or [K,rows] where `turned`; the numbers of a
// vector, or of a line of K, lie behind one another.
struct lt_side {
    const void *data;
    enum dtype dtype; // of both sides the same
    bool turned;
    int64_t line; // numbers from one vector (turned: line of K) to the next; 0: no gap
};

// y[n,m] (f32) = a[n,K] b[m,K]^T (+ bias[m]) (+ y).
struct lt_product {
    float *y;
    struct lt_side a, b;
    int64_t n, m, k;
    int64_t row;       // numbers from one row of y to the next
    const float *bias; // or NULL
    bool add;
};

int lt_multiply(const struct lt_product *p);

#endif
