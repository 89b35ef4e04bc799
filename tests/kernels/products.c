// tests/kernels/products.c -- kernels/products.h: the bits of the ops; sums, GELU and SwiGLU
// against doubles. Tests nothing if no instruction set has these products.
#include "kernels/products.h"

#include "kernels/vec.h"
#include "tests/kernels/close.h"

// Rows, width of x, width of the result: partial last tiles, several pieces along K and blocks of
// rows, few columns, an odd number of tiles of columns.
static const int64_t shapes[][3] = { { 9, 37, 33 },     { 17, 64, 16 },    { 100, 700, 130 },
                                     { 800, 72, 176 },  { 33, 3000, 528 }, { 4200, 33, 50 },
                                     { 4130, 1500, 48 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct data {
    int64_t N, K, M;
    struct tensor x, gain, shift, w, bias, up, up_bias, scale, y; // all f32
    struct tensor w16;                                            // w as bf16
};

static struct data data_new(const int64_t *shape)
{
    const int64_t N = shape[0], K = shape[1], M = shape[2];
    struct data d = { .N = N,
                      .K = K,
                      .M = M,
                      .x = noise_tensor(2, N, K, 0, 1),
                      .gain = noise_tensor(1, K, 0, 0, 2),
                      .shift = noise_tensor(1, K, 0, 0, 3),
                      .w = noise_tensor(2, M, K, 0, 4),
                      .bias = noise_tensor(1, M, 0, 0, 5),
                      .up = noise_tensor(2, M, K, 0, 6),
                      .up_bias = noise_tensor(1, M, 0, 0, 7),
                      .scale = noise_tensor(1, M, 0, 0, 8),
                      .y = noise_tensor(2, N, M, 0, 9) };
    d.w16 = bf16_twin(&d.w);
    return d;
}

static void data_free(struct data *d)
{
    struct tensor *const all[] = { &d->x,  &d->gain,    &d->shift, &d->w, &d->bias,
                                   &d->up, &d->up_bias, &d->scale, &d->y, &d->w16 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

static struct packed_rows packed_new(const struct packed_ops *d, int64_t rows, int64_t k)
{
    const size_t size = d->bytes(rows, k);
    struct packed_rows p = { .rows = rows, .k = k, .data = aligned_alloc(64, size) };
    memset(p.data, 0x7f, size);
    return p;
}

static struct packed_rows pack(const struct packed_ops *d, const struct tensor *x,
                               const struct tensor *gain, const struct tensor *bias)
{
    struct packed_rows to = packed_new(d, x->shape[0], x->shape[1]);
    const struct row_packing p = { .to = to, .x = x, .gain = gain, .bias = bias, .eps = 1e-5f };
    assert_int_equal(d->pack(&p), 0);
    return to;
}

static void check_bits(const char *what, int s, const struct tensor *a, const struct tensor *b)
{
    if (memcmp(a->data, b->data, tensor_bytes(b)) != 0)
        fail_msg("%s, shape %d: bits differ", what, s);
}

// y = norm(x) w^T + bias.
static void check_norm(const struct backend *b, struct data *d, int s, bool gain, bool shift,
                       const struct tensor *w)
{
    struct tensor x = noise_tensor(2, d->N, d->K, 0, 1);
    struct tensor want = tensor_of(DTYPE_F32, 2, d->N, d->M, 0), got = want;
    got.data = malloc(tensor_bytes(&got));
    if (gain && shift) assert_int_equal(b->layernorm(&x, &x, &d->gain, &d->shift, 1e-5f), 0);
    if (gain && !shift) assert_int_equal(b->rmsnorm(&x, &x, &d->gain, 1e-5f), 0);
    assert_int_equal(b->matmul(&want, &x, w, &d->bias, MATMUL_BF16), 0);
    for (int threads = 1; threads <= 3; threads++) {
        b->set_threads(threads);
        struct packed_rows p =
            pack(b->products, &d->x, gain ? &d->gain : NULL, shift ? &d->shift : NULL);
        const struct packed_product product = { .x = p, .w = w, .bias = &d->bias, .y = &got };
        assert_int_equal(b->products->run(&product), 0);
        check_bits(w->dtype == DTYPE_BF16 ? "bf16" : "f32", s, &got, &want);
        free(p.data);
    }
    b->set_threads(0);
    free(x.data);
    free(want.data);
    free(got.data);
}

static void test_norms(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES && b->products; s++) {
        struct data d = data_new(shapes[s]);
        assert_true(b->products->takes(d.N, MATMUL_BF16));
        assert_false(b->products->takes(d.N, MATMUL_F32));
        assert_false(b->products->takes(1, MATMUL_BF16));
        for (int i = 0; i < 3; i++) check_norm(b, &d, s, i > 0, i > 1, i % 2 ? &d.w : &d.w16);
        data_free(&d);
    }
}

// A result stored as bf16 equals the rounded f32 result.
static void test_rounded(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES && b->products; s++) {
        struct data d = data_new(shapes[s]);
        struct tensor want = tensor_of(DTYPE_F32, 2, d.N, d.M, 0), got = want;
        struct tensor y = tensor_of(DTYPE_BF16, 2, d.N, d.M, 0);
        got.data = malloc(tensor_bytes(&got));
        struct packed_rows p = pack(b->products, &d.x, NULL, NULL);
        struct packed_product product = { .x = p, .w = &d.w16, .bias = &d.bias, .y = &want };
        assert_int_equal(b->products->run(&product), 0);
        product.y = &y;
        assert_int_equal(b->products->run(&product), 0);
        vec_to_bf16(got.data, want.data, d.N * d.M);
        memcpy(want.data, got.data, tensor_bytes(&y));
        check_bits("rounded", s, &want, &y);
        free(y.data);
        free(p.data);
        free(want.data);
        free(got.data);
        data_free(&d);
    }
}

// y += scale (x w^T + bias).
static void test_sums(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES && b->products; s++)
        for (int scaled = 0; scaled < 2; scaled++) {
            struct data d = data_new(shapes[s]);
            struct tensor plain = tensor_of(DTYPE_F32, 2, d.N, d.M, 0);
            double *want = doubles(d.N * d.M);
            const float *sum = plain.data, *before = d.y.data, *scale = d.scale.data;
            assert_int_equal(b->matmul(&plain, &d.x, &d.w, &d.bias, MATMUL_BF16), 0);
            for (int64_t i = 0; i < d.N * d.M; i++)
                want[i] = before[i] + (double)sum[i] * (scaled ? (double)scale[i % d.M] : 1);
            struct packed_rows p = pack(b->products, &d.x, NULL, NULL);
            const struct packed_product product = { .epilogue = PRODUCT_ADDED,
                                                    .x = p,
                                                    .w = &d.w16,
                                                    .bias = &d.bias,
                                                    .scale = scaled ? &d.scale : NULL,
                                                    .y = &d.y };
            assert_int_equal(b->products->run(&product), 0);
            close_check("sum", d.y.data, want, d.N * d.M, 1e-6, 1e-6);
            free(p.data);
            free(plain.data);
            free(want);
            data_free(&d);
        }
}

// The values of packed rows: their product with the identity matrix.
static float *unpacked(const struct packed_ops *d, const struct packed_rows *p)
{
    struct tensor one = tensor_of(DTYPE_F32, 2, p->k, p->k, 0);
    struct tensor y = tensor_of(DTYPE_F32, 2, p->rows, p->k, 0);
    memset(one.data, 0, tensor_bytes(&one));
    for (int64_t i = 0; i < p->k; i++) ((float *)one.data)[i * p->k + i] = 1;
    assert_int_equal(d->run(&(struct packed_product){ .x = *p, .w = &one, .y = &y }), 0);
    free(one.data);
    return y.data;
}

static double gelu(double x, int form)
{
    if (form == GELU_QUICK) return x / (1 + exp(-1.702 * x));
    if (form == GELU_ERF) return 0.5 * x * erfc(-x / sqrt(2));
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// gelu(s), or with form -1 silu(s) times the second product. Biases from -8 to 8 widen the range of
// s.
static void check_end(const struct backend *b, int s, int form)
{
    struct data d = data_new(shapes[s]);
    struct tensor first = tensor_of(DTYPE_F32, 2, d.N, d.M, 0), second = first;
    second.data = malloc(tensor_bytes(&second));
    for (int64_t i = 0; i < d.M; i++) ((float *)d.bias.data)[i] *= 8;
    assert_int_equal(b->matmul(&first, &d.x, &d.w, &d.bias, MATMUL_BF16), 0);
    assert_int_equal(b->matmul(&second, &d.x, &d.up, &d.up_bias, MATMUL_BF16), 0);
    double *want = doubles(d.N * d.M);
    for (int64_t i = 0; i < d.N * d.M; i++) {
        const double x = ((float *)first.data)[i], y = ((float *)second.data)[i];
        want[i] = form < 0 ? x / (1 + exp(-x)) * y : gelu(x, form);
    }
    struct packed_rows x = pack(b->products, &d.x, NULL, NULL);
    struct packed_rows to = packed_new(b->products, d.N, d.M);
    const struct packed_product product = { .epilogue = form < 0 ? PRODUCT_GATED : PRODUCT_GELU,
                                            .x = x,
                                            .w = &d.w16,
                                            .bias = &d.bias,
                                            .up = &d.up,
                                            .up_bias = &d.up_bias,
                                            .packed = to,
                                            .form = form };
    assert_int_equal(b->products->run(&product), 0);
    float *got = unpacked(b->products, &to);
    close_check(form < 0 ? "silu" : "gelu", got, want, d.N * d.M, 4e-6, 0x1.1p-8);
    free(got);
    free(want);
    free(first.data);
    free(second.data);
    free(x.data);
    free(to.data);
    data_free(&d);
}

static void test_activations(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES && b->products; s++)
        for (int form = -1; form <= GELU_QUICK; form++) check_end(b, s, form);
}

// --- attention -----------------------------------------------------------------------------------

// Rows, heads, width of a head; rows of a window (0: all see all), the keys' dtype, whether rows
// rotate, and whether pairs are adjacent: partial last tiles, heads that begin between two steps or
// in the middle of one, rows that see only themselves.
static const struct attention {
    int64_t N, heads, d, window;
    enum dtype dtype;
    bool turns, adjacent;
} attentions[] = {
    { 9, 3, 8, 0, DTYPE_F32, false, false },        { 40, 2, 72, 0, DTYPE_BF16, false, false },
    { 150, 3, 72, 0, DTYPE_F32, true, true },       { 300, 2, 80, 64, DTYPE_F32, true, false },
    { 1000, 1, 64, 300, DTYPE_BF16, false, false }, { 35, 2, 20, 7, DTYPE_F32, true, true },
    { 33, 3, 7, 1, DTYPE_F32, false, false },       { 17, 5, 6, 1, DTYPE_F32, true, true },
    { 257, 17, 2, 0, DTYPE_F32, true, false },      { 16, 1, 1, 5, DTYPE_BF16, false, false },
};

// Moves elements 2j of each head to the front, before elements 2j + 1.
static void pairs_apart(struct tensor *x)
{
    const int64_t d = x->shape[2];
    float *head = x->data, *copy = malloc((size_t)d * sizeof *copy);
    for (int64_t i = 0; i < x->shape[0] * x->shape[1]; i++, head += d) {
        memcpy(copy, head, (size_t)d * sizeof *copy);
        for (int64_t j = 0; j < d; j++) head[j % 2 * (d / 2) + j / 2] = copy[j];
    }
    free(copy);
}

static void turn(const struct backend *b, const struct attention *a, struct tensor *x,
                 const struct tensor *cos, const struct tensor *sin)
{
    if (!a->turns) return;
    if (a->adjacent) pairs_apart(x);
    assert_int_equal(b->rope(x, cos, sin), 0);
}

// Expects the bits of the ops.
static void check_attention(const struct backend *b, const struct attention *a, int number)
{
    const int64_t k = a->heads * a->d;
    struct tensor q = noise_tensor(3, a->N, a->heads, a->d, 1);
    struct tensor q_op = noise_tensor(3, a->N, a->heads, a->d, 1);
    struct tensor key = noise_tensor(3, a->N, a->heads, a->d, 2), key_op = key;
    struct tensor v = noise_tensor(3, a->N, a->heads, a->d, 3), v16 = bf16_twin(&v);
    struct tensor cos = noise_tensor(2, a->N, a->d / 2, 0, 4);
    struct tensor sin = noise_tensor(2, a->N, a->d / 2, 0, 5);
    struct tensor first = tensor_of(DTYPE_I32, 1, a->N, 0, 0), last = first;
    struct tensor want = { .dtype = DTYPE_F32, .rank = 2, .shape = { a->N, k } };
    struct tensor y = tensor_of(DTYPE_F32, 3, a->N, a->heads, a->d), key16 = bf16_twin(&key);
    last.data = malloc(tensor_bytes(&last));
    for (int64_t i = 0; i < a->N; i++) {
        const int64_t window = a->window ? a->window : a->N, from = i / window * window;
        ((int32_t *)first.data)[i] = (int32_t)from;
        ((int32_t *)last.data)[i] = (int32_t)(from + window < a->N ? from + window : a->N);
    }
    key_op.data = malloc(tensor_bytes(&key));
    memcpy(key_op.data, key.data, tensor_bytes(&key));
    turn(b, a, &q_op, &cos, &sin);
    turn(b, a, &key_op, &cos, &sin);
    const struct tensor *from = a->window ? &first : NULL, *to = a->window ? &last : NULL;
    assert_int_equal(b->attention(&y, &q_op, &key_op, &v, from, to, 0.2f, NULL, MATMUL_BF16), 0);
    y.rank = 2, y.shape[1] = k;
    struct packed_rows rows = pack(b->products, &y, NULL, NULL);
    want.data = unpacked(b->products, &rows);
    for (int threads = 1; threads <= 9; threads += threads < 3 ? 1 : 6) {
        b->set_threads(threads);
        struct packed_rows got = packed_new(b->products, a->N, k);
        // NaN, all of which must be overwritten.
        memset(got.data, 0xff, b->products->bytes(a->N, k));
        const struct packed_attention p = { .q = &q,
                                            .k = a->dtype == DTYPE_BF16 ? &key16 : &key,
                                            .v = a->dtype == DTYPE_BF16 || threads > 1 ? &v16 : &v,
                                            .cos = a->turns ? &cos : NULL,
                                            .sin = a->turns ? &sin : NULL,
                                            .adjacent = a->adjacent,
                                            .first = from,
                                            .end = to,
                                            .scale = 0.2f,
                                            .to = got };
        assert_int_equal(b->products->attend(&p), 0);
        struct tensor all = want;
        all.data = unpacked(b->products, &got);
        check_bits("attention", number, &all, &want);
        free(all.data);
        free(got.data);
    }
    b->set_threads(0);
    struct tensor *const all[] = { &q,   &q_op,  &key,  &key_op, &v,    &v16, &key16,
                                   &cos, &first, &last, &sin,    &want, &y };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
    free(rows.data);
}

static void test_attention(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions && b->products; i++)
        check_attention(b, &attentions[i], (int)i);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_norms),
                                        cmocka_unit_test(test_rounded), cmocka_unit_test(test_sums),
                                        cmocka_unit_test(test_activations),
                                        cmocka_unit_test(test_attention) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
