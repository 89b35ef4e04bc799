// kernels/matmul_few.h -- the product of few rows, for kernels/matmul.c.
#ifndef KERNELS_MATMUL_FEW_H
#define KERNELS_MATMUL_FEW_H

#include "kernels/vec.h"

enum { FEW_ROWS = VEC == 16 ? 8 : 4 };

// y[rows,m] = x[rows,k] w[m,k]^T + bias[m], 1 <= rows <= FEW_ROWS.
struct few_product {
    float *y;
    const float *x;
    const char *w;
    const float *bias; // or NULL
    int64_t rows, k, m;
    enum dtype dtype; // of w
};

// Returns FEW_ROWS (backend->few_rows).
int64_t KERNEL(few_rows)(void);

// A row's bits depend neither on the number of rows nor on the number of threads. Returns -1 if out
// of memory.
int KERNEL(matmul_few)(const struct few_product *p);

#endif
