// tests/kernels/rows_products.c -- several products of the same rows (kernels/rows_products.c), and
// the rotation of the last part of each head (kernels/rope.c), bit for bit against their ops, for
// up to nine threads.
#include "tests/kernels/close.h"

enum { PRODUCTS = 3, GAP = 16, BEFORE = 7 };

// x [n,K]; w[i] [M[i],K].
struct case_of {
    int64_t n, K, M[PRODUCTS];
    struct tensor x, gain, w[PRODUCTS], bias[PRODUCTS];
};

static struct case_of case_new(int64_t n, int64_t K, int64_t M)
{
    struct case_of c = { .n = n, .K = K, .M = { M, 16, 2 * M } };
    c.x = noise_tensor(2, n, K, 0, 1);
    c.gain = noise_tensor(1, K, 0, 0, 2);
    for (int i = 0; i < PRODUCTS; i++) {
        struct tensor wide = noise_tensor(2, c.M[i], K, 0, 3 + (uint32_t)i);
        c.w[i] = bf16_twin(&wide);
        c.bias[i] = noise_tensor(1, c.M[i], 0, 0, 6 + (uint32_t)i);
        free(wide.data);
    }
    return c;
}

static void case_free(struct case_of *c)
{
    free(c->x.data);
    free(c->gain.data);
    for (int i = 0; i < PRODUCTS; i++) {
        free(c->w[i].data);
        free(c->bias[i].data);
    }
}

// The rows of y[i] have gaps of `gap` elements, which must not change.
static void check(const struct backend *b, const struct case_of *c, bool norm, int64_t gap,
                  int threads)
{
    struct tensor x = tensor_of(DTYPE_F32, 2, c->n, c->K, 0);
    struct rows_product product[PRODUCTS];
    struct tensor y[PRODUCTS];
    if (norm)
        assert_int_equal(b->rmsnorm(&x, &c->x, &c->gain, 1e-5f), 0);
    else
        memcpy(x.data, c->x.data, tensor_bytes(&x));
    for (int i = 0; i < PRODUCTS; i++) {
        y[i] = tensor_of(DTYPE_F32, 2, c->n, c->M[i] + gap, 0);
        for (int64_t k = 0; k < tensor_count(&y[i]); k++) ((float *)y[i].data)[k] = BEFORE;
        product[i] =
            (struct rows_product){ &c->w[i], i ? &c->bias[i] : NULL, y[i].data, c->M[i] + gap };
    }
    const struct rows_products p = { .x = c->x.data,
                                     .gain = norm ? c->gain.data : NULL,
                                     .eps = 1e-5f,
                                     .rows = c->n,
                                     .k = c->K,
                                     .product = product,
                                     .count = PRODUCTS,
                                     .mode = MATMUL_BF16 };
    b->set_threads(threads);
    assert_int_equal(b->rows_products(&p), 0);
    b->set_threads(0);
    for (int i = 0; i < PRODUCTS; i++) {
        struct tensor want = tensor_of(DTYPE_F32, 2, c->n, c->M[i], 0);
        assert_int_equal(b->matmul(&want, &x, &c->w[i], product[i].bias, MATMUL_BF16), 0);
        for (int64_t r = 0; r < c->n; r++) {
            const float *row = (float *)y[i].data + r * (c->M[i] + gap);
            if (memcmp(row, (float *)want.data + r * c->M[i], (size_t)c->M[i] * sizeof *row))
                fail_msg("%s: row %d of %d, product %d, norm %d, %d threads: bits differ",
                         b->describe(), (int)r, (int)c->n, i, norm, threads);
            for (int64_t k = c->M[i]; k < c->M[i] + gap; k++) assert_true(row[k] == BEFORE);
        }
        free(want.data);
        free(y[i].data);
    }
    free(x.data);
}

// Rows that do not fill a tile, several blocks of rows, several pieces, a partial last step, odd
// lengths, more threads than tiles of columns, and results that exceed the caches.
static void test_same_bits(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        { 9, 32, 64 },      { 100, 72, 160 }, { 47, 2080, 128 }, { 700, 1152, 48 },
        { 1500, 64, 1536 }, { 17, 33, 16 },   { 33, 1, 272 },    { 16, 2081, 48 },
    };
    FOR_EACH_ISA(b)
    for (size_t i = 0; b->rows_products && i < sizeof shapes / sizeof *shapes; i++) {
        struct case_of c = case_new(shapes[i][0], shapes[i][1], shapes[i][2]);
        for (int threads = 1; threads <= 9; threads += threads < 3 ? 1 : 6) {
            check(b, &c, false, 0, threads);
            check(b, &c, true, GAP, threads);
        }
        case_free(&c);
    }
}

// Unsupported cases are refused, so that the ops compute them, and nothing is written.
static void test_refusals(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int i = 0; b->rows_products && i < 4; i++) {
        struct case_of c = case_new(i == 0 ? 8 : 40, 64, i == 1 ? 24 : 32);
        struct tensor y = tensor_of(DTYPE_F32, 2, c.n, 3 * c.M[0], 0), old = y, wide = c.w[0];
        if (i == 2) wide = noise_tensor(2, c.M[0], c.K, 0, 1);
        old.data = malloc(tensor_bytes(&y));
        memcpy(old.data, y.data, tensor_bytes(&y));
        const struct rows_product one = { &wide, NULL, y.data, c.M[0] };
        const struct rows_products p = { .x = c.x.data,
                                         .rows = c.n,
                                         .k = c.K,
                                         .product = &one,
                                         .count = 1,
                                         .mode = i == 3 ? MATMUL_F32 : MATMUL_BF16 };
        assert_int_equal(b->rows_products(&p), FUSED_NOT);
        assert_memory_equal(y.data, old.data, tensor_bytes(&y));
        free(y.data);
        free(old.data);
        if (i == 2) free(wide.data);
        case_free(&c);
    }
}

// --- rotation ------------------------------------------------------------------------------------

// The ops' result: put_columns separates the pairs, rope rotates them, and the result follows the
// elements that are not rotated.
static struct tensor turned_by_ops(const struct backend *b, const struct tensor *x, int64_t first,
                                   const struct tensor *cos, const struct tensor *sin)
{
    const int64_t n = x->shape[0], H = x->shape[1], d = x->shape[2], rope = d - first;
    struct tensor flat = *x, tail = tensor_of(DTYPE_F32, 2, n * H, rope, 0);
    struct tensor y = tensor_of(DTYPE_F32, 2, n * H, d, 0);
    flat.rank = 2, flat.shape[0] = n * H, flat.shape[1] = d;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            b->put_columns(&tail, i * rope / 2, &flat, (struct columns){ first + i, 2, rope / 2 }),
            0);
    struct tensor heads = tail;
    heads.rank = 3, heads.shape[0] = n, heads.shape[1] = H, heads.shape[2] = rope;
    assert_int_equal(b->rope(&heads, cos, sin), 0);
    assert_int_equal(b->put_columns(&y, 0, &flat, (struct columns){ 0, 1, first }), 0);
    assert_int_equal(b->put_columns(&y, first, &tail, (struct columns){ 0, 1, rope }), 0);
    free(tail.data);
    return y;
}

static void test_turns(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = { { 5, 3, 16, 24 }, { 40, 16, 128, 192 }, { 7, 2, 0, 10 } };
    FOR_EACH_ISA(b)
    for (size_t i = 0; b->rope_tail && i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i], half = (s[3] - s[2]) / 2;
        struct tensor x = noise_tensor(3, s[0], s[1], s[3], 1);
        struct tensor cos = noise_tensor(2, s[0], half, 0, 2);
        struct tensor sin = noise_tensor(2, s[0], half, 0, 3);
        struct tensor want = turned_by_ops(b, &x, s[2], &cos, &sin);
        assert_int_equal(b->rope_tail(&x, s[2], &cos, &sin), 0);
        assert_memory_equal(x.data, want.data, tensor_bytes(&x));
        free(x.data);
        free(cos.data);
        free(sin.data);
        free(want.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
