// tests/kernels/few_rows.c -- the promise of backend->few_rows: rows computed together have the
// bits of rows computed one by one, in products, in attention and in ops on rows. This promise
// makes drafted tokens (core/talk/lookahead.h) exact.
#include "tests/kernels/close.h"

// Every dtype of weights that a product accepts, except blocks.
static const enum dtype weight_dtypes[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16 };
enum { WEIGHT_DTYPES = sizeof weight_dtypes / sizeof *weight_dtypes };

static struct tensor rows_of(const struct tensor *x, int64_t from, int64_t count)
{
    struct tensor y = *x;
    y.shape[0] = count;
    y.data = (float *)x->data + from * tensor_row(x);
    return y;
}

// Random weights, or f16 scales of blocks, that are finite in each of the dtypes: only small
// exponents.
static struct tensor weights(enum dtype dtype, int64_t m, int64_t k)
{
    struct tensor w = tensor_of(dtype, 2, m, k, 0);
    uint32_t seed = 7;
    for (size_t i = 0; i < tensor_bytes(&w); i += 2) {
        const uint16_t half = (uint16_t)((int32_t)(noise(&seed) * 32767) & 0xbfff);
        memcpy((char *)w.data + i, &half, sizeof half);
    }
    return w;
}

static void check_product(const struct backend *b, bool dx, enum dtype dtype, int64_t k, int64_t m,
                          enum matmul_mode mode)
{
    const int64_t most = backend_few_rows(b), in = dx ? m : k, out = dx ? k : m;
    struct tensor w = weights(dtype, m, k), bias = noise_tensor(1, m, 0, 0, 6);
    struct tensor all = noise_tensor(2, most, in, 0, 5), y = tensor_of(DTYPE_F32, 2, most, out, 0);
    struct tensor alone = tensor_of(DTYPE_F32, 2, most, out, 0); // each row computed alone
    for (int64_t i = 0; i < most; i++) {
        struct tensor x = rows_of(&all, i, 1), to = rows_of(&alone, i, 1);
        assert_int_equal(
            dx ? b->matmul_dx(&to, &x, &w, false, mode) : b->matmul(&to, &x, &w, &bias, mode), 0);
    }
    for (int64_t n = 1; n <= most; n++) {
        struct tensor x = rows_of(&all, 0, n), to = rows_of(&y, 0, n);
        assert_int_equal(
            dx ? b->matmul_dx(&to, &x, &w, false, mode) : b->matmul(&to, &x, &w, &bias, mode), 0);
        for (int64_t i = 0; i < n; i++) {
            const struct tensor one = rows_of(&alone, i, 1);
            to = rows_of(&y, i, 1);
            if (memcmp(one.data, to.data, tensor_bytes(&one)))
                fail_msg("%s, dtype %d, %s [%d,%d]: row %d of %d differs from the row alone",
                         b->describe(), (int)dtype, dx ? "dx" : "product", (int)m, (int)k, (int)i,
                         (int)n);
        }
    }
    struct tensor *of[] = { &w, &bias, &all, &y, &alone };
    for (int i = 0; i < 5; i++) free(of[i]->data);
}

static void products(void **state)
{
    static const int64_t inner[] = { 1, 7, 16, 37, 64, 515, 2048 }, outer[] = { 1, 5, 33, 300 };
    FOR_EACH_ISA(b)
    for (int d = 0; d < WEIGHT_DTYPES; d++)
        for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
            for (size_t j = 0; j < sizeof outer / sizeof *outer; j++)
                for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++)
                    for (int dx = 0; dx < 2; dx++)
                        check_product(b, dx, weight_dtypes[d], inner[i], outer[j],
                                      (enum matmul_mode)mode);
}

// Blocks of 32 elements: rows of less than a run of 256, a little more, and several runs. Blocks of
// 256: rows of one and of several runs.
static void products_of_blocks(void **state)
{
    static const int64_t small[] = { 32, 288, 2048 }, large[] = { 256, 768, 2048 };
    static const int64_t outer[] = { 1, 5, 33, 300 };
    FOR_EACH_ISA(b)
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        for (int i = 0; i < 3; i++)
            for (size_t j = 0; j < sizeof outer / sizeof *outer; j++) {
                const int64_t k = dtype_form((enum dtype)dtype).numbers == 32 ? small[i] : large[i];
                check_product(b, false, (enum dtype)dtype, k, outer[j], MATMUL_F32);
                check_product(b, j % 2, (enum dtype)dtype, k, outer[j], MATMUL_BF16);
            }
}

// In a product with blocks, an infinite or NaN element of x makes every sum infinite or NaN.
static void not_finite(void **state)
{
    (void)state;
    static const float numbers[] = { NAN, INFINITY, -INFINITY };
    FOR_EACH_ISA(b)
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        for (int i = 0; i < 3; i++) {
            struct tensor w = weights((enum dtype)dtype, 5, 768), x = noise_tensor(2, 1, 768, 0, 5);
            struct tensor y = tensor_of(DTYPE_F32, 2, 1, 5, 0);
            ((float *)x.data)[300] = numbers[i];
            assert_int_equal(b->matmul(&y, &x, &w, NULL, MATMUL_F32), 0);
            for (int j = 0; j < 5; j++)
                if (isfinite(((float *)y.data)[j]))
                    fail_msg("%s, dtype %d: sums stay finite despite %g", b->describe(), dtype,
                             (double)numbers[i]);
            free(w.data);
            free(x.data);
            free(y.data);
        }
}

// Up to few_rows tokens after `past` keys.
static void check_attention(const struct backend *b, int64_t past, int64_t heads, int64_t kv_heads,
                            int64_t d, bool bf16)
{
    const int64_t most = backend_few_rows(b);
    struct tensor q = noise_tensor(3, most, heads, d, 1);
    struct tensor k = noise_tensor(3, past + most, kv_heads, d, 2);
    struct tensor v = noise_tensor(3, past + most, kv_heads, d, 3);
    struct tensor y = tensor_of(DTYPE_F32, 3, most, heads, d);
    struct tensor alone = tensor_of(DTYPE_F32, 3, most, heads, d), none = { 0 };
    const struct tensor k16 = bf16 ? bf16_twin(&k) : none, v16 = bf16 ? bf16_twin(&v) : none;
    const struct tensor *keys = bf16 ? &k16 : &k, *values = bf16 ? &v16 : &v;
    int32_t last[16];
    for (int64_t i = 0; i < most; i++) {
        struct tensor x = rows_of(&q, i, 1), to = rows_of(&alone, i, 1), some_k = *keys,
                      some_v = *values;
        struct tensor ends = { .dtype = DTYPE_I32, .rank = 1, .shape = { 1 }, .data = last };
        some_k.shape[0] = some_v.shape[0] = last[0] = (int32_t)(past + i + 1);
        assert_int_equal(
            b->attention(&to, &x, &some_k, &some_v, NULL, &ends, 0.3F, NULL, MATMUL_F32), 0);
    }
    for (int64_t n = 1; n <= most; n++) {
        struct tensor x = rows_of(&q, 0, n), to = rows_of(&y, 0, n), some_k = *keys,
                      some_v = *values;
        struct tensor ends = { .dtype = DTYPE_I32, .rank = 1, .shape = { n }, .data = last };
        some_k.shape[0] = some_v.shape[0] = past + n;
        for (int64_t i = 0; i < n; i++) last[i] = (int32_t)(past + i + 1);
        assert_int_equal(
            b->attention(&to, &x, &some_k, &some_v, NULL, &ends, 0.3F, NULL, MATMUL_F32), 0);
        for (int64_t i = 0; i < n; i++) {
            const struct tensor one = rows_of(&alone, i, 1);
            to = rows_of(&y, i, 1);
            if (memcmp(one.data, to.data, tensor_bytes(&one)))
                fail_msg("%s, %d/%d heads of %d after %d keys%s: row %d of %d differs from the "
                         "row alone",
                         b->describe(), (int)heads, (int)kv_heads, (int)d, (int)past,
                         bf16 ? " in bf16" : "", (int)i, (int)n);
        }
    }
    struct tensor *of[] = { &q, &k, &v, &y, &alone };
    for (int i = 0; i < 5; i++) free(of[i]->data);
    free(k16.data);
    free(v16.data);
}

static void attention(void **state)
{
    static const int64_t past[] = { 0, 1, 25, 31, 200, 2040 };
    static const int64_t heads[][3] = {
        { 4, 4, 64 }, { 8, 2, 16 }, { 7, 1, 80 }, { 32, 8, 20 }, { 16, 16, 33 }
    };
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof past / sizeof *past; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++)
            for (int bf16 = 0; bf16 < 2; bf16++)
                check_attention(b, past[i], heads[j][0], heads[j][1], heads[j][2], bf16);
}

// Ops on elements or on single rows, with whole vectors (width 64) and with a rest (width 33).
static void rows(void **state)
{
    FOR_EACH_ISA(b)
    for (int64_t width = 33; width < 80; width += 31) {
        const int64_t n = backend_few_rows(b);
        struct tensor x = noise_tensor(2, n, width, 0, 1), z = noise_tensor(2, n, width, 0, 2);
        struct tensor gain = noise_tensor(1, width, 0, 0, 3);
        struct tensor y[4], one = tensor_of(DTYPE_F32, 2, 1, width, 0);
        for (int op = 0; op < 4; op++) y[op] = tensor_of(DTYPE_F32, 2, n, width, 0);
        assert_int_equal(b->rmsnorm(&y[0], &x, &gain, 1e-5F), 0);
        assert_int_equal(b->swiglu(&y[1], &x, &z), 0);
        assert_int_equal(b->softmax(&y[2], &x, 0.3F), 0);
        assert_int_equal(b->scale(&y[3], &x, 0.3F), 0);
        for (int64_t i = 0; i < n; i++)
            for (int op = 0; op < 4; op++) {
                const struct tensor a = rows_of(&x, i, 1), c = rows_of(&z, i, 1);
                const struct tensor want = rows_of(&y[op], i, 1);
                assert_int_equal(op == 0   ? b->rmsnorm(&one, &a, &gain, 1e-5F)
                                 : op == 1 ? b->swiglu(&one, &a, &c)
                                 : op == 2 ? b->softmax(&one, &a, 0.3F)
                                           : b->scale(&one, &a, 0.3F),
                                 0);
                if (memcmp(one.data, want.data, tensor_bytes(&one)))
                    fail_msg("%s: op %d, row %d of %d, width %d", b->describe(), op, (int)i, (int)n,
                             (int)width);
            }
        for (int op = 0; op < 4; op++) free(y[op].data);
        free(x.data);
        free(z.data);
        free(gain.data);
        free(one.data);
    }
}

// The registers of AVX-512 hold eight rows at a time, others four.
static void counts(void **state)
{
    FOR_EACH_ISA(b)
    assert_int_equal(backend_few_rows(b), strstr(b->describe(), "avx512") ? 8 : 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(counts),
                                        cmocka_unit_test(products),
                                        cmocka_unit_test(products_of_blocks),
                                        cmocka_unit_test(not_finite),
                                        cmocka_unit_test(attention),
                                        cmocka_unit_test(rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
