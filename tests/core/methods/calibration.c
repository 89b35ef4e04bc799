// tests/core/methods/calibration.c -- core/methods/calibration.c, core/probes/calibration_ffn.c and
// calibration_phases.c: alpha and redundancy against the reference; the fit against a
// loop; the phases' curves against a loop and pruning's scores; merged and malformed files.
#include "core/talk/answer.h"
#include "tests/core/model/families/golden.h"

#include "core/base/dtype.h"
#include "core/engine/presets.h"
#include "core/methods/calibration.h"
#include "core/methods/phases.h"
#include "core/settings/changes.h"

static const char *const models[] = { GOLDEN_SEEING };
static const char *const chats[] = { "single", "second_picture" };

// Adds one prompt to the sums.
static void measure(struct golden *g, const char *chat, struct calibration_sums *sums)
{
    struct err err = { 0 };
    struct conversation c;
    struct hooks hooks = { 0 };
    const struct sinks nobody = { 0 };
    const struct answer_options options = { .forward_only = true, .whole = true };
    atomic_bool cancel = false;
    bool answered;
    const struct hook hook = calibration_hook(sums);
    engine_clear(g->engine);
    say(g, chat_named(g, chat));
    const struct conversation *from = engine_conversation(g->engine);
    conversation_init(&c, test_device());
    conversation_set_model(&c, from->model);
    for (size_t i = 0; i < from->picture_count; i++)
        must(conversation_attach(&c, from->pictures[i].path, from->pictures[i].bytes,
                                 from->pictures[i].size, &err),
             &err);
    for (size_t i = 0; i < from->message_count; i++)
        message_copy(conversation_add(&c, from->messages[i].role), &from->messages[i]);
    hooks_add(&hooks, &hook);
    must(answer_run(&c, engine_settings(g->engine), &hooks, &cancel, &options, &nobody, &answered,
                    &err),
         &err);
    conversation_release(&c);
}

static char paths[3][256];

static void write_file(struct golden *g, const char *path, const char *first, const char *second)
{
    struct err err = { 0 };
    const struct calibration_kind *kind = calibration_kind_find("ffn", &err);
    const struct model *m = engine_model(g->engine);
    struct calibration_sums *sums = calibration_start(kind, m);
    measure(g, first, sums);
    if (second) measure(g, second, sums);
    const struct calibration_source source = { m->checkpoint->weights, first, second ? 2 : 1,
                                               "bf16", NULL };
    must(calibration_write(sums, &source, path, &err), &err);
    calibration_free(sums);
}

static void compare_file(struct golden *g, const char *path)
{
    struct err err = { 0 };
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    compare_all(g, f, "ffn.alpha", "ffn.ols_alpha");
    compare_all(g, f, "ffn.redundancy", "ffn.redundancy");
    compare_all(g, f, "ffn.redundancy_text", "ffn.redundancy_text");
    safetensors_close(f);
}

static void equals_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        golden_open(&g, models[i]);
        write_file(&g, paths[0], chats[0], chats[1]);
        compare_file(&g, paths[0]);
        golden_close(&g);
    }
}

// Computes J, R^2 and the explained share of the FFN in a loop over the tokens, for visual tokens
// and for text with its own alpha. Then approximates the FFN of all tokens of layer 1.
static void fit_equals_a_loop(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    write_file(&g, paths[0], "single", NULL);
    struct safetensors *c = safetensors_open(paths[0], &err);
    engine_clear(g.engine);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "ids ffn.*");
    const struct safetensor *ids = safetensors_find(f, "ids");
    const int64_t layers = engine_model(g.engine)->decoder.config.layers, n = ids->shape[0];
    const int64_t width = engine_model(g.engine)->decoder.config.hidden;
    const float *fit = safetensors_find(c, "ffn.fit")->data;
    for (int64_t l = 0; l < layers; l++)
        for (int text = 0; text < 2; text++) {
            char name[32];
            snprintf(name, sizeof name, "ffn.%d.in", (int)l);
            const float *x = safetensors_find(f, name)->data;
            snprintf(name, sizeof name, "ffn.%d.out", (int)l);
            const float *y = safetensors_find(f, name)->data;
            const float *alpha =
                (const float *)safetensors_find(c, text ? "ffn.alpha_text" : "ffn.alpha")->data +
                l * width;
            double residual = 0, total = 0, skipped = 0, tokens = 0;
            for (int64_t i = 0; i < n; i++) {
                const bool visual =
                    ((const int32_t *)ids->data)[i] == engine_model(g.engine)->placeholder;
                if (visual == text) continue;
                tokens++;
                for (int64_t k = 0; k < width; k++) {
                    const double u = (double)x[i * width + k], v = (double)y[i * width + k];
                    residual += pow(v - (double)alpha[k] * u, 2);
                    total += v * v;
                    skipped += pow(v - u, 2);
                }
            }
            const double want[] = { residual / tokens, 1 - residual / total,
                                    1 - residual / skipped };
            for (int i = 0; i < 3; i++)
                assert_float_equal(fit[(text * 3 + i) * layers + l], want[i],
                                   2e-3 * fmax(fabs(want[i]), 0.05));
        }
    safetensors_close(f);
    // Each modality uses its own alpha.
    must(engine_set(g.engine, "ffn.calibration", paths[0], &err), &err);
    must(engine_set(g.engine, "ffn.layers", "1", &err), &err);
    must(engine_set(g.engine, "ffn.tokens", "all", &err), &err);
    must(engine_set(g.engine, "ffn.approx", "hadamard", &err), &err);
    f = answer(&g, chat_named(&g, "single"), 1, "ids ffn.1.*");
    const float *x = safetensors_find(f, "ffn.1.in")->data,
                *y = safetensors_find(f, "ffn.1.out")->data;
    ids = safetensors_find(f, "ids");
    for (int64_t i = 0; i < n * width; i++) {
        const bool visual =
            ((const int32_t *)ids->data)[i / width] == engine_model(g.engine)->placeholder;
        const float *alpha = safetensors_find(c, visual ? "ffn.alpha" : "ffn.alpha_text")->data;
        assert_float_equal(y[i], x[i] * alpha[width + i % width], 1e-5 * (1 + fabsf(y[i])));
    }
    safetensors_close(f);
    safetensors_close(c);
    golden_close(&g);
}

// Made-up curves give the expected phases.
static void phases_follow_their_curves(void **state)
{
    static const float contribution[] = { 1, 4, 3, 3, 1, 0.9f, 0.8f, 5 };
    static const float distance[] = { 0.9f, 0.9f, 0.9f, 0.8f, 0.7f, 0.4f, 0.2f, 0 };
    int phase[PHASES];
    phases_find(contribution, distance, 8, phase);
    assert_int_equal(phase[PHASE_EARLY], 1);
    assert_int_equal(phase[PHASE_TRANSITION], 3); // the drop from 3 to 1
    assert_int_equal(phase[PHASE_LATE], 5);       // at most half of 0.8
    phases_find(contribution, distance, 1, phase);
    assert_true(phase[0] == 0 && phase[1] == 0 && phase[2] == 0);
}

// The contribution of layer 1 is the mean of pruning's scores, which are tested against the
// reference. The distance of layer 0 is computed from its output through norm, head and cap in
// loops.
static void check_curves(const char *model)
{
    struct golden g;
    struct err err = { 0 };
    struct calibration c;
    int phase[PHASES];
    golden_open(&g, model);
    const struct model *m = engine_model(g.engine);
    struct calibration_sums *sums = calibration_start(calibration_kind_find("phases", &err), m);
    measure(&g, "single", sums);
    const struct calibration_source source = { m->checkpoint->weights, "single", 1, "bf16", NULL };
    must(calibration_write(sums, &source, paths[0], &err), &err);
    calibration_free(sums);
    must(calibration_open(&c, paths[0], &err), &err);
    const int64_t shape[] = { m->decoder.config.layers, 2 };
    float *curves = calibration_numbers(&c, "phases.curves", 2, shape, &err);
    assert_non_null(curves);
    must(engine_set(g.engine, "prune.layer", "1", &err), &err);
    must(engine_set(g.engine, "prune.keep", "1", &err), &err);
    must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "score.1 layer.1.in logits");
    const struct safetensor *score = safetensors_find(f, "score.1");
    double mean = 0;
    for (int64_t i = 0; i < score->shape[0]; i++)
        mean += (double)((const float *)score->data)[i] / (double)score->shape[0];
    assert_float_equal(curves[2], mean, 1e-5 * mean);
    assert_true(curves[2 * shape[0] - 1] == 0); // after the last layer
    const struct safetensor *h = safetensors_find(f, "layer.1.in"),
                            *logits = safetensors_find(f, "logits");
    const int64_t D = h->shape[1], V = logits->shape[1], row = h->shape[0] - 1;
    const struct tensor *head = &m->decoder.head;
    float *gain = xcalloc((size_t)D, sizeof *gain), *w = xcalloc((size_t)(V * D), sizeof *w);
    double *p[2] = { xcalloc((size_t)V, sizeof **p), xcalloc((size_t)V, sizeof **p) };
    const float *x = (const float *)h->data + row * D;
    const double cap = m->decoder.config.logit_cap;
    double squares = 0, apart = 0;
    floats_from(gain, m->decoder.norm.data, m->decoder.norm.dtype, (size_t)D);
    floats_from(w, head->data, head->dtype, (size_t)(V * D));
    for (int64_t k = 0; k < D; k++) squares += (double)x[k] * (double)x[k];
    const double scale = 1 / sqrt(squares / (double)D + m->decoder.config.eps);
    for (int64_t v = 0; v < V; v++) {
        for (int64_t k = 0; k < D; k++)
            p[0][v] += (double)x[k] * scale * (double)gain[k] * (double)w[v * D + k];
        if (cap > 0) p[0][v] = cap * tanh(p[0][v] / cap);
        p[1][v] = (double)((const float *)logits->data)[row * V + v];
    }
    for (int i = 0; i < 2; i++) {
        double sum = 0;
        for (int64_t v = 0; v < V; v++) sum += p[i][v] = exp(p[i][v]);
        for (int64_t v = 0; v < V; v++) p[i][v] = sqrt(p[i][v] / sum);
        if (i)
            for (int64_t v = 0; v < V; v++) apart += pow(p[0][v] - p[1][v], 2);
    }
    assert_float_equal(curves[1], sqrt(apart / 2), 1e-4);
    safetensors_close(f);
    free(gain), free(w), free(p[0]), free(p[1]), free(curves);
    calibration_close(&c);
    // With these phases, prune.layer auto is the transition layer.
    must(engine_set(g.engine, "prune.keep", "0.25", &err), &err);
    must(engine_set(g.engine, "phases.calibration", paths[0], &err), &err);
    must(engine_set(g.engine, "prune.layer", "auto", &err), &err);
    bool known;
    must(phases_calibrated(engine_settings(g.engine), m, phase, &known, &err), &err);
    assert_true(known);
    struct preset_values v = { .settings = engine_settings(g.engine) };
    char *want = xasprintf("%d %d", phase[PHASE_EARLY], phase[PHASE_LATE]);
    must(preset_read_text(&v, "a={early} b={late}", m, &err), &err);
    char *got = xasprintf("%s %s", v.list[0].value, v.list[1].value);
    assert_string_equal(got, want);
    assert_false(v.guessed);
    free(want), free(got);
    preset_values_release(&v);
    f = answer(&g, chat_named(&g, "single"), 1, "rows.*");
    for (int l = 1; l < shape[0]; l++) {
        char name[16];
        snprintf(name, sizeof name, "rows.%d", l);
        const bool fewer =
            safetensors_find(f, name)->shape[0] < safetensors_find(f, "rows.0")->shape[0];
        assert_int_equal(fewer, l > phase[PHASE_TRANSITION]);
    }
    safetensors_close(f);
    golden_close(&g);
}

static void curves_equal_loops(void **state)
{
    check_curves(models[0]);
    check_curves("gemma4");
}

// Files of one prompt each, merged, equal the reference for both prompts; files of different models
// cannot be merged.
static void files_add_up(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct calibration c;
    golden_open(&g, models[0]);
    write_file(&g, paths[0], chats[0], NULL);
    write_file(&g, paths[1], chats[1], NULL);
    const char *const both[] = { paths[0], paths[1] };
    must(calibration_merge(both, 2, paths[2], &err), &err);
    compare_file(&g, paths[2]);
    must(calibration_open(&c, paths[2], &err), &err);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.data, "single+second_picture");
    must(calibration_fits(&c, engine_model(g.engine), &err), &err);
    calibration_close(&c);
    golden_close(&g);

    golden_open(&g, models[1]);
    must(calibration_open(&c, paths[2], &err), &err);
    assert_int_equal(calibration_fits(&c, engine_model(g.engine), &err), -1);
    calibration_close(&c);
    write_file(&g, paths[1], chats[1], NULL);
    assert_int_equal(calibration_merge(both, 2, paths[2], &err), -1);
    assert_non_null(strstr(err.text, "a different model"));
    golden_close(&g);
}

// Writes a file with these tensors: the first [layers,3], the others [2,layers,3].
static void write_tensors(const char *const *names, int count, int64_t layers)
{
    struct err err = { 0 };
    const int64_t shape[] = { 2, layers, 3 };
    static const float numbers[3 * (DECODER_LAYERS + 1)];
    struct safetensors_writer *w = safetensors_writer_new(paths[0]);
    for (int i = 0; i < count; i++)
        safetensors_writer_declare(w, names[i], DTYPE_F32, i ? 3 : 2, shape + !i);
    for (int i = 0; i < count; i++)
        must(safetensors_writer_data(w, numbers, (uint64_t)(i ? 2 : 1) * (uint64_t)layers * 12,
                                     &err),
             &err);
    must(safetensors_writer_finish(w, &err), &err);
}

static void strange_files_are_refused(void **state)
{
    struct err err = { 0 };
    struct calibration c;
    static const char *const names[] = { "ffn.alpha", "ffn.sum_xx", "ffn.sum_xy" };
    static const char *const other[] = { "weight" };
    write_tensors(other, 1, 2);
    assert_int_equal(calibration_open(&c, paths[0], &err), -1);
    assert_non_null(strstr(err.text, "not a calibration"));
    for (int layers = 0; layers < 3; layers++)
        for (int count = 1; count <= 3; count++) {
            write_tensors(names, count, layers);
            must(calibration_open(&c, paths[0], &err), &err);
            assert_int_equal(c.count, -1);
            assert_null(calibration_read(&c, &err));
            assert_non_null(strstr(err.text, layers ? "ffn.sum" : "ffn.alpha"));
            calibration_close(&c);
        }
    write_tensors(names, 1, DECODER_LAYERS + 1);
    must(calibration_open(&c, paths[0], &err), &err);
    assert_null(calibration_read(&c, &err));
    assert_non_null(strstr(err.text, "ffn.alpha"));
    calibration_close(&c);
    assert_null(calibration_kind_find("ffm", &err));
    assert_non_null(strstr(err.text, "ffn"));
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s/vlmsh-calibration-%d-%d", base ? base : "/tmp",
                 (int)getpid(), i);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),
        cmocka_unit_test(fit_equals_a_loop),
        cmocka_unit_test(phases_follow_their_curves),
        cmocka_unit_test(curves_equal_loops),
        cmocka_unit_test(files_add_up),
        cmocka_unit_test(strange_files_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) unlink(paths[i]);
    return failed;
}
