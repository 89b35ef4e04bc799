// kernels/rows_products.h -- several products of the same rows, which are normed and packed once,
// with AMX:
//
//   for each product:  y = rmsnorm(x) w^T + bias,  or x w^T + bias if gain is NULL
//
//   if (backend->rows_products) status = backend->rows_products(&(struct rows_products){ ... });
//
// The bits equal those of the ops rmsnorm and matmul (in bf16). Returns 0, -1 with failure() set,
// or FUSED_NOT (kernels/fused.h): in MATMUL_F32, for up to few_rows rows, more than 128 products,
// or a weight that is not bf16 or whose M is no multiple of 16.
#ifndef KERNELS_ROWS_PRODUCTS_H
#define KERNELS_ROWS_PRODUCTS_H

#include "kernels/fused.h"

struct rows_product {
    const struct tensor *w, *bias; // [M,K]; [M] or NULL
    float *y;                      // row i begins at y + i * step
    int64_t step;                  // elements from one row to the next; at least M
};

struct rows_products {
    const float *x;    // [rows,K]
    const float *gain; // [K] gain of rmsnorm; NULL: no norm
    float eps;
    int64_t rows, k;
    const struct rows_product *product;
    int count;
    int mode; // enum matmul_mode
};

#endif
