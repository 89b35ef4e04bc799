// kernels/blocks.c -- numbers of blocks, one by one: what the layouts of kernels/blocks.h mean.
#include "kernels/blocks.h"

#include <stdbool.h>

// Scales and minima of a block's groups.
struct groups {
    int size; // numbers of a group
    float scale[16], min[16];
};

static struct groups one_group(float scale, float min)
{
    return (struct groups){ .size = 32, .scale = { scale }, .min = { min } };
}

// q4_k and q5_k: 8 scales and 8 minima of 6 bits. The lower 6 bits of bytes 0..3 and 4..7 are the
// first four of each; of the others, the bytes 8..11 hold the lower 4 bits.
static struct groups groups_k(const uint8_t *scales, float d, float m)
{
    struct groups g = { .size = 32 };
    for (int i = 0; i < 4; i++) {
        const uint8_t a = scales[i], b = scales[4 + i], low = scales[8 + i];
        g.scale[i] = d * (float)(a & 63);
        g.min[i] = m * (float)(b & 63);
        g.scale[4 + i] = d * (float)((low & 15) | a >> 6 << 4);
        g.min[4 + i] = m * (float)(low >> 4 | b >> 6 << 4);
    }
    return g;
}

static struct groups groups_q2_k(const struct block_q2_k *b)
{
    struct groups g = { .size = 16 };
    const float d = half_to_float(b->d), m = half_to_float(b->m);
    for (int i = 0; i < 16; i++) {
        g.scale[i] = d * (float)(b->scales[i] & 15);
        g.min[i] = m * (float)(b->scales[i] >> 4);
    }
    return g;
}

// 16 scales of 6 bits: the lower 4 in the halves of 8 bytes, the others in the quarters of 4.
static struct groups groups_q3_k(const struct block_q3_k *b)
{
    struct groups g = { .size = 16 };
    const float d = half_to_float(b->d);
    for (int i = 0; i < 16; i++) {
        const int low = b->scales[i % 8] >> (i / 8 * 4) & 15;
        const int high = b->scales[8 + i % 4] >> (i / 4 * 2) & 3;
        g.scale[i] = d * (float)((low | high << 4) - 32);
    }
    return g;
}

static struct groups groups_q6_k(const struct block_q6_k *b)
{
    struct groups g = { .size = 16 };
    for (int i = 0; i < 16; i++) g.scale[i] = half_to_float(b->d) * (float)b->scales[i];
    return g;
}

static struct groups groups_iq4_xs(const struct block_iq4_xs *b)
{
    struct groups g = { .size = 32 };
    for (int i = 0; i < 8; i++) {
        const int low = b->scales_low[i / 2] >> (i % 2 * 4) & 15;
        const int high = b->scales_high >> (2 * i) & 3;
        g.scale[i] = half_to_float(b->d) * (float)((low | high << 4) - 32);
    }
    return g;
}

static struct groups groups_of(const void *block, enum dtype dtype)
{
    const struct block_q4_1 *q4_1 = block;
    const struct block_q5_1 *q5_1 = block;
    const struct block_q4_k *q4_k = block;
    const struct block_q5_k *q5_k = block;
    switch (dtype) {
    case DTYPE_Q4_1: return one_group(half_to_float(q4_1->d), -half_to_float(q4_1->m));
    case DTYPE_Q5_1: return one_group(half_to_float(q5_1->d), -half_to_float(q5_1->m));
    case DTYPE_Q2_K: return groups_q2_k(block);
    case DTYPE_Q3_K: return groups_q3_k(block);
    case DTYPE_Q4_K: return groups_k(q4_k->scales, half_to_float(q4_k->d), half_to_float(q4_k->m));
    case DTYPE_Q5_K: return groups_k(q5_k->scales, half_to_float(q5_k->d), half_to_float(q5_k->m));
    case DTYPE_Q6_K: return groups_q6_k(block);
    case DTYPE_IQ4_XS: return groups_iq4_xs(block);
    default: break;
    }
    uint16_t d; // the others begin with it
    memcpy(&d, block, sizeof d);
    return one_group(half_to_float(d), 0);
}

// Number i of 4 bits: `half` in the lower halves of half bytes, then as many in the upper ones.
static int nibble(const uint8_t *q, int i, int half)
{
    const uint8_t byte = q[i / (2 * half) * half + i % half];
    return i / half % 2 ? byte >> 4 : byte & 15;
}

// Number i of 2 bits, of q2_k, q3_k and the upper ones of q6_k.
static int two_bits(const uint8_t *q, int i)
{
    return q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

static int bit(const uint8_t *bits, int byte, int number)
{
    return bits[byte] >> number & 1;
}

// The integer of number i.
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
    for (int64_t i = 0; i + form.numbers <= n; i += form.numbers, block += form.bytes) {
        const struct groups g = groups_of(block, dtype);
        for (int j = 0; j < form.numbers; j++)
            to[i + j] = g.scale[j / g.size] * (float)integer(block, dtype, j) - g.min[j / g.size];
    }
}
