// tests/cuda/fused.h -- shared by the suites of the fused forms: tolerances against the ops.
#ifndef TESTS_CUDA_FUSED_H
#define TESTS_CUDA_FUSED_H

#include "tests/cuda/both.h"

enum { FEW = 8 }; // up to this many rows read weights in their stored form

// Tolerance for sums of k terms of size one: in f32, or of bf16 inputs and intermediates.
static inline double tolerance(enum matmul_mode mode, int64_t n, int64_t k)
{
    return (n <= FEW || mode == MATMUL_F32 ? 4e-6 : 1e-2) * sqrt((double)k + 4);
}

// Fails unless the status is 0, or FUSED_NOT if the form is not expected to compute the call.
static inline bool computed(int status, bool expected)
{
    if (status < 0) fail_msg("%s", gpu->failure());
    assert_int_equal(status, expected ? 0 : FUSED_NOT);
    return expected;
}

// Applies a norm to y on the CPU; gain NULL: no norm.
static inline void norm_after(struct tensor *y, const struct tensor *gain, float eps)
{
    if (gain) DONE(cpu->rmsnorm(y, y, gain, eps));
}

#endif
