// tests/core/probes/layers.c -- core/probes/similarity.c, redundancy.c and curvature.c against the
// reference; norms and row counts with pruning.
#include "core/probes/measure.h"
#include "tests/core/probes/probe.h"

static void similarity_equals_the_reference(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        ask(&g, models[i], 0);
        run_probe(&g, &probe_similarity, NULL, &r);
        const int layers = engine_model(g.engine)->decoder.config.layers;
        const float *want = golden_floats(&g, "probe.similarity");
        double sum = 0;
        for (int a = 0; a <= layers; a++)
            for (int b = 0; b <= layers; b++) {
                char column[16], row[16];
                snprintf(column, sizeof column, "%d", b);
                snprintf(row, sizeof row, "%d", a);
                near(&g, "similarity", *results_value(&r, "similarity", row, column),
                     (double)want[a * (layers + 1) + b], tolerance(&g, "probe.similarity"));
                if (a != b && a && b) sum += (double)want[a * (layers + 1) + b];
            }
        near(&g, "mean", results_find(&r, "similarity.mean")->rows[0].value[0],
             sum / layers / (layers - 1), 1e-5);
        results_release(&r);
        golden_close(&g);
    }
}

// The reference averages over the tokens of two prompts, so this test weights the two means by the
// prompts' numbers of tokens.
static void redundancy_equals_the_reference(void **state)
{
    static const char *const prompts[] = { "single", "second_picture" };
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        golden_open(&g, models[i]);
        double sum[2][8] = { 0 }, count[2] = { 0 };
        for (int p = 0; p < 2; p++) {
            struct results r = { 0 };
            struct sequence s = { 0 };
            struct err err = { 0 };
            engine_clear(g.engine);
            say(&g, chat_named(&g, prompts[p]));
            run_probe(&g, &probe_redundancy, NULL, &r);
            must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err),
                 &err);
            const double visual = (double)sequence_visual_count(&s, 0);
            const double n[2] = { visual, (double)s.n - visual };
            const struct result_table *t = results_find(&r, "redundancy");
            for (int m = 0; m < 2; m++) {
                for (size_t l = 0; l < t->row_count; l++) sum[m][l] += n[m] * t->rows[l].value[m];
                count[m] += n[m];
            }
            sequence_release(&s);
            results_release(&r);
        }
        for (int l = 0; l < engine_model(g.engine)->decoder.config.layers; l++) {
            near(&g, "visual", sum[0][l] / count[0], (double)golden_floats(&g, "ffn.redundancy")[l],
                 tolerance(&g, "ffn.redundancy"));
            near(&g, "text", sum[1][l] / count[1],
                 (double)golden_floats(&g, "ffn.redundancy_text")[l],
                 tolerance(&g, "ffn.redundancy_text"));
        }
        golden_close(&g);
    }
}

static void curvature_equals_the_reference(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        ask(&g, models[i], 0);
        run_probe(&g, &probe_curvature, NULL, &r);
        check_column(&g, &r, "curvature", "degrees", "curvature.angle", 0);
        check_column(&g, &r, "curvature", "minus layer 0", "curvature.minus_first", 0);
        check_column(&g, &r, "curvature.total", "degrees", "curvature.V", 0);
        results_release(&r);
        golden_close(&g);
    }
}

// Layers after pruning hold fewer rows; norms before it equal those without pruning.
static void pruned_layers_are_measured_as_they_are(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results full = { 0 }, r = { 0 };
    ask(&g, models[0], 4);
    run_probe(&g, &probe_norms, NULL, &full);
    must(engine_set(g.engine, "prune.score", "uniform", &err), &err);
    must(engine_set(g.engine, "prune.layer", "1", &err), &err);
    run_probe(&g, &probe_norms, NULL, &r);
    for (int l = 0; l <= 2; l++) {
        const double *a = full.tables[1]->rows[l].value, *b = r.tables[1]->rows[l].value;
        if (l < 2)
            assert_memory_equal(a, b, 6 * sizeof *a);
        else
            assert_memory_not_equal(a, b, 2 * sizeof *a);
    }
    results_release(&r);
    run_probe(&g, &probe_flops, NULL, &r);
    const double *before = results_value(&r, "flops.layers", "1", "rows");
    const double *after = results_value(&r, "flops.layers", "2", "rows");
    assert_true(*before - *after == 25 - 6); // round(0.25 * 25) = 6 of 25 stay
    results_release(&r);
    results_release(&full);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(similarity_equals_the_reference),
        cmocka_unit_test(redundancy_equals_the_reference),
        cmocka_unit_test(curvature_equals_the_reference),
        cmocka_unit_test(pruned_layers_are_measured_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
