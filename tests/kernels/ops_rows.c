// tests/kernels/ops_rows.c -- ops of kernels/ops.h that select, place, blend and weigh rows, each
// against its definition in double.
#include "tests/kernels/checked.h"

static void check_blend_rows(const struct backend *b, int64_t n, int64_t d)
{
    enum { MOST = 3 };
    const int64_t out = n ? n + 2 : 0;
    struct tensor x = noise_tensor(2, n, d, 0, 1), y = tensor_of(DTYPE_F32, 2, out, d, 0);
    struct tensor index = tensor_of(DTYPE_I32, 2, out, MOST, 0),
                  weight = noise_tensor(2, out, MOST, 0, 2);
    double *want = doubles(out * d);
    for (int64_t i = 0; i < out * MOST; i++)
        ((int32_t *)index.data)[i] = (int32_t)((i * 5 + i / MOST) % n); // some rows occur twice
    for (int64_t i = 0; i < out * d; i++)
        for (int64_t k = i / d * MOST; k < (i / d + 1) * MOST; k++)
            want[i] += (double)((float *)weight.data)[k] *
                       (double)((float *)x.data)[((int32_t *)index.data)[k] * d + i % d];
    assert_int_equal(b->blend_rows(&y, &x, &index, &weight), 0);
    finish(b, "blend_rows", &y, want, 1e-6, 1e-6);
    free(x.data);
    free(index.data);
    free(weight.data);
}

// Rows of i32, u8, f32 and bf16; then in place with an ascending index.
static void check_gather_rows(const struct backend *b, int64_t n, int64_t d)
{
    static const enum dtype dtypes[] = { DTYPE_I32, DTYPE_U8, DTYPE_F32, DTYPE_BF16 };
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        int64_t picked = (n + 1) / 2;
        struct tensor x = tensor_of(dtypes[k], 2, n, d, 0),
                      y = tensor_of(dtypes[k], 2, picked, d, 0);
        struct tensor index = tensor_of(DTYPE_I32, 1, picked, 0, 0);
        size_t row = (size_t)d * dtype_size(dtypes[k]);
        for (size_t i = 0; i < tensor_bytes(&x); i++)
            ((uint8_t *)x.data)[i] = (uint8_t)(i * 31 >> 3);
        for (int64_t i = 0; i < picked; i++) ((int32_t *)index.data)[i] = (int32_t)(n - 1 - 2 * i);
        assert_int_equal(b->gather_rows(&y, &x, &index), 0);
        for (int64_t i = 0; i < picked; i++)
            assert_memory_equal((char *)y.data + (size_t)i * row,
                                (char *)x.data + (size_t)(n - 1 - 2 * i) * row, row);
        for (int64_t i = 0; i < picked; i++) ((int32_t *)index.data)[i] = (int32_t)(2 * i);
        assert_int_equal(b->gather_rows(&y, &x, &index), 0);
        assert_int_equal(b->gather_rows(&x, &x, &index), 0);
        assert_memory_equal(x.data, y.data, tensor_bytes(&y));
        free(x.data);
        free(y.data);
        free(index.data);
    }
}

// Scatters into a bf16 table: rounds to nearest, ties to even; NaN and infinity stay.
static void check_scatter_rounded(const struct backend *b, struct tensor *x,
                                  const struct tensor *index, int64_t rows)
{
    static const uint32_t bits[][2] = { { 0x3f808000, 0x3f80 }, { 0x3f818000, 0x3f82 },
                                        { 0x3f808001, 0x3f81 }, { 0xbf807fff, 0xbf80 },
                                        { 0x7f7fffff, 0x7f80 }, { 0xff800000, 0xff80 },
                                        { 0x7f800001, 0x7fc0 }, { 0x00000001, 0x0000 } };
    const int64_t d = x->shape[1];
    struct tensor y = tensor_of(DTYPE_BF16, 2, rows, d, 0);
    uint32_t *from = x->data;
    for (int64_t i = 0; i < tensor_count(x); i++) from[i] = bits[i % 8][0];
    assert_int_equal(b->scatter_rows(&y, x, index), 0);
    const int32_t *row = index->data;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        uint16_t *at = (uint16_t *)y.data + row[i / d] * d + i % d;
        assert_int_equal(*at, bits[i % 8][1]);
        *at = 0x7f7f; // the initial value of tensor_of: no other row may change
    }
    for (int64_t i = 0; i < rows * d; i++) assert_int_equal(((uint16_t *)y.data)[i], 0x7f7f);
    free(y.data);
}

static void check_scatter_rows(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), y = noise_tensor(2, 2 * n, d, 0, 2);
    struct tensor index = tensor_of(DTYPE_I32, 1, n, 0, 0);
    double *want = doubles(2 * n * d);
    for (int64_t i = 0; i < n; i++) ((int32_t *)index.data)[i] = (int32_t)(2 * (n - 1 - i) + 1);
    for (int64_t i = 0; i < 2 * n * d; i++) {
        int64_t row = i / d, from = n - 1 - row / 2;
        want[i] = row % 2 ? ((float *)x.data)[from * d + i % d] : ((float *)y.data)[i];
    }
    assert_int_equal(b->scatter_rows(&y, &x, &index), 0);
    check_scatter_rounded(b, &x, &index, y.shape[0]);
    finish(b, "scatter_rows", &y, want, 0, 0);
    free(x.data);
    free(index.data);
}

// n of n + 3 keys as tokens, in no particular order; four heads share two value heads.
static void check_weigh_values(const struct backend *b, int64_t n, int64_t d)
{
    int64_t keys = n + 3;
    struct tensor v = noise_tensor(3, keys, 2, d, 1), probs = noise_tensor(2, 4, keys, 0, 2);
    struct tensor index = tensor_of(DTYPE_I32, 1, n, 0, 0);
    struct tensor y = tensor_of(DTYPE_F32, 2, n, 4 * d, 0);
    double *want = doubles(n * 4 * d);
    for (int64_t i = 0; i < n; i++) {
        int32_t key = ((int32_t *)index.data)[i] = (int32_t)((i * 7 + 1) % keys);
        for (int64_t h = 0; h < 4; h++)
            for (int64_t e = 0; e < d; e++)
                want[(i * 4 + h) * d + e] = (double)((float *)probs.data)[h * keys + key] *
                                            ((float *)v.data)[(key * 2 + h / 2) * d + e];
    }
    assert_int_equal(b->weigh_values(&y, &probs, &v, &index), 0);
    // bf16 gives the bits of the same numbers in f32.
    struct tensor twin = bf16_twin(&v), same = tensor_of(DTYPE_F32, 2, n, 4 * d, 0);
    struct tensor again = tensor_of(DTYPE_F32, 2, n, 4 * d, 0);
    assert_int_equal(b->weigh_values(&same, &probs, &v, &index), 0);
    assert_int_equal(b->weigh_values(&again, &probs, &twin, &index), 0);
    assert_memory_equal(again.data, same.data, tensor_bytes(&same));
    finish(b, "weigh_values", &y, want, 1e-7, 1e-6);
    free(twin.data);
    free(same.data);
    free(again.data);
    free(v.data);
    free(probs.data);
    free(index.data);
}

// Copies every third column of x; each row of x serves two rows of y, whose first and last columns
// stay.
static void check_put_columns(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, 3 * d, 0, 1), y = noise_tensor(2, 2 * n, d + 2, 0, 2);
    double *want = doubles(2 * n * (d + 2));
    for (int64_t i = 0; i < 2 * n * (d + 2); i++) want[i] = ((float *)y.data)[i];
    for (int64_t i = 0; i < 2 * n; i++)
        for (int64_t j = 0; j < d; j++)
            want[i * (d + 2) + 1 + j] = ((float *)x.data)[i / 2 * 3 * d + 2 + 3 * j];
    assert_int_equal(b->put_columns(&y, 1, &x, (struct columns){ 2, 3, d }), 0);
    finish(b, "put_columns", &y, want, 0, 0);
    free(x.data);
}

// Two of d + 1 experts, with and without normalising their weights.
static void check_expert_weights(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor logits = noise_tensor(2, n, d + 1, 0, 1);
    struct tensor index = tensor_of(DTYPE_I32, 2, n, 2, 0);
    for (int64_t i = 0; i < n; i++) {
        ((int32_t *)index.data)[2 * i] = (int32_t)(i % (d + 1));
        ((int32_t *)index.data)[2 * i + 1] = (int32_t)((i + d) % (d + 1));
    }
    for (int normalise = 0; normalise < 2; normalise++) {
        struct tensor w = noise_tensor(2, n, 2, 0, 2);
        double *want = doubles(2 * n);
        for (int64_t i = 0; i < 2 * n; i++)
            want[i] =
                1 /
                (1 +
                 exp(-(
                     double)((float *)logits.data)[i / 2 * (d + 1) + ((int32_t *)index.data)[i]]));
        for (int64_t i = 0; i < n; i++) {
            const double by = normalise ? want[2 * i] + want[2 * i + 1] : 1;
            want[2 * i] *= 2.5 / by, want[2 * i + 1] *= 2.5 / by;
        }
        assert_int_equal(b->expert_weights(&w, &logits, &index, normalise, 2.5F), 0);
        finish(b, "expert_weights", &w, want, 1e-6, 1e-6);
    }
    free(logits.data);
    free(index.data);
}

static void check_add_weighted_rows(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), y = noise_tensor(2, 2 * n, d, 0, 2);
    struct tensor weight = noise_tensor(1, n, 0, 0, 3), index = tensor_of(DTYPE_I32, 1, n, 0, 0);
    double *want = doubles(2 * n * d);
    for (int64_t i = 0; i < 2 * n * d; i++) want[i] = ((float *)y.data)[i];
    for (int64_t i = 0; i < n; i++) ((int32_t *)index.data)[i] = (int32_t)(2 * n - 1 - 2 * i);
    for (int64_t i = 0; i < n * d; i++)
        want[((int32_t *)index.data)[i / d] * d + i % d] +=
            (double)((float *)weight.data)[i / d] * ((float *)x.data)[i];
    assert_int_equal(b->add_weighted_rows(&y, &x, &index, &weight), 0);
    finish(b, "add_weighted_rows", &y, want, 1e-6, 1e-6);
    free(x.data);
    free(weight.data);
    free(index.data);
}

static const struct check checks[] = { CHECKED_IN_OPS_ROWS(ENTRY) };

static void test_each(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) each_shape(b, checks[i].check);
}

static void test_all_listed(void **state)
{
    (void)state;
    expect_all_checked();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_all_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
