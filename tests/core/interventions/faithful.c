// tests/core/interventions/faithful.c -- scores of maps computed by hand, models with shuffled
// weights, the scoreboard's controls, the causes that it names, exchanged regions of pictures.
#include "core/interventions/faithful.h"
#include "core/base/text.h"
#include "core/interventions/causes.h"
#include "core/interventions/layer_rows.h"
#include "core/interventions/shuffled.h"
#include "core/probes/kit.h"
#include "core/probes/masks.h"
#include "core/probes/passes.h"
#include "tests/core/probes/probe.h"
#include "tests/core/scratch.h"

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

// Shuffling no layer changes no bit; shuffling all layers changes the log-probability. Afterwards
// the model is restored.
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

// --- causes --------------------------------------------------------------------------------------

// Adds a region to the means: over `samples` samples, its tokens, the change with another picture
// in its place, and the AUC of map 0.
static void add_region(struct causes *means, const char *name, int samples, double tokens,
                       double change, double auc)
{
    char *text = xstrdup(name);
    struct cause one = { .name = text };
    struct causes sample = { .list = &one, .count = 1 };
    tally_add(&one.tokens, tokens);
    tally_add(&one.change, change);
    tally_add(&one.auc[0], auc);
    for (int i = 0; i < samples; i++) causes_add(means, &sample);
    free(text);
}

static void verdict(const double change[4], const char *cause, const char *maps)
{
    char map[] = "gradient", *names[CAUSE_MAPS] = { map };
    struct causes means = { 0 };
    struct results r = { 0 };
    bool named = false, rated = !maps;
    add_region(&means, "the whole picture", 9, 144, change[0], 0.5);
    add_region(&means, "the object", 9, 12, change[1], 0.6);
    add_region(&means, "watermark", 4, 4, change[2], 0.9);
    add_region(&means, "the rest", 9, 128, change[3], 0.4);
    add_region(&means, "a rare thing", 1, 4, -20, 0.95);
    causes_put(&means, names, &r);
    assert_int_equal(results_find(&r, "faithful.causes")->row_count, 5);
    for (size_t i = 0; i < r.note_count; i++) {
        named |= strstr(r.notes[i], cause) != NULL;
        rated |= maps && strstr(r.notes[i], maps);
    }
    if (!named || !rated) fail_msg("not '%s', '%s': %s", cause, maps ? maps : "", r.notes[0]);
    results_release(&r);
    causes_close(&means);
}

static void causes_are_named(void **state)
{
    verdict((double[]){ -6, -0.01, -5.5, -0.02 }, "answers: watermark (-5.5",
            "above all other regions: gradient");
    verdict((double[]){ -6, -5.8, -0.1, 0.3 }, "answers: the object (", "gradient (watermark)");
    // Of regions with almost the same effect, the smallest.
    verdict((double[]){ -6, -5.5, 0, -5.8 }, "answers: the object (", NULL);
    verdict((double[]){ -0.01, 0, 0, 0.02 }, "answers: the text (", NULL);
    verdict((double[]){ -3, -0.05, 0, -0.02 }, "answers: the whole picture (", NULL);
    // A region is no cause if the whole picture weighs more than twice as much.
    verdict((double[]){ -1.6, -0.2, 0, -0.1 },
            "the whole picture (-1.6; no region alone changes "
            "their log-probability by more than 0.8)",
            NULL);
    verdict((double[]){ -1.6, -0.9, 0, -0.1 }, "answers: the object (-0.9", NULL);
    verdict((double[]){ 0.02, -0.095, 0, 0 }, "answers: the text (", NULL);
}

static const char *other_path; // the picture of exchange_passes
static double exchanged;       // its change in log-probability

// Exchanges the left half of the picture: tokens, and the encoder's attention to them.
static int exchange_passes(void *state, struct passing *p, struct err *err)
{
    int64_t rows, width;
    float *focus, *seen;
    const double before = logp_of(p);
    float *own = passes_visual(p, 0, &rows, &width, &focus, err);
    float *other = passes_encode(p, 0, other_path, &seen, err);
    const bool there = own && other && focus && seen;
    const int64_t side = (int64_t)sqrt((double)rows);
    for (int64_t i = 0; i < rows && there; i++) {
        if (i % side >= side / 2) continue;
        memcpy(own + i * width, other + i * width, (size_t)width * sizeof *own);
        focus[i] = seen[i];
    }
    must(there ? passes_show(p, 0, own, focus, err) : -1, err);
    exchanged = logp_of(p) - before;
    must(passes_restore(p, 0, err), err);
    free(own);
    free(other);
    free(focus);
    free(seen);
    return 0;
}

static const struct probe probe_exchange = { .name = "exchange",
                                             .answer = true,
                                             .start = keep_start,
                                             .release = keep_release,
                                             .passes = exchange_passes,
                                             .finish = keep_finish };

// Writes noise as other.ppm to a new folder; the caller removes the folder.
static char *noise_folder(void)
{
    char ppm[16 + 64 * 48 * 3], *folder = scratch_new();
    const int head = snprintf(ppm, sizeof ppm, "P6 64 48 255\n");
    for (int i = 0; i < 64 * 48 * 3; i++) ppm[head + i] = (char)(i * 7);
    scratch_write(folder, "other.ppm", ppm, (size_t)head + 64 * 48 * 3);
    return folder;
}

// Pruning by the encoder's attention sees the other picture's attention in the region only.
static void an_exchange_includes_the_encoders_attention(void **state)
{
    static const double box[4] = { 0, 0, 32, 48 };
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 }, none = { 0 };
    struct probe_options o = probe_defaults;
    char *folder = noise_folder(), *path = xasprintf("%s/other.ppm", folder);
    ask(&g, "llava-1.5", 2);
    must(engine_set(g.engine, "prune.score", "cls", &err), &err);
    must(engine_set(g.engine, "prune.layer", "input", &err), &err);
    other_path = path;
    run_probe(&g, &probe_exchange, NULL, &none);
    o.box = box, o.by = "attention", o.others = folder;
    run_probe(&g, &probe_faithful, &o, &r);
    near(&g, "the object", *results_value(&r, "faithful.causes", "the object", "change"), exchanged,
         1e-6);
    results_release(&r);
    results_release(&none);
    free(path);
    scratch_remove(folder);
    golden_close(&g);
}

// Exchanging the whole picture has the effect of run B of a patch; exchanging the object and the
// rest have effects that differ.
static void an_exchange_shows_the_other_picture(void **state)
{
    static const double box[4] = { 0, 0, 32, 48 };
    struct golden g;
    struct results r = { 0 }, patched = { 0 };
    struct probe_options o = probe_defaults;
    char *folder = noise_folder(), *path = xasprintf("%s/other.ppm", folder);
    ask(&g, "llava-1.5", 2);
    o.words = path;
    run_probe(&g, &probe_patch, &o, &patched);
    const double change = *results_value(&patched, "patch", "run B", "log-probability") -
                          *results_value(&patched, "patch", "run A", "log-probability");
    o.words = NULL;
    o.box = box, o.by = "attention", o.others = folder;
    run_probe(&g, &probe_faithful, &o, &r);
    near(&g, "the whole picture",
         *results_value(&r, "faithful.causes", "the whole picture", "change"), change, 1e-5);
    const double object = *results_value(&r, "faithful.causes", "the object", "change");
    const double rest = *results_value(&r, "faithful.causes", "the rest", "change");
    assert_true(object != 0 && rest != 0 && object != rest);
    results_release(&r);

    // Objects of a list: a comma belongs to the name, and a name within another is another object.
    const char *own = engine_conversation(g.engine)->pictures[0].path;
    char *objects = xasprintf("{\"image\": \"%s\", \"objects\": ["
                              "{\"name\": \"cup\", \"box\": [0, 0, 32, 48]},"
                              "{\"name\": \"a cup, white\", \"box\": [32, 0, 32, 24]}]}\n",
                              own ? text_file_name(own) : "");
    char *list = xasprintf("%s/objects.jsonl", folder);
    scratch_write(folder, "objects.jsonl", objects, strlen(objects));
    struct masks masks;
    struct err err = { 0 };
    must(masks_open(&masks, list, &err), &err);
    o.objects = &masks;
    run_probe(&g, &probe_faithful, &o, &r);
    const double *tokens = results_value(&r, "faithful.causes", "a cup, white", "tokens");
    const double *all = results_value(&r, "faithful.causes", "the whole picture", "tokens");
    assert_true(tokens && *tokens < *all / 2);
    masks_close(&masks);
    results_release(&r);
    free(objects);

    // RefCOCO's rows have expressions, but no names.
    objects =
        xasprintf("{\"file_name\": \"%s\", \"answer\": [\"the cup\"], \"bbox\": [0, 0, 32, 48]}\n",
                  own ? text_file_name(own) : "");
    scratch_write(folder, "objects.jsonl", objects, strlen(objects));
    must(masks_open(&masks, list, &err), &err);
    r = (struct results){ 0 };
    run_probe(&g, &probe_faithful, &o, &r);
    assert_non_null(results_value(&r, "faithful.causes", "the object", "tokens"));
    masks_close(&masks);
    free(list);
    free(objects);
    free(path);
    scratch_remove(folder);
    results_release(&r);
    results_release(&patched);
    golden_close(&g);
}

// --- refusals ------------------------------------------------------------------------------------

static void an_object_outside_the_picture_is_refused(void **state)
{
    static const double box[4] = { 500, 500, 20, 20 };
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct measure_request request = { .probe = &probe_faithful, .options = probe_defaults };
    ask(&g, "llava-1.5", 2);
    request.options.box = box;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "covers no visual token"));
    results_release(&r);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_equal_those_by_hand),
        cmocka_unit_test(shuffled_weights_are_another_model),
        cmocka_unit_test(controls_bound_the_scores),
        cmocka_unit_test(causes_are_named),
        cmocka_unit_test(an_exchange_shows_the_other_picture),
        cmocka_unit_test(an_exchange_includes_the_encoders_attention),
        cmocka_unit_test(an_object_outside_the_picture_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
