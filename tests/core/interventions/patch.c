// tests/core/interventions/patch.c -- core/interventions/patch.c and the visual tokens of
// core/probes/passes.c: identities of patches, on families whose attention differs.
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

static double cell(const struct results *r, int layer, const char *column)
{
    char key[16];
    snprintf(key, sizeof key, "%d", layer);
    return *results_value(r, "patch.layers", key, column);
}

// The whole residual stream of run A gives run A, bit for bit; after the last layer, only the
// positions that predict the answer matter.
static void the_whole_stream_gives_run_a(void **state)
{
    static const char *const folders[] = { "llava-1.5", "internvl3", "gemma3", "kimi-vl" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        struct probe_options o = probe_defaults;
        ask(&g, folders[i], 3);
        if (i == 1) { // methods act in both runs
            must(engine_set(g.engine, "prune.score", "uniform", &err), &err);
            must(engine_set(g.engine, "prune.layer", "1", &err), &err);
        }
        o.words = i % 2 ? "mean" : "noise";
        // Tokens of one picture see each other: those before the box change, too.
        if (i == 2) o.words = "noise picture[50%,50%,50%,50%]";
        run_probe(&g, &probe_patch, &o, &r);
        const int last = golden_layers(&g) - 1;
        for (int l = 0; l <= last; l++)
            if (cell(&r, l, "all") != 1)
                fail_msg("%s: patching layer %d restores %.17g, not 1", g.name, l,
                         cell(&r, l, "all"));
        assert_true(isnan(cell(&r, last, "picture")) || cell(&r, last, "picture") == 0);
        assert_true(cell(&r, last, "other") == 0 && cell(&r, last, "question") == 0);
        near(&g, "last and answer", cell(&r, last, "last") + cell(&r, last, "answer"), 1, 1e-4);
        assert_true(cell(&r, 0, "picture") != 0);
        results_release(&r);
        golden_close(&g);
    }
}

// Other parts can be patched in both families; heads are ranked, and --tokens also maps the
// picture's tokens.
static void parts_can_be_chosen(void **state)
{
    static const char *const folders[] = { "llava-1.5", "kimi-vl" };
    static const char *const parts[] = { "attention", "ffn", "value", "head" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct results r = { 0 };
        struct probe_options o = probe_defaults;
        ask(&g, folders[i], 2);
        const int heads = (int)engine_model(g.engine)->decoder.config.heads;
        o.words = "noise picture:0";
        o.layers = "0-1";
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            o.at = parts[k];
            run_probe(&g, &probe_patch, &o, &r);
            if (k < 3) assert_true(isfinite(cell(&r, 1, "all")) && cell(&r, 1, "all") != 0);
            if (k == 3) assert_int_equal(results_find(&r, "patch.ranked")->row_count, 2 * heads);
            results_release(&r);
        }
        o.at = NULL;
        o.layers = "1";
        o.tokens = true;
        run_probe(&g, &probe_patch, &o, &r);
        int found = 0, shown = 0;
        for (int k = 0; k < r.maps[0].rows * r.maps[0].cols; k++)
            found += isfinite(r.maps[0].values[k]);
        for (size_t m = 1; m < r.map_count; m++)
            for (int k = 0; k < r.maps[m].rows * r.maps[m].cols; k++)
                shown += isfinite(r.maps[m].values[k]);
        assert_true(shown > 0 && found > shown);
        results_release(&r);
        golden_close(&g);
    }
}

static void fails(struct golden *g, const struct probe_options *o, const char *why)
{
    struct err err = { 0 };
    struct results r = { 0 };
    struct measure_request request = { .probe = &probe_patch, .options = *o };
    if (engine_measure(g->engine, &request, &r, &err) == 0 || !strstr(err.text, why))
        fail_msg("%s: '%s', not '%s'", o->words, err.text, why);
    results_release(&r);
}

static void what_cannot_be_patched_is_refused(void **state)
{
    struct golden g;
    struct probe_options o = probe_defaults;
    ask(&g, "llava-1.5", 2);
    o.words = "noise question";
    fails(&g, &o, "only visual tokens");
    o.words = "noise";
    o.at = "everything";
    fails(&g, &o, "--at takes");
    o.at = "head", o.tokens = true;
    fails(&g, &o, "give one of them");
    o.at = NULL, o.tokens = false;
    o.words = "nowhere.png";
    fails(&g, &o, "nowhere.png");
    o.words = "demo/pictures/scene-1.png";
    fails(&g, &o, "96 x 96");
    assert_int_equal(probe_patch.words("", &(struct err){ 0 }), -1);
    assert_int_equal(probe_patch.words("noise everywhere", &(struct err){ 0 }), -1);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_stream_gives_run_a),
        cmocka_unit_test(parts_can_be_chosen),
        cmocka_unit_test(what_cannot_be_patched_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
