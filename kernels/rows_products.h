// kernels/rows_products.h -- several products of the same rows, which are normed and packed once,
// with AMX:
//
//   for each product:  y = rmsnorm(x) w^T + bias,  or without gain  x w^T + bias
//
//   if (backend->rows_products) status = backend->rows_products(&(struct rows_products){ ... });
//
// The bits equal those of the ops rmsnorm and matmul (in bf16).
#ifndef KERNELS_ROWS_PRODUCTS_H
#define KERNELS_ROWS_PRODUCTS_H

#include "kernels/fused.h"

struct rows_product {
    const struct tensor *w, *bias; // [M,K], M a multiple of 16; [M] or NULL
    float *y;                      // row i from y + i * step on
    int64_t step;                  // elements, at least M
};

struct rows_products {
    const float *x;    // [rows,K]
    const float *gain; // [K] of the norm before; NULL: none
    float eps;
    int64_t rows, k;
    const struct rows_product *product;
    int count;
    int mode; // enum matmul_mode
};

#endif
