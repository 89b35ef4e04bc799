// tests/core/methods/settings.c -- impossible settings of the methods: each gives a clear message
// and keeps the old value; valid ones without effect: each gives a notice.
#include "core/settings/changes.h"
#include "tests/core/model/families/golden.h"

struct heard {
    char text[4096]; // notices, one per line
};

static void hear_notice(void *self, const struct event *e)
{
    struct heard *h = self;
    const size_t n = strlen(h->text);
    if (e->kind == EVENT_NOTICE) snprintf(h->text + n, sizeof h->text - n, "%s\n", e->text);
}

// A setting set before (NULL: none), the refused setting, and words of its message.
static const struct {
    const char *before, *key, *value, *says[3];
} impossible[] = {
    { NULL, "prune.layer", "4", { "prune.layer", "0 to 3" } },
    { NULL, "prune.layer", "-1", { "prune.layer" } },
    { NULL, "prune.layer", "0-9", { "prune.layer", "0 to 3" } },
    { NULL, "prune.layer", "1,1", { "prune.layer" } },
    { NULL, "prune.layer", "120%", { "prune.layer" } },
    { NULL, "prune.layer", "", { "prune.layer" } },
    { NULL, "prune.keep", "0.25,0.5", { "prune.keep cannot increase" } },
    { NULL, "prune.keep", "-0.1", { "prune.keep" } },
    { NULL, "prune.keep", "1.01", { "prune.keep" } },
    { NULL, "prune.keep", "nan", { "prune.keep" } },
    { NULL, "prune.keep", "inf", { "prune.keep" } },
    { NULL, "prune.keep", "half", { "prune.keep" } },
    { NULL, "prune.score", "capa", { "prune.score", "contribution" } },
    { NULL, "prune.mode", "later", { "prune.mode", "prefill" } },
    { NULL, "prune.seed", "-3", { "prune.seed" } },
    { "prune.score=contribution", "prune.keep", "0,0.5", { "prune.keep cannot increase" } },
    { NULL, "ffn.eta", "nan", { "ffn.eta" } },
    { NULL, "ffn.eta", "1.5", { "ffn.eta" } },
    { NULL, "ffn.eta", "-2", { "ffn.eta" } },
    { NULL, "ffn.layers", "2-4", { "ffn.layers", "0 to 3" } },
    { NULL, "ffn.layers", "3-2", { "ffn.layers" } },
    { NULL, "ffn.approx", "hadamard", { "calibration", "/calibrate ffn" } },
    { NULL, "ffn.approx", "skip", { "ffn.layers auto needs", "/calibrate ffn" } },
    { "ffn.layers=1", "ffn.approx", "hadamard", { "needs a calibration" } },
    { NULL, "ffn.approx", "on", { "ffn.approx", "hadamard" } },
    { NULL, "ffn.calibration", "no/such/file", { "no/such/file" } },
    { NULL, "ffn.calibration", "tests/goldens/llava-1.5/model.safetensors", { "calibration" } },
    { NULL, "sinks.calibration", "no/such/file", { "no/such/file" } },
    { NULL, "sinks.tau", "nan", { "sinks.tau" } },
    { NULL, "norms.calibration", "no/such/file", { "no/such/file" } },
    { NULL, "ira.on", "on", { "ira.on needs trained parameters", "adapter" } },
    { "ira.layers=1", "ira.on", "on", { "ira.1.head.weight" } },
    { NULL, "ira.layers", "9", { "ira.layers", "0 to 3" } },
    { NULL, "ira.layers", "x", { "ira.layers" } },
    { NULL, "ira.prior", "none", { "ira.prior", "global" } },
    { NULL, "ira.beta", "-1", { "ira.beta" } },
    { NULL, "ira.beta", "nan", { "ira.beta" } },
    { NULL, "ira.warmup", "2", { "ira.warmup" } },
    { NULL, "ira.gate", "maybe", { "ira.gate" } },
    { NULL, "norm.align", "yes!", { "norm.align" } },
    { NULL, "norm.init", "zero", { "norm.init", "default" } },
    { NULL, "prune.laier", "1", { "prune.layer" } },
};
enum { IMPOSSIBLE = sizeof impossible / sizeof *impossible };

// Sets "KEY=VALUE".
static int set_pair(struct golden *g, const char *pair, struct err *err)
{
    char key[64];
    const char *equals = strchr(pair, '=');
    snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
    return engine_set(g->engine, key, equals + 1, err);
}

static char *snapshot(const struct golden *g)
{
    struct buf b = { 0 };
    for (int i = 0; i < settings_count(); i++)
        buf_printf(&b, "%s=%s\n", settings_row(i)->key,
                   settings_text(engine_settings(g->engine), settings_row(i)->key));
    return buf_take(&b);
}

// The setting is refused alone and together with a possible one: nothing is set.
static void the_impossible_is_refused(void **state)
{
    struct golden g;
    golden_open(&g, "llava-1.5");
    for (int i = 0; i < IMPOSSIBLE; i++) {
        struct err err = { 0 };
        must(engine_reset(g.engine, NULL, &err), &err);
        if (impossible[i].before) must(set_pair(&g, impossible[i].before, &err), &err);
        char *former = snapshot(&g);
        const struct change list[] = { { "sample.max_tokens", "7" },
                                       { impossible[i].key, impossible[i].value } };
        for (int many = 0; many < 2; many++) {
            err.text[0] = '\0';
            const int status = many ? engine_set_all(g.engine, list, 2, &err)
                                    : engine_set(g.engine, list[1].key, list[1].value, &err);
            char *now = snapshot(&g);
            if (status == 0) fail_msg("%s '%s' is accepted", list[1].key, list[1].value);
            assert_string_equal(former, now);
            for (int k = 0; k < 3 && impossible[i].says[k]; k++)
                if (!strstr(err.text, impossible[i].says[k]))
                    fail_msg("%s '%s': '%s' does not say '%s'", list[1].key, list[1].value,
                             err.text, impossible[i].says[k]);
            free(now);
        }
        free(former);
    }
    golden_close(&g);
}

// The model, a setting set before (NULL: none), the setting, and words of its notice (NULL: no
// notice).
static const struct {
    const char *model, *before, *pair, *says;
} idle[] = {
    { "llama-3.2", NULL, "prune.score=contribution", "text-only" },
    { "qwen2", "ffn.layers=1", "ffn.approx=skip", "text-only" },
    { "llama-3.2", NULL, "prune.keep=0.5", NULL }, // the method is off
    { "llava-1.5", NULL, "prune.score=contribution", NULL },
    { "llava-1.5", "prune.layer=3", "prune.score=random", "prune.layer 3 is the last layer" },
    { "llava-1.5", "prune.score=random", "prune.layer=3", "prune.layer 3 is the last layer" },
    { "llava-1.5", "prune.keep=1", "prune.score=uniform", "keeps every visual token" },
    { "llava-1.5", "prune.keep=0.99", "prune.score=uniform", NULL },
    { "llava-1.5", "ffn.layers=3", "ffn.approx=skip", NULL },
};
enum { IDLE = sizeof idle / sizeof *idle };

static void settings_without_effect_are_reported(void **state)
{
    for (int i = 0; i < IDLE; i++) {
        struct golden g;
        struct heard h = { 0 };
        struct err err = { 0 };
        golden_open(&g, idle[i].model);
        sinks_add(&g.sinks, (struct sink){ .emit = hear_notice, .self = &h });
        if (idle[i].before) must(set_pair(&g, idle[i].before, &err), &err);
        assert_string_equal(h.text, "");
        must(set_pair(&g, idle[i].pair, &err), &err);
        if (idle[i].says && !strstr(h.text, idle[i].says))
            fail_msg("%s on %s: '%s' does not say '%s'", idle[i].pair, idle[i].model, h.text,
                     idle[i].says);
        if (!idle[i].says) assert_string_equal(h.text, "");
        golden_close(&g);
    }
}

// When a text-only model is loaded, settings that have no effect on it are reported.
static void settings_without_effect_on_text_models_are_reported(void **state)
{
    struct golden g;
    struct heard h = { 0 };
    struct err err = { 0 };
    golden_open(&g, "llava-1.5");
    must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
    sinks_add(&g.sinks, (struct sink){ .emit = hear_notice, .self = &h });
    must(engine_load(g.engine, "tests/goldens/qwen2", &err), &err);
    assert_non_null(strstr(h.text, "prune.score has no effect"));
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_impossible_is_refused),
        cmocka_unit_test(settings_without_effect_are_reported),
        cmocka_unit_test(settings_without_effect_on_text_models_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
