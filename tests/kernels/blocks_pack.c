// tests/kernels/blocks_pack.c -- numbers to blocks and back: how much is lost, at most and in the
// mean, and what must come back as it was.
#include "kernels/blocks.h"
#include "tests/kernels/close.h"

enum { N = 1 << 14 };

static const enum dtype packed[] = { DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q6_K };

// To blocks and back.
static void there_and_back(float *to, const float *from, enum dtype dtype, int64_t n)
{
    void *blocks = malloc(dtype_bytes(dtype, n));
    assert_true(blocks_can_pack(dtype));
    blocks_pack(blocks, dtype, from, n);
    blocks_unpack(to, blocks, dtype, n);
    free(blocks);
}

// Nearly normal: sums of uniform numbers.
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

// For normal numbers llama.cpp's quantiser loses 0.00534, 0.0713 and 0.0177 of them.
static void little_is_lost(void **state)
{
    (void)state;
    static const double most[] = { 0.0054, 0.0722, 0.0177 };
    static const float scales[] = { 1e-5f, 0.02f, 1, 1000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < 3; i++)
        for (int s = 1; s < 4; s++) {
            normal(x, N, scales[s]);
            there_and_back(y, x, packed[i], N);
            const double lost = relative_error(x, y, N);
            if (lost > most[i])
                fail_msg("%s at %g: %.5f is lost", dtype_form(packed[i]).name, (double)scales[s],
                         lost);
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

// A number moves by half a step of its group, and by what rounding the group's scale and minimum to
// parts of the block's adds.
static void no_number_moves_far(void **state)
{
    (void)state;
    float x[256], y[256];
    uint32_t seed = 3;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 256; i++) x[i] = noise(&seed) * (round % 7 == 0 && i == 40 ? 50 : 1);
        for (int t = 0; t < 3; t++) {
            there_and_back(y, x, packed[t], 256);
            const float block = largest_of(x, 256);
            for (int i = 0; i < 256; i++) {
                const float most = largest_of(x + i / 32 * 32, 32);
                const float far = packed[t] == DTYPE_Q8_0   ? most / 250
                                  : packed[t] == DTYPE_Q6_K ? most / 20 + block / 200
                                                            : most / 5 + block / 30;
                if (fabsf(x[i] - y[i]) > far)
                    fail_msg("%s: %g became %g", dtype_form(packed[t]).name, (double)x[i],
                             (double)y[i]);
            }
        }
    }
}

// Zeros stay zeros; numbers on a line of their own come back.
static void what_fits_comes_back(void **state)
{
    (void)state;
    float x[256] = { 0 }, y[256];
    for (int t = 0; t < 3; t++) {
        there_and_back(y, x, packed[t], 256);
        for (int i = 0; i < 256; i++) assert_true(y[i] == 0);
    }
    for (int i = 0; i < 256; i++) x[i] = 0.5f;
    for (int t = 0; t < 3; t++) {
        there_and_back(y, x, packed[t], 256);
        for (int i = 0; i < 256; i++) assert_true(fabsf(y[i] - 0.5f) < 0.5f / 100);
    }
    for (int i = 0; i < 256; i++) x[i] = (float)(i % 16 - 5) * 0.25f;
    there_and_back(y, x, DTYPE_Q4_K, 256);
    for (int i = 0; i < 256; i++) assert_true(fabsf(y[i] - x[i]) < 0.005f);
}

// Halves: each is the nearest, by the definition of the format.
static void halves_are_the_nearest(void **state)
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
        cmocka_unit_test(no_number_moves_far),
        cmocka_unit_test(what_fits_comes_back),
        cmocka_unit_test(halves_are_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
