// kernels/blocks_dot.h -- dot products of f32 with weights in blocks, for kernels/matmul_few.c.
//
// A run has 256 weights scale * q + offset, q a byte. With
//
//   sum (scale q + offset) x = scale sum q x + offset sum x        (over a group)
//
// what is to be done for each weight is q x; sum x is the same for all rows of weights, and x is
// prepared once: for AVX-512 and AVX2 as integers (kernels/blocks_dot_vnni.h,
// kernels/blocks_dot_avx2.h), for others as floats (kernels/blocks_dot_float.h).
//
// The sums of a row have one order, whatever is computed beside it; AVX's fused additions are
// spelled out because the compiler could fuse a x + b y either way.
#ifndef KERNELS_BLOCKS_DOT_H
#define KERNELS_BLOCKS_DOT_H

#if defined(__AVX512VNNI__)
#include "kernels/blocks_dot_vnni.h"
#elif defined(__AVX2__)
#include "kernels/blocks_dot_avx2.h"
#else
#include "kernels/blocks_dot_float.h"
#endif

// Runs of a row of n numbers.
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
