// tests/core/interventions/knockout.c -- core/interventions/knockout.c and effect.c: identities on
// families whose attention differs. tests/toys/layers.c compares with plain loops.
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

// Replaces the conversation with a question about a picture of noise, and an answer.
static void show(struct golden *g, int seed)
{
    enum { SIDE = 56 };
    struct err err = { 0 };
    struct buf file = { 0 };
    engine_clear(g->engine);
    buf_printf(&file, "P6\n%d %d\n255\n", SIDE, SIDE);
    for (int i = 0; i < 3 * SIDE * SIDE; i++) buf_putc(&file, (char)(i * seed % 251 + i / 97));
    must(engine_attach_bytes(g->engine, "noise.ppm", file.data, file.length, &err), &err);
    struct message m[2] = { { .role = ROLE_USER }, { .role = ROLE_ASSISTANT } };
    message_add_picture(&m[0], (int)engine_talk(g->engine).picture_count - 1);
    message_add_text(&m[0], "What is it?");
    message_add_text(&m[1], "a small red circle");
    for (int i = 0; i < 2; i++) {
        must(engine_add_message(g->engine, &m[i], &err), &err);
        message_release(&m[i]);
    }
    buf_release(&file);
}

static void knock(struct golden *g, const struct probe_options *o, struct results *r)
{
    results_release(r);
    run_probe(g, &probe_knockout, o, r);
}

static double number(const struct results *r, const char *key)
{
    return *results_value(r, "knockout", key, "log-probability");
}

// Without attention to the picture, its content does not matter, not even in a bit. (In a mixture
// of experts, it decides how many rows share an expert's product, and thereby how they are
// rounded.)
static void a_picture_that_nothing_sees_has_no_effect(void **state)
{
    static const char *const folders[] = { "llava-1.5", "gemma3", "qwen2.5-vl", "kimi-vl" };
    struct probe_options o = probe_defaults;
    o.words = "picture > all";
    for (int i = 0; i < 4; i++) {
        const double most = i == 3 ? 1e-5 : 0;
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        double before[2], after[2];
        golden_open(&g, folders[i]);
        for (int k = 0; k < 4; k++) { // the last two with pruning
            if (k == 2) {
                must(engine_set(g.engine, "prune.score", "uniform", &err), &err);
                must(engine_set(g.engine, "prune.layer", "1", &err), &err);
            }
            show(&g, 3 + k % 2);
            knock(&g, &o, &r);
            before[k % 2] = number(&r, "the answer");
            after[k % 2] = number(&r, "with the change");
            if (k % 2 && !(before[0] != before[1] && fabs(after[0] - after[1]) <= most))
                fail_msg("%s: before %.9g %.9g, after %.9g %.9g", g.name, before[0], before[1],
                         after[0], after[1]);
        }
        results_release(&r);
        golden_close(&g);
    }
}

// A window equals a cut of its layers alone. The map has a finite number for each head.
static void windows_and_heads_are_single_cuts(void **state)
{
    struct golden g;
    struct results r = { 0 }, one = { 0 };
    struct probe_options o = probe_defaults, single = probe_defaults;
    golden_open(&g, "llava-1.5");
    const int layers = golden_layers(&g);
    show(&g, 3);
    o.words = single.words = "picture[0,0,50%,50%],last > question,answer";
    o.window = 2;
    o.heads = true;
    knock(&g, &o, &r);
    assert_int_equal(results_find(&r, "knockout.windows")->row_count, layers - 1);
    single.layers = "1-2";
    knock(&g, &single, &one);
    assert_true(number(&one, "change") == *results_value(&r, "knockout.windows", "1", "change"));
    assert_null(results_find(&one, "knockout.heads"));
    const struct result_map *m = &r.maps[0];
    assert_int_equal(m->rows, layers);
    for (int i = 0; i < m->rows * m->cols; i++) assert_true(isfinite(m->values[i]));
    // The tokens' changes add up; --token selects one.
    const struct result_table *t = results_find(&r, "knockout.tokens");
    double sum = 0;
    for (size_t k = 0; k < t->row_count; k++) sum += t->rows[k].value[2];
    near(&g, "sum over tokens", sum, number(&r, "change"), 1e-9);
    single = o;
    single.token = PROBE_TOKEN_NUMBER;
    single.number = 1;
    single.heads = false;
    knock(&g, &single, &one);
    assert_true(number(&one, "change") == t->rows[1].value[2]);
    results_release(&r);
    results_release(&one);
    golden_close(&g);
}

static void fails(struct golden *g, const struct probe_options *o, const char *why)
{
    struct err err = { 0 };
    struct results r = { 0 };
    struct measure_request request = { .probe = &probe_knockout, .options = *o };
    if (engine_measure(g->engine, &request, &r, &err) == 0 || !strstr(err.text, why))
        fail_msg("%s: '%s', not '%s'", o->words, err.text, why);
    results_release(&r);
}

static void what_cannot_be_cut_is_refused(void **state)
{
    struct golden g;
    struct probe_options o = probe_defaults;
    golden_open(&g, "llava-1.5");
    show(&g, 3);
    o.words = "answer > picture";
    fails(&g, &o, "nothing to cut");
    o.words = "system > answer";
    fails(&g, &o, "no system message");
    o.words = "picture > answer";
    o.layers = "2,99";
    fails(&g, &o, "--layers");
    o.layers = NULL;
    o.token = PROBE_TOKEN_NUMBER;
    o.number = 99;
    fails(&g, &o, "--token 99");
    assert_int_equal(probe_knockout.words("picture, answer", &(struct err){ 0 }), -1);
    assert_int_equal(probe_knockout.words("picture > nowhere", &(struct err){ 0 }), -1);
    assert_int_equal(probe_knockout.words("picture>answer,3-5", &(struct err){ 0 }), 0);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_that_nothing_sees_has_no_effect),
        cmocka_unit_test(windows_and_heads_are_single_cuts),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
