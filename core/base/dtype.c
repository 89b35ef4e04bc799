// core/base/dtype.c -- converts numbers in files from and to f32, on the host.
#include "core/base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/blocks.h"

void floats_from(float *to, const void *from, enum dtype dtype, size_t n)
{
    const char *bytes = from;
    if (dtype == DTYPE_F32) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    if (dtype_in_blocks(dtype)) {
        blocks_unpack(to, from, dtype, (int64_t)n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        const uint32_t bits = (uint32_t)half << 16; // the bits of a bf16 as f32
        if (dtype == DTYPE_F16)
            to[i] = half_to_float(half);
        else
            memcpy(&to[i], &bits, sizeof bits);
    }
}

void floats_to(void *to, enum dtype dtype, const float *from, size_t n)
{
    char *bytes = to;
    if (dtype == DTYPE_F32) {
        memcpy(to, from, n * sizeof *from);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        const bool nan = (bits & 0x7fffffff) > 0x7f800000;
        uint16_t half =
            (uint16_t)(nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        if (dtype == DTYPE_F16) half = half_of_float(from[i]);
        memcpy(bytes + 2 * i, &half, sizeof half);
    }
}

// Returns the position of row i of a head in Hugging Face's order.
static int64_t usual_position(struct head_order order, int64_t i)
{
    const int64_t rotary = order.rotary < 0 ? -order.rotary : order.rotary, half = rotary / 2;
    if (i >= rotary) return i;
    return order.rotary > 0 ? i % 2 * half + i / 2 : i % half * 2 + i / half;
}

void rows_reorder(float *rows, int64_t n, int64_t width, struct head_order order)
{
    const size_t row = (size_t)width * sizeof *rows;
    float *head = order.head ? xreallocarray(NULL, (size_t)order.head, row) : NULL;
    for (int64_t h = 0; head && h + order.head <= n; h += order.head) {
        float *at = rows + h * width;
        for (int64_t i = 0; i < order.head; i++)
            memcpy(head + usual_position(order, i) * width, at + i * width, row);
        memcpy(at, head, (size_t)order.head * row);
    }
    free(head);
}

bool floats_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}
