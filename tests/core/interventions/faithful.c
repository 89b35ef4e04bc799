// tests/core/interventions/faithful.c -- scores of maps computed by hand, models with shuffled
// weights, and the scoreboard's controls.
#include "core/interventions/faithful.h"
#include "core/interventions/layer_rows.h"
#include "core/interventions/shuffled.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"
#include "tests/core/probes/probe.h"

static void same_number(const char *what, double ours, double theirs)
{
    if (!(fabs(ours - theirs) < 1e-6) && !(isnan(ours) && isnan(theirs)))
        fail_msg("%s is %.9g, not %.9g", what, ours, theirs);
}

static void scores_equal_those_by_hand(void **state)
{
    // The object covers half of the cell with the largest value; -1 counts as 0 in soft Dice.
    const float map[5] = { 4, 2, NAN, -1, 2 }, mask[5] = { 0.5F, 1, 1, 0, 0 };
    const struct map_score s = map_score(map, mask, 5);
    same_number("pointing", s.pointing, 0.5);
    // a = 1, 0.5, 0, 0.5: 2 (0.5 + 0.5) / (1.5 + 1.25)
    same_number("soft Dice", s.dice, 2 / 2.75);
    // Inside 0.5 and 1, outside 0.5, 1 and 1: the first cell ties with itself, and wins over two;
    // the second ties with the last, and wins over one.
    same_number("AUC", s.auc, (0.5 * (0.25 + 2) + 1 * (0.5 + 1)) / (1.5 * 2.5));
    const float flat[2] = { 3, 3 }, half[2] = { 1, 0 }, none[2] = { 0, 0 };
    same_number("pointing of a flat map", map_score(flat, half, 2).pointing, 0.5);
    same_number("AUC of a flat map", map_score(flat, half, 2).auc, 0.5);
    same_number("AUC without an object", map_score(flat, none, 2).auc, NAN);
    same_number("nothing", map_score(flat, none, 0).pointing, NAN);
}

// --- shuffled weights ----------------------------------------------------------------------------

static void *keep_start(const struct probe_env *env, struct err *err)
{
    return (void *)(uintptr_t)env;
}

static void keep_release(void *state)
{
}

static double logp_of(struct passing *p)
{
    struct err err = { 0 };
    double logp[2];
    must(passes_run(p, NULL, 0, logp, &err), &err);
    return logp[0] + logp[1];
}

// Shuffling no layer changes no bit, and shuffling only later layers changes less of the model than
// shuffling all. Afterwards the model is restored.
static int shuffle_passes(void *state, struct passing *p, struct err *err)
{
    const struct probe_env *env = state;
    const int layers = env->model->decoder.config.layers;
    const double before = logp_of(p);
    for (int from = layers; from >= 0; from -= layers) {
        struct shuffled s;
        must(shuffled_open(&s, env->model, env->backend, from, err), err);
        passes_use(p, &s.model);
        const double now = logp_of(p);
        if ((now == before) != (from == layers) || !isfinite(now))
            fail_msg("layers from %d shuffled: %.17g, before %.17g", from, now, before);
        passes_use(p, NULL);
        shuffled_close(&s);
    }
    assert_true(logp_of(p) == before);
    return 0;
}

static int keep_finish(void *state, struct results *r, struct err *err)
{
    return 0;
}

static const struct probe probe_shuffle = { .name = "shuffle",
                                            .answer = true,
                                            .start = keep_start,
                                            .release = keep_release,
                                            .passes = shuffle_passes,
                                            .finish = keep_finish };

static void shuffled_weights_are_another_model(void **state)
{
    static const char *const folders[] = { "llava-1.5", "kimi-vl" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct results r = { 0 };
        ask(&g, folders[i], 2);
        run_probe(&g, &probe_shuffle, NULL, &r);
        results_release(&r);
        golden_close(&g);
    }
}

// --- the scoreboard ------------------------------------------------------------------------------

static double score(const struct results *r, const char *map, const char *column)
{
    return *results_value(r, "faithful", map, column);
}

static void controls_bound_the_scores(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    ask(&g, "llava-1.5", 2);
    const struct image *picture = &engine_conversation(g.engine)->pictures[0].image;
    const double box[4] = { 0, 0, (double)picture->width / 2, (double)picture->height };
    o.box = box;
    o.by = "gradient,attention";
    run_probe(&g, &probe_faithful, &o, &r);
    assert_int_equal(results_find(&r, "faithful")->row_count, 4);
    assert_true(score(&r, "the object itself", "pointing") == 1);
    assert_true(score(&r, "the object itself", "AUC") > score(&r, "a random map", "AUC"));
    assert_true(isnan(score(&r, "a random map", "rank correlation")));
    const struct result_table *curves[] = { results_find(&r, "faithful.deletion"),
                                            results_find(&r, "faithful.insertion") };
    // For every map, deleting nothing equals inserting everything.
    for (int k = 0; k < 4; k++) {
        const size_t last = curves[0]->row_count - 1;
        near(&g, "all tokens", curves[0]->rows[0].value[k], curves[1]->rows[last].value[k], 0);
        near(&g, "no tokens", curves[0]->rows[last].value[k], curves[1]->rows[0].value[k], 0);
        assert_true(curves[0]->rows[0].value[k] != curves[0]->rows[last].value[k]);
    }
    const struct result_table *sanity = results_find(&r, "faithful.sanity");
    assert_int_equal(sanity->row_count, 2);
    for (int k = 0; k < 4; k++) assert_true(fabs(sanity->rows[0].value[k]) <= 1);
    results_release(&r);

    o.box = NULL;
    struct measure_request request = { .probe = &probe_faithful, .options = o };
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "--box"));
    results_release(&r);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_equal_those_by_hand),
        cmocka_unit_test(shuffled_weights_are_another_model),
        cmocka_unit_test(controls_bound_the_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
