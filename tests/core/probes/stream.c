// tests/core/probes/stream.c -- core/probes/stream.c against /norms, which norms.c compares with
// the reference; core/probes/pruned.c against the numbers of kept tokens.
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

static double map_mean(const struct result_map *m)
{
    double sum = 0;
    int count = 0;
    for (int i = 0; i < m->rows * m->cols; i++)
        if (isfinite(m->values[i])) sum += (double)m->values[i], count++;
    return sum / count;
}

// The cosine of h[l] and h[l+1] is in row l of `stream`, and in row l + 1 of norms.cosines.
static void cosines_equal_those_of_norms(void **state)
{
    struct golden g;
    struct results norms = { 0 }, r = { 0 };
    const struct probe_options all = { .layer = PROBE_LAYER_ALL, .head = -1, .picture = -1 };
    ask(&g, "llava-1.5", 4);
    const int layers = engine_model(g.engine)->decoder.config.layers;
    run_probe(&g, &probe_norms, NULL, &norms);
    run_probe(&g, &probe_stream, &all, &r);
    assert_int_equal(r.map_count, 2 * layers);
    for (int l = 0; l < layers; l++) {
        char key[16], next[16];
        snprintf(key, sizeof key, "%d", l);
        snprintf(next, sizeof next, "%d", l + 1);
        const double norm = *results_value(&norms, "norms.layers", key, "visual");
        const double cosine = *results_value(&norms, "norms.cosines", next, "visual");
        near(&g, "norm", *results_value(&r, "stream", key, "norm"), norm, 1e-5 * norm);
        near(&g, "cosine", *results_value(&r, "stream", key, "similarity"), cosine, 1e-5);
        near(&g, "map of norms", map_mean(&r.maps[2 * l]), norm, 1e-5 * norm);
        near(&g, "map of cosines", map_mean(&r.maps[2 * l + 1]), cosine, 1e-5);
        assert_int_equal(r.maps[2 * l].layer, l);
    }
    results_release(&r);
    run_probe(&g, &probe_stream, NULL, &r); // measures the middle layer
    assert_int_equal(r.map_count, 2);
    assert_int_equal(r.maps[0].layer, probe_middle(engine_model(g.engine)));
    results_release(&r);
    results_release(&norms);
    golden_close(&g);
}

// 6 of 25 tokens stay after layer 1: round(0.25 * 25).
static void dropped_tokens_are_in_fewer_layers(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct measure_request request = { .probe = &probe_pruned, .options = probe_defaults };
    ask(&g, models[0], 0);
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1); // nothing is pruned
    results_release(&r);
    must(engine_set(g.engine, "prune.score", "uniform", &err), &err);
    must(engine_set(g.engine, "prune.layer", "1", &err), &err);
    run_probe(&g, &probe_pruned, NULL, &r);
    const int layers = engine_model(g.engine)->decoder.config.layers;
    const struct result_table *t = results_find(&r, "pruned");
    assert_int_equal(t->row_count, layers);
    for (int l = 0; l < layers; l++) assert_true(t->rows[l].value[0] == (l < 2 ? 25 : 6));
    const struct result_map *m = &r.maps[0];
    int kept = 0, dropped = 0;
    for (int i = 0; i < m->rows * m->cols; i++) {
        kept += m->values[i] == (float)layers && !m->state[i];
        dropped += m->values[i] == 2 && m->state[i];
    }
    assert_int_equal(kept, 6);
    assert_int_equal(dropped, 19);
    results_release(&r);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosines_equal_those_of_norms),
        cmocka_unit_test(dropped_tokens_are_in_fewer_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
