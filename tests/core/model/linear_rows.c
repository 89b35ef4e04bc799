// tests/core/model/linear_rows.c -- an FFN of packed rows (core/model/linear_rows.c) against the
// ops: close to them if its inner rows are packed, otherwise with their bits; shapes that are
// refused.
#include "core/model/linear_rows.h"

#include "core/graph/tape.h"
#include "core/ops/ops.h"
#include "tests/kernels/close.h"

enum { WIDTH = 48, INNER = 144, RANK = 2, FROM = 3, ROWS = 40 };
static const double eps = 1e-5;

// h += scale fc2(gelu(fc1 norm(x))), or with a gate scale fc2(silu(gate norm(x)) * fc1 norm(x)).
struct ffn {
    struct norm norm;
    struct linear fc1, fc2, gate;
    struct tensor scale;
    struct tensor wide[3]; // the weights in f32
    struct lora lora[2];
    bool gated;
};

static struct linear layer(struct tensor *wide, int64_t out, int64_t in, uint32_t seed)
{
    *wide = noise_tensor(2, out, in, 0, seed);
    return (struct linear){ .weight = bf16_twin(wide),
                            .bias = noise_tensor(1, out, 0, 0, seed + 1) };
}

static struct lora lora_of(int64_t out, int64_t in)
{
    return (struct lora){ .a = noise_tensor(2, RANK, in, 0, 40),
                          .b = noise_tensor(2, out, RANK, 0, 41),
                          .scale = 0.5f };
}

static struct ffn ffn_new(bool gated)
{
    struct ffn f = { .norm = { noise_tensor(1, WIDTH, 0, 0, 1), noise_tensor(1, WIDTH, 0, 0, 2) },
                     .scale = noise_tensor(1, WIDTH, 0, 0, 3),
                     .lora = { lora_of(INNER, WIDTH), lora_of(WIDTH, INNER) },
                     .gated = gated };
    f.fc1 = layer(&f.wide[0], INNER, WIDTH, 10);
    f.fc2 = layer(&f.wide[1], WIDTH, INNER, 20);
    f.gate = layer(&f.wide[2], INNER, WIDTH, 30);
    return f;
}

static void ffn_free(struct ffn *f)
{
    struct tensor *const all[] = { &f->norm.gain, &f->norm.bias,  &f->scale,     &f->fc1.weight,
                                   &f->fc1.bias,  &f->fc2.weight, &f->fc2.bias,  &f->gate.weight,
                                   &f->gate.bias, &f->wide[0],    &f->wide[1],   &f->wide[2],
                                   &f->lora[0].a, &f->lora[0].b,  &f->lora[1].a, &f->lora[1].b };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

static struct tensor *by_ops(struct graph *g, struct ffn *f, struct tensor *h, struct tensor *x)
{
    x = norm_forward(g, x, &f->norm, eps);
    struct tensor *a = linear_forward(g, x, &f->fc1);
    a = f->gated ? op_swiglu(g, linear_forward(g, x, &f->gate), a) : op_gelu(g, a, GELU_TANH);
    return op_add_rows(g, h, FROM, op_scale_columns(g, linear_forward(g, a, &f->fc2), &f->scale));
}

static struct tensor *by_rows(struct graph *g, struct ffn *f, struct tensor *h, struct tensor *x,
                              bool packed[2])
{
    const struct linear *const read_by[] = { &f->fc1, f->gated ? &f->gate : NULL, NULL };
    struct linear_rows r = linear_rows_norm(g, x, &f->norm, eps, read_by);
    packed[0] = r.packed.data;
    r = f->gated ? linear_rows_gated(g, &r, &f->gate, &f->fc1, &f->fc2)
                 : linear_rows_gelu(g, &r, &f->fc1, GELU_TANH, &f->fc2);
    packed[1] = r.packed.data;
    return linear_rows_add(g, h, FROM, &r, &f->fc2, &f->scale);
}

// A way to compute the FFN, and which of x and the inner rows are packed if the device supports it.
struct way {
    const char *name;
    int64_t rows;
    enum matmul_mode mode;
    bool lora[2], tape, packed[2];
};

static const struct way ways[] = {
    { "bf16", ROWS, MATMUL_BF16, { false, false }, false, { true, true } },
    { "LoRA of the second layer", ROWS, MATMUL_BF16, { false, true }, false, { true, false } },
    { "LoRA of the first layer", ROWS, MATMUL_BF16, { true, false }, false, { false, false } },
    { "f32", ROWS, MATMUL_F32, { false, false }, false, { false, false } },
    { "few rows", 4, MATMUL_BF16, { false, false }, false, { false, false } },
    { "a tape", ROWS, MATMUL_BF16, { false, false }, true, { false, false } },
};

// Adds the FFN of x [w->rows, WIDTH] to rows FROM.. of h [ROWS + FROM, WIDTH], in both ways.
static void check_way(const struct backend *b, const struct way *w, bool gated)
{
    struct ffn f = ffn_new(gated);
    struct tensor h[2] = { noise_tensor(2, ROWS + FROM, WIDTH, 0, 5),
                           noise_tensor(2, ROWS + FROM, WIDTH, 0, 5) };
    struct tensor x = noise_tensor(2, w->rows, WIDTH, 0, 6), *y[2];
    struct arena arena = { .backend = b };
    struct tape tape = { .backend = b };
    struct graph g = {
        .backend = b, .arena = &arena, .matmul = w->mode, .tape = w->tape ? &tape : NULL
    };
    bool packed[2];
    f.fc1.lora = w->lora[0] ? &f.lora[0] : NULL;
    f.fc2.lora = w->lora[1] ? &f.lora[1] : NULL;
    y[0] = by_ops(&g, &f, &h[0], &x);
    y[1] = by_rows(&g, &f, &h[1], &x, packed);
    assert_non_null(y[0]);
    assert_non_null(y[1]);
    for (int i = 0; i < 2; i++) assert_int_equal(packed[i], b->products && w->packed[i]);
    const int64_t n = tensor_count(y[0]);
    double *want = doubles(n), squares = 0;
    for (int64_t i = 0; i < n; i++) {
        want[i] = ((float *)y[0]->data)[i];
        squares += want[i] * want[i];
    }
    if (packed[1]) // some activations round to the neighbouring bf16 value
        close_check(w->name, y[1]->data, want, n, 0.005 * sqrt(squares / (double)n), 0);
    else if (memcmp(y[1]->data, y[0]->data, tensor_bytes(y[0])) != 0)
        fail_msg("%s, %s, gated %d: bits differ", b->describe(), w->name, gated);
    free(want);
    arena_release(&arena);
    free(x.data);
    free(h[0].data);
    free(h[1].data);
    ffn_free(&f);
}

static void test_ways(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int gated = 0; gated < 2; gated++) check_way(b, &ways[i], gated);
}

// Weights and biases that do not fit the rows are refused, and so is a result that does not fit
// into h.
static void test_refusals(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int i = 0; i < 3; i++) {
        struct ffn f = ffn_new(false);
        struct tensor x = noise_tensor(2, ROWS, WIDTH, 0, 6);
        struct arena arena = { .backend = b };
        struct graph g = { .backend = b, .arena = &arena, .matmul = MATMUL_BF16 };
        const struct linear *const read_by[] = { &f.fc1, &f.fc2, NULL };
        const struct linear_rows r = linear_rows_norm(&g, &x, &f.norm, eps, read_by);
        static const struct tensor none;
        assert_true(graph_ok(&g));
        if (i == 0) assert_null(linear_rows_times(&g, &r, &f.fc2, DTYPE_F32));
        if (i == 1) assert_null(linear_rows_add(&g, &x, 0, &r, &f.fc1, &none));
        if (i == 2) {
            f.fc1.bias.shape[0]--;
            assert_null(linear_rows_times(&g, &r, &f.fc1, DTYPE_F32));
        }
        assert_false(graph_ok(&g));
        arena_release(&arena);
        free(x.data);
        ffn_free(&f);
    }
}

// Keys with fewer heads than the queries, or narrower ones, are refused.
static void test_heads(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int i = 0; i < 3 && b->products; i++) {
        struct tensor q = noise_tensor(3, ROWS, 2, 16, 1), k = noise_tensor(3, ROWS, 2, 16, 2);
        struct arena arena = { .backend = b };
        struct graph g = { .backend = b, .arena = &arena, .matmul = MATMUL_BF16 };
        struct linear next = { .weight = noise_tensor(2, 8, 32, 0, 3) };
        assert_true(linear_rows_attends(&g, ROWS, &next));
        if (i > 0) k.shape[i]--;
        const struct packed_attention p = { .q = &q, .k = &k, .v = &q, .scale = 1 };
        const struct linear_rows r = linear_rows_attention(&g, &p);
        assert_int_equal(r.packed.data != NULL, i == 0);
        assert_int_equal(graph_ok(&g), i == 0);
        if (i > 0) assert_non_null(strstr(g.err.text, "keys"));
        arena_release(&arena);
        free(q.data);
        free(k.data);
        free(next.weight.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ways),
                                        cmocka_unit_test(test_refusals),
                                        cmocka_unit_test(test_heads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
