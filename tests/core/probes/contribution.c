// tests/core/probes/contribution.c -- core/probes/contribution.c and sinks.c against the reference;
// the position `sinks`; rank correlation and Otsu's threshold.
#include "core/methods/sinks.h"
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

static void means_equal_the_reference(void **state)
{
    static const char *const columns[] = { "text to visual", "text to text", "visual to visual" };
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        ask(&g, models[i], 8);
        run_probe(&g, &probe_contribution, NULL, &r);
        const float *want = golden_floats(&g, "contribution.means");
        for (int l = 0; l < engine_model(g.engine)->decoder.config.layers; l++)
            for (int k = 0; k < 3; k++) {
                char row[16];
                snprintf(row, sizeof row, "%d", l);
                near(&g, "contribution.means", *results_value(&r, "contribution", row, columns[k]),
                     (double)want[l * 3 + k], tolerance(&g, "contribution.means"));
            }
        results_release(&r);
        golden_close(&g);
    }
}

static void the_map_is_the_pruning_score(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        struct probe_options options = probe_defaults;
        ask(&g, models[i], 8);
        options.layer = json_get(json_get(json_get(g.json, "methods"), "capa"), "layer")->valueint;
        run_probe(&g, &probe_contribution, &options, &r);
        check_maps(&g, &r, 0, "capa.contribution.score", 0);
        assert_int_equal(results_find(&r, "contribution")->row_count, 1);
        assert_null(r.maps[0].state);
        results_release(&r);
        // With pruning, the map marks dropped tokens.
        char layer[16];
        snprintf(layer, sizeof layer, "%d", options.layer);
        must(engine_set(g.engine, "prune.layer", layer, &err), &err);
        must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
        run_probe(&g, &probe_contribution, &options, &r);
        const struct safetensor *kept = safetensors_find(g.tensors, "capa.contribution.kept");
        const int32_t *stays = kept->data;
        for (size_t t = 0; t < r.map_count; t++)
            for (int k = 0; k < r.maps[t].rows * r.maps[t].cols; k++) {
                const int64_t token = map_token(&g, &r.maps[t], k);
                bool found = false;
                for (uint64_t n = 0; n < kept->bytes / 4; n++) found |= stays[n] == token;
                assert_int_equal(!r.maps[t].state[k], found);
            }
        results_release(&r);
        golden_close(&g);
    }
}

// The columns of sinks.tokens.
enum { PHI, C, PICTURE, TOKEN, SINK, TYPE };

// Types and counts follow from Otsu's threshold over the visual sinks.
static void check_types(const struct results *r)
{
    const struct result_table *t = results_find(r, "sinks.tokens");
    double *logs = calloc(t->row_count + 1, sizeof *logs), text = 0, visual = 0, dumps = 0;
    size_t count = 0;
    for (size_t k = 0; k < t->row_count; k++) {
        const double *v = t->rows[k].value;
        if (v[SINK] == 0) continue;
        if (isnan(v[PICTURE]))
            text++;
        else
            visual++, logs[count++] = log(v[C]);
    }
    const double split = exp(otsu_split(logs, count));
    free(logs);
    for (size_t k = 0; k < t->row_count; k++) {
        const double *v = t->rows[k].value;
        const bool typed = v[SINK] != 0 && !isnan(v[PICTURE]) && !isnan(split);
        assert_true(v[TYPE] == (!typed ? 0 : v[C] > split ? 2 : 1));
        dumps += v[TYPE] == 1;
    }
    assert_true(*results_value(r, "sinks", "sinks", "value") == visual);
    assert_true(*results_value(r, "sinks", "text tokens above tau", "value") == text);
    assert_true(*results_value(r, "sinks", "probability dumps (type I)", "value") == dumps);
    assert_true(*results_value(r, "sinks", "structural anchors (type II)", "value") ==
                (isnan(split) ? 0 : visual - dumps));
    const double told = *results_value(r, "sinks", "split of C (Otsu)", "value");
    assert_true(isnan(split) ? isnan(told) : fabs(told - split) <= 1e-9 * split);
}

static void sinks_equal_the_reference(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        ask(&g, models[i], 0);
        run_probe(&g, &probe_sinks, NULL, &r);
        const cJSON *sink = json_get(json_get(g.json, "methods"), "sink");
        const int32_t *dims = safetensors_find(g.tensors, "sink.dims")->data;
        assert_true(*results_value(&r, "sinks", "layer", "value") ==
                    json_get(sink, "layer")->valueint);
        assert_true(*results_value(&r, "sinks", "sink dimension 1", "value") == dims[0]);
        assert_true(*results_value(&r, "sinks", "sink dimension 2", "value") == dims[1]);
        near(&g, "tau", *results_value(&r, "sinks", "tau", "value"),
             json_get(sink, "tau")->valuedouble, 1e-9);
        check_column(&g, &r, "sinks.tokens", "phi", "sink.phi", 0);
        check_column(&g, &r, "sinks.tokens", "C", "sink.contribution", 0);
        const struct safetensor *mask = safetensors_find(g.tensors, "sink.mask");
        const struct result_table *t = results_find(&r, "sinks.tokens");
        for (uint64_t k = 0; k < mask->bytes / 4; k++)
            assert_true(t->rows[k].value[SINK] == ((const int32_t *)mask->data)[k]);
        check_types(&r);
        results_release(&r);
        golden_close(&g);
    }
}

// The position `sinks` names the tokens whose phi in /sinks exceeds sinks.tau, even if the middle
// layer is recurrent.
static void positions_are_those_of_the_probe(void **state)
{
    static const char *const folders[] = { "llava-1.5", "qwen3.5" };
    for (int i = 0; i < 2; i++) {
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        struct ids found = { 0 };
        struct measure_request request = { .options = probe_defaults };
        char tau[32];
        size_t count = 0;
        ask(&g, folders[i], 0);
        run_probe(&g, &probe_sinks, NULL, &r);
        const struct result_table *t = results_find(&r, "sinks.tokens");
        double low = INFINITY, high = 0;
        for (size_t k = 0; k < t->row_count; k++) {
            low = fmin(low, t->rows[k].value[PHI]);
            high = fmax(high, t->rows[k].value[PHI]);
        }
        snprintf(tau, sizeof tau, "%.6g", (low + high) / 2);
        must(engine_set(g.engine, "sinks.tau", tau, &err), &err);
        request.options.words = "sinks";
        must(engine_positions(g.engine, &request, &found, &err), &err);
        for (size_t k = 0; k < t->row_count; k++)
            if (t->rows[k].value[PHI] > atof(tau))
                assert_true(count < found.count && found.data[count++] == atoi(t->rows[k].key));
        assert_int_equal(count, found.count);
        ids_release(&found);
        results_release(&r);
        golden_close(&g);
    }
}

static void tau_and_dimensions_can_be_chosen(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct probe_options options = probe_defaults;
    ask(&g, models[0], 0);
    must(engine_set(g.engine, "sinks.tau", "0", &err), &err);
    options.dim_count = 1;
    options.dims[0] = 5;
    options.layer = 1;
    run_probe(&g, &probe_sinks, &options, &r);
    const double rows = (double)results_find(&r, "sinks.tokens")->row_count;
    const double visual = *results_value(&r, "sinks", "sinks", "value");
    assert_true(visual > 0 && visual < rows);
    assert_true(*results_value(&r, "sinks", "text tokens above tau", "value") == rows - visual);
    assert_true(*results_value(&r, "sinks", "probability dumps (type I)", "value") > 0);
    assert_true(*results_value(&r, "sinks", "structural anchors (type II)", "value") > 0);
    check_types(&r);
    assert_null(results_value(&r, "sinks", "sink dimension 2", "value"));
    results_release(&r);
    assert_int_equal(engine_set(g.engine, "sinks.tau", "nan", &err), -1);
    assert_true(fabs(sinks_tau(NULL, 1024) - 20) < 1e-12);
    assert_true(fabs(sinks_tau(NULL, 1023) - 20 * sqrt(1023.0 / 4096)) < 1e-12);
    golden_close(&g);
}

static void rank_correlation_equals_values_by_hand(void **state)
{
    const struct point points[] = { { 1, 2 }, { 2, 1 }, { 3, 4 }, { 4, 3 }, { 5, 5 } };
    const struct point ties[] = { { 1, 1 }, { NAN, 4 }, { 2, 1 }, { 3, 2 }, { 4, 2 }, { 5, 3 } };
    const struct point equal[] = { { 1, 1 }, { 2, 1 }, { 3, 1 } };
    const double x[] = { 1 }, two[] = { 0.1, 5, 0.2, 0.3, 4 }, same[] = { 1, 1, 1 };
    assert_true(fabs(rank_correlation(points, 5) - 0.8) < 1e-12); // 1 - 6*4/(5*24)
    assert_true(fabs(rank_correlation(ties, 6) - 0.94868329805) < 1e-9);
    // p is that of scipy.stats.spearmanr, and the interval contains r. Two points, which are always
    // on a line, have no correlation.
    const struct correlation five = rank_correlate(points, 5), line = rank_correlate(points, 2);
    assert_float_equal(five.r, 0.8, 1e-12);
    assert_float_equal(five.p, 0.10408803866182788, 1e-9);
    assert_true(five.points == 5 && five.low < 0.8 && five.high >= 0.8 && five.high <= 1);
    assert_true(isnan(line.r) && isnan(line.p) && isnan(line.low));
    assert_true(isnan(rank_correlation(points, 2)));
    assert_true(isnan(rank_correlation(equal, 3)));
    assert_true(fabs(otsu_split(two, 5) - 2.15) < 1e-12);
    assert_true(isnan(otsu_split(same, 3)));
    assert_true(isnan(otsu_split(x, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_equal_the_reference),
        cmocka_unit_test(the_map_is_the_pruning_score),
        cmocka_unit_test(sinks_equal_the_reference),
        cmocka_unit_test(positions_are_those_of_the_probe),
        cmocka_unit_test(tau_and_dimensions_can_be_chosen),
        cmocka_unit_test(rank_correlation_equals_values_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
