// tests/core/probes/flops.c -- core/probes/flops.c against independently derived formulas and the
// forecast; measured times are positive.
#include "core/model/flops.h"
#include "core/methods/forecast.h"
#include "core/probes/measure.h"
#include "tests/core/probes/probe.h"
#include "tests/core/scratch.h"

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static double cell(const struct results *r, const char *part, const char *column)
{
    const double *v = results_value(r, "flops", part, column);
    if (!v) fail_msg("no %s of %s", column, part);
    return *v * 1e9;
}

// FLOPs of a layer with n rows, `ffn` of which pass the FFN.
static double layer(const struct decoder_config *d, double n, double ffn)
{
    const double D = (double)d->hidden, H = (double)d->heads, Hkv = (double)d->kv_heads;
    const double w = (double)d->dim;
    return 4 * n * D * H * w + 4 * n * D * Hkv * w + 6 * ffn * D * (double)d->ffn +
           2 * n * (n + 1) * H * w;
}

// Counts the bytes and FLOPs of the experts that Kimi chooses per row, and of one latent per key.
static void experts_and_latents_are_counted(void **state)
{
    struct golden g;
    struct results r = { 0 };
    double weights, keys;
    ask(&g, "kimi-vl", 2);
    const struct decoder *d = &engine_model(g.engine)->decoder;
    const double D = 48, q = 3 * 24 * D, down = 32 * D, up = 3 * 32 * 24, out = D * 48;
    const double gated = 3 * 72 * D, experts = 8 * D + 3 * (2 + 3) * 24 * D;
    const double rows = (double)engine_conversation(g.engine)->cached.prompt + 1;
    run_probe(&g, &probe_flops, NULL, &r);
    const char *note = NULL;
    for (size_t i = 0; i < r.note_count; i++)
        if (strstr(r.notes[i], "A token reads")) note = r.notes[i];
    assert_non_null(note);
    assert_int_equal(sscanf(note, "A token reads %lf MB of weights and %lf", &weights, &keys), 2);
    near(&g, "weights", weights * 1e6,
         2 * (3 * (q + down + up + out) + gated + 2 * experts + 536 * D), 1);
    near(&g, "keys", keys * 1e6, 3 * rows * (24 + 8) * 4, 1);
    const double n = rows - 1,
                 pair = 2 * 3 * (24 + 16); // per pair: 3 heads, keys of 24, values of 16
    near(&g, "operations", cell(&r, "all", "prompt, full"),
         2 * n * (3 * (q + down + up + out) + gated + 2 * experts) + 3 * pair * n * (n + 1) / 2 +
             2 * 536 * D,
         1);
    assert_int_equal(d->config.layers, 3);
    results_release(&r);
    golden_close(&g);
}

static void counts_follow_the_formulas(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        if (!strcmp(models[i], "kimi-vl")) continue; // experts_and_latents_are_counted tests it
        struct golden g;
        struct results r = { 0 };
        struct sequence s = { 0 };
        struct err err = { 0 };
        ask(&g, models[i], 4); // the answer's rows do not count
        const struct decoder_config *d = &engine_model(g.engine)->decoder.config;
        must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err), &err);
        const double n = (double)s.prompt, visual = (double)sequence_visual_count(&s, 0);
        const double head = 2 * (double)d->hidden * (double)d->vocab;
        sequence_release(&s);

        run_probe(&g, &probe_flops, NULL, &r);
        near(&g, "full", cell(&r, "all", "prompt, full"), d->layers * layer(d, n, n) + head, 1);
        near(&g, "now", cell(&r, "all", "prompt, now"), cell(&r, "all", "prompt, full"), 0.5);
        near(&g, "token", cell(&r, "all", "token, full"),
             d->layers * (layer(d, n + 1, n + 1) - layer(d, n, n)) + head, 1);
        const struct result_table *t = results_find(&r, "times");
        assert_non_null(t);
        for (size_t k = 0; k < t->row_count; k++) assert_true(t->rows[k].value[0] > 0);
        results_release(&r);

        set(&g, "prune.layer", "1");
        set(&g, "prune.keep", "0.25");
        set(&g, "prune.score", "attention");
        run_probe(&g, &probe_flops, NULL, &r);
        const double m = n - visual + rint(0.25 * visual);
        near(&g, "pruned", cell(&r, "all", "prompt, now"),
             2 * layer(d, n, n) + (d->layers - 2) * layer(d, m, m) + head, 1);
        near(&g, "pruned token", cell(&r, "all", "token, now"),
             2 * (layer(d, n + 1, n + 1) - layer(d, n, n)) +
                 (d->layers - 2) * (layer(d, m + 1, m + 1) - layer(d, m, m)) + head,
             1);
        results_release(&r);

        set(&g, "prune.mode", "dynamic"); // only the prompt's last row sees less
        run_probe(&g, &probe_flops, NULL, &r);
        near(&g, "dynamic", cell(&r, "all", "prompt, now"),
             d->layers * layer(d, n, n) + head -
                 (d->layers - 2) * 4 * (n - m) * (double)(d->heads * d->dim),
             1);
        results_release(&r);

        set(&g, "prune.score", "off");
        set(&g, "ffn.layers", "0,2");
        set(&g, "ffn.approx", "skip");
        run_probe(&g, &probe_flops, NULL, &r);
        near(&g, "skip", cell(&r, "all", "prompt, now"),
             (d->layers - 2) * layer(d, n, n) + 2 * layer(d, n, n - visual) + head, 1);
        near(&g, "skip, approximation", cell(&r, "FFN approximation", "prompt, now"), 0, 0.1);
        results_release(&r);

        // The closed forms of CAPA's appendix A.1, with a quarter of the visual tokens kept.
        set(&g, "ffn.approx", "off");
        set(&g, "prune.mode", "prefill");
        set(&g, "prune.score", "uniform");
        run_probe(&g, &probe_flops, NULL, &r);
        const double *after =
            results_value(&r, "flops.equations", "rows after pruning (Eq. 11)", "equation");
        assert_non_null(after);
        assert_true(after[0] < n && after[0] == after[1]);
        const double *ffn =
            results_value(&r, "flops.equations", "FFN of a row (Eq. 8: 6 d d_ff)", "equation");
        assert_true(ffn[0] == ffn[1]);
        const double *speed =
            results_value(&r, "flops.equations", "speedup of attention (Eq. 13)", "equation");
        near(&g, "equation 13", speed[0], n / after[0] * n / after[0], 1e-9);
        assert_true(speed[1] > 1 && speed[1] < speed[0]); // the first layers see all tokens
        results_release(&r);
        golden_close(&g);
    }
}

// Without methods, the forecast of a causal prompt is what the probe counts.
static void forecast_agrees(void **state)
{
    static const char *const names[] = { "kimi-vl", "qwen3.5", "qwen3.5-moe" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct golden g;
        struct results r = { 0 };
        struct sequence s = { 0 };
        struct err err = { 0 };
        struct prompt_cost f;
        ask(&g, names[i], 1);
        must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err), &err);
        const int64_t visual = sequence_visual_count(&s, 0);
        const struct engine_context context = { .text = s.prompt - visual, .visual = visual };
        sequence_release(&s);
        must(engine_forecast(g.engine, engine_settings(g.engine), &context, &f, &err), &err);
        run_probe(&g, &probe_flops, NULL, &r);
        near(&g, "forecast", f.flops, cell(&r, "all", "prompt, full"), 1);
        near(&g, "visual tokens", f.visual, (double)visual, 0);
        results_release(&r);
        golden_close(&g);
    }
}

// LoRA of rank r adds to each of its linear layers two products with r columns or rows.
static void lora_is_counted(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    ask(&g, models[0], 4);
    run_probe(&g, &probe_flops, NULL, &r);
    const double plain = cell(&r, "all", "prompt, full"), one = cell(&r, "all", "token, full");
    results_release(&r);
    char *folder = xasprintf("tests/goldens/%s/adapters/lora", g.name);
    must(engine_adapter_load(g.engine, folder, &err), &err);
    free(folder);
    const struct decoder_config *d = &engine_model(g.engine)->decoder.config;
    double row = 0; // all seven linear layers: (in + out) times rank
    const double D = (double)d->hidden, q = (double)(d->heads * d->dim);
    const double kv = (double)(d->kv_heads * d->dim), F = (double)d->ffn;
    const struct decoder_layer *w = &engine_model(g.engine)->decoder.layer[0];
    const double rank = (double)w->attention.weight[ATTENTION_Q].lora->a.shape[0];
    row = d->layers * 2 * rank * (2 * (D + q) + 2 * (D + kv) + 3 * (D + F));
    run_probe(&g, &probe_flops, NULL, &r);
    struct sequence s = { 0 };
    must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err), &err);
    near(&g, "prompt", cell(&r, "all", "prompt, full"), plain + (double)s.prompt * row, 1);
    near(&g, "now", cell(&r, "all", "prompt, now"), plain + (double)s.prompt * row, 1);
    near(&g, "token", cell(&r, "all", "token, full"), one + row, 1);
    sequence_release(&s);
    results_release(&r);
    golden_close(&g);
}

static void without_methods_is_the_default(void **state)
{
    struct golden g;
    golden_open(&g, models[0]);
    set(&g, "prune.score", "uniform");
    set(&g, "norm.align", "on");
    set(&g, "sample.seed", "7");
    struct settings *s = measure_without_methods(engine_settings(g.engine));
    assert_true(settings_is(s, "prune.score", "off"));
    assert_false(settings_flag(s, "norm.align"));
    assert_int_equal(settings_integer(s, "sample.seed"), 7);
    settings_free(s);
    golden_close(&g);
}

// IRA adds a product with d + 1 columns for each value head of a visual token, only in its layers.
static void ira_is_counted_in_its_layers(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    char *folder = scratch_new();
    ask(&g, models[0], 4);
    write_ira(&g, folder);
    must(engine_set(g.engine, "adapter", folder, &err), &err);
    set(&g, "ira.layers", "2-3");
    set(&g, "ira.on", "on");
    run_probe(&g, &probe_flops, NULL, &r);
    const struct decoder_config *d = &engine_model(g.engine)->decoder.config;
    const double row = 2 * (double)(d->kv_heads * d->dim * (d->dim + 1));
    struct sequence s = { 0 };
    must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err), &err);
    const double tokens = (double)sequence_visual_count(&s, 0);
    assert_true(tokens > 0);
    near(&g, "prompt", cell(&r, "methods", "prompt, now"), 2 * tokens * row, 1);
    near(&g, "token", cell(&r, "methods", "token, now"), 0, 1);
    sequence_release(&s);
    results_release(&r);
    golden_close(&g);
    scratch_remove(folder);
}

// The projection of Gemma 4's per-layer inputs is a [L*P, D] product of each row.
static void inputs_of_layers_are_counted(void **state)
{
    struct golden g;
    golden_open(&g, "gemma4");
    const struct decoder *d = &engine_model(g.engine)->decoder;
    const struct decoder_config *c = &d->config;
    assert_true(c->layer_input > 0);
    const double weights = (double)c->layers * (double)c->layer_input * (double)c->hidden;
    near(&g, "operations", flops_inputs(d), 2 * weights, 1);
    near(&g, "bytes", flops_input_bytes(d),
         weights * (double)dtype_size(d->inputs.projection.weight.dtype), 1);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_follow_the_formulas),
        cmocka_unit_test(inputs_of_layers_are_counted),
        cmocka_unit_test(experts_and_latents_are_counted),
        cmocka_unit_test(forecast_agrees),
        cmocka_unit_test(lora_is_counted),
        cmocka_unit_test(ira_is_counted_in_its_layers),
        cmocka_unit_test(without_methods_is_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
