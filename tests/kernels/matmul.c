// tests/kernels/matmul.c -- kernels/matmul.c against sums in double, for every dtype of weights.
#include <omp.h>

#include "kernels/blocks.h"
#include "tests/kernels/close.h"

// Sets the f16 scales d and m of blocks so that elements are at most 2; computes the elements'
// values.
static void scale_blocks(struct tensor *t, double *value)
{
    const struct dtype_form form = dtype_form(t->dtype);
    const int64_t n = tensor_count(t);
    uint8_t *bytes = t->data;
    for (int64_t i = 0; i < n / form.numbers; i++, bytes += form.bytes) {
        const int d = t->dtype == DTYPE_Q2_K   ? offsetof(struct block_q2_k, d)
                      : t->dtype == DTYPE_Q3_K ? offsetof(struct block_q3_k, d)
                      : t->dtype == DTYPE_Q6_K ? offsetof(struct block_q6_k, d)
                                               : 0;
        const uint8_t upper =
            form.numbers == 32 || t->dtype == DTYPE_Q2_K || t->dtype == DTYPE_Q3_K ? 0x21 : 0x0d;
        bytes[d + 1] = (uint8_t)(i % 5 ? upper : upper | 0x80); // sometimes negative
        if (d == 0 || t->dtype == DTYPE_Q2_K) bytes[d + 3] = upper;
    }
    float *wide = malloc((size_t)n * sizeof *wide);
    blocks_unpack(wide, t->data, t->dtype, n);
    for (int64_t i = 0; i < n; i++) value[i] = wide[i];
    free(wide);
}

// Fills blocks with random bits, except for their f16 scales.
static void fill_blocks(struct tensor *t, double *value, uint32_t seed)
{
    uint8_t *bytes = t->data;
    for (size_t i = 0; i < tensor_bytes(t); i++) bytes[i] = (uint8_t)(255 * fabsf(noise(&seed)));
    scale_blocks(t, value);
}

// A weight matrix [m,k] in its dtype at an address that is aligned to 2 bytes only, and its values.
struct weights {
    struct tensor t;
    char *memory;
    double *value;
};

static struct weights weights_new(enum dtype dtype, int64_t m, int64_t k, uint32_t seed)
{
    struct weights w = { .t = { .dtype = dtype, .rank = 2, .shape = { m, k } } };
    w.memory = malloc(tensor_bytes(&w.t) + 2);
    w.value = doubles(m * k);
    w.t.data = w.memory + 2;
    if (dtype_in_blocks(dtype)) {
        fill_blocks(&w.t, w.value, seed);
        return w;
    }
    for (int64_t i = 0; i < m * k; i++) {
        float f = noise(&seed);
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        // any f16 in -2..2: the exponent's upper bit is cleared
        uint16_t h = dtype == DTYPE_BF16 ? (uint16_t)(u >> 16) : (uint16_t)(u >> 9 & 0xbfff);
        w.value[i] = dtype == DTYPE_F32    ? (double)f
                     : dtype == DTYPE_BF16 ? bf16_value(h)
                                           : half_value(h);
        memcpy((char *)w.t.data + (size_t)i * dtype_size(dtype),
               dtype == DTYPE_F32 ? (void *)&f : &h, dtype_size(dtype));
    }
    return w;
}

static void weights_free(struct weights *w)
{
    free(w->memory);
    free(w->value);
}

static double *product(const struct tensor *x, const struct weights *w, const float *bias)
{
    int64_t n = x->shape[0], k = x->shape[1], m = w->t.shape[0];
    double *y = doubles(n * m);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            double s = bias ? bias[j] : 0;
            for (int64_t e = 0; e < k; e++)
                s += (double)((float *)x->data)[i * k + e] * w->value[j * k + e];
            y[i * m + j] = s;
        }
    return y;
}

// Checks a product under each instruction set.
static void check(enum dtype dtype, int64_t n, int64_t k, int64_t m, bool with_bias,
                  enum matmul_mode mode)
{
    struct tensor x = noise_tensor(2, n, k, 0, 5), bias = noise_tensor(1, m, 0, 0, 6);
    struct weights w = weights_new(dtype, m, k, 7);
    double *want = product(&x, &w, with_bias ? bias.data : NULL);
    FOR_EACH_ISA(b)
    {
        struct tensor y = tensor_of(DTYPE_F32, 2, n, m, 0);
        char what[128];
        snprintf(what, sizeof what, "%s, %s: [%d,%d] x [%d,%d]", b->describe(),
                 dtype_form(dtype).name, (int)n, (int)k, (int)m, (int)k);
        assert_int_equal(b->matmul(&y, &x, &w.t, with_bias ? &bias : NULL, mode), 0);
        const double each = mode == MATMUL_BF16                            ? 8e-3
                            : dtype_in_blocks(dtype) && test_in_16_bits(b) ? 0x1p-15
                                                                           : 1e-6;
        close_check(what, y.data, want, n * m, sqrt((double)k) * each, 2e-6);
        free(y.data);
    }
    free(x.data);
    free(bias.data);
    free(want);
    weights_free(&w);
}

static void test_shapes(void **state)
{
    (void)state;
    static const int64_t rows[] = { 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 33 };
    static const int64_t inner[] = { 1, 7, 16, 37, 64, 515 }, outer[] = { 1, 5, 32, 33, 67 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof inner / sizeof *inner; j++)
            for (size_t k = 0; k < sizeof outer / sizeof *outer; k++)
                for (int bias = 0; bias < 2; bias++) {
                    check(DTYPE_F32, rows[i], inner[j], outer[k], bias, MATMUL_F32);
                    check(DTYPE_F16, rows[i], inner[j], outer[k], bias, MATMUL_F32);
                    check(DTYPE_BF16, rows[i], inner[j], outer[k], bias, MATMUL_F32);
                    check(DTYPE_BF16, rows[i], inner[j], outer[k], bias, MATMUL_BF16);
                    check(DTYPE_F32, rows[i], inner[j], outer[k], bias, MATMUL_BF16);
                    check(DTYPE_F16, rows[i], inner[j], outer[k], bias, MATMUL_BF16);
                }
}

// Quantised blocks: rows of whole runs of 256 elements, shorter rows, and rows left over when
// several are read at a time.
static void test_blocks(void **state)
{
    (void)state;
    static const int64_t rows[] = { 1, 2, 3, 4, 5, 8, 9, 33 }, outer[] = { 1, 5, 33, 67 };
    static const int64_t small[] = { 32, 96, 288, 608 }, large[] = { 256, 768 };
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t j = 0; j < sizeof outer / sizeof *outer; j++) {
                const bool few = dtype_form((enum dtype)dtype).numbers == 32;
                const int64_t *inner = few ? small : large;
                for (int k = 0; k < (few ? 4 : 2); k++) {
                    check((enum dtype)dtype, rows[i], inner[k], outer[j], k % 2, MATMUL_F32);
                    check((enum dtype)dtype, rows[i], inner[k], outer[j], j % 2, MATMUL_BF16);
                }
            }
}

// Rows of the largest values: all with one sign, with alternating signs, and every 32nd one
// among small values.
static void fill_extreme(struct tensor *x, int kind)
{
    for (int64_t i = 0; i < tensor_count(x); i++) {
        float *to = (float *)x->data + i;
        const float most = 0x1.fffffep-1f;
        *to = kind == 0   ? most
              : kind == 1 ? -most
              : kind == 2 ? (i % 2 ? -most : most)
                          : (i % 32 == 9 ? 1000 : *to);
    }
}

// Sums of the largest integers, which would saturate if they had too few bits. No element of x may
// move by more than 2^-21 of the largest of its 32, or 2^-16 with 16-bit integers (the tolerance
// includes as much again for the sums).
static void check_extreme(enum dtype dtype, uint8_t byte, int64_t n, int kind)
{
    enum { K = 768, M = 5 };
    struct tensor x = noise_tensor(2, n, K, 0, 5);
    struct weights w = weights_new(dtype, M, K, 7);
    memset(w.t.data, byte, tensor_bytes(&w.t));
    scale_blocks(&w.t, w.value);
    fill_extreme(&x, kind);
    double *want = product(&x, &w, NULL), most[M] = { 0 };
    for (int64_t i = 0; i < M; i++)
        for (int64_t e = 0; e < K; e++) most[i] += fabs(w.value[i * K + e]);
    FOR_EACH_ISA(b)
    {
        if (strstr(b->describe(), "base")) continue; // `base` multiplies floats
        struct tensor y = tensor_of(DTYPE_F32, 2, n, M, 0);
        const double each = (kind == 3 ? 1000 : 1) * (test_in_16_bits(b) ? 0x1p-15 : 0x1p-20);
        assert_int_equal(b->matmul(&y, &x, &w.t, NULL, MATMUL_F32), 0);
        for (int64_t i = 0; i < n * M; i++)
            if (!(fabs(((float *)y.data)[i] - want[i]) <= most[i % M] * each))
                fail_msg("%s, %s, bytes 0x%02x, numbers %d, %d rows: %.9g, should be %.9g",
                         b->describe(), dtype_form(dtype).name, byte, kind, (int)n,
                         (double)((float *)y.data)[i], want[i]);
        free(y.data);
    }
    free(x.data);
    free(want);
    weights_free(&w);
}

static void test_blocks_extreme(void **state)
{
    (void)state;
    static const uint8_t byte[] = { 0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0 };
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof byte; i++)
            for (int64_t n = 1; n <= 4; n++)
                for (int kind = 0; kind < 4; kind++)
                    check_extreme((enum dtype)dtype, byte[i], n, kind);
}

// In a bf16 product of more than few_rows rows, the first `few` of `many` rows have the bits of a
// product of these rows alone.
static void check_alone(const struct backend *b, int64_t few, int64_t many, int64_t k, int64_t m)
{
    struct tensor x = noise_tensor(2, many, k, 0, 5), y = tensor_of(DTYPE_F32, 2, many, m, 0);
    struct tensor some = x, alone = tensor_of(DTYPE_F32, 2, few, m, 0);
    struct tensor bias = noise_tensor(1, m, 0, 0, 6);
    struct weights w = weights_new(DTYPE_BF16, m, k, 7);
    some.shape[0] = few;
    assert_int_equal(b->matmul(&y, &x, &w.t, &bias, MATMUL_BF16), 0);
    assert_int_equal(b->matmul(&alone, &some, &w.t, &bias, MATMUL_BF16), 0);
    if (memcmp(alone.data, y.data, tensor_bytes(&alone)))
        fail_msg("%s: %d rows by [%d,%d] differ from the same rows among %d", b->describe(),
                 (int)few, (int)m, (int)k, (int)many);
    free(x.data);
    free(y.data);
    free(alone.data);
    free(bias.data);
    weights_free(&w);
}

static void test_many_rows(void **state)
{
    (void)state;
    static const int64_t few[] = { 9, 16, 17, 40, 64, 65, 100 };
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        check_alone(b, few[i], 300, 1024, 160);
        check_alone(b, few[i], 300, 1056, 128);
    }
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        check(DTYPE_BF16, few[i], 1024, 160, i % 2, MATMUL_BF16);
        check(DTYPE_BF16, few[i], 64, 272, i % 2, MATMUL_BF16);
    }
}

// With AMX, f32 weights are packed and bf16 weights are read in place: the same values give the
// same bits. Tests blocks of rows, pieces along K, and partial tiles.
static void test_packed_weights(void **state)
{
    (void)state;
    static const int64_t shape[][3] = {
        { 9, 40, 128 },     { 31, 2064, 144 },  { 100, 64, 272 },
        { 300, 4880, 128 }, { 700, 1100, 304 }, { 1700, 96, 1408 }
    };
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int64_t n = shape[i][0], k = shape[i][1], m = shape[i][2];
        struct weights w = weights_new(DTYPE_BF16, m, k, 7);
        struct tensor x = noise_tensor(2, n, k, 0, 5), bias = noise_tensor(1, m, 0, 0, 6);
        struct tensor wide = tensor_of(DTYPE_F32, 2, m, k, 0);
        struct tensor y = tensor_of(DTYPE_F32, 2, n, m, 0), want = tensor_of(DTYPE_F32, 2, n, m, 0);
        for (int64_t j = 0; j < m * k; j++) ((float *)wide.data)[j] = (float)w.value[j];
        assert_int_equal(b->matmul(&y, &x, &w.t, &bias, MATMUL_BF16), 0);
        assert_int_equal(b->matmul(&want, &x, &wide, &bias, MATMUL_BF16), 0);
        if (memcmp(y.data, want.data, tensor_bytes(&y)))
            fail_msg("%s: [%d,%d] x [%d,%d]: bits differ", b->describe(), (int)n, (int)k, (int)m,
                     (int)k);
        free(x.data);
        free(bias.data);
        free(wide.data);
        free(y.data);
        free(want.data);
        weights_free(&w);
    }
}

// Compares dx, added to and overwritten, and dw, added to, with sums in double, under each
// instruction set.
static void check_backward(enum dtype dtype, int64_t n, int64_t k, int64_t m, enum matmul_mode mode)
{
    struct tensor x = noise_tensor(2, n, k, 0, 5), dy = noise_tensor(2, n, m, 0, 6);
    struct weights w = weights_new(dtype, m, k, 7);
    double *want_x = doubles(n * k), *want_w = doubles(m * k);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            for (int64_t e = 0; e < k; e++) {
                double d = ((float *)dy.data)[i * m + j];
                want_x[i * k + e] += d * w.value[j * k + e];
                want_w[j * k + e] += d * (double)((float *)x.data)[i * k + e];
            }
    double *sum_x = doubles(n * k); // of dx and what it is added to
    struct tensor held = noise_tensor(2, n, k, 0, 8), held_w = noise_tensor(2, m, k, 0, 9);
    for (int64_t i = 0; i < n * k; i++) sum_x[i] = want_x[i] + (double)((float *)held.data)[i];
    for (int64_t i = 0; i < m * k; i++) want_w[i] += (double)((float *)held_w.data)[i];
    const double size = mode == MATMUL_BF16 ? 8e-3 : 1e-6;
    FOR_EACH_ISA(b)
    {
        struct tensor dx = noise_tensor(2, n, k, 0, 8), dw = noise_tensor(2, m, k, 0, 9);
        assert_int_equal(b->matmul_dx(&dx, &dy, &w.t, true, mode), 0);
        close_check("dx", dx.data, sum_x, n * k, sqrt((double)m) * size, 2e-6);
        memset(dx.data, 0xff, tensor_bytes(&dx));
        assert_int_equal(b->matmul_dx(&dx, &dy, &w.t, false, mode), 0);
        close_check("dx written", dx.data, want_x, n * k, sqrt((double)m) * size, 2e-6);
        assert_int_equal(b->matmul_dw(&dw, NULL, &dy, &x, mode), 0);
        close_check("dw", dw.data, want_w, m * k, sqrt((double)n) * size, 2e-6);
        free(dx.data);
        free(dw.data);
    }
    struct tensor *all[] = { &x, &dy, &held, &held_w };
    for (int i = 0; i < 4; i++) free(all[i]->data);
    free(sum_x);
    free(want_x);
    free(want_w);
    weights_free(&w);
}

static void test_backward(void **state)
{
    (void)state;
    static const int64_t rows[] = { 1, 2, 9, 13, 33, 1030 }, inner[] = { 1, 16, 37, 68 };
    static const int64_t outer[] = { 1, 6, 33, 67 };
    for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++)
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                for (size_t j = 0; j < sizeof inner / sizeof *inner; j++)
                    for (size_t k = 0; k < sizeof outer / sizeof *outer; k++)
                        check_backward((enum dtype)dtype, rows[i], inner[j], outer[k],
                                       (enum matmul_mode)mode);
            check_backward((enum dtype)dtype, 20, 30, 2100, (enum matmul_mode)mode);
        }
}

// dx through quantised weights, whose columns are divided into panels, which may be smaller than
// blocks.
static void test_backward_blocks(void **state)
{
    (void)state;
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++) {
            const int64_t k = dtype_form((enum dtype)dtype).numbers == 32 ? 96 : 512;
            check_backward((enum dtype)dtype, 1, k, 33, (enum matmul_mode)mode);
            check_backward((enum dtype)dtype, 13, k, 67, (enum matmul_mode)mode);
            check_backward((enum dtype)dtype, 5, k, 1100, (enum matmul_mode)mode);
        }
}

// Large enough for several threads, groups of panels and pieces along K.
static void test_large(void **state)
{
    (void)state;
    check(DTYPE_BF16, 50, 1100, 700, true, MATMUL_F32);
    check(DTYPE_BF16, 50, 1100, 700, true, MATMUL_BF16);
    check(DTYPE_BF16, 790, 530, 100, true, MATMUL_BF16);
    check(DTYPE_F16, 1, 1100, 700, true, MATMUL_F32);
}

static void test_no_rows(void **state)
{
    (void)state;
    check(DTYPE_BF16, 0, 16, 16, false, MATMUL_F32);
}

// In bf16 mode both factors are rounded, which changes nothing if the values are bf16 already.
static void test_bf16_exact(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    {
        struct weights w = weights_new(DTYPE_BF16, 40, 64, 3);
        struct tensor x = noise_tensor(2, 20, 64, 0, 4), y = tensor_of(DTYPE_F32, 2, 20, 40, 0);
        for (int64_t i = 0; i < 20 * 64; i++) {
            uint32_t u;
            memcpy(&u, (float *)x.data + i, sizeof u);
            u &= 0xffff0000;
            memcpy((float *)x.data + i, &u, sizeof u);
        }
        double *want = product(&x, &w, NULL);
        assert_int_equal(b->matmul(&y, &x, &w.t, NULL, MATMUL_BF16), 0);
        close_check("bf16 mode on bf16 numbers", y.data, want, 20 * 40, 1e-5, 1e-5);
        free(x.data);
        free(y.data);
        free(want);
        weights_free(&w);
    }
}

// y = x w^T of the first n rows of x with the given number of threads.
static struct tensor run(const struct backend *b, const struct weights *w, struct tensor x,
                         int64_t n, int threads, enum matmul_mode mode)
{
    struct tensor y = tensor_of(DTYPE_F32, 2, n, w->t.shape[0], 0);
    x.shape[0] = n;
    b->set_threads(threads);
    assert_int_equal(b->matmul(&y, &x, &w->t, NULL, mode), 0);
    b->set_threads(0);
    return y;
}

// The bits do not depend on the number of threads. Nor do they depend on the number of rows, as
// long as all counts are few rows or all are many.
static void check_same_bits(const struct backend *b, const struct weights *w,
                            const struct tensor *x)
{
    static const int64_t pairs[][2] = { { 1, 1 },  { 1, 2 },   { 1, 3 },   { 1, 4 },
                                        { 9, 40 }, { 17, 40 }, { 40, 40 }, { 1, 5 },
                                        { 1, 6 },  { 1, 7 },   { 1, 8 } };
    // The last four pairs count as few rows only with the registers of AVX-512.
    const size_t n = sizeof pairs / sizeof *pairs - (strstr(b->describe(), "avx512") ? 0 : 4);
    for (size_t i = 0; i < n; i++)
        for (int mode = 0; mode < 2; mode++) {
            struct tensor few = run(b, w, *x, pairs[i][0], 1, (enum matmul_mode)mode);
            struct tensor many = run(b, w, *x, pairs[i][1], 2 + (int)i % 2, (enum matmul_mode)mode);
            assert_memory_equal(few.data, many.data, tensor_bytes(&few));
            free(few.data);
            free(many.data);
        }
}

static void test_same_bits(void **state)
{
    (void)state;
    for (int dtype = DTYPE_BF16; dtype < DTYPE_COUNT; dtype++) {
        if (dtype == DTYPE_I32 || dtype == DTYPE_U8) continue;
        const int64_t k = dtype_in_blocks((enum dtype)dtype) ? 768 : 700;
        struct weights w = weights_new((enum dtype)dtype, 300, k, 1);
        struct tensor x = noise_tensor(2, 40, k, 0, 2);
        FOR_EACH_ISA(b) check_same_bits(b, &w, &x);
        free(x.data);
        weights_free(&w);
    }
}

// Rows from..from+n of y = x w^T, or with `transposed` of y = x w.
static void rows_of(const struct backend *b, struct tensor *y, const struct tensor *x,
                    const struct tensor *w, bool transposed, int64_t from, int64_t n)
{
    struct tensor to = *y, rows = *x;
    to.data = (float *)y->data + from * tensor_row(y);
    rows.data = (float *)x->data + from * tensor_row(x);
    to.shape[0] = rows.shape[0] = n;
    if (transposed)
        assert_int_equal(b->matmul_dx(&to, &rows, w, false, MATMUL_BF16), 0);
    else
        assert_int_equal(b->matmul(&to, &rows, w, NULL, MATMUL_BF16), 0);
}

// With so many rows, the result exceeds the caches, and weights serve several blocks of rows. The
// bits are those of a hundred rows at a time.
static void test_tall(void **state)
{
    (void)state;
    enum { ROWS = 1700, SOME = 100, COLUMNS = 1408, INNER = 768 };
    const struct backend *b = backend_cpu();
    for (int transposed = 0; transposed < 2; transposed++)
        for (int dtype = DTYPE_BF16; dtype <= DTYPE_Q8_0; dtype++) {
            if (dtype == DTYPE_I32 || dtype == DTYPE_U8) continue;
            struct weights w = weights_new((enum dtype)dtype, transposed ? INNER : COLUMNS,
                                           transposed ? COLUMNS : INNER, 1);
            struct tensor x = noise_tensor(2, ROWS, INNER, 0, 2);
            struct tensor want = tensor_of(DTYPE_F32, 2, ROWS, COLUMNS, 0), y = want;
            y.data = b->alloc(tensor_bytes(&y)); // aligned to cache lines
            for (int64_t i = 0; i < ROWS; i += SOME)
                rows_of(b, &want, &x, &w.t, transposed, i, SOME);
            for (int threads = 1; threads <= 2; threads++) {
                b->set_threads(threads);
                memset(y.data, 0x7f, tensor_bytes(&y));
                rows_of(b, &y, &x, &w.t, transposed, 0, ROWS);
                b->set_threads(0);
                assert_memory_equal(y.data, want.data, tensor_bytes(&y));
            }
            b->release(y.data);
            free(want.data);
            free(x.data);
            weights_free(&w);
        }
}

// If fewer threads run than requested (here the inner parallel region gets only one), everything is
// still computed.
static void test_missing_threads(void **state)
{
    (void)state;
    struct weights w = weights_new(DTYPE_BF16, 300, 700, 1);
    struct tensor x = noise_tensor(2, 40, 700, 0, 2);
    FOR_EACH_ISA(b)
    {
        struct tensor want = run(b, &w, x, 1, 1, MATMUL_F32), y = { 0 };
        const int levels = omp_get_max_active_levels();
        omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
#pragma omp single
        y = run(b, &w, x, 1, 3, MATMUL_F32);
        omp_set_max_active_levels(levels);
        assert_memory_equal(y.data, want.data, tensor_bytes(&y));
        free(y.data);
        free(want.data);
    }
    free(x.data);
    weights_free(&w);
}

// Infinity or NaN in a weight affects exactly the result column of its row; infinity in x affects
// exactly the result row.
static void test_special(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++)
        for (int64_t n = 1; n < 40; n += 19) {
            struct tensor x = noise_tensor(2, n, 50, 0, 8), y = tensor_of(DTYPE_F32, 2, n, 40, 0);
            struct weights w = weights_new(DTYPE_BF16, 40, 50, 9);
            const uint16_t nan = 0x7fc0, infinity = 0x7f80;
            memcpy((char *)w.t.data + 2 * (7 * 50 + 49), &nan, 2);
            memcpy((char *)w.t.data + 2 * (9 * 50 + 49), &infinity, 2);
            ((float *)x.data)[(n - 1) * 50 + 3] = INFINITY;
            assert_int_equal(b->matmul(&y, &x, &w.t, NULL, (enum matmul_mode)mode), 0);
            for (int64_t i = 0; i < n * 40; i++) {
                const float got = ((float *)y.data)[i];
                assert_int_equal(isnan(got), i % 40 == 7 || (i == (n - 1) * 40 + 9 && isnan(got)));
                assert_int_equal(isfinite(got), i % 40 != 7 && i % 40 != 9 && i / 40 != n - 1);
            }
            free(x.data);
            free(y.data);
            weights_free(&w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),          cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_packed_weights),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_backward),        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_bf16_exact),      cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_missing_threads), cmocka_unit_test(test_special),
        cmocka_unit_test(test_blocks),          cmocka_unit_test(test_blocks_extreme),
        cmocka_unit_test(test_backward_blocks), cmocka_unit_test(test_tall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
