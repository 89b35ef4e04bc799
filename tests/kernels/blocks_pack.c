// tests/kernels/blocks_pack.c -- quantising and dequantising: maximum and mean error, the error of
// plain scales, zeros, overflow, and rounding to f16.
#include "kernels/blocks.h"
#include "tests/kernels/close.h"

enum { N = 1 << 14 };

static const enum dtype packed[] = { DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q6_K };

static void round_trip(float *to, const float *from, enum dtype dtype, int64_t n)
{
    void *blocks = malloc(dtype_bytes(dtype, n));
    assert_true(blocks_can_pack(dtype));
    blocks_pack(blocks, dtype, from, n);
    blocks_unpack(to, blocks, dtype, n);
    free(blocks);
}

// Nearly normal values: sums of six uniform values.
static void normal(float *x, int64_t n, float scale)
{
    uint32_t seed = 5;
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0;
        for (int j = 0; j < 6; j++) x[i] += scale * noise(&seed);
    }
}

static double relative_error(const float *x, const float *y, int64_t n)
{
    double error = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        error += pow((double)x[i] - (double)y[i], 2);
        squares += pow((double)x[i], 2);
    }
    return sqrt(error / squares);
}

// Bounds the relative error on normal values; llama.cpp's quantiser has 0.00534, 0.0713 and 0.0177.
static void little_is_lost(void **state)
{
    (void)state;
    static const double most[] = { 0.0049, 0.0713, 0.0172 };
    // Not 1e-5: as f16, a block's scale would lose most digits.
    static const float scales[] = { 0.02f, 1, 1000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < 3; i++)
        for (int s = 0; s < 3; s++) {
            normal(x, N, scales[s]);
            round_trip(y, x, packed[i], N);
            const double lost = relative_error(x, y, N);
            if (lost > most[i])
                fail_msg("%s at %g: the relative error is %.5f", dtype_form(packed[i]).name,
                         (double)scales[s], lost);
        }
    free(x);
    free(y);
}

static float largest_of(const float *x, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most;
}

// A value moves by at most about half a step of its group, plus the error from rounding the group's
// scale and minimum to multiples of the block's scale and minimum.
static void rounding_error_is_bounded(void **state)
{
    (void)state;
    float x[256], y[256];
    uint32_t seed = 3;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 256; i++) x[i] = noise(&seed) * (round % 7 == 0 && i == 40 ? 50 : 1);
        for (int t = 0; t < 3; t++) {
            round_trip(y, x, packed[t], 256);
            const float block = largest_of(x, 256);
            for (int i = 0; i < 256; i++) {
                const float most = largest_of(x + i / 32 * 32, 32);
                const float far = packed[t] == DTYPE_Q8_0   ? most / 225
                                  : packed[t] == DTYPE_Q6_K ? most / 20 + block / 200
                                                            : most / 5 + block / 30;
                if (fabsf(x[i] - y[i]) > far)
                    fail_msg("%s: %g became %g", dtype_form(packed[t]).name, (double)x[i],
                             (double)y[i]);
            }
        }
    }
}

// --- against plain scales ------------------------------------------------------------------------

static double to_half(double x)
{
    return half_value(half_of_float((float)x));
}

static double rounded(double x, double least, double most)
{
    return fmin(fmax(rint(x), least), most);
}

// The scale with which the value of largest magnitude among n becomes `limit`.
static double plain_scale(const float *x, int n, double limit)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        if (fabs((double)x[i]) > fabs(most)) most = (double)x[i];
    return most / limit;
}

static void plain_q8_0(double *y, const float *x)
{
    for (int g = 0; g < 256; g += 32) {
        const double d = to_half(fabs(plain_scale(x + g, 32, 127)));
        for (int i = g; i < g + 32; i++) y[i] = d > 0 ? d * rint((double)x[i] / d) : 0;
    }
}

// Quantises groups of 32 with equal steps from min(0, least value) to the largest value.
static void plain_q4_k(double *y, const float *x)
{
    double scale[8], min[8], d = 0, m = 0;
    for (int g = 0; g < 8; g++) {
        double low = 0, high = (double)x[32 * g];
        for (int i = 32 * g; i < 32 * g + 32; i++) {
            low = fmin(low, (double)x[i]);
            high = fmax(high, (double)x[i]);
        }
        scale[g] = (high - low) / 15;
        min[g] = -low;
        d = fmax(d, scale[g]);
        m = fmax(m, min[g]);
    }
    d = to_half(d / 63);
    m = to_half(m / 63);
    for (int i = 0; i < 256; i++) {
        const double s = d > 0 ? d * rounded(scale[i / 32] / d, 0, 63) : 0;
        const double k = m > 0 ? m * rounded(min[i / 32] / m, 0, 63) : 0;
        y[i] = (s > 0 ? s * rounded(((double)x[i] + k) / s, 0, 15) : 0) - k;
    }
}

static void plain_q6_k(double *y, const float *x)
{
    float scale[16];
    for (int g = 0; g < 16; g++) scale[g] = (float)plain_scale(x + 16 * g, 16, -32);
    const double d = to_half(plain_scale(scale, 16, -128));
    for (int i = 0; i < 256; i++) {
        const double s = d != 0 ? d * rounded((double)scale[i / 16] / d, -128, 127) : 0;
        y[i] = s != 0 ? s * rounded((double)x[i] / s, -32, 31) : 0;
    }
}

// The error that the quantiser minimises: squared, and for q4_k and q6_k weighted by the group's
// root mean square + |x|.
static double weighted_error(enum dtype dtype, const float *x, double y, int i)
{
    const int n = dtype == DTYPE_Q6_K ? 16 : 32;
    double squares = 0;
    for (int j = i / n * n; j < i / n * n + n; j++) squares += pow((double)x[j], 2);
    const double weight = dtype == DTYPE_Q8_0 ? 1 : sqrt(squares / n) + fabs((double)x[i]);
    return weight * pow((double)x[i] - y, 2);
}

// Nearly normal values; depending on the round with outliers, one sign, few distinct values, groups
// of different magnitude, mostly zeros, negative values and one positive value, or an offset.
static void draw(float *x, int round, uint32_t *seed)
{
    for (int i = 0; i < 256; i++) {
        x[i] = 0;
        for (int j = 0; j < 6; j++) x[i] += 0.02f * noise(seed);
        if (round % 8 == 1 && i % 50 == 7) x[i] *= 20;
        if (round % 8 == 2) x[i] = fabsf(x[i]);
        if (round % 8 == 3) x[i] = rintf(x[i] * 100) / 100;
        if (round % 8 == 4) x[i] *= (float)(1 << i / 32);
        if (round % 8 == 5 && i % 32) x[i] = 0;
        if (round % 8 == 6) x[i] = x[i] < 0 ? x[i] : 0.001f;
        if (round % 8 == 7) x[i] += 0.1f;
    }
}

static void never_worse_than_the_plain_scales(void **state)
{
    (void)state;
    static void (*const plain[])(double *, const float *) = { plain_q8_0, plain_q4_k, plain_q6_k };
    float x[256], y[256];
    double z[256], sums[3][2] = { { 0 } };
    uint32_t seed = 11;
    for (int round = 0; round < 4000; round++) {
        draw(x, round, &seed);
        for (int t = 0; t < 3; t++) {
            double ours = 0, theirs = 0;
            round_trip(y, x, packed[t], 256);
            plain[t](z, x);
            for (int i = 0; i < 256; i++) {
                ours += weighted_error(packed[t], x, (double)y[i], i);
                theirs += weighted_error(packed[t], x, z[i], i);
            }
            if (ours > theirs * (1 + 1e-5) + 1e-20)
                fail_msg("%s, block %d: the error is %g, with plain scales %g",
                         dtype_form(packed[t]).name, round, ours, theirs);
            sums[t][0] += round % 8 ? 0 : ours;
            sums[t][1] += round % 8 ? 0 : theirs;
        }
    }
    static const double most[] = { 0.80, 0.85, 0.85 }; // for normal values
    for (int t = 0; t < 3; t++)
        if (sums[t][0] > most[t] * sums[t][1])
            fail_msg("%s: the error is %.3f of that with plain scales", dtype_form(packed[t]).name,
                     sums[t][0] / sums[t][1]);
}

// Zeros stay exactly zero; 0.5, and multiples of 0.25 in Q4_K, are restored within 0.005.
static void representable_values_are_restored(void **state)
{
    (void)state;
    float x[256] = { 0 }, y[256];
    for (int t = 0; t < 3; t++) {
        round_trip(y, x, packed[t], 256);
        for (int i = 0; i < 256; i++) assert_true(y[i] == 0);
    }
    for (int i = 0; i < 256; i++) x[i] = 0.5f;
    for (int t = 0; t < 3; t++) {
        round_trip(y, x, packed[t], 256);
        for (int i = 0; i < 256; i++) assert_true(fabsf(y[i] - 0.5f) < 0.5f / 100);
    }
    for (int i = 0; i < 256; i++) x[i] = (float)(i % 16 - 5) * 0.25f;
    round_trip(y, x, DTYPE_Q4_K, 256);
    for (int i = 0; i < 256; i++) assert_true(fabsf(y[i] - x[i]) < 0.005f);
}

// A block does not stay finite if a number exceeds the range of f16 scales, so writers refuse it.
static void overflow_is_not_finite(void **state)
{
    (void)state;
    float x[256], y[256];
    uint32_t seed = 9;
    for (int round = 0; round < 6; round++)
        for (int t = 0; t < 3; t++) {
            for (int i = 0; i < 256; i++) x[i] = noise(&seed);
            x[17] = round % 2 ? -1e9f : 1e9f;
            if (round > 3)
                for (int i = 0; i < 256; i++) x[i] = 1e12f * noise(&seed);
            round_trip(y, x, packed[t], 256);
            bool finite = true;
            for (int i = 0; i < 256; i++) finite = finite && isfinite(y[i]);
            if (finite) fail_msg("%s: %g stays finite", dtype_form(packed[t]).name, (double)x[17]);
        }
}

// half_of_float rounds to the nearest f16, ties to even.
static void halves_are_rounded_to_nearest(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const double here = half_value((uint16_t)h), next = half_value((uint16_t)(h + 1));
        assert_int_equal(half_of_float((float)here), h);
        if (isinf(next)) continue;
        const float middle = (float)((here + next) / 2);
        assert_int_equal(half_of_float(middle), h & 1 ? h + 1 : h);
        assert_int_equal(half_of_float(nextafterf(middle, 0)), h);
        assert_int_equal(half_of_float(-nextafterf(middle, INFINITY)), 0x8000 | (h + 1));
    }
    assert_int_equal(half_of_float(65520), 0x7c00);
    assert_int_equal(half_of_float(65519.9f), 0x7bff);
    assert_int_equal(half_of_float(-INFINITY), 0xfc00);
    assert_true(isnan(half_value(half_of_float(NAN))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_is_lost),
        cmocka_unit_test(rounding_error_is_bounded),
        cmocka_unit_test(never_worse_than_the_plain_scales),
        cmocka_unit_test(representable_values_are_restored),
        cmocka_unit_test(overflow_is_not_finite),
        cmocka_unit_test(halves_are_rounded_to_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
