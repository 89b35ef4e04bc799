// kernels/fused_cuda.h -- shared by the fused forms (fused.cu).
#ifndef KERNELS_FUSED_CUDA_H
#define KERNELS_FUSED_CUDA_H

#include "kernels/columns_cuda.h"
#include "kernels/matmul_cuda.h"

// True if cuBLASLt multiplies n rows of x, rounded, by this weight.
bool fused_many(int64_t n, const void *x, const struct tensor *w, int mode);
// Returns the part of a product of few rows that computes y [n, rows] with w.
struct few_rows_part fused_part(const struct fused_linear *w, void *y, int64_t rows);
// y = rmsnorm(h) * gain, rounded to `dtype`.
int fused_norm(uint16_t *y, enum dtype dtype, const struct tensor *h, const struct tensor *gain,
               float eps);
// y (of `dtype`) = x w^T + bias + addend (may be NULL), for all rows of w; x [n,K] has w's dtype.
int fused_multiply(void *y, enum dtype dtype, const uint16_t *x, int64_t n,
                   const struct fused_linear *w, const void *addend);
// y [n,K] (of `dtype`) = dy w + addend (may be NULL), dy [n,M] bf16.
int fused_multiply_back(void *y, enum dtype dtype, const uint16_t *dy, const struct tensor *w,
                        int64_t n, const void *addend);

// y += after(x w^T) of few rows x; `product`, as large as y, is scratch for the product before its
// norm.
int fused_add_few(const struct tensor *y, const float *x, const struct fused_linear *w,
                  const struct fused_after *after, float *product);

// Bytes of scratch for the gradient of a norm's result, [n,width], and for the norm's stats,
// including the alignment of each part.
static inline size_t fused_norm_back_scratch(int64_t n, int64_t width)
{
    return (size_t)(n * width) * sizeof(float) + (size_t)n * sizeof(struct row_stats) + 1024;
}

// fused_heads.cu
int fused_qkv_cuda(const struct fused_qkv *p);
int fused_qkv_back_cuda(const struct fused_qkv_back *p);
// fused_experts.cu, fused_latent.cu
int fused_experts_cuda(const struct fused_experts *p);
int fused_latent_cuda(const struct fused_latent *p);

#endif
