// kernels/blocks_pack.c -- numbers to blocks: the scales and integers that lose least.
//
// A group's numbers x become s q - m. For given integers the best s (and m) are the least squares'
// solution, for a given s (and m) the best integers are the nearest, so the two are found in turn
// from several starts, and the best try is kept. An error counts by a weight: large numbers move a
// product more.
#include <math.h>
#include <string.h>

#include "kernels/blocks.h"

// Sums are taken in LANES parts, so that several numbers are computed at once. The file is compiled
// for any CPU, and gives the same bits on all.
enum { BLOCK = 256, STARTS = 8, ROUNDS = 3, LANES = 8 };

static float quotient(float a, float b)
{
    return b != 0 ? a / b : 0;
}

// The nearest whole number within the limits, ties to even, of numbers below 2^22.
static inline float nearest(float x, float least, float most)
{
    x = x < least ? least : x;
    x = x > most ? most : x;
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

static int near(float x, int least, int most)
{
    return (int)nearest(x, (float)least, (float)most);
}

static float sum_of(const float *lane)
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

// --- one group -----------------------------------------------------------------------------------

static float largest(const float *x, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

// What errors of x count.
static void weigh(float *weight, const float *x, int n)
{
    float squares = 0;
    for (int i = 0; i < n; i++) squares += x[i] * x[i];
    const float mean = sqrtf(squares / (float)n);
    for (int i = 0; i < n; i++) weight[i] = mean + fabsf(x[i]);
}

// The weighted error of integers 0..most (or from `least` on) on the line, and what the next line
// needs to know of them.
struct sums {
    float error, q, qq, xq;
};

struct line {
    float scale, min; // x = scale q - min
};

static inline struct sums try_line(const float *x, const float *weight, int n, struct line l,
                                   float least, float most)
{
    float error[LANES] = { 0 }, q1[LANES] = { 0 }, q2[LANES] = { 0 }, xq[LANES] = { 0 };
    const float inverse = quotient(1, l.scale);
    for (int i = 0; i < n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            const float q = nearest((x[i + j] + l.min) * inverse, least, most);
            const float d = x[i + j] - (l.scale * q - l.min), wq = weight[i + j] * q;
            error[j] += weight[i + j] * d * d;
            q1[j] += wq;
            q2[j] += wq * q;
            xq[j] += wq * x[i + j];
        }
    return (struct sums){ sum_of(error), sum_of(q1), sum_of(q2), sum_of(xq) };
}

// The scale with which integers -limit..limit-1 are nearest to x[16].
static float fit_scale(const float *x, int limit)
{
    float weight[16], best = 0, least = INFINITY;
    const float most = largest(x, 16);
    weigh(weight, x, 16);
    for (int start = 0; start < STARTS; start++) {
        // The largest number becomes -limit, or a little more or less.
        const int from_middle = start - STARTS / 2;
        struct line l = { most / (3.f / STARTS * (float)from_middle - (float)limit), 0 };
        for (int round = 0; round < ROUNDS; round++) {
            const struct sums s = try_line(x, weight, 16, l, (float)-limit, (float)(limit - 1));
            if (s.error < least) {
                least = s.error;
                best = l.scale;
            }
            l.scale = quotient(s.xq, s.qq);
        }
    }
    return best;
}

// Least squares for the integers of a try; w and wx are the sums of the weights and of the weighted
// numbers. Neither scale nor min is negative.
static struct line next_line(const struct sums *s, float w, float wx)
{
    const float determinant = w * s->qq - s->q * s->q;
    struct line l = { quotient(w * s->xq - s->q * wx, determinant),
                      quotient(s->q * s->xq - s->qq * wx, determinant) };
    if (l.min < 0 || determinant <= 0) l = (struct line){ quotient(s->xq, s->qq), 0 };
    if (l.scale < 0) l = (struct line){ 0, wx < 0 ? quotient(-wx, w) : 0 };
    return l;
}

// The line on which integers 0..most are nearest to x[32].
static struct line fit_line(const float *x, int most)
{
    float weight[32], low = 0, high = x[0], w = 0, wx = 0, least = INFINITY;
    weigh(weight, x, 32);
    for (int i = 0; i < 32; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        w += weight[i];
        wx += weight[i] * x[i];
    }
    struct line best = { 0, -low };
    for (int start = 0; start < STARTS; start++) {
        const int from_middle = start - STARTS / 2;
        const float steps = (float)most + 2.f / STARTS * (float)from_middle;
        struct line l = { (high - low) / steps, -low };
        for (int round = 0; round < ROUNDS; round++) {
            const struct sums s = try_line(x, weight, 32, l, 0, (float)most);
            if (s.error < least) {
                least = s.error;
                best = l;
            }
            l = next_line(&s, w, wx);
        }
    }
    return best;
}

// --- blocks --------------------------------------------------------------------------------------

static void pack_q8_0(struct block_q8_0 *b, const float *x)
{
    b->d = half_of_float(fabsf(largest(x, 32)) / 127);
    const float d = half_to_float(b->d);
    for (int i = 0; i < 32; i++) b->q[i] = (int8_t)near(quotient(x[i], d), -127, 127);
}

// The groups' scales and minima as 6 bits each: kernels/blocks.c says where they stand.
static void put_scales(uint8_t *to, const uint8_t *scale, const uint8_t *min)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(scale[i] | scale[4 + i] >> 4 << 6);
        to[4 + i] = (uint8_t)(min[i] | min[4 + i] >> 4 << 6);
        to[8 + i] = (uint8_t)((scale[4 + i] & 15) | min[4 + i] << 4);
    }
}

static void pack_q4_k(struct block_q4_k *b, const float *x)
{
    struct line line[8];
    float scale_most = 0, min_most = 0;
    for (int g = 0; g < 8; g++) {
        line[g] = fit_line(x + 32 * g, 15);
        scale_most = fmaxf(scale_most, line[g].scale);
        min_most = fmaxf(min_most, line[g].min);
    }
    b->d = half_of_float(scale_most / 63);
    b->m = half_of_float(min_most / 63);
    const float d = half_to_float(b->d), m = half_to_float(b->m);
    uint8_t scale[8], min[8];
    for (int g = 0; g < 8; g++) {
        scale[g] = (uint8_t)near(quotient(line[g].scale, d), 0, 63);
        min[g] = (uint8_t)near(quotient(line[g].min, m), 0, 63);
    }
    put_scales(b->scales, scale, min);
    memset(b->q, 0, sizeof b->q);
    for (int i = 0; i < BLOCK; i++) {
        const int g = i / 32, byte = i / 64 * 32 + i % 32;
        const float up = x[i] + m * (float)min[g];
        b->q[byte] |= (uint8_t)(near(quotient(up, d * (float)scale[g]), 0, 15) << (g % 2 * 4));
    }
}

static void pack_q6_k(struct block_q6_k *b, const float *x)
{
    float scale[16];
    for (int g = 0; g < 16; g++) scale[g] = fit_scale(x + 16 * g, 32);
    // The largest scale becomes -128, the only number that has no opposite.
    b->d = half_of_float(largest(scale, 16) / -128);
    const float d = half_to_float(b->d);
    memset(b->q, 0, sizeof b->q);
    memset(b->high, 0, sizeof b->high);
    for (int g = 0; g < 16; g++) b->scales[g] = (int8_t)near(quotient(scale[g], d), -128, 127);
    for (int i = 0; i < BLOCK; i++) {
        const int g = i / 16;
        const int q = near(quotient(x[i], d * (float)b->scales[g]), -32, 31) + 32;
        b->q[i / 128 * 64 + i % 64] |= (uint8_t)((q & 15) << (i / 64 % 2 * 4));
        b->high[i / 128 * 32 + i % 32] |= (uint8_t)(q >> 4 << (i / 32 % 4 * 2));
    }
}

bool blocks_can_pack(enum dtype dtype)
{
    return dtype == DTYPE_Q8_0 || dtype == DTYPE_Q4_K || dtype == DTYPE_Q6_K;
}

void blocks_pack(void *blocks, enum dtype dtype, const float *from, int64_t n)
{
    const struct dtype_form form = dtype_form(dtype);
    char *block = blocks;
    for (int64_t i = 0; i + form.numbers <= n; i += form.numbers, block += form.bytes) {
        if (dtype == DTYPE_Q8_0)
            pack_q8_0((struct block_q8_0 *)(void *)block, from + i);
        else if (dtype == DTYPE_Q4_K)
            pack_q4_k((struct block_q4_k *)(void *)block, from + i);
        else
            pack_q6_k((struct block_q6_k *)(void *)block, from + i);
    }
}
