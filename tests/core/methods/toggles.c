// tests/core/methods/toggles.c -- methods switched on and off in the middle of a conversation: each
// answer equals that of a new engine with the same settings and the same ids so far. Continues
// until each method has been on. TEST_SEED=N draws different switches.
#include <sys/stat.h>

#include "tests/core/model/families/golden.h"

#include "core/base/random.h"

static char folder[256], calibration[300], vectors[300], steered[2][320];

// Settings and values to draw from; impossible changes are refused and change nothing.
static const struct {
    const char *key, *values[5];
} switches[] = {
    { "norm.align", { "on", "off" } },
    { "norm.init", { "text", "default" } },
    { "norm.form", { "rms", "scale", "layernorm" } },
    { "norm.target", { "3", "auto" } },
    { "ffn.calibration", { calibration, calibration, "none" } },
    { "ffn.layers", { "0-2", "1", "auto" } },
    { "ffn.approx", { "hadamard", "skip", "hadamard", "skip", "off" } },
    { "adapter", { folder, folder, folder, "none" } },
    { "ira.layers", { "2-3", "2", "3" } },
    { "ira.on", { "on", "on", "on", "off" } },
    { "prune.score", { "contribution", "attention", "uniform", "off" } },
    { "prune.score", { "cls", "divergence", "diversity", "random", "off" } },
    { "prune.score", { "sinks", "dumps", "anchors", "list" } },
    { "prune.layer", { "0", "1", "2", "auto", "input" } },
    { "prune.keep", { "0.25", "0.6", "1", "0" } },
    { "prune.worst", { "on", "off" } },
    { "prune.tokens", { "0-3,7", "20%-60%" } },
    { "sinks.tau", { "1", "1.5", "auto" } },
    { "prune.mode", { "prefill", "dynamic" } },
    { "image.downsample", { "0.5", "0.25", "1" } },
    { "chat.template", { "plain", "auto" } },
    { "hide.tokens", { "3,9-12", "5", "4,9-40", "none" } },
    { "hide.layers", { "0-1", "2", "0%-100%" } },
    { "steer.vectors", { steered[0], steered[1], "none" } },
};
enum { SWITCHES = sizeof switches / sizeof *switches };

enum { STEPS = 30, MOST_STEPS = 300 };

static uint64_t draws;

static int draw(int below)
{
    const char *seed = getenv("TEST_SEED");
    return (int)(random_unit(seed ? strtoull(seed, NULL, 10) : 20, RANDOM_WEIGHTS, draws++) *
                 below);
}

// True if each method was on in an answer.
static bool all_seen(const int seen[METHODS_MAX])
{
    for (int i = 0; method_at(i); i++)
        if (!seen[i]) return false;
    return true;
}

// Sets one setting, drawn at random; returns whether the value was accepted.
static bool toggle(struct golden *g)
{
    struct err err;
    const int i = draw(SWITCHES);
    int values = 0;
    while (values < 5 && switches[i].values[values]) values++;
    return engine_set(g->engine, switches[i].key, switches[i].values[draw(values)], &err) == 0;
}

// Gives a new engine the settings, the pictures and the first `messages` messages of g.
static void copy_engine(struct golden *fresh, const struct golden *g, size_t messages)
{
    struct err err = { 0 };
    const struct conversation *c = engine_conversation(g->engine);
    // Settings that need another one succeed in the second pass.
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < settings_count(); i++) {
            const char *key = settings_row(i)->key;
            if (!settings_changed(engine_settings(g->engine), key)) continue;
            engine_set(fresh->engine, key, settings_text(engine_settings(g->engine), key), &err);
        }
    for (int i = 0; i < settings_count(); i++) {
        const char *key = settings_row(i)->key;
        assert_string_equal(settings_text(engine_settings(fresh->engine), key),
                            settings_text(engine_settings(g->engine), key));
    }
    for (size_t i = 0; i < c->picture_count; i++) {
        const struct picture *p = &c->pictures[i];
        if (p->bytes)
            must(engine_attach_bytes(fresh->engine, "p", p->bytes, p->size, &err), &err);
        else // a picture of an undone question: only its number is needed
            must(engine_attach(fresh->engine, "tests/goldens/pictures/tiny.png", &err), &err);
    }
    for (size_t i = 0; i < messages; i++)
        must(engine_add_message(fresh->engine, &c->messages[i], &err), &err);
    engine_detach(fresh->engine); // pictures of undone questions
}

static void check_against_fresh(struct golden *g, const char *model)
{
    struct golden fresh;
    struct err err = { 0 };
    const size_t messages = engine_conversation(g->engine)->message_count - 1;
    golden_open(&fresh, model);
    copy_engine(&fresh, g, messages);
    must(engine_answer(fresh.engine, &err), &err);
    assert_int_equal(fresh.answer.count, g->answer.count);
    assert_memory_equal(fresh.answer.data, g->answer.data, g->answer.count * sizeof(int32_t));
    golden_close(&fresh);
}

static void an_answer_equals_a_fresh_run(void **state)
{
    static const char *const models[] = { GOLDEN_SEEING };
    static const char *const questions[] = { "what is this?", "and now", "where", "why so" };
    static const char *const pictures[] = { "scene", "wide", "tiny" };
    for (int m = 0; m < 2; m++) {
        struct golden g;
        struct err err = { 0 };
        char path[320];
        int changed = 0, seen[METHODS_MAX] = { 0 };
        golden_open(&g, models[m]);
        write_ira(&g, folder); // ira.2.* and ira.3.*
        write_ffn_calibration(&g, calibration);
        write_steering(&g, vectors);
        must(engine_set(g.engine, "sample.max_tokens", "6", &err), &err);
        must(engine_set(g.engine, "adapter", folder, &err), &err);
        must(engine_set(g.engine, "ira.layers", "2-3", &err), &err);
        must(engine_set(g.engine, "ffn.calibration", calibration, &err), &err);
        must(engine_set(g.engine, "ffn.approx", "hadamard", &err), &err);
        must(engine_set(g.engine, "steer.vectors", steered[0], &err), &err);
        for (int step = 0; step < STEPS || !all_seen(seen); step++) {
            if (step == MOST_STEPS) fail_msg("a method was never on");
            for (int i = draw(4); i > 0; i--) changed += toggle(&g);
            if (step % 7 == 0) {
                snprintf(path, sizeof path, "tests/goldens/pictures/%s.png", pictures[draw(3)]);
                must(engine_attach(g.engine, path, &err), &err);
            }
            if (step % 3 == 1) // keys and values of another dtype
                must(engine_set(g.engine, "kv.dtype", step / 3 % 2 ? "f32" : "bf16", &err), &err);
            if (draw(8) == 0) engine_undo(g.engine, &err);
            if (engine_ask(g.engine, questions[draw(4)], &err) < 0) {
                // Settings that have come to contradict each other.
                assert_non_null(strstr(err.text, "ffn."));
                must(engine_set(g.engine, "ffn.approx", "off", &err), &err);
                continue;
            }
            check_against_fresh(&g, models[m]);
            const struct settings *s = engine_settings(g.engine);
            for (int i = 0; method_at(i); i++) seen[i] += method_on(method_at(i), s);
        }
        assert_true(changed > 12);
        golden_close(&g);
    }
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    char path[320];
    snprintf(folder, sizeof folder, "%s/vlmsh-toggles-%d", base ? base : "/tmp", (int)getpid());
    snprintf(calibration, sizeof calibration, "%s/ffn.safetensors", folder);
    snprintf(vectors, sizeof vectors, "%s/steer.safetensors", folder);
    for (int i = 0; i < 2; i++)
        snprintf(steered[i], sizeof steered[i], "%s=%s", vectors, i ? "-0.5" : "2");
    mkdir(folder, 0700);
    const struct CMUnitTest tests[] = { cmocka_unit_test(an_answer_equals_a_fresh_run) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(path, sizeof path, "%s/extra.safetensors", folder);
    unlink(path);
    unlink(calibration);
    unlink(vectors);
    rmdir(folder);
    return failed;
}
