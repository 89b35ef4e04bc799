// tests/core/probes/calibrations.c -- core/probes/calibration_norms.c, calibration_sinks.c and
// calibration_lens.c: results equal the reference or loops; merged and refused files.
#include "core/methods/calibration.h"
#include "core/talk/answer.h"
#include "tests/core/probes/probe.h"

static char paths[3][256];

// Adds one prompt to the sums.
static void add_prompt(struct golden *g, struct calibration_sums *sums)
{
    struct err err = { 0 };
    struct hooks hooks = { 0 };
    const struct sinks nobody = { 0 };
    const struct answer_options options = { .forward_only = true, .whole = true };
    struct conversation *c = golden_conversation(g);
    atomic_bool cancel = false;
    bool answered;
    engine_clear(g->engine);
    say(g, chat_named(g, "single"));
    const struct hook hook = calibration_hook(sums);
    hooks_add(&hooks, &hook);
    must(answer_run(c, engine_settings(g->engine), &hooks, &cancel, &options, &nobody, &answered,
                    &err),
         &err);
}

static void write_file(struct golden *g, const char *name, const char *path, int prompts)
{
    struct err err = { 0 };
    const struct calibration_kind *kind = calibration_kind_find(name, &err);
    const struct model *m = engine_model(g->engine);
    const struct calibration_source source = { m->checkpoint->weights, "data", prompts, "f32",
                                               NULL };
    struct calibration_sums *sums = calibration_start(kind, m);
    for (int i = 0; i < prompts; i++) add_prompt(g, sums);
    unlink(path);
    must(calibration_write(sums, &source, path, &err), &err);
    calibration_free(sums);
}

static float *numbers(const char *path, const char *name, int64_t *count)
{
    struct err err = { 0 };
    struct calibration c;
    must(calibration_open(&c, path, &err), &err);
    const struct safetensor *t = safetensors_find(c.file, name);
    if (!t) fail_msg("no %s", name);
    float *x = calibration_numbers(&c, name, t->rank, t->shape, &err);
    if (!x) fail_msg("%s", err.text);
    *count = (int64_t)t->bytes / 4;
    calibration_close(&c);
    return x;
}

static void norms_equal_the_reference_and_add_up(void **state)
{
    struct err err = { 0 };
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        golden_open(&g, models[i]);
        write_file(&g, "norms", paths[0], 1);
        const cJSON *probe = json_get(json_get(g.json, "methods"), "probe");
        static const char *const rows[][4] = { { "norms.visual", "norm", "vis", "mean" },
                                               { "norms.visual_std", "norm", "vis", "std" },
                                               { "norms.text", "norm", "txt", "mean" },
                                               { "norms.text_std", "norm", "txt", "std" },
                                               { "norms.visual_cosine", "cos", "vis", "mean" },
                                               { "norms.text_cosine", "cos", "txt", "mean" } };
        for (int r = 0; r < 6; r++) {
            const cJSON *want =
                json_get(json_get(json_get(probe, rows[r][1]), rows[r][2]), rows[r][3]);
            const int skip = !strcmp(rows[r][1], "cos");
            int64_t count;
            float *x = numbers(paths[0], rows[r][0], &count);
            assert_int_equal(cJSON_GetArraySize(want), count - skip);
            for (int64_t l = skip; l < count; l++)
                near(&g, rows[r][0], (double)x[l],
                     cJSON_GetArrayItem(want, (int)l - skip)->valuedouble, 3e-4);
            free(x);
        }
        write_file(&g, "norms", paths[1], 2);
        const char *const both[] = { paths[0], paths[1] };
        unlink(paths[2]);
        must(calibration_merge(both, 2, paths[2], &err), &err);
        int64_t count;
        float *x = numbers(paths[2], "norms.text_std", &count);
        float *y = numbers(paths[0], "norms.text_std", &count);
        for (int64_t l = 0; l < count; l++) near(&g, "sum", (double)x[l], (double)y[l], 1e-6);
        free(x);
        free(y);
        golden_close(&g);
    }
}

// Merging two files of large norms that differ little keeps the deviation over all norms.
static void norms_add_up_without_cancelling(void **state)
{
    struct err err = { 0 };
    const char *const both[] = { paths[0], paths[1] };
    const int64_t rows = 2, all[] = { 2, 2, 4, 2 };
    for (int i = 0; i < 2; i++) {
        const struct calibration_source source = { "model", "data", 1, "f32", NULL };
        // [modality][mean, squares, count, cosines][layer]: norms 1e8 and 1e8 + 2, each 50 times.
        const double x = 1e8 + 2 * i, sums[2][4][2] = { { { x, x }, { 0, 0 }, { 50, 50 } },
                                                        { { x, x }, { 0, 0 }, { 50, 50 } } };
        const float mean[2] = { (float)x, (float)x };
        unlink(both[i]);
        struct safetensors_writer *w = calibration_writer(both[i], &source);
        safetensors_writer_declare(w, "norms.visual", DTYPE_F32, 1, &rows);
        safetensors_writer_declare(w, "norms.tally", DTYPE_F32, 4, all);
        must(safetensors_writer_data(w, mean, sizeof mean, &err), &err);
        must(calibration_write_doubles(w, &sums[0][0][0], 16, &err), &err);
        must(safetensors_writer_finish(w, &err), &err);
    }
    unlink(paths[2]);
    must(calibration_merge(both, 2, paths[2], &err), &err);
    int64_t count;
    float *x = numbers(paths[2], "norms.text_std", &count);
    assert_int_equal(count, 2);
    for (int64_t l = 0; l < count; l++) assert_float_equal((double)x[l], 1, 1e-6);
    free(x);
}

// /norms shows the data's norms beside the prompt's; here they are equal. A file of another kind is
// refused, and the setting keeps its value; another model's file is refused, too.
static void norms_of_data_and_prompt_are_compared(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    golden_open(&g, models[0]);
    write_file(&g, "norms", paths[0], 2);
    must(engine_set(g.engine, "norms.calibration", paths[0], &err), &err);
    run_probe(&g, &probe_norms, NULL, &r);
    const struct result_table *t = results_find(&r, "norms.calibration");
    assert_non_null(t);
    assert_int_equal(t->row_count, engine_model(g.engine)->decoder.config.layers + 1);
    for (size_t l = 0; l < t->row_count; l++) {
        const double *v = t->rows[l].value, *n = results_find(&r, "norms.layers")->rows[l].value;
        near(&g, "visual", v[1], v[0], 1e-5 * v[0]);
        near(&g, "visual std", v[2], n[1], 1e-4 * v[0]);
        near(&g, "text", v[4], v[3], 1e-5 * v[3]);
        near(&g, "text std", v[5], n[3], 1e-4 * v[3]);
    }
    results_release(&r);
    write_file(&g, "sinks", paths[1], 1);
    assert_int_equal(engine_set(g.engine, "norms.calibration", paths[1], &err), -1);
    assert_non_null(strstr(err.text, "norms.visual"));
    assert_string_equal(settings_text(engine_settings(g.engine), "norms.calibration"), paths[0]);
    golden_close(&g);
    golden_open(&g, models[1]);
    assert_int_equal(engine_set(g.engine, "norms.calibration", paths[0], &err), -1);
    assert_non_null(strstr(err.text, "different weights than"));
    golden_close(&g);
}

static void sinks_find_the_reference_dimensions(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        int64_t count;
        golden_open(&g, models[i]);
        write_file(&g, "sinks", paths[0], 1);
        float *dims = numbers(paths[0], "sinks.dims", &count);
        const int32_t *want = safetensors_find(g.tensors, "sink.dims")->data;
        assert_true(dims[4] == (float)want[0] && dims[5] == (float)want[1]); // layer 2
        free(dims);
        // /sinks then uses these dimensions.
        must(engine_set(g.engine, "sinks.calibration", paths[0], &err), &err);
        engine_clear(g.engine);
        say(&g, chat_named(&g, "second_picture"));
        run_probe(&g, &probe_sinks, NULL, &r);
        assert_true(*results_value(&r, "sinks", "sink dimension 1", "value") == want[0]);
        results_release(&r);
        golden_close(&g);
    }
}

static void files_of_other_shapes_are_refused(void **state)
{
    struct err err = { 0 };
    struct golden g;
    for (int i = 0; i < 2; i++) { // models of different widths
        golden_open(&g, models[i]);
        const struct calibration_kind *kind = calibration_kind_find("sinks", &err);
        const struct calibration_source source = { "same", "data", 1, "f32", NULL },
                                        own = { engine_model(g.engine)->checkpoint->weights, "data",
                                                1, "f32", NULL };
        struct calibration_sums *sums = calibration_start(kind, engine_model(g.engine));
        add_prompt(&g, sums);
        unlink(paths[i]);
        must(calibration_write(sums, &source, paths[i], &err), &err);
        if (i == 0) {
            calibration_free(sums);
            golden_close(&g);
            continue;
        }
        const char *const both[] = { paths[0], paths[1] };
        unlink(paths[2]);
        assert_int_equal(calibration_merge(both, 2, paths[2], &err), -1);
        assert_non_null(strstr(err.text, "different tensors"));
        // A calibration is checked again when it is used: here, a file of different weights
        // replaces it after the setting.
        struct measure_request request = { .probe = &probe_sinks, .options = probe_defaults };
        struct results r = { 0 };
        assert_int_equal(engine_set(g.engine, "sinks.calibration", paths[0], &err), -1);
        assert_non_null(strstr(err.text, "different weights than"));
        must(calibration_write(sums, &own, paths[2], &err), &err);
        calibration_free(sums);
        must(engine_set(g.engine, "sinks.calibration", paths[2], &err), &err);
        assert_int_equal(rename(paths[0], paths[2]), 0);
        assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
        assert_non_null(strstr(err.text, "different weights than"));
        results_release(&r);
        golden_close(&g);
    }
}

// Layer 1's map solves the normal equations of weighted ridge regression, and lens.left is the
// share of the squared distance that it leaves: in loops over dumped states.
static void lenses_are_least_squares(void **state)
{
    struct golden g;
    struct sequence s;
    struct err err = { 0 };
    golden_open(&g, "llava-1.5");
    write_file(&g, "lens", paths[0], 1);
    const struct decoder_config *d = &engine_model(g.engine)->decoder.config;
    const int64_t L = d->layers, D = d->hidden;
    int64_t count;
    float *update = numbers(paths[0], "lens.update", &count);
    float *bias = numbers(paths[0], "lens.bias", &count),
          *left = numbers(paths[0], "lens.left", &count);
    struct conversation *c = golden_conversation(&g);
    must(conversation_sequence(c, c->message_count, engine_settings(g.engine), true, &s, &err),
         &err);
    int64_t visual = sequence_visual_count(&s, 0);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "layer.2.in layer.out");
    const float *x = safetensors_find(f, "layer.2.in")->data;
    const float *y = safetensors_find(f, "layer.out")->data;
    const float *B = update + 1 * D * D, *b = bias + 1 * D;
    double *mean = xcalloc((size_t)D, sizeof *mean), *spread = xcalloc((size_t)D, sizeof *spread);
    double *normal = xcalloc((size_t)(D * D), sizeof *normal), all = 0, rest = 0, largest = 0;
    const double n = (double)s.n;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < s.n; i++) {
            const double w = n / (2 * (double)(s.picture[i] >= 0 ? visual : s.n - visual));
            for (int64_t k = 0; k < D && pass == 0; k++) mean[k] += w * (double)x[i * D + k] / n;
            for (int64_t k = 0; k < D && pass == 1; k++) {
                const double delta = (double)y[i * D + k] - (double)x[i * D + k];
                double error = delta - (double)b[k];
                spread[k] += w * pow((double)x[i * D + k] - mean[k], 2) / n;
                for (int64_t e = 0; e < D; e++)
                    error -= (double)B[k * D + e] * (double)x[i * D + e];
                for (int64_t e = 0; e < D; e++)
                    normal[k * D + e] += w * error * ((double)x[i * D + e] - mean[e]) / n;
                all += w * delta * delta / n;
                rest += w * error * error / n;
            }
        }
    near(&g, "lens.left", (double)left[1], rest / all, 1e-3);
    assert_true(rest < all);
    for (int64_t k = 0; k < D; k++)
        for (int64_t e = 0; e < D; e++) {
            const double gap = normal[k * D + e] - 1e-3 * spread[e] * (double)B[k * D + e];
            largest = fmax(largest, fabs(gap) / sqrt(spread[e] * all));
        }
    if (!(largest < 1e-4)) fail_msg("the normal equations are off by %g", largest);
    for (int64_t i = 0; i < D; i++) assert_true(bias[(L - 1) * D + i] == 0);
    for (int64_t i = 0; i < D * D; i++) assert_true(update[(L - 1) * D * D + i] == 0);

    // Merging the file with itself changes no map; /lens --tuned reads the result.
    const char *const both[] = { paths[0], paths[0] };
    unlink(paths[2]);
    must(calibration_merge(both, 2, paths[2], &err), &err);
    float *merged = numbers(paths[2], "lens.update", &count);
    for (int64_t i = 0; i < count; i++)
        near(&g, "merged", (double)merged[i], (double)update[i], 1e-4);
    struct results plain = { 0 }, tuned = { 0 };
    struct probe_options o = probe_defaults;
    o.words = "last";
    run_probe(&g, &probe_lens, &o, &plain);
    o.tuned = true;
    struct measure_request request = { .probe = &probe_lens, .options = o };
    assert_int_equal(engine_measure(g.engine, &request, &tuned, &err), -1);
    results_release(&tuned);
    must(engine_set(g.engine, "lens.calibration", paths[2], &err), &err);
    run_probe(&g, &probe_lens, &o, &tuned);
    char first[] = "0", last[16];
    snprintf(last, sizeof last, "%lld", (long long)L - 1);
    assert_true(*results_value(&plain, "lens", last, "best") ==
                *results_value(&tuned, "lens", last, "best"));
    assert_true(*results_value(&plain, "lens", first, "entropy") !=
                *results_value(&tuned, "lens", first, "entropy"));
    results_release(&plain);
    results_release(&tuned);
    free(merged);
    free(normal);
    free(spread);
    free(mean);
    free(update);
    free(bias);
    free(left);
    sequence_release(&s);
    safetensors_close(f);
    golden_close(&g);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s/vlmsh-kinds-%d-%d.safetensors",
                 base ? base : "/tmp", (int)getpid(), i);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_equal_the_reference_and_add_up),
        cmocka_unit_test(norms_add_up_without_cancelling),
        cmocka_unit_test(norms_of_data_and_prompt_are_compared),
        cmocka_unit_test(sinks_find_the_reference_dimensions),
        cmocka_unit_test(files_of_other_shapes_are_refused),
        cmocka_unit_test(lenses_are_least_squares),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) unlink(paths[i]);
    return failed;
}
