// tests/core/interventions/hooks.c -- lens, knockout, patching, ablation, attribution and steering
// compute what hooks of PyTorch compute on the goldens' models (tests/goldens/interventions.py),
// within ten times the error of float32.
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

static struct golden golden;
static struct safetensors *hooks;

static const void *numbers(const char *name, size_t *count)
{
    const struct safetensor *t = safetensors_find(hooks, name);
    if (!t) fail_msg("%s: no tensor %s", golden.name, name);
    *count = t->bytes / 4;
    return t->data;
}

// The numbers of one tensor, compared one after another.
struct wanted {
    const char *name;
    const float *values;
    size_t count, done;
    double tol;
};

static struct wanted wanted(const char *name)
{
    struct wanted w = { .name = name };
    char tol[64];
    size_t one;
    snprintf(tol, sizeof tol, "%s.tol", name);
    w.values = numbers(name, &w.count);
    w.tol = (double)*(const float *)numbers(tol, &one);
    return w;
}

static void next(struct wanted *w, double ours)
{
    assert_true(w->done < w->count);
    near(&golden, w->name, ours, (double)w->values[w->done], w->tol);
    w->done++;
}

static void end(const struct wanted *w)
{
    if (w->done != w->count)
        fail_msg("%s: %s has %zu numbers, not %zu", golden.name, w->name, w->count, w->done);
}

static void run(const struct probe *probe, const char *words, struct probe_options o,
                struct results *r)
{
    results_release(r);
    *r = (struct results){ 0 };
    o.words = words;
    run_probe(&golden, probe, &o, r);
}

static double value(const struct results *r, const char *table, const char *key, const char *column)
{
    const double *v = results_value(r, table, key, column);
    if (!v) fail_msg("%s: %s has no row %s with %s", golden.name, table, key, column);
    return *v;
}

// Compares columns of a table whose rows are the layers.
static void by_layer(const struct results *r, const char *table, const char *const *columns,
                     const char *name)
{
    struct wanted w = wanted(name);
    for (int l = 0; l < golden_layers(&golden); l++)
        for (int k = 0; columns[k]; k++) {
            char key[16];
            snprintf(key, sizeof key, "%d", l);
            next(&w, value(r, table, key, columns[k]));
        }
    end(&w);
}

static void by_map(const struct results *r, const char *map, double sign, const char *name)
{
    struct wanted w = wanted(name);
    for (size_t m = 0; m < r->map_count; m++)
        for (int i = 0; !strcmp(r->maps[m].name, map) && i < r->maps[m].rows * r->maps[m].cols; i++)
            if (!isnan(r->maps[m].values[i])) next(&w, sign * (double)r->maps[m].values[i]);
    end(&w);
}

// Compares the numbers of the visual tokens in a table of positions; adds `allowed` to the
// tolerance.
static void by_token(const struct results *r, const char *table, const char *column, double allowed,
                     const char *name)
{
    struct wanted w = wanted(name);
    const struct result_table *t = results_find(r, table);
    w.tol += allowed;
    for (size_t token = 0; token < w.count; token++)
        for (size_t i = 0; i < t->row_count; i++) {
            char of[48];
            snprintf(of, sizeof of, "(picture 0, token %zu)", token);
            if (strstr(t->rows[i].key, of)) next(&w, value(r, table, t->rows[i].key, column));
        }
    end(&w);
}

static const char *const change[] = { "change", NULL };

static void check_lens(struct results *r)
{
    static const char *const target[] = { "target", NULL }, *const entropy[] = { "entropy", NULL };
    run(&probe_lens, "picture,last", probe_defaults, r);
    by_layer(r, "lens", target, "lens.target");
    by_layer(r, "lens", entropy, "lens.entropy");
    by_map(r, "lens", 1, "lens.picture");
}

static void check_knockout(struct results *r, const char *text)
{
    struct probe_options o = probe_defaults;
    char words[64];
    o.window = 1, o.heads = true;
    run(&probe_knockout, "picture > answer", o, r);
    struct wanted w = wanted("knockout.answer");
    next(&w, value(r, "knockout", "change", "log-probability"));
    by_layer(r, "knockout.windows", change, "knockout.layers");
    by_map(r, "knockout.heads", -1, "knockout.heads");
    snprintf(words, sizeof words, "picture > %s", text);
    run(&probe_knockout, words, probe_defaults, r);
    w = wanted("knockout.text");
    next(&w, value(r, "knockout", "change", "log-probability"));
}

static void check_patch(struct results *r)
{
    static const char *const groups[] = { "picture", "last", "answer", "all", NULL };
    static const char *const parts[] = { "residual", "attention", "ffn", "value" };
    struct probe_options o = probe_defaults;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[32];
        o.at = parts[i];
        run(&probe_patch, "mean", o, r);
        snprintf(name, sizeof name, "patch.%s", parts[i]);
        by_layer(r, "patch.layers", groups, name);
    }
    struct wanted w = wanted("patch.run");
    next(&w, value(r, "patch", "run A", "log-probability"));
    next(&w, value(r, "patch", "run B", "log-probability"));
    o.at = "head";
    run(&probe_patch, "mean", o, r);
    by_map(r, "patch.heads", 1, "patch.head");
    o.at = NULL, o.tokens = true, o.layers = "1";
    run(&probe_patch, "mean", o, r);
    by_map(r, "patch.positions", 1, "patch.positions");
}

static void check_ablate(struct results *r)
{
    struct probe_options o = probe_defaults;
    run(&probe_ablate, "heads", o, r);
    by_map(r, "ablate.map", -1, "ablate.heads");
    run(&probe_ablate, "ffn", o, r);
    by_layer(r, "ablate.ffn", change, "ablate.ffn");
    run(&probe_ablate, "layers", o, r);
    by_layer(r, "ablate.layers", change, "ablate.layers");
    run(&probe_ablate, "tokens picture", o, r);
    by_token(r, "ablate.tokens", "change", 0, "ablate.tokens");
    o.mean = true;
    run(&probe_ablate, "ffn", o, r);
    by_layer(r, "ablate.ffn", change, "ablate.ffn.mean");
}

static void check_attribution(struct results *r)
{
    static const char *const kinds[] = { "gradient",  "gradcam", "integrated", "occlusion",
                                         "attention", "rollout", "direct" };
    static const char *const parts[] = { "attention", "ffn", NULL };
    struct probe_options o = probe_defaults;
    o.by = "gradient,gradcam,integrated,occlusion,attention,rollout,direct";
    o.steps = 129;
    run(&probe_attribute, "picture", o, r);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[32];
        // The integral is refined until its error is at most 0.1% of the sum.
        const bool sums = !strcmp(kinds[i], "integrated");
        const double off = sums ? 1e-3 * fabs(value(r, "attribute.kinds", kinds[i], "sum")) : 0;
        snprintf(name, sizeof name, "attribute.%s", kinds[i]);
        by_token(r, "attribute.rows", kinds[i], off, name);
    }
    by_layer(r, "attribute.direct", parts, "direct.parts");
    by_map(r, "attribute.heads", 1, "direct.heads");
    struct wanted w = wanted("direct.embedding");
    next(&w, value(r, "attribute.logit", "embedding", "logit"));
}

// The vector is in the golden's own file, as direction.1.
static void check_steering(struct results *r)
{
    struct wanted w = wanted("steer");
    struct err err = { 0 };
    for (size_t i = 0; i < 2; i++) {
        char setting[96];
        snprintf(setting, sizeof setting, "build/goldens/%s/interventions.safetensors=%d",
                 golden.name, i ? -1 : 2);
        must(engine_set(golden.engine, "steer.vectors", setting, &err), &err);
        run(&probe_ablate, "ffn last", probe_defaults, r);
        next(&w, value(r, "ablate", "the answer", "log-probability"));
    }
    end(&w);
}

// `text`: the positions after the picture, without the last one of the prompt.
static void equals_hooks(const char *name, const char *text)
{
    struct err err = { 0 };
    struct results r = { 0 };
    char path[96];
    size_t count;
    ask(&golden, name, 3);
    snprintf(path, sizeof path, "build/goldens/%s/interventions.safetensors", name);
    if (!(hooks = safetensors_open(path, &err))) fail_msg("%s", err.text);
    const int32_t *ids = numbers("ids", &count);
    assert_int_equal(count, golden.answer.count);
    assert_memory_equal(golden.answer.data, ids, count * sizeof *ids);
    check_lens(&r);
    check_knockout(&r, text);
    check_patch(&r);
    check_ablate(&r);
    check_attribution(&r);
    check_steering(&r);
    results_release(&r);
    safetensors_close(hooks);
    golden_close(&golden);
}

static void a_plain_decoder_equals_hooks(void **state)
{
    equals_hooks("llava-1.5", "28-35");
}

// Sliding windows, attention in both directions inside the picture, norms after each part.
static void a_peculiar_decoder_equals_hooks(void **state)
{
    equals_hooks("gemma3", "30-42");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_decoder_equals_hooks),
        cmocka_unit_test(a_peculiar_decoder_equals_hooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
