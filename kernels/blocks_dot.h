// kernels/blocks_dot.h -- dot products of f32 with weights in blocks, for kernels/matmul_few.c.
//
// A run is 256 weights of the form scale * q + offset, where q is a byte. With
//
//   sum (scale q + offset) x = scale sum q x + offset sum x        (over a group)
//
// each weight costs only the product q x; sum x is shared by all rows of weights, and x is prepared
// once: as integers for AVX-512 VNNI and AVX2 (kernels/blocks_dot_vnni.h,
// kernels/blocks_dot_avx2.h), as floats for other instruction sets (kernels/blocks_dot_float.h).
//
// The order of a row's sums does not depend on the other rows; fused multiply-adds of AVX are
// written as intrinsics because the compiler could fuse a x + b y either way.
#ifndef KERNELS_BLOCKS_DOT_H
#define KERNELS_BLOCKS_DOT_H

#if defined(__AVX512VNNI__)
#include "kernels/blocks_dot_vnni.h"
#elif defined(__AVX2__)
#include "kernels/blocks_dot_avx2.h"
#else
#include "kernels/blocks_dot_float.h"
#endif

// Number of runs in a row of n elements.
VEC_INLINE int64_t x_runs(int64_t n)
{
    return (n + RUN - 1) / RUN;
}

static void x_prepare(struct x_run *to, const float *x, int64_t rows, int64_t n, enum dtype dtype)
{
    for (int64_t r = 0; r < rows; r++, x += n)
        for (int64_t k = 0; k < n; k += RUN)
            x_prepare_run(to++, x + k, n - k < RUN ? n - k : RUN, dtype);
}

#endif
