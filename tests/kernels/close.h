// tests/kernels/close.h -- compares results with expected values, and makes test data.
#ifndef TESTS_KERNELS_CLOSE_H
#define TESTS_KERNELS_CLOSE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "tests/device.h"

// Fails at the first element that is further from `want` than absolute + relative * |want|. NaN is
// close only to NaN.
static inline void close_check(const char *what, const float *got, const double *want, int64_t n,
                               double absolute, double relative)
{
    for (int64_t i = 0; i < n; i++) {
        bool same = isnan(want[i]) ? isnan(got[i])
                    : isinf(want[i])
                        ? (double)got[i] == want[i]
                        : fabs(got[i] - want[i]) <= absolute + relative * fabs(want[i]);
        if (!same)
            fail_msg("%s: number %lld of %lld is %.9g, should be %.9g", what, (long long)i,
                     (long long)n, (double)got[i], want[i]);
    }
}

// A pseudo-random number in -1..1, the same in each run.
static inline float noise(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return (float)(int32_t)(*state >> 8 << 8) * 0x1p-31f;
}

static inline float *noise_floats(int64_t n, uint32_t seed)
{
    float *x = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) x[i] = noise(&seed);
    return x;
}

// A tensor in memory exactly as large as needed, so that ASan finds a write past its end.
static inline struct tensor tensor_of(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c)
{
    struct tensor t = { .dtype = dtype, .rank = rank, .shape = { a, b, c } };
    t.data = malloc(tensor_bytes(&t) + !tensor_bytes(&t));
    memset(t.data, 0x7f, tensor_bytes(&t));
    return t;
}

static inline struct tensor noise_tensor(int rank, int64_t a, int64_t b, int64_t c, uint32_t seed)
{
    struct tensor t = tensor_of(DTYPE_F32, rank, a, b, c);
    for (int64_t i = 0; i < tensor_count(&t); i++) ((float *)t.data)[i] = noise(&seed);
    return t;
}

// The values of an f32 tensor as bf16; truncates the tensor, too, so that both hold the same
// values.
static inline struct tensor bf16_twin(struct tensor *t)
{
    struct tensor twin = tensor_of(DTYPE_BF16, t->rank, t->shape[0], t->shape[1], t->shape[2]);
    uint32_t *from = t->data;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        from[i] &= 0xffff0000;
        ((uint16_t *)twin.data)[i] = (uint16_t)(from[i] >> 16);
    }
    return twin;
}

static inline double *doubles(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}

// The value of an f16 or bf16, by the definition of the formats.
static inline double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    return h >> 15 ? -size : size;
}

static inline double bf16_value(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// Loops over the instruction sets of this machine.
#define FOR_EACH_ISA(b)                          \
    for (int isa_ = 0; isa_ < TEST_ISAS; isa_++) \
        for (const struct backend *b = test_isa(isa_); b; b = NULL)

#endif
