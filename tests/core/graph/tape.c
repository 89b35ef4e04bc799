// tests/core/graph/tape.c -- core/graph/tape.c over several ops: the loss, at which the gradients
// begin; blocks that are computed again; gradients of a pass; passes that need no gradient.
#include "tests/core/graph/gradients.h"

// --- the loss ------------------------------------------------------------------------------------

static const float row_weights[5] = { 0.3f, 0.1f, 0, 0.7f, 0.2f };

// The sum of the rows' losses, each times its weight.
static void plain_loss_rows(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1], v = c->in[1][0];
    out[0] = 0;
    for (int i = 0; i < 5; i++) {
        double sum = 0, at = 0;
        for (int64_t k = 0; k < v; k++) {
            double x = 0;
            for (int64_t e = 0; e < d; e++) x += in[0][i * d + e] * in[1][k * d + e];
            sum += exp(x);
            if (k == 2 * i) at = x;
        }
        // cppcheck-suppress invalidFunctionArg
        out[0] += (double)row_weights[i] * (log(sum) - at);
    }
}

static const struct check cross_entropy = {
    "cross_entropy", { "matmul_dx" }, 0, { { 5, 7 }, { 19, 7 } }, 1, plain_loss_rows, NULL
};

static void test_cross_entropy(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    {
        const struct check *c = &cross_entropy;
        const int32_t target[5] = { 0, 2, 4, 6, 8 };
        const float one = 1;
        float loss[5];
        struct fixture f;
        double sum = 0, want;
        fixture_open(&f, c, b);
        double *slope[2] = { differences(&f, c, &one, 0), differences(&f, c, &one, 1) };
        assert_int_equal(
            op_cross_entropy(&f.g, f.given[0], f.given[1], 0, target, row_weights, loss), 0);
        for (int i = 0; i < 5; i++) sum += (double)(row_weights[i] * loss[i]);
        double *in[INPUTS] = { doubles(35), doubles(133) };
        for (int i = 0; i < 2; i++)
            for (int64_t k = 0; k < count_of(c->in[i]); k++) in[i][k] = ((float *)f.in[i].data)[k];
        plain_loss_rows(c, in, &want);
        assert_true(fabs(sum - want) < 1e-5);
        close_check("cross entropy by x", f.in[0].grad->data, slope[0], 35, 1e-6, 1e-5);
        close_check("cross entropy by w", f.in[1].grad->data, slope[1], 133, 1e-6, 1e-5);
        for (int i = 0; i < 2; i++) {
            free(slope[i]);
            free(in[i]);
        }
        fixture_close(&f);
    }
}

// --- blocks --------------------------------------------------------------------------------------

// One of three blocks, which use two weights.
static struct tensor *some_block(struct graph *g, void *self, struct tensor *h)
{
    struct tensor *const *w = self;
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *x = op_rmsnorm(g, h, w[1], 1e-5f);
    x = op_gelu(g, op_matmul(g, x, w[0], NULL), GELU_ERF);
    h = op_add(g, h, x);
    graph_scratch_end(g, scratch);
    return h;
}

static const struct check blocks = { "block", { 0 }, 0,   { { 5, 9 }, { 9, 9 }, { 9 } },
                                     45,      NULL,  NULL };

static void run_blocks(struct fixture *f, bool recompute, const float *weights, size_t *steps)
{
    struct tensor *w[2] = { f->given[1], f->given[2] }, d;
    struct tensor *h = op_widen(&f->g, f->given[0]);
    f->tape.recompute = recompute;
    for (int i = 0; i < 3; i++) h = graph_block(&f->g, some_block, w, sizeof w, h);
    *steps = f->tape.count;
    assert_true(graph_ok(&f->g) && tape_grad(&f->g, h, &d));
    memcpy(d.data, weights, 45 * sizeof *weights);
    assert_int_equal(tape_backward(&f->g), 0);
}

static void test_recompute(void **state)
{
    (void)state;
    struct fixture kept, again;
    size_t steps;
    float *weights = noise_floats(45, 4);
    fixture_open(&kept, &blocks, test_device());
    fixture_open(&again, &blocks, test_device());
    run_blocks(&kept, false, weights, &steps);
    assert_int_equal(steps, 13);
    run_blocks(&again, true, weights, &steps);
    assert_int_equal(steps, 4);
    for (int i = 0; i < INPUTS && blocks.in[i][0]; i++)
        assert_memory_equal(kept.in[i].grad->data, again.in[i].grad->data,
                            (size_t)count_of(blocks.in[i]) * sizeof(float));
    free(weights);
    fixture_close(&kept);
    fixture_close(&again);
}

// Gradients that last for a pass have the same bits; each pass starts from zero.
static void test_gradients_of_a_pass(void **state)
{
    (void)state;
    struct fixture kept, passing;
    size_t steps;
    float *weights = noise_floats(45, 4);
    fixture_open(&kept, &blocks, test_device());
    fixture_open(&passing, &blocks, test_device());
    for (int i = 1; i < 3; i++) {
        grad_free(test_device(), passing.in[i].grad);
        passing.in[i].grad = grad_of_pass(count_of(blocks.in[i]));
    }
    run_blocks(&kept, false, weights, &steps);
    for (int recompute = 0; recompute < 2; recompute++) {
        run_blocks(&passing, recompute, weights, &steps);
        for (int i = 1; i < 3; i++) {
            assert_memory_equal(kept.in[i].grad->data, passing.in[i].grad->data,
                                (size_t)count_of(blocks.in[i]) * sizeof(float));
            tape_give(&passing.tape, passing.in[i].grad);
            assert_null(passing.in[i].grad->data);
        }
    }
    free(weights);
    fixture_close(&kept);
    fixture_close(&passing);
}

// If nothing needs a gradient, nothing is recorded; a block that needs none keeps no step.
static void test_no_gradients(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, &blocks, test_device());
    for (int i = 0; i < INPUTS; i++) {
        grad_free(test_device(), f.in[i].grad);
        f.in[i].grad = NULL;
    }
    for (int recompute = 0; recompute < 2; recompute++) {
        f.tape.recompute = recompute;
        struct tensor *w[2] = { f.given[1], f.given[2] };
        struct tensor *h = graph_block(&f.g, some_block, w, sizeof w, f.given[0]);
        assert_non_null(h);
        assert_null(h->grad);
        assert_int_equal(f.tape.count, 0);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_gradients_of_a_pass),
        cmocka_unit_test(test_no_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
