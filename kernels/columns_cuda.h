// kernels/columns_cuda.h -- sums over the rows of a gradient: the gradients of gains and biases.
#ifndef KERNELS_COLUMNS_CUDA_H
#define KERNELS_COLUMNS_CUDA_H

#include "kernels/cuda.h"

// Statistics of a row x: z = (x - mean) * scale.
struct row_stats {
    float mean, scale;
};

// dgain[n] += sum of dy z over the rows, dbias[n] += sum of dy; either may be NULL. Without dgain,
// x and stats are not read.
int columns_add(float *dgain, float *dbias, const float *dy, const float *x,
                const struct row_stats *stats, int64_t rows, int64_t n);

// Computes the op rmsnorm_backward for rows [rows,n]; stats [rows] is scratch. (rmsnorm.cu)
int rmsnorm_back(float *dx, float *dgain, const float *dy, const float *x, const float *gain,
                 float eps, int64_t rows, int64_t n, struct row_stats *stats);

#endif
