// kernels/norm_row.h -- a row of a norm, for kernels/layernorm.c, rmsnorm.c and products.c.
#ifndef KERNELS_NORM_ROW_H
#define KERNELS_NORM_ROW_H

#include "kernels/vec.h"

// y[n] = the norm of x[n] (kernels/ops.h); y may be x.
void KERNEL(layernorm_row)(float *y, const float *x, const float *gain, const float *bias,
                           int64_t n, float eps);
void KERNEL(rmsnorm_row)(float *y, const float *x, const float *gain, int64_t n, float eps);

#endif
