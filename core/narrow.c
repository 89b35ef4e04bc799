// core/narrow.c -- f32 to bf16 and f16 by their bits.
#include "core/narrow.h"

#include <string.h>

#include "core/err.h"

static uint16_t to_bf16(uint32_t bits)
{
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); // NaN, quiet
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_f16(uint32_t bits)
{
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return sign | 0x7e00;  // NaN
    if (size >= 0x477ff000) return sign | 0x7c00; // from 65520 on: infinity
    if (size < 0x33000001) return sign;           // up to 2^-25: zero
    // Normal numbers lose 13 bits, subnormal ones more: 1.f * 2^(e-127) in units of 2^-24.
    const uint32_t exponent = size >> 23, fraction = (size & 0x7fffff) | 0x800000;
    const uint32_t drop = exponent < 113 ? 126 - exponent : 13;
    const uint32_t base = exponent < 113 ? fraction : size - (112u << 23);
    const uint32_t half = 1u << (drop - 1), odd = base >> drop & 1;
    return sign | (uint16_t)((base + half - 1 + odd) >> drop);
}

void narrow(void *to, enum dtype dtype, const float *from, int64_t n)
{
    if (dtype != DTYPE_F32 && dtype != DTYPE_F16 && dtype != DTYPE_BF16)
        BUG("narrow: not a float dtype");
    if (dtype == DTYPE_F32 && n > 0) memcpy(to, from, (size_t)n * sizeof *from);
    for (int64_t i = 0; dtype != DTYPE_F32 && i < n; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        const uint16_t h = dtype == DTYPE_BF16 ? to_bf16(bits) : to_f16(bits);
        memcpy((char *)to + 2 * i, &h, sizeof h);
    }
}
