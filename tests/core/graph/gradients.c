// tests/core/graph/gradients.c -- core/graph/tape.c and the backward function of every op but the
// cross entropy (tape.c), against finite differences computed in double on odd shapes, for each
// instruction set, with one thread and with all; products with quantised weights.
#include <glob.h>

#include "kernels/blocks.h"
#include "tests/core/graph/gradients.h"
#include "tests/core/graph/gradients_layers.h"
#include "tests/core/graph/gradients_methods.h"
#include "tests/core/graph/gradients_recurrent.h"
#include "tests/core/graph/gradients_rows.h"

// clang-format off
static const struct check checks[] = {
    { "matmul", { "matmul_dx", "matmul_dw" }, 0, { { 3, 5 }, { 7, 5 }, { 7 } }, 21, plain_matmul, run_matmul },
    { "matmul", { "matmul_dx", "matmul_dw" }, 0, { { 1, 1 }, { 1, 1 } }, 1, plain_matmul, run_matmul },
    { "matmul", { "matmul_dx", "matmul_dw" }, 0, { { 29, 33 }, { 19, 33 }, { 19 } }, 551, plain_matmul, run_matmul },
    { "matmul_unread", { "matmul_dx", "matmul_dw" }, 0, { { 29, 33 }, { 19, 33 }, { 19 } }, 551, plain_matmul, run_unread },
    { "matmul_columns", { "matmul_dx", "matmul_dw" }, 0, { { 29, 33 }, { 33, 19 } }, 551, plain_matmul_columns, run_matmul_columns },
    { "lora", { "matmul_dx", "matmul_dw" }, 0, { { 3, 7 }, { 3, 5 }, { 2, 5 }, { 7, 2 } }, 21, plain_lora, run_lora },
    { "lora", { "matmul_dx", "matmul_dw" }, 0, { { 29, 19 }, { 29, 33 }, { 4, 33 }, { 19, 4 } }, 551, plain_lora, run_lora },
    { "lora", { "matmul_dx", "matmul_dw" }, 0, { { 11, 7 }, { 11, 5 }, { 13, 5 }, { 7, 13 } }, 77, plain_lora, run_lora },
    { "lora_unread", { "matmul_dx", "matmul_dw" }, 0, { { 29, 19 }, { 29, 33 }, { 4, 33 }, { 19, 4 } }, 551, plain_lora, run_lora_unread },
    { "rmsnorm", { "rmsnorm_backward" }, 0, { { 3, 37 }, { 37 } }, 111, plain_rmsnorm, run_rmsnorm },
    { "rmsnorm", { "rmsnorm_backward" }, 0, { { 2, 1 }, { 1 } }, 2, plain_rmsnorm, run_rmsnorm },
    { "rmsnorm_plain", { "rmsnorm_backward" }, 0, { { 3, 37 } }, 111, plain_rmsnorm_plain, run_rmsnorm_plain },
    { "layernorm", { "layernorm_backward" }, 0, { { 3, 37 }, { 37 }, { 37 } }, 111, plain_layernorm, run_layernorm },
    { "layernorm", { "layernorm_backward" }, 0, { { 2, 3 }, { 3 }, { 3 } }, 6, plain_layernorm, run_layernorm },
    { "rope", { "rope_backward" }, 0, { { 3, 2, 10 } }, 60, plain_rope, run_rope },
    { "attention", { "attention_backward" }, 0, { { 3, 2, 5 }, { 4, 1, 5 }, { 4, 1, 5 } }, 30, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 1, { { 7, 6, 4 }, { 9, 3, 4 }, { 9, 3, 4 } }, 168, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 2, { { 8, 2, 33 }, { 8, 2, 33 }, { 8, 2, 33 } }, 528, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 1, { { 141, 1, 2 }, { 141, 1, 2 }, { 141, 1, 2 } }, 282, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 3, { { 141, 2, 2 }, { 141, 1, 2 }, { 141, 1, 2 } }, 564, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 4, { { 90, 2, 3 }, { 90, 2, 3 }, { 90, 2, 3 } }, 540, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 1, { { 7, 6, 4 }, { 9, 3, 4 }, { 9, 3, 3 } }, 126, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 1, { { 40, 2, 36 }, { 40, 1, 36 }, { 40, 1, 7 } }, 560, plain_attention, run_attention },
    { "geglu", { "geglu_backward" }, 0, { { 3, 11 }, { 3, 11 } }, 33, plain_geglu, run_geglu },
    { "swiglu", { "swiglu_backward" }, 0, { { 3, 11 }, { 3, 11 } }, 33, plain_swiglu, run_swiglu },
    { "gelu", { "gelu_backward" }, GELU_ERF, { { 3, 11 } }, 33, plain_gelu, run_gelu },
    { "gelu", { "gelu_backward" }, GELU_TANH, { { 3, 11 } }, 33, plain_gelu, run_gelu },
    { "gelu", { "gelu_backward" }, GELU_QUICK, { { 3, 11 } }, 33, plain_gelu, run_gelu },
    { "softcap", { "softcap_backward" }, 0, { { 3, 11 } }, 33, plain_softcap, run_softcap },
    { "clip", { "clip_backward" }, 0, { { 3, 11 } }, 33, plain_clip, run_clip },
    { "add", { 0 }, 0, { { 3, 11 }, { 3, 11 } }, 33, plain_add, run_add },
    { "add_rows", { 0 }, 2, { { 5, 11 }, { 2, 11 } }, 55, plain_add, run_add_rows },
    { "scale", { "scale_backward" }, 0, { { 3, 11 } }, 33, plain_scale, run_scale },
    { "ira_values", { "ira_values_backward" }, 0, { { 5, 3, 7 }, { 15, 8 } }, 105, plain_ira_values, run_ira_values },
    { "ira_values", { "ira_values_backward" }, 1, { { 5, 3, 7 }, { 15, 8 } }, 105, plain_ira_values, run_ira_values },
    { "ira_kl", { "ira_kl_backward" }, 0, { { 15, 8 }, { 3, 7 } }, 15, plain_ira_kl, run_ira_kl },
    { "ira_kl", { "ira_kl_backward" }, 0, { { 15, 8 }, { 3, 7 }, { 5, 3, 7 } }, 15, plain_ira_kl, run_ira_kl },
    { "ira_kl", { "ira_kl_backward" }, 0, { { 15, 8 }, { 3, 7 }, { 5, 3, 7 }, { 3, 7 } }, 15, plain_ira_kl, run_ira_kl },
    { "scale_columns", { "scale_columns_backward" }, 0, { { 3, 11 }, { 11 } }, 33, plain_scale_columns, run_scale_columns },
    { "softmax", { "softmax_backward" }, 0, { { 3, 19 } }, 57, plain_softmax, run_softmax },
    { "embedding", { "gather_rows_backward" }, 0, { { 6, 9 } }, 45, plain_embedding, run_embedding },
    { "gather_rows", { "gather_rows_backward" }, 0, { { 6, 9 } }, 45, plain_embedding, run_gather },
    { "gather_floats", { "gather_rows_backward" }, 0, { { 6, 9 } }, 45, plain_embedding, run_gather_floats },
    { "blend_rows", { "blend_rows_backward" }, 0, { { 6, 9 } }, 45, plain_blend, run_blend },
    { "scatter_rows", { "scatter_rows_backward" }, 0, { { 6, 9 }, { 3, 9 } }, 54, plain_scatter, run_scatter },
    { "put_rows", { "scatter_rows_backward" }, 0, { { 6, 9 }, { 3, 9 } }, 54, plain_scatter, run_put },
    { "copy_rows_into", { "scatter_rows_backward" }, 1, { { 6, 9 }, { 3, 9 } }, 54, plain_scatter, run_copy },
    { "columns_of", { "put_columns_backward" }, 0, { { 6, 5 }, { 2, 4 } }, 24, plain_columns, run_columns },
    { "expert_weights", { "expert_weights_backward" }, 0, { { 3, 5 } }, 6, plain_expert_weights, run_expert_weights },
    { "expert_weights", { "expert_weights_backward" }, 1, { { 3, 5 } }, 6, plain_expert_weights, run_expert_weights },
    { "sigmoid_gate", { "sigmoid_gate_backward" }, 0, { { 3, 11 }, { 3, 11 } }, 33, plain_gate, run_gate },
    { "causal_conv", { "causal_conv_backward" }, 0, { { 7, 5 }, { 5, 4 } }, 35, plain_conv, run_conv },
    { "delta_rule", { "delta_rule_backward" }, 4, { { 6, 32 }, { 6, 4 }, { 6, 4 }, { 4 }, { 4 } }, 120, plain_delta, run_delta },
    { "delta_rule", { "delta_rule_backward" }, -4, { { 6, 32 }, { 6, 4 }, { 6, 4 }, { 4 }, { 4 } }, 120, plain_delta, run_delta },
    { "delta_rule", { "delta_rule_backward" }, 2, { { 67, 22 }, { 67, 2 }, { 67, 2 }, { 2 }, { 2 } }, 670, plain_delta, run_delta },
    { "add_weighted_rows", { "add_weighted_rows_backward" }, 0, { { 6, 9 }, { 3, 9 }, { 3 } }, 54, plain_add_weighted, run_add_weighted },
    { "patches", { "patches_backward" }, 0, { { 3, 5, 7 } }, 72, plain_patches, run_patches },
    { "widen", { 0 }, 0, { { 3, 7 } }, 21, plain_widen, run_widen },
    { "widen", { 0 }, 0, { { 3, 3 } }, 6, plain_views, run_views },
};
// clang-format on

enum { CHECKS = sizeof checks / sizeof *checks };

// Finite differences of each check, computed once: they do not depend on the instruction set.
static double *known[CHECKS][INPUTS];

static void check_op(int number, const struct backend *b)
{
    const struct check *c = &checks[number];
    struct fixture f, other;
    float *weights = noise_floats(c->out, 9);
    fixture_open(&f, c, b);
    fixture_open(&other, c, b);
    run_back(&f, c, weights);
    b->set_threads(1);
    run_back(&other, c, weights);
    b->set_threads(0);
    for (int i = 0; i < INPUTS && c->in[i][0]; i++)
        assert_memory_equal(f.in[i].grad->data, other.in[i].grad->data,
                            (size_t)count_of(c->in[i]) * sizeof(float));
    run_back(&other, c, weights); // adds the same gradients again
    for (int i = 0; i < INPUTS && c->in[i][0]; i++) {
        int64_t count = count_of(c->in[i]);
        if (!known[number][i]) known[number][i] = differences(&f, c, weights, i);
        const double *want = known[number][i];
        double *twice = malloc((size_t)count * sizeof *twice);
        assert_non_null(twice);
        for (int64_t k = 0; k < count; k++) twice[k] = 2 * want[k];
        char what[128];
        snprintf(what, sizeof what, "gradient of %s by input %d on %s", c->op, i, b->describe());
        close_check(what, f.in[i].grad->data, want, count, 3e-6, 1e-5);
        close_check(what, other.in[i].grad->data, twice, count, 6e-6, 1e-5);
        free(twice);
    }
    free(weights);
    fixture_close(&f);
    fixture_close(&other);
}

static void test_each(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int i = 0; i < CHECKS; i++) check_op(i, b);
    for (int i = 0; i < CHECKS; i++)
        for (int k = 0; k < INPUTS; k++) free(known[i][k]);
}

// An input that alone has a gradient gets the same one as together with the others.
static void test_each_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECKS; i++)
        for (int k = 0; k < INPUTS && checks[i].in[k][0]; k++) {
            const struct check *c = &checks[i];
            struct fixture all, alone;
            float *weights = noise_floats(c->out, 9);
            fixture_open(&all, c, test_device());
            fixture_open(&alone, c, test_device());
            run_back(&all, c, weights);
            for (int j = 0; j < INPUTS; j++)
                if (j != k) {
                    grad_free(test_device(), alone.in[j].grad);
                    alone.in[j].grad = NULL;
                }
            run_back(&alone, c, weights);
            assert_memory_equal(all.in[k].grad->data, alone.in[k].grad->data,
                                (size_t)count_of(c->in[k]) * sizeof(float));
            free(weights);
            fixture_close(&all);
            fixture_close(&alone);
        }
}

// --- weights in blocks ---------------------------------------------------------------------------

// The gradient of sum(weights * (x w^T)) with respect to x.
static void matmul_slope(const struct backend *b, float *slope, struct tensor *w,
                         const float *weights)
{
    static const struct check c = {
        "matmul", { "matmul_dx" }, 0, { { 5, 512 }, { 37, 512 } }, 185, plain_matmul, run_matmul
    };
    struct fixture f;
    fixture_open(&f, &c, b);
    struct tensor *y = c.run(&c, &f.g, (struct tensor *[INPUTS]){ f.given[0], w }), d;
    assert_non_null(y);
    assert_true(tape_grad(&f.g, y, &d));
    memcpy(d.data, weights, (size_t)c.out * sizeof *weights);
    assert_int_equal(tape_backward(&f.g), 0);
    memcpy(slope, f.in[0].grad->data, 5 * 512 * sizeof *slope);
    fixture_close(&f);
}

// Gradients through quantised weights equal those through the same numbers in f32.
static void test_blocks_of_weights(void **state)
{
    (void)state;
    float *weights = noise_floats(185, 9);
    FOR_EACH_ISA(b)
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++) {
        struct tensor w = tensor_of((enum dtype)dtype, 2, 37, 512, 0);
        struct tensor wide = tensor_of(DTYPE_F32, 2, 37, 512, 0);
        float slope[5 * 512], want[5 * 512];
        uint32_t seed = 4;
        // Clears bits so that no f16 is infinite or NaN.
        for (size_t i = 0; i < tensor_bytes(&w); i++)
            ((uint8_t *)w.data)[i] = (uint8_t)(fabsf(noise(&seed)) * 255) & 0xbb;
        blocks_unpack(wide.data, w.data, w.dtype, 37 * 512);
        matmul_slope(b, slope, &w, weights);
        matmul_slope(b, want, &wide, weights);
        assert_memory_equal(slope, want, sizeof slope);
        free(w.data);
        free(wide.data);
    }
    free(weights);
}

// --- the lists -----------------------------------------------------------------------------------

static bool is_checked(const char *op, size_t length)
{
    for (size_t i = 0; i < CHECKS; i++)
        if (strlen(checks[i].op) == length && !strncmp(checks[i].op, op, length)) return true;
    return length == strlen("cross_entropy") && !strncmp(op, "cross_entropy", length); // tape.c
}

// Counts the ops that a header declares, each of which must have a check (is_checked).
static int count_ops(const char *path)
{
    char line[256];
    int found = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *name = strstr(line, "op_");
        if (line[0] == '/' || line[0] == ' ' || !name || !strchr(name, '(')) continue;
        found++;
        size_t length = strcspn(name + 3, "(");
        if (!is_checked(name + 3, length))
            fail_msg("%s: no check of the gradient of op_%.*s", path, (int)length, name + 3);
    }
    fclose(f);
    return found;
}

// Every op of core/ops/ops.h and of methods has a check.
static void test_ops_listed(void **state)
{
    glob_t headers;
    int found = 0;
    assert_in_range(count_ops("core/ops/ops.h"), 16, 1000);
    assert_int_equal(glob("core/methods/*.h", 0, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++) found += count_ops(headers.gl_pathv[i]);
    globfree(&headers);
    assert_int_equal(found, 2); // the ops of IRA
}

// Every backward kernel is listed by one of the checks.
static void test_kernels_listed(void **state)
{
    (void)state;
    static const char *const kernels[] = {
#define OP(name, arguments) #name,
#include "kernels/ops.h"
#undef OP
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const char *name = kernels[i];
        bool found = !strstr(name, "_backward") && !strstr(name, "_dx") && !strstr(name, "_dw");
        for (size_t k = 0; k < CHECKS; k++)
            for (int j = 0; j < 3; j++)
                found |= checks[k].kernels[j] && !strcmp(checks[k].kernels[j], name);
        if (!found) fail_msg("no check of the kernel %s", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_each_alone),
        cmocka_unit_test(test_blocks_of_weights),
        cmocka_unit_test(test_ops_listed),
        cmocka_unit_test(test_kernels_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
