// tests/core/train/plan.c -- core/train/forecast.c, core/new/outline.c and core/graph/dry.c:
// forecasts against the memory of real runs, and the shares of parameters that the paper on
// LayerNorm tuning trains, on shapes without weights.
#include "tests/core/train/sft.h"

#include "core/new/new_model.h"
#include "core/new/outline.h"
#include "core/train/forecast.h"
#include "core/train/params.h"
#include "core/train/select.h"

// Reads "activations: 1.2 MB, forecast 1.3 MB" from the results, in MB.
static void told_part(const struct trial *t, const char *part, double *took, double *forecast)
{
    char *key = xasprintf("%s: ", part);
    const char *at = t->results.data ? strstr(t->results.data, key) : NULL;
    if (!at || sscanf(at + strlen(key), "%lf MB, forecast %lf MB", took, forecast) != 2)
        fail_msg("no '%s' in:\n%s", part, t->results.data ? t->results.data : "");
    free(key);
}

// Compares the memory of a run's parts with its forecast.
static void check_run(const char *model, const char *data, const char *method,
                      const char *checkpointing)
{
    char *out = xasprintf("%s/%zu-%s-%s", scratch, strlen(model), method, checkpointing);
    char *how = xasprintf("train.method=%s", method);
    char *keep = xasprintf("train.checkpointing=%s", checkpointing);
    const char *const settings[] = { how, keep, "train.batch=2", "train.steps=2", NULL };
    struct trial t = { 0 };
    if (trial_run(&t, model, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    for (int i = MEMORY_WEIGHTS; i < MEMORY_PROGRAM; i++) {
        double took, forecast;
        told_part(&t, memory_part_name(i), &took, &forecast);
        // The forecast of the kernels' working memory is a guess; everything else is counted.
        const double allowed = i == MEMORY_WORKSPACE ? 0.2 * took + 1.5 : 0.02 * took + 0.11;
        if (fabs(took - forecast) > allowed)
            fail_msg("%s, checkpointing %s: %s took %.1f MB, forecast %.1f MB", method,
                     checkpointing, memory_part_name(i), took, forecast);
    }
    trial_release(&t);
    free(keep);
    free(how);
    free(out);
}

static void test_runs(void **state)
{
    (void)state;
    struct err err;
    char *data = trial_golden_data(scratch), *demo = xasprintf("%s/demo", scratch);
    if (new_model_write("demo", demo, 1, NULL, NULL, &err) < 0) fail_msg("%s", err.text);
    const char *name;
    for (int i = 0; (name = select_method_name(i)); i++) check_run(GOLDEN, data, name, "on");
    check_run(demo, data, "layernorm-simple", "on");
    check_run(demo, data, "all", "off");
    check_run(demo, data, "connector", "auto");
    free(demo);
    free(data);
}

// Samples of very different lengths: over the steps, each lane gets some of the longest ones.
static void test_lengths(void **state)
{
    (void)state;
    enum { SAMPLES = 64 };
    const char *const settings[] = { "train.method=all", "train.checkpointing=off", "train.batch=8",
                                     "train.steps=24", NULL };
    struct err err;
    struct trial t = { 0 };
    double took, forecast;
    char *data = xasprintf("%s/texts.json", scratch), *demo = xasprintf("%s/demo", scratch);
    if (new_model_write("demo", demo, 1, NULL, NULL, &err) < 0) fail_msg("%s", err.text);
    char *out = xasprintf("%s/out", scratch);
    FILE *f = fopen(data, "we");
    assert_non_null(f);
    for (int i = 0; i < SAMPLES; i++) {
        fprintf(f, "%s{\"conversations\": [{\"from\": \"human\", \"value\": \"", i ? ", " : "[");
        for (int k = 0; k < 10 + 2 * (i * 29 % SAMPLES); k++) fputs("a word ", f);
        fputs("\"}, {\"from\": \"gpt\", \"value\": \"yes\"}]}", f);
    }
    fputs("]", f);
    assert_int_equal(fclose(f), 0);
    if (trial_run(&t, demo, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    told_part(&t, "activations", &took, &forecast);
    assert_true(fabs(took - forecast) < 0.05 * took);
    told_part(&t, "workspace", &took, &forecast);
    assert_true(fabs(took - forecast) < 0.2 * took + 1.5);
    trial_release(&t);
    free(out);
    free(demo);
    free(data);
}

// Checkpointing changes which activations are kept; the forecast must follow.
static void test_checkpointing(void **state)
{
    (void)state;
    struct err err;
    struct forecast on, off;
    struct settings *s = settings_new();
    settings_set(s, "train.checkpointing", "on", &err);
    if (forecast_shape(&on, "llama-3.2-1b", s, 600, NULL, &err) < 0) fail_msg("%s", err.text);
    settings_set(s, "train.checkpointing", "off", &err);
    if (forecast_shape(&off, "llama-3.2-1b", s, 600, NULL, &err) < 0) fail_msg("%s", err.text);
    assert_true(off.parts.of[MEMORY_ACTIVATIONS] > 4 * on.parts.of[MEMORY_ACTIVATIONS]);
    // At least the 16 layers' inputs of [rows, 2048] are kept.
    assert_true(on.parts.of[MEMORY_ACTIVATIONS] >= (uint64_t)on.rows * 2048 * 4 * 16);
    assert_int_equal(on.parts.of[MEMORY_OPTIMIZER], (uint64_t)on.count[MODEL_PARTS].trained * 8);
    assert_int_equal(forecast_shape(&on, "llama-9", s, 600, NULL, &err), -1);
    settings_free(s);
}

// Table 2 of the paper on LayerNorm tuning, where LoRA has rank 64.
static void test_shares(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        double share[2], tolerance;
    } rows[] = {
        { "full", { 95.7, 97.7 }, 0.05 },  { "qv", { 19.0, 18.2 }, 0.05 },
        { "mlp", { 65.2, 66.2 }, 0.05 },   { "layernorm", { 3.8, 2.5 }, 0.05 },
        { "lora", { 5.92, 4.30 }, 0.006 }, { "layernorm-simple", { 0.004, 0.003 }, 0.0005 },
    };
    static const char *const shapes[] = { "mm-llama2-7b", "mm-llama2-13b" };
    struct err err;
    const struct select_lora lora = { .rank = 64, .alpha = 64 };
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct selection c;
            size_t count;
            struct model *o = outline_shape(shapes[k], &err);
            if (!o) fail_msg("%s", err.text);
            struct select_item *items = params_items(o, NULL, 0, &count);
            if (select_method(&c, rows[i].method, &lora, items, count, &err) < 0)
                fail_msg("%s", err.text);
            const double share = 100 * (double)c.parameters[MODEL_PARTS].trained /
                                 (double)c.parameters[MODEL_PARTS].total;
            if (fabs(share - rows[i].share[k]) > rows[i].tolerance)
                fail_msg("%s on %s: %.4f%%", rows[i].method, shapes[k], share);
            selection_release(&c);
            free(items);
            outline_free(o);
        }
}

// A forecast leaves the model's first norm as it is.
static void test_outline(void **state)
{
    (void)state;
    struct err err;
    struct forecast f;
    struct settings *s = settings_new();
    struct model *m = model_load(GOLDEN, backend_cpu(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    const struct tensor before = m->decoder.layer[0].attention.before;
    settings_set(s, "train.method", "all", &err);
    settings_set(s, "norm.align", "on", &err);
    settings_set(s, "train.ira", "on", &err);
    if (forecast_model(&f, m, s, 0, &err) < 0) fail_msg("%s", err.text);
    assert_memory_equal(&before, &m->decoder.layer[0].attention.before, sizeof before);
    assert_true(f.count[MODEL_PARTS].trained > 0 && memory_own(&f.parts) > 0);
    // Passes run one after the other, as methods require, and the first one has the whole arena.
    assert_true(f.arena >= f.parts.of[MEMORY_ACTIVATIONS] && f.lane == 0);
    model_free(m);
    settings_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_runs, open_scratch, close_scratch),
        cmocka_unit_test_setup_teardown(test_lengths, open_scratch, close_scratch),
        cmocka_unit_test(test_checkpointing),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_outline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
