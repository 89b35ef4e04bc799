// kernels/blocks.c -- unpacks blocks element by element: a reference for the layouts in
// kernels/blocks.h.
#include "kernels/blocks_groups.h"

// Returns the 4-bit element i: the first `half` elements use the low halves of `half` bytes, the
// next `half` elements the high halves.
static int nibble(const uint8_t *q, int i, int half)
{
    const uint8_t byte = q[i / (2 * half) * half + i % half];
    return i / half % 2 ? byte >> 4 : byte & 15;
}

// Returns the 2-bit element i of q2_k and q3_k, or the upper 2 bits of element i of q6_k.
static int two_bits(const uint8_t *q, int i)
{
    return q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

static int bit(const uint8_t *bits, int byte, int number)
{
    return bits[byte] >> number & 1;
}

// Returns the integer that element i's scale multiplies (of IQ4, from a table).
static int integer(const void *block, enum dtype dtype, int i)
{
    const struct block_q8_0 *q8_0 = block;
    const struct block_q4_0 *q4_0 = block;
    const struct block_q4_1 *q4_1 = block;
    const struct block_q5_0 *q5_0 = block;
    const struct block_q5_1 *q5_1 = block;
    const struct block_q2_k *q2_k = block;
    const struct block_q3_k *q3_k = block;
    const struct block_q4_k *q4_k = block;
    const struct block_q5_k *q5_k = block;
    const struct block_q6_k *q6_k = block;
    const struct block_iq4_xs *iq4_xs = block;
    switch (dtype) {
    case DTYPE_Q8_0: return q8_0->q[i];
    case DTYPE_Q4_0: return nibble(q4_0->q, i, 16) - 8;
    case DTYPE_Q4_1: return nibble(q4_1->q, i, 16);
    case DTYPE_Q5_0: return (nibble(q5_0->q, i, 16) | bit(q5_0->high, i / 8, i % 8) << 4) - 16;
    case DTYPE_Q5_1: return nibble(q5_1->q, i, 16) | bit(q5_1->high, i / 8, i % 8) << 4;
    case DTYPE_Q2_K: return two_bits(q2_k->q, i);
    case DTYPE_Q3_K: return (two_bits(q3_k->q, i) | bit(q3_k->high, i % 32, i / 32) << 2) - 4;
    case DTYPE_Q4_K: return nibble(q4_k->q, i, 32);
    case DTYPE_Q5_K: return nibble(q5_k->q, i, 32) | bit(q5_k->high, i % 32, i / 32) << 4;
    case DTYPE_Q6_K: return (nibble(q6_k->q, i, 64) | two_bits(q6_k->high, i) << 4) - 32;
    case DTYPE_IQ4_NL: return block_levels[nibble(q4_0->q, i, 16)];
    case DTYPE_IQ4_XS: return block_levels[nibble(iq4_xs->q, i, 16)];
    default: return 0;
    }
}

void blocks_unpack(float *to, const void *blocks, enum dtype dtype, int64_t n)
{
    const struct dtype_form form = dtype_form(dtype);
    const char *block = blocks;
    const int size = block_group(dtype);
    struct block_groups g = { 0 };
    for (int64_t i = 0; i + form.numbers <= n; i += form.numbers, block += form.bytes) {
        block_groups_of(&g, block, dtype);
        for (int j = 0; j < form.numbers; j++)
            to[i + j] = g.scale[j / size] * (float)integer(block, dtype, j) - g.min[j / size];
    }
}
