// tests/toys/toys.c -- a method, a probe, a command and a setting need only an entry in a list:
// settings, help, keys, badges, /baseline, /compare, FLOPs, training and adapters then know them.
#include "tests/toys/toys.h"

#include "tests/core/train/sft.h"
// needs the headers above
#include "core/engine/presets.h"
#include "core/probes/measure.h"
#include "tests/core/probes/probe.h"
#include "tui/keys.h"

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

// Records all messages.
static void listen_to(void *self, const struct event *e)
{
    struct buf *said = self;
    if (e->kind == EVENT_TEXT || e->kind == EVENT_NOTICE) buf_printf(said, "%s\n", e->text);
    if (e->kind == EVENT_ERROR) buf_printf(said, "error: %s\n", e->text);
    if (e->kind != EVENT_TABLE) return;
    for (int i = 0; i < e->table->column_count; i++) buf_printf(said, "%s|", e->table->columns[i]);
    for (int i = 0; i < e->table->row_count * e->table->column_count; i++)
        buf_printf(said, "%s|", e->table->cells[i]);
}

// Runs a line, which must succeed; returns its messages.
static char *line(struct golden *g, const char *text)
{
    struct err err = { 0 };
    struct buf said = { 0 };
    struct sinks sinks = { 0 };
    struct shell shell = { .engine = g->engine, .sinks = &sinks };
    sinks_add(&sinks, (struct sink){ .emit = listen_to, .self = &said });
    if (shell_line(&shell, text, &err) < 0) fail_msg("%s: %s", text, err.text);
    return said.data ? buf_take(&said) : xstrdup("");
}

static void says(struct golden *g, const char *text, const char *part)
{
    char *said = line(g, text);
    if (!strstr(said, part)) fail_msg("%s does not say '%s': %s", text, part, said);
    free(said);
}

static void words_are_known(void **state)
{
    struct golden g;
    golden_open(&g, "llava-1.5");
    says(&g, "/toy", "a toy of size 3");
    free(line(&g, "/set plaything.size 5"));
    says(&g, "/toy", "a toy of size 5");
    says(&g, "/help toy.on", "Switches the toy method.");
    says(&g, "/help toy", "Says how large the toy is.");
    says(&g, "/help toyprobe", "Norms of all rows by layer and position.");
    says(&g, "/settings toy", "toy.factor");
    struct keys *keys = keys_new();
    char *command = keys_find(keys, "input", "Alt-9");
    assert_string_equal(command, "/toggle toy.on");
    free(command);
    keys_free(keys);
    struct buf badge = { 0 };
    method_toy.badge(&badge, engine_settings(g.engine), -1);
    assert_string_equal(badge.data, "TOY 1");
    buf_release(&badge);
    golden_close(&g);
}

static void baseline_and_compare_switch_it_off(void **state)
{
    struct golden g;
    ask(&g, "llava-1.5", 4);
    set(&g, "toy.on", "on");
    free(line(&g, "/baseline"));
    assert_true(settings_is(engine_settings(g.engine), "toy.on", "off"));
    set(&g, "toy.on", "on");
    set(&g, "toy.factor", "30");
    // `now` equals itself but differs from `off`, so `off` runs without the method.
    char *same = line(&g, "/compare now | now"), *other = line(&g, "/compare off | now");
    assert_non_null(strstr(same, "Hellinger distance, mean|0|"));
    assert_null(strstr(other, "Hellinger distance, mean|0|"));
    free(same);
    free(other);
    golden_close(&g);
}

// A method without a state, switched by a number.
static void values_are_scaled(void **state)
{
    struct golden g;
    ask(&g, "llava-1.5", 4);
    set(&g, "toyvalues.factor", "0");
    char *same = line(&g, "/compare now | now"), *other = line(&g, "/compare off | now");
    assert_non_null(strstr(same, "Hellinger distance, mean|0|"));
    assert_null(strstr(other, "Hellinger distance, mean|0|"));
    free(same);
    free(other);
    set(&g, "toyvalues.factor", "1.0");
    assert_false(method_on(&method_toy_values, engine_settings(g.engine)));
    golden_close(&g);
}

static void a_toggle_equals_a_fresh_run(void **state)
{
    struct golden g, fresh;
    ask(&g, "llava-1.5", 6);
    set(&g, "toy.on", "on");
    struct err err = { 0 };
    must(engine_regenerate(g.engine, &err), &err);
    golden_open(&fresh, "llava-1.5");
    set(&fresh, "toy.on", "on");
    say(&fresh, chat_named(&fresh, "single"));
    set(&fresh, "sample.max_tokens", "6");
    must(engine_answer(fresh.engine, &err), &err);
    assert_int_equal(g.answer.count, fresh.answer.count);
    assert_memory_equal(g.answer.data, fresh.answer.data, g.answer.count * sizeof(int32_t));
    golden_close(&g);
    golden_close(&fresh);
}

// The probe's maps: a matrix of layers by positions, and words over the picture. Only the probe
// describes them.
static void its_maps_are_shown(const struct results *r, int layers)
{
    const char *command;
    struct results again = { 0 };
    struct buf json = { 0 };
    struct err err = { 0 };
    bool known = false;
    int kinds = 0;
    for (const struct result_kind *k; (k = result_map_kind(kinds, &command)); kinds++)
        if (!strcmp(k->name, "toy.norms")) known = !strcmp(command, "toyprobe");
    assert_true(known);
    results_json(r, &json);
    must(results_read(&again, json.data, &err), &err);
    buf_release(&json);
    assert_int_equal(again.map_count, 2);
    const struct result_map *matrix = &again.maps[0], *words = &again.maps[1];
    assert_int_equal(matrix->rows, layers);
    assert_true(matrix->picture < 0 && !matrix->words);
    // The probe's own range of values.
    assert_true(results_heatmap(words).min == -1 && results_heatmap(words).max == 100);
    assert_int_equal(words->picture, 0);
    assert_null(words->words[0]);
    assert_string_equal(words->words[1], "odd");
    assert_string_equal(results_heatmap(words).words[3], "odd");
    results_release(&again);

    struct results_mean means = { 0 };
    for (int i = 0; i < 2; i++) results_mean_add(&means, r);
    results_mean_take(&means, &again);
    assert_int_equal(again.map_count, 1);
    assert_string_equal(again.maps[0].name, "toy.words");
    assert_non_null(strstr(again.notes[0], "are not averaged"));
    results_release(&again);
}

static void its_flops_are_counted(void **state)
{
    struct golden g;
    struct results r = { 0 };
    ask(&g, "llava-1.5", 4);
    run_probe(&g, &probe_flops, NULL, &r);
    assert_null(results_value(&r, "flops", "methods", "prompt, now"));
    results_release(&r);
    set(&g, "toy.on", "on");
    run_probe(&g, &probe_flops, NULL, &r);
    const double *cost = results_value(&r, "flops", "methods", "prompt, now");
    assert_non_null(cost);
    const struct model *m = engine_model(g.engine);
    struct sequence s = { 0 };
    struct err err = { 0 };
    must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err), &err);
    const double tokens = (double)sequence_visual_count(&s, 0);
    assert_float_equal(*cost * 1e9, 3 * (double)m->decoder.config.hidden * tokens, 1);
    sequence_release(&s);
    results_release(&r);
    run_probe(&g, &probe_toy, NULL, &r);
    assert_true(*results_value(&r, "toy", "all layers", "rows") > 0);
    its_maps_are_shown(&r, m->decoder.config.layers);
    results_release(&r);
    golden_close(&g);
}

// Expects that the last answer used visual tokens of the trained projector, normalised and
// multiplied by this gain.
static void answers_with_gain(struct golden *g, const float *gain)
{
    struct err err = { 0 };
    struct safetensors *f = safetensors_open(g->dump, &err);
    if (!f) fail_msg("%s", err.text);
    const struct safetensor *x = safetensors_find(f, "visual.0");
    const struct safetensor *y = safetensors_find(f, "visual_aligned.0");
    const struct safetensor *untrained = safetensors_find(g->tensors, "fwd.visual_tokens");
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(x->bytes, untrained->bytes);
    assert_memory_not_equal(x->data, untrained->data, x->bytes);
    const int64_t width = x->shape[1];
    for (int64_t i = 0; i < x->shape[0]; i++) {
        const float *v = (const float *)x->data + i * width;
        const float *seen = (const float *)y->data + i * width;
        double squares = 0;
        for (int64_t k = 0; k < width; k++) squares += (double)v[k] * (double)v[k] / (double)width;
        for (int64_t k = 0; k < width; k++)
            near(g, "visual token", (double)seen[k],
                 (double)v[k] / sqrt(squares + 1e-6) * (double)gain[k], 1e-5);
    }
    safetensors_close(f);
}

static void it_learns_and_its_adapter_is_loaded(void **state)
{
    const char *const settings[] = { "train.method=connector", "toy.on=on",     "train.lr=1e-2",
                                     "train.warmup=0",         "train.steps=2", NULL };
    struct trial t = { 0 };
    struct golden g;
    struct err err = { 0 };
    char *data = trial_golden_data(scratch), *out = xasprintf("%s/out", scratch);
    if (trial_run(&t, GOLDEN, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    trial_release(&t);
    ask(&g, "llava-1.5", 4);
    must(engine_adapter_load(g.engine, out, &err), &err);
    char *extra = xasprintf("%s/extra.safetensors", out);
    struct safetensors *f = safetensors_open(extra, &err);
    if (!f) fail_msg("%s", err.text);
    const struct safetensor *gain = safetensors_find(f, "toy.gain");
    assert_non_null(gain);
    double moved = 0;
    for (int64_t i = 0; i < gain->shape[0]; i++)
        moved += fabs((double)((const float *)gain->data)[i] - 1);
    assert_true(moved > 1e-3);
    set(&g, "toy.on", "on");
    must(engine_dump(g.engine, "visual*", g.dump, &err), &err);
    must(engine_regenerate(g.engine, &err), &err);
    answers_with_gain(&g, (const float *)gain->data);
    safetensors_close(f);
    golden_close(&g);
    free(extra);
    free(out);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_known),
        cmocka_unit_test(baseline_and_compare_switch_it_off),
        cmocka_unit_test(values_are_scaled),
        cmocka_unit_test(a_toggle_equals_a_fresh_run),
        cmocka_unit_test(its_flops_are_counted),
        IN_SCRATCH(it_learns_and_its_adapter_is_loaded),
    };
    toys_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
