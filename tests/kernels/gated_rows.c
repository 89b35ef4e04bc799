// tests/kernels/gated_rows.c -- the fused gated FFN (kernels/gated_rows.c) equals its ops bit by
// bit, for one to three threads. CPUs without AMX test only the refusals.
#include "tests/kernels/close.h"

struct ffn {
    int64_t n, D, F;
    struct tensor h, gain;
    struct tensor w[3], bias[3]; // gate, up, down
};

static struct ffn ffn_new(int64_t n, int64_t D, int64_t F)
{
    struct ffn f = { .n = n, .D = D, .F = F };
    f.h = noise_tensor(2, n, D, 0, 1);
    f.gain = noise_tensor(1, D, 0, 0, 2);
    for (int i = 0; i < 3; i++) {
        struct tensor wide = noise_tensor(2, i == 2 ? D : F, i == 2 ? F : D, 0, 3 + (uint32_t)i);
        for (int64_t k = 0; k < D * F; k++) ((float *)wide.data)[k] *= 0.2f;
        f.w[i] = bf16_twin(&wide);
        f.bias[i] = noise_tensor(1, i == 2 ? D : F, 0, 0, 6 + (uint32_t)i);
        free(wide.data);
    }
    return f;
}

static void ffn_free(struct ffn *f)
{
    free(f->h.data);
    free(f->gain.data);
    for (int i = 0; i < 3; i++) {
        free(f->w[i].data);
        free(f->bias[i].data);
    }
}

static struct tensor copy_of(const struct tensor *t)
{
    struct tensor copy = tensor_of(t->dtype, t->rank, t->shape[0], t->shape[1], t->shape[2]);
    memcpy(copy.data, t->data, tensor_bytes(t));
    return copy;
}

static struct tensor by_ops(const struct backend *b, const struct ffn *f, bool bias)
{
    struct tensor h = copy_of(&f->h), x = copy_of(&h), y = copy_of(&h);
    struct tensor gate = tensor_of(DTYPE_F32, 2, f->n, f->F, 0), up = copy_of(&gate);
    const struct tensor *with[3] = { bias ? &f->bias[0] : NULL, bias ? &f->bias[1] : NULL,
                                     bias ? &f->bias[2] : NULL };
    assert_int_equal(b->rmsnorm(&x, &h, &f->gain, 1e-5f), 0);
    assert_int_equal(b->matmul(&gate, &x, &f->w[0], with[0], MATMUL_BF16), 0);
    assert_int_equal(b->matmul(&up, &x, &f->w[1], with[1], MATMUL_BF16), 0);
    assert_int_equal(b->swiglu(&gate, &gate, &up), 0);
    assert_int_equal(b->matmul(&y, &gate, &f->w[2], with[2], MATMUL_BF16), 0);
    assert_int_equal(b->add(&h, &h, &y), 0);
    free(x.data);
    free(y.data);
    free(gate.data);
    free(up.data);
    return h;
}

static struct fused_ffn form_of(const struct ffn *f, struct tensor *h, bool bias)
{
    struct fused_linear l[3];
    for (int i = 0; i < 3; i++)
        l[i] = (struct fused_linear){ .w = &f->w[i], .bias = bias ? &f->bias[i] : NULL };
    return (struct fused_ffn){ .y = h,
                               .h = h,
                               .gain = &f->gain,
                               .eps = 1e-5f,
                               .gate = l[0],
                               .up = l[1],
                               .down = l[2],
                               .mode = MATMUL_BF16 };
}

static bool has_tiles(const struct backend *b)
{
    return strstr(b->describe(), "amx") != NULL;
}

// Checks an FFN without norm and residual sum, whose result goes to a separate tensor.
static void check_alone(const struct backend *b, const struct ffn *f)
{
    struct tensor y = copy_of(&f->h), want = copy_of(&f->h);
    struct tensor gate = tensor_of(DTYPE_F32, 2, f->n, f->F, 0), up = copy_of(&gate);
    struct fused_ffn form = form_of(f, &y, false);
    form.h = &f->h, form.gain = NULL;
    assert_int_equal(b->ffn_rows(&form), 0);
    assert_int_equal(b->matmul(&gate, &f->h, &f->w[0], NULL, MATMUL_BF16), 0);
    assert_int_equal(b->matmul(&up, &f->h, &f->w[1], NULL, MATMUL_BF16), 0);
    assert_int_equal(b->swiglu(&gate, &gate, &up), 0);
    assert_int_equal(b->matmul(&want, &gate, &f->w[2], NULL, MATMUL_BF16), 0);
    assert_memory_equal(y.data, want.data, tensor_bytes(&y));
    free(y.data);
    free(want.data);
    free(gate.data);
    free(up.data);
}

// Rows that do not fill a tile, an odd number of tiles, several blocks of rows, several pieces
// along either width.
static void test_same_bits(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        { 9, 32, 64 }, { 100, 160, 224 }, { 47, 2080, 160 }, { 600, 1152, 128 }, { 33, 128, 4192 },
    };
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct ffn f = ffn_new(shapes[i][0], shapes[i][1], shapes[i][2]);
        for (int bias = 0; bias < 2 && has_tiles(b); bias++) {
            struct tensor want = by_ops(b, &f, bias);
            for (int threads = 1; threads <= 3; threads++) {
                struct tensor h = copy_of(&f.h);
                const struct fused_ffn form = form_of(&f, &h, bias);
                b->set_threads(threads);
                assert_int_equal(b->ffn_rows(&form), 0);
                b->set_threads(0);
                if (memcmp(h.data, want.data, tensor_bytes(&h)))
                    fail_msg("%s: %d rows of %d, inner %d, bias %d, %d threads: bits differ",
                             b->describe(), (int)f.n, (int)f.D, (int)f.F, bias, threads);
                free(h.data);
            }
            free(want.data);
        }
        if (has_tiles(b)) check_alone(b, &f);
        ffn_free(&f);
    }
}

// Unsupported cases are refused, so that the ops compute them, and nothing is written.
static void test_refusals(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = { { 8, 128, 128 }, { 40, 144, 128 }, { 40, 128, 120 } };
    FOR_EACH_ISA(b)
    for (int i = 0; i < 6; i++) {
        const int64_t *s = shapes[i < 3 ? i : 0];
        struct ffn f = ffn_new(i < 3 ? s[0] : 40, s[1], s[2]);
        struct tensor h = copy_of(&f.h), saved = copy_of(&f.h);
        struct fused_ffn form = form_of(&f, &h, false);
        if (i == 3) form.mode = MATMUL_F32;
        if (i == 4) form.after.gain = &f.gain;
        if (i == 5) form.saved_gate = form.saved_up = &saved;
        assert_int_equal(b->ffn_rows(&form), FUSED_NOT);
        assert_memory_equal(h.data, f.h.data, tensor_bytes(&h));
        free(h.data);
        free(saved.data);
        ffn_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
