// kernels/blocks_pack.c -- quantises weights to blocks: searches for the scales and integers with
// the least error.
//
// In q4_k and q6_k, a group's elements x become s q - m. For given integers, least squares gives
// the best s (and m); for given s (and m), rounding gives the best integers. The search alternates
// between the two from several starts and keeps the best try. Errors of large weights count more,
// because they change a product more. q8_0 has its own search (pack_q8_0).
#include <math.h>
#include <string.h>

#include "kernels/blocks.h"

// Sums use LANES partial sums for vectorisation. pack is compiled for any CPU and again for AVX2,
// without FMA, so all CPUs produce the same bits.
enum { BLOCK = 256, LANES = 8, STARTS = 8, ROUNDS = 3, Q8_TRIES = 28, Q4_ROUNDS = 3 };

static float quotient(float a, float b)
{
    return b != 0 ? a / b : 0;
}

// Rounds to the nearest integer within the limits, ties to even, for |x| below 2^22.
static int near(float x, int least, int most)
{
    x = x > (float)least ? x : (float)least;
    x = x < (float)most ? x : (float)most;
    return (int)((x + 0x1.8p23f) - 0x1.8p23f);
}

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t masks __attribute__((vector_size(4 * LANES)));

static inline void nearest_lanes(lanes *x, float least, float most)
{
    const lanes low = least - (lanes){ 0 }, high = most - (lanes){ 0 };
    const masks below = *x<low, above = *x> high;
    *x = (lanes)((below & (masks)low) | (above & (masks)high) | (~(below | above) & (masks)*x));
    *x = (*x + 0x1.8p23f) - 0x1.8p23f;
}

static inline float sum_of(const lanes *x)
{
    const lanes l = *x;
    return ((l[0] + l[4]) + (l[1] + l[5])) + ((l[2] + l[6]) + (l[3] + l[7]));
}

// --- one group -----------------------------------------------------------------------------------

static float largest(const float *x, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

// Sets how much the error of each element counts.
static void weigh(float *weight, const float *x, int n)
{
    float squares = 0;
    for (int i = 0; i < n; i++) squares += x[i] * x[i];
    const float mean = sqrtf(squares / (float)n);
    for (int i = 0; i < n; i++) weight[i] = mean + fabsf(x[i]);
}

// The weighted error of the best integers least..most on a line, and the sums from which next_line
// fits the next line.
struct sums {
    float error, q, qq, xq;
};

struct line {
    float scale, min; // x = scale q - min
};

static inline struct sums try_line(const float *x, const float *weight, int n, struct line l,
                                   float least, float most)
{
    lanes error = { 0 }, q1 = { 0 }, q2 = { 0 }, xq = { 0 };
    const float inverse = quotient(1, l.scale);
    for (int i = 0; i < n; i += LANES) {
        lanes from, w;
        memcpy(&from, x + i, sizeof from);
        memcpy(&w, weight + i, sizeof w);
        lanes q = (from + l.min) * inverse;
        nearest_lanes(&q, least, most);
        const lanes d = from - (l.scale * q - l.min), wq = w * q;
        error += w * d * d;
        q1 += wq;
        q2 += wq * q;
        xq += wq * from;
    }
    return (struct sums){ sum_of(&error), sum_of(&q1), sum_of(&q2), sum_of(&xq) };
}

// Finds the scale with which integers -limit..limit-1 fit x[16] best.
static float fit_scale(const float *x, int limit)
{
    float weight[16], best = 0, least = INFINITY;
    const float most = largest(x, 16);
    weigh(weight, x, 16);
    for (int start = 0; start < STARTS; start++) {
        // Maps the largest element to -limit, or a little more or less.
        const int end = start - STARTS / 2 - limit;
        struct line l = { most / (float)end, 0 };
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

// The least-squares line for the integers of a try; w and wx are the sums of the weights and of the
// weighted elements. Neither scale nor min is negative.
static struct line next_line(const struct sums *s, float w, float wx)
{
    const float determinant = w * s->qq - s->q * s->q;
    struct line l = { quotient(w * s->xq - s->q * wx, determinant),
                      quotient(s->q * s->xq - s->qq * wx, determinant) };
    if (l.min < 0 || determinant <= 0) l = (struct line){ quotient(s->xq, s->qq), 0 };
    if (l.scale < 0) l = (struct line){ 0, wx < 0 ? quotient(-wx, w) : 0 };
    return l;
}

// The line that maps 0..most to the range of x[32], extended down to 0 if all elements are
// positive.
static struct line plain_line(const float *x, int most)
{
    float low = 0, high = x[0];
    for (int i = 0; i < 32; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    return (struct line){ (high - low) / (float)most, -low };
}

// The line on which integers 0..most fit x[32] best.
static struct line fit_line(const float *x, int most)
{
    const struct line plain = plain_line(x, most);
    float weight[32], w = 0, wx = 0, least = INFINITY;
    weigh(weight, x, 32);
    for (int i = 0; i < 32; i++) {
        w += weight[i];
        wx += weight[i] * x[i];
    }
    struct line best = { 0, plain.min };
    for (int start = 0; start < STARTS; start++) {
        const int from_middle = start - STARTS / 2;
        const float steps = (float)most + 2.f / STARTS * (float)from_middle;
        struct line l = { plain.scale * (float)most / steps, plain.min };
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

// The error of 32 roundings varies with the scale: takes the best of Q8_TRIES scales. All errors
// have the same weight. The first scale maps the largest element to 127.
static void pack_q8_0(struct block_q8_0 *b, const float *x)
{
    static const float same[32] = { [0 ... 31] = 1 };
    const float most = fabsf(largest(x, 32));
    float least = INFINITY, wanted = most / 127;
    for (int i = 0; i < Q8_TRIES; i++) {
        const uint16_t half = half_of_float(wanted);
        const struct sums s =
            try_line(x, same, 32, (struct line){ half_to_float(half), 0 }, -127, 127);
        if (s.error < least || !i) {
            least = s.error;
            b->d = half;
        }
        wanted = most / (127.5f - (float)i / 2);
    }
    const float d = half_to_float(b->d);
    for (int i = 0; i < 32; i++) b->q[i] = (int8_t)near(quotient(x[i], d), -127, 127);
}

// Stores the groups' scales and minima, 6 bits each, in the layout that block_groups_k reads.
static void put_scales(uint8_t *to, const uint8_t *scale, const uint8_t *min)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(scale[i] | scale[4 + i] >> 4 << 6);
        to[4 + i] = (uint8_t)(min[i] | min[4 + i] >> 4 << 6);
        to[8 + i] = (uint8_t)((scale[4 + i] & 15) | min[4 + i] << 4);
    }
}

// A block's scales and minima as stored, and their weighted error.
struct q4_scales {
    float d, m, error;
    uint8_t scale[8], min[8];
};

// Error weights of a block's elements; for each group the sum of weights, the sum of weighted
// elements, and the plain and the fitted line.
struct q4_fit {
    float weight[BLOCK], w[8], wx[8];
    struct line plain[8], fitted[8];
};

// Finds the best integer scale and min of group g for s->d and s->m, among the integers nearest to
// the line's scale and min, and their neighbours.
static struct sums fit_group(const struct q4_fit *f, const float *x, int g, struct line line,
                             struct q4_scales *s)
{
    const int scale = near(quotient(line.scale, s->d), 0, 63);
    const int min = near(quotient(line.min, s->m), 0, 63);
    struct sums best = { .error = INFINITY };
    for (int i = 0; i < 9; i++) {
        const int a = scale + i / 3 - 1, k = min + i % 3 - 1;
        if (a < 0 || a > 63 || k < 0 || k > 63) continue;
        const struct line l = { s->d * (float)a, s->m * (float)k };
        const struct sums t = try_line(x + 32 * g, f->weight + 32 * g, 32, l, 0, 15);
        if (!(t.error < best.error)) continue;
        best = t;
        s->scale[g] = (uint8_t)a;
        s->min[g] = (uint8_t)k;
    }
    return best;
}

// Chooses the groups' scales a and minima k for s->d and s->m; returns the least-squares d (.scale)
// and m (.min) for the chosen integers: x = d a q - m k.
static struct line fit_groups(const struct q4_fit *f, const float *x, const struct line *line,
                              struct q4_scales *s)
{
    struct sums all = { 0 };
    float w = 0, wx = 0;
    for (int g = 0; g < 8; g++) {
        const struct sums t = fit_group(f, x, g, line[g], s);
        const float a = s->scale[g], k = s->min[g];
        all.error += t.error;
        all.q += a * k * t.q;
        all.qq += a * a * t.qq;
        all.xq += a * t.xq;
        w += k * k * f->w[g];
        wx += k * f->wx[g];
    }
    s->error = all.error;
    return next_line(&all, w, wx);
}

static float to_half(float x)
{
    return half_to_float(half_of_float(x));
}

static void fit_block(const struct q4_fit *f, const float *x, const struct line *line, int rounds,
                      struct q4_scales *best)
{
    struct line most = { 0, 0 };
    for (int g = 0; g < 8; g++) {
        most.scale = fmaxf(most.scale, line[g].scale);
        most.min = fmaxf(most.min, line[g].min);
    }
    struct line next = { most.scale / 63, most.min / 63 };
    for (int round = 0; round < rounds; round++) {
        struct q4_scales now = { .d = to_half(next.scale), .m = to_half(next.min) };
        if (isinf(now.d) || isinf(now.m)) return; // no block can represent them
        next = fit_groups(f, x, line, &now);
        if (now.error < best->error) *best = now;
    }
}

static void pack_q4_k(struct block_q4_k *b, const float *x)
{
    struct q4_fit f = { 0 };
    struct q4_scales best = { .d = INFINITY, .m = INFINITY, .error = INFINITY };
    for (int g = 0; g < 8; g++) {
        const float *from = x + 32 * g, *weight = f.weight + 32 * g;
        weigh(f.weight + 32 * g, from, 32);
        for (int i = 0; i < 32; i++) {
            f.w[g] += weight[i];
            f.wx[g] += weight[i] * from[i];
        }
        f.plain[g] = plain_line(from, 15);
        f.fitted[g] = fit_line(from, 15);
    }
    fit_block(&f, x, f.plain, 1, &best); // so the error never exceeds that of the plain fit
    fit_block(&f, x, f.fitted, Q4_ROUNDS, &best);
    b->d = half_of_float(best.d);
    b->m = half_of_float(best.m);
    put_scales(b->scales, best.scale, best.min);
    memset(b->q, 0, sizeof b->q);
    for (int i = 0; i < BLOCK; i++) {
        const int g = i / 32, byte = i / 64 * 32 + i % 32;
        const float up = x[i] + best.m * (float)best.min[g];
        b->q[byte] |=
            (uint8_t)(near(quotient(up, best.d * (float)best.scale[g]), 0, 15) << (g % 2 * 4));
    }
}

struct q6_scales {
    float d, error;
    int8_t scale[16];
};

// Finds the best integer multiples of d near the groups' scales.
static void fit_multiples(const float *x, const float *weight, const float *scale,
                          struct q6_scales *s)
{
    s->error = 0;
    for (int g = 0; g < 16; g++) {
        const int middle = near(quotient(scale[g], s->d), -128, 127);
        float least = INFINITY;
        for (int a = middle > -128 ? middle - 1 : -128; a <= middle + 1 && a < 128; a++) {
            const struct line l = { s->d * (float)a, 0 };
            const struct sums t = try_line(x + 16 * g, weight + 16 * g, 16, l, -32, 31);
            if (!(t.error < least)) continue;
            least = t.error;
            s->scale[g] = (int8_t)a;
        }
        s->error += least;
    }
}

static void pack_q6_k(struct block_q6_k *b, const float *x)
{
    float weight[BLOCK], scale[2][16]; // plain, fitted
    struct q6_scales best = { .d = INFINITY, .error = INFINITY };
    for (int g = 0; g < 16; g++) {
        weigh(weight + 16 * g, x + 16 * g, 16);
        scale[0][g] = largest(x + 16 * g, 16) / -32;
        scale[1][g] = fit_scale(x + 16 * g, 32);
    }
    for (int way = 0; way < 2; way++) {
        // The largest scale becomes -128, the one integer without a positive counterpart.
        struct q6_scales now = { .d = to_half(largest(scale[way], 16) / -128) };
        fit_multiples(x, weight, scale[way], &now);
        if (now.error < best.error) best = now;
    }
    b->d = half_of_float(best.d);
    memcpy(b->scales, best.scale, sizeof b->scales);
    memset(b->q, 0, sizeof b->q);
    memset(b->high, 0, sizeof b->high);
    for (int i = 0; i < BLOCK; i++) {
        const int8_t own = best.scale[i / 16];
        const int q = near(quotient(x[i], best.d * (float)own), -32, 31) + 32;
        b->q[i / 128 * 64 + i % 64] |= (uint8_t)((q & 15) << (i / 64 % 2 * 4));
        b->high[i / 128 * 32 + i % 32] |= (uint8_t)(q >> 4 << (i / 32 % 4 * 2));
    }
}

bool blocks_can_pack(enum dtype dtype)
{
    return dtype == DTYPE_Q8_0 || dtype == DTYPE_Q4_K || dtype == DTYPE_Q6_K;
}

static inline void pack(void *blocks, enum dtype dtype, const float *from, int64_t n)
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

#ifdef HAVE_AVX
__attribute__((target("avx2"), flatten)) static void pack_avx2(void *blocks, enum dtype dtype,
                                                               const float *from, int64_t n)
{
    pack(blocks, dtype, from, n);
}
#endif

void blocks_pack(void *blocks, enum dtype dtype, const float *from, int64_t n)
{
#ifdef HAVE_AVX
    if (__builtin_cpu_supports("avx2")) {
        pack_avx2(blocks, dtype, from, n);
        return;
    }
#endif
    pack(blocks, dtype, from, n);
}
