// kernels/matmul_amx.h -- the product of many rows in bf16 through AMX, for kernels/matmul.c.
#ifndef KERNELS_MATMUL_AMX_H
#define KERNELS_MATMUL_AMX_H

#include "kernels/amx.h"

#if defined(__AMX_BF16__)

// y[rows,m] = x[rows,k] w[m,k]^T + bias[m], or added to y.
struct amx_product {
    float *y;
    struct amx_source x, w; // w may be in blocks
    const float *bias;      // or NULL; not with add
    int64_t rows, k, m;
    bool add;
};

// A row's bits depend neither on the number of rows nor on that of threads. -1: out of memory.
int KERNEL(matmul_tiles)(const struct amx_product *p);

// The same bits with weights straight from memory, for products that matmul_is_straight takes
// (kernels/matmul_amx_straight.c): weights are bf16 and lie as [M,K], M in whole tiles.
bool KERNEL(matmul_is_straight)(const struct amx_product *p);
int KERNEL(matmul_straight)(const struct amx_product *p);

// A y that the caches of so many threads cannot hold is not read before it is written: with weights
// of 1152 numbers that makes a product a seventh faster. Its lines must be whole.
bool KERNEL(goes_past_caches)(const struct amx_product *p, int64_t threads);

#endif

#endif
