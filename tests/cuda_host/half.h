// tests/cuda_host/half.h -- converts between f16 and f32, written independently of the kernels that
// are compared with it.
#ifndef TESTS_CUDA_HOST_HALF_H
#define TESTS_CUDA_HOST_HALF_H

#include <math.h>
#include <stdint.h>

static inline float half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float x = exponent == 31 ? (fraction ? NAN : INFINITY)
                    : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                   : ldexpf((float)fraction, -24);
    return copysignf(x, bits & 0x8000 ? -1.0f : 1.0f);
}

// Rounds to nearest, ties to even; values beyond the range become infinite.
static inline uint16_t half_bits(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent = 0;
    if (isnan(x)) return sign | 0x7e00;
    if (x == 0) return sign;
    if (fabsf(x) >= 65520) return sign | 0x7c00;
    frexpf(x, &exponent);                // |x| = 0.5.. times 2^exponent
    const bool normal = exponent >= -13; // else subnormal: no implicit leading one
    const int units = (int)nearbyintf(ldexpf(fabsf(x), (normal ? 11 - exponent : 24)));
    return (uint16_t)(sign | (normal ? ((exponent + 14) * 1024 + units - 1024) : units));
}

#endif
