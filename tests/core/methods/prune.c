// tests/core/methods/prune.c -- core/methods/prune.c against the reference's scores, kept tokens,
// hidden states, logits and answers; choices by sinks, lists and diversity against plain loops;
// conversations in which pruning changes equal fresh ones; bad settings.
#include "core/base/random.h"
#include "core/methods/prune_score.h"
#include "tests/core/methods/fresh.h"

static const char *const models[] = { GOLDEN_SEEING };
static const char *const scored[] = { GOLDEN_TRAINED }; // models with goldens of `kinds`
// Models with goldens of stages and of the dynamic mode.
static const char *const staged[] = { GOLDEN_SEEING, "gemma3" };
static const char *const kinds[] = { "contribution", "attention", "norope", "uniform" };
#define PICTURE "tests/goldens/pictures/scene.png"
enum { KINDS = sizeof kinds / sizeof *kinds };

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static void compare_named(const struct golden *g, const struct safetensors *f, const char *ours,
                          const char *format, const char *kind)
{
    char theirs[64];
    snprintf(theirs, sizeof theirs, format, kind);
    compare_all(g, f, ours, theirs);
}

static void check_rows(const struct golden *g, const struct safetensors *f, int from, int to,
                       const char *theirs)
{
    for (int l = from; l < to; l++) {
        char ours[24];
        snprintf(ours, sizeof ours, "rows.%d", l);
        compare_all(g, f, ours, theirs);
    }
}

// --- the reference -------------------------------------------------------------------------------

static void each_score_equals_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof scored / sizeof *scored; i++)
        for (int k = 0; k < KINDS; k++) {
            struct golden g;
            char name[64], layer[8], score[16];
            golden_open(&g, scored[i]);
            const int after = golden_capa_layer(&g);
            snprintf(layer, sizeof layer, "%d", after);
            snprintf(score, sizeof score, "score.%d", after);
            set(&g, "prune.layer", layer);
            set(&g, "prune.score", kinds[k]);
            struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "*");
            if (strcmp(kinds[k], "uniform")) compare_named(&g, f, score, "capa.%s.score", kinds[k]);
            compare_named(&g, f, "kept", "capa.%s.kept", kinds[k]);
            snprintf(name, sizeof name, "capa.%s.rows", kinds[k]);
            check_rows(&g, f, after + 1, golden_layers(&g), name);
            compare_named(&g, f, "layer.out", "capa.%s.h_last", kinds[k]);
            snprintf(name, sizeof name, "capa.%s.logits_last", kinds[k]);
            check_last(&g, f, name);
            // Layers up to this one see all tokens.
            snprintf(name, sizeof name, "ffn.%d.out", after);
            if (engine_model(g.engine)->decoder.config.kind->after_layer)
                compare_all(&g, f, name, "fwd.ffn_out");
            else
                compare_slice(&g, f, "ffn.%d.out", after, "fwd.h", after + 1);
            snprintf(name, sizeof name, "capa.%s.gen_ids", kinds[k]);
            if (safetensors_find(g.tensors, name)) check_generated(&g, name);
            safetensors_close(f);
            golden_close(&g);
        }
}

// Compares the dump's tensor WHAT.LAYER with the golden "capa.stages.LAYER.WHAT".
static void compare_stage(const struct golden *g, const struct safetensors *f, const char *what,
                          int layer)
{
    char ours[32], theirs[64];
    snprintf(ours, sizeof ours, "%s.%d", what, layer);
    snprintf(theirs, sizeof theirs, "capa.stages.%d.%s", layer, what);
    compare_all(g, f, ours, theirs);
}

// --- chosen tokens -------------------------------------------------------------------------------

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Returns the exponential of Otsu's threshold of log c, found by trying every threshold.
static double split_of(const double *c, int n)
{
    double best = 0, split = NAN, *x = xcalloc((size_t)n + 1, sizeof *x);
    for (int i = 0; i < n; i++) x[i] = log(c[i]);
    qsort(x, (size_t)n, sizeof *x, by_size);
    for (int k = 1; k < n; k++) {
        double low = 0, high = 0;
        for (int i = 0; i < n; i++) *(i < k ? &low : &high) += x[i] / (i < k ? k : n - k);
        const double between = (double)k * (n - k) * (high - low) * (high - low);
        if (between > best) best = between, split = (x[k - 1] + x[k]) / 2;
    }
    free(x);
    return exp(split);
}

// Expects that exactly the tokens i with want[i] are kept, of `count`.
static void expect_kept(struct golden *g, const bool *want, int64_t count)
{
    struct safetensors *f = answer(g, chat_named(g, "single"), 2, "*");
    const struct safetensor *kept = safetensors_find(f, "kept");
    const int32_t *list = kept->data;
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!want[i]) continue;
        assert_true(n < kept->shape[0]);
        assert_int_equal(list[n], i);
        n++;
    }
    assert_int_equal(kept->shape[0], n);
    // Later layers compute the text and only these tokens.
    const struct safetensor *all = safetensors_find(f, "rows.1"),
                            *rest = safetensors_find(f, "rows.2");
    assert_int_equal(rest->shape[0], all->shape[0] - count + n);
    safetensors_close(f);
}

// Computes phi from the layer's input, and the tokens that each kind of sink keeps from phi and the
// contributions. Then keeps the lowest contributions, listed tokens, and none; refuses an
// impossible list.
static void kinds_of_sinks_are_chosen(void **state)
{
    static const char *const names[] = { "sinks", "dumps", "anchors" };
    struct golden g;
    char text[32];
    golden_open(&g, models[0]);
    set(&g, "prune.layer", "1");
    set(&g, "prune.score", "contribution");
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 2, "*");
    const struct safetensor *h = safetensors_find(f, "layer.1.in"),
                            *c = safetensors_find(f, "score.1");
    const struct sequence *q = &engine_conversation(g.engine)->cached;
    const int64_t width = h->shape[1];
    const int count = (int)c->shape[0];
    double *phi = xcalloc((size_t)count, sizeof *phi),
           *sorted = xcalloc((size_t)count, sizeof *sorted);
    double *members = xcalloc((size_t)count, sizeof *members);
    double *scores = xcalloc((size_t)count, sizeof *scores);
    for (int i = 0; i < count; i++) scores[i] = (double)((const float *)c->data)[i];
    bool *want = xcalloc((size_t)count, sizeof *want);
    const float *first = h->data;
    int64_t top[2] = { 0, 1 };
    if (fabsf(first[1]) > fabsf(first[0])) top[0] = 1, top[1] = 0;
    for (int64_t k = 2; k < width; k++) {
        if (fabsf(first[k]) > fabsf(first[top[0]]))
            top[1] = top[0], top[0] = k;
        else if (fabsf(first[k]) > fabsf(first[top[1]]))
            top[1] = k;
    }
    for (int64_t row = 0, i = 0; row < h->shape[0]; row++) {
        const float *x = (const float *)h->data + row * width;
        double squares = 0;
        if (q->picture[row] < 0) continue;
        for (int64_t k = 0; k < width; k++) squares += (double)x[k] * x[k];
        phi[i] = fmax(fabs((double)x[top[0]]), fabs((double)x[top[1]])) /
                 sqrt(squares / (double)width + engine_model(g.engine)->decoder.config.eps);
        sorted[i] = phi[i], i++;
    }
    safetensors_close(f);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    const double tau = (sorted[count / 2] + sorted[count / 2 - 1]) / 2; // half are sinks
    snprintf(text, sizeof text, "%.9g", tau);
    set(&g, "sinks.tau", text);
    int sinks = 0;
    for (int i = 0; i < count; i++)
        if (phi[i] > tau) members[sinks++] = scores[i];
    const double split = split_of(members, sinks);
    assert_true(sinks > 3 && !isnan(split));
    for (int kind = 0; kind < 3; kind++)
        for (int worst = 0; worst < 2; worst++) {
            set(&g, "prune.worst", worst ? "on" : "off");
            set(&g, "prune.score", names[kind]);
            for (int i = 0; i < count; i++) {
                const bool is = phi[i] > tau && (kind == 0 || (scores[i] > split) == (kind == 2));
                want[i] = is != worst;
            }
            expect_kept(&g, want, count);
            // In dynamic mode, the prompt's last row sees the same tokens.
            set(&g, "prune.mode", "dynamic");
            struct safetensors *d = answer(&g, chat_named(&g, "single"), 2, "kept");
            const struct safetensor *kept = safetensors_find(d, "kept");
            for (int i = 0, n = 0; i < count; i++)
                if (want[i]) assert_int_equal(((const int32_t *)kept->data)[n++], i);
            safetensors_close(d);
            set(&g, "prune.mode", "prefill");
        }
    // Keeps the lowest contributions; listed tokens, and all others; none.
    set(&g, "prune.score", "contribution");
    set(&g, "prune.keep", "0.2");
    for (int i = 0; i < count; i++) sorted[i] = scores[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    const double last = sorted[(int)rint(0.2 * count) - 1];
    for (int i = 0; i < count; i++) want[i] = scores[i] <= last;
    expect_kept(&g, want, count);
    set(&g, "prune.tokens", "0-2,7");
    for (int worst = 0; worst < 2; worst++) {
        set(&g, "prune.worst", worst ? "on" : "off");
        set(&g, "prune.score", "list");
        for (int i = 0; i < count; i++) want[i] = (i < 3 || i == 7) != worst;
        expect_kept(&g, want, count);
        set(&g, "prune.mode", "dynamic"); // the prompt's last row sees as many tokens
        struct safetensors *d = answer(&g, chat_named(&g, "single"), 2, "kept");
        assert_int_equal(safetensors_find(d, "kept")->shape[0], worst ? count - 4 : 4);
        safetensors_close(d);
        set(&g, "prune.mode", "prefill");
    }
    set(&g, "prune.worst", "off");
    set(&g, "prune.score", "attention");
    set(&g, "prune.keep", "0");
    for (int i = 0; i < count; i++) want[i] = false;
    expect_kept(&g, want, count);
    set(&g, "prune.score", "list");
    set(&g, "prune.tokens", "400");
    struct err err;
    engine_clear(g.engine);
    say(&g, chat_named(&g, "single"));
    assert_int_equal(engine_answer(g.engine, &err), -1);
    assert_non_null(strstr(err.text, "visual tokens are 0 to"));
    free(phi), free(sorted), free(members), free(scores), free(want);
    golden_close(&g);
}

static void stages_equal_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof staged / sizeof *staged; i++) {
        struct golden g;
        char layers[16], last[64], rows[2][64];
        golden_open(&g, staged[i]);
        const int stage[] = { golden_layer(&g, "capa", "stages", 0),
                              golden_layer(&g, "capa", "stages", 1) };
        snprintf(layers, sizeof layers, "%d,%d", stage[0], stage[1]);
        set(&g, "prune.layer", layers);
        set(&g, "prune.keep", "0.5,0.25");
        set(&g, "prune.score", "contribution");
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "*");
        for (int k = 0; k < 2; k++) {
            compare_stage(&g, f, "score", stage[k]);
            compare_stage(&g, f, "kept", stage[k]);
            snprintf(rows[k], sizeof rows[k], "capa.stages.%d.rows", stage[k]);
        }
        snprintf(last, sizeof last, "capa.stages.%d.kept", stage[1]);
        compare_all(&g, f, "kept", last);
        check_rows(&g, f, stage[0] + 1, stage[1] + 1, rows[0]);
        check_rows(&g, f, stage[1] + 1, golden_layers(&g), rows[1]);
        check_last(&g, f, "capa.stages.logits_last");
        check_generated(&g, "capa.stages.gen_ids");
        safetensors_close(f);
        golden_close(&g);
    }
}

static void dynamic_mode_equals_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof staged / sizeof *staged; i++)
        for (int k = 0; k < 2; k++) {
            struct golden g;
            char name[64], layer[8];
            golden_open(&g, staged[i]);
            const int after = golden_capa_layer(&g);
            snprintf(layer, sizeof layer, "%d", after);
            set(&g, "prune.layer", layer);
            set(&g, "prune.mode", "dynamic");
            set(&g, "prune.score", kinds[k]);
            struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "*");
            snprintf(name, sizeof name, "capa.dynamic.%s.score", kinds[k]);
            compare_slice(&g, f, "score.%d", after, name, 0);
            snprintf(name, sizeof name, "capa.dynamic.%s.kept", kinds[k]);
            compare_slice(&g, f, "kept", 0, name, 0);
            compare_named(&g, f, "step.logits", "capa.dynamic.%s.step_logits", kinds[k]);
            snprintf(name, sizeof name, "capa.dynamic.%s.gen_ids", kinds[k]);
            check_generated(&g, name);
            // Dropped keys get no attention from the last row, in a layer that sees all others.
            int later = after + 1;
            while (decoder_slides(&engine_model(g.engine)->decoder.config, later)) later++;
            snprintf(name, sizeof name, "attn.%d.probs", later);
            const struct safetensor *p = safetensors_find(f, name);
            const struct safetensor *kept = safetensors_find(f, "kept");
            const int32_t *ids = safetensors_find(f, "ids")->data;
            const float *row = (const float *)p->data + (p->shape[1] - 1) * p->shape[2];
            int64_t seen = 0;
            for (int64_t j = 0; j < p->shape[2]; j++)
                seen += ids[j] == engine_model(g.engine)->placeholder && row[j] > 0;
            assert_int_equal(seen, kept->shape[0]);
            safetensors_close(f);
            golden_close(&g);
        }
}

// --- conversations -------------------------------------------------------------------------------

static const struct {
    const char *key, *value;
} toggles[] = {
    { "prune.score", "contribution" }, { "prune.score", "attention" }, { "prune.score", "random" },
    { "prune.score", "off" },          { "prune.score", "uniform" },   { "prune.score", "norope" },
    { "prune.mode", "dynamic" },       { "prune.mode", "prefill" },    { "prune.keep", "0.1" },
    { "prune.keep", "0.5" },           { "prune.keep", "1" },          { "prune.layer", "0" },
    { "prune.layer", "last" },         { "prune.layer", "auto" },      { "norm.align", "on" },
    { "norm.align", "off" },           { "prune.seed", "5" },          { "prune.layer", "1" },
};

static void turn(struct golden *g, const char *key, const char *value)
{
    char last[16];
    snprintf(last, sizeof last, "%d", golden_layers(g) - 1);
    set(g, key, strcmp(value, "last") ? value : last);
}

// Asks questions, sometimes with a picture, changes settings, undoes, asks again, starts anew;
// after each step compares with a new engine.
static void walk(struct golden *g, uint64_t seed, int steps)
{
    struct err err = { 0 };
    int said = 0;
    set(g, "sample.max_tokens", "3");
    for (int i = 0; i < steps; i++) {
        const uint64_t draw = random_bits(seed, RANDOM_WEIGHTS, (uint64_t)i);
        const size_t toggle = draw / 64 % (sizeof toggles / sizeof *toggles);
        if (draw % 2) turn(g, toggles[toggle].key, toggles[toggle].value);
        const uint64_t kind = draw / 2 % 8;
        if (said && kind == 0) {
            must(engine_undo(g->engine, &err), &err);
            if (--said) must(engine_regenerate(g->engine, &err), &err);
        } else if (said && kind <= 2) {
            must(engine_regenerate(g->engine, &err), &err);
        } else if (said < 4) {
            if (!said || kind >= 6) must(engine_attach(g->engine, PICTURE, &err), &err);
            must(engine_ask(g->engine, said % 2 ? "And now?" : "What is it, then?", &err), &err);
            said++;
        } else {
            engine_clear(g->engine);
            said = 0;
        }
        if (said) equals_a_fresh_run(g);
    }
}

static void random_setting_changes_equal_fresh_runs(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    const int steps = 6; // a step computes a whole answer twice
#else
    const int steps = 20;
#endif
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct golden g;
            golden_open(&g, models[i]);
            set(&g, "prune.score", kinds[seed]);
            walk(&g, seed, steps);
            golden_close(&g);
        }
}

static void changes_of_stages_equal_fresh_runs(void **state)
{
    static const char *const modes[] = { "prefill", "dynamic" };
    static const char *const scores[] = { "contribution", "anchors" };
    for (int i = 0; i < 4; i++) {
        struct golden g;
        struct err err = { 0 };
        golden_open(&g, models[0]);
        set(&g, "sample.max_tokens", "5");
        set(&g, "sinks.tau", "1");
        set(&g, "prune.mode", modes[i % 2]);
        set(&g, "prune.layer", "0,2,3");
        set(&g, "prune.keep", "0.7,0.7,0.2");
        set(&g, "prune.score", scores[i / 2]);
        for (int turn = 0; turn < 3; turn++) {
            if (turn != 1) must(engine_attach(g.engine, PICTURE, &err), &err);
            must(engine_ask(g.engine, "What is this?", &err), &err);
            equals_a_fresh_run(&g);
        }
        golden_close(&g);
    }
}

// Keeping all tokens changes no bit of the keys and values, in the first turn and in the second.
static void keeping_all_is_off_to_the_bit(void **state)
{
    const char *const folders[] = { models[0], "gemma4" };
    static const char *const modes[] = { "prefill", "dynamic" };
    for (int i = 0; i < 4; i++) {
        struct golden all, off;
        struct err err = { 0 };
        golden_open(&all, folders[i / 2]);
        golden_open(&off, folders[i / 2]);
        set(&all, "prune.score", "contribution");
        set(&all, "prune.mode", modes[i % 2]);
        set(&all, "prune.keep", "1");
        for (int turn = 0; turn < 2; turn++) {
            struct golden *both[] = { &all, &off };
            for (int k = 0; k < 2; k++) {
                set(both[k], "sample.max_tokens", "6");
                if (!turn) must(engine_attach(both[k]->engine, PICTURE, &err), &err);
                must(engine_ask(both[k]->engine, "What is this?", &err), &err);
            }
            const struct conversation *a = engine_conversation(all.engine);
            const struct conversation *b = engine_conversation(off.engine);
            for (int l = 0; l < a->kv.layers; l++) {
                const struct kv_layer *p = &a->kv.layer[l], *q = &b->kv.layer[l];
                assert_int_equal(p->rows, q->rows);
                assert_true(p->rows > 0 && !p->k.data == !q->k.data);
                if (!p->k.data) continue; // the layer reads an earlier layer's tables
                const size_t bytes = (size_t)(p->rows * tensor_row(&p->k)) * sizeof(float);
                assert_memory_equal(p->k.data, q->k.data, bytes);
                assert_memory_equal(p->v.data, q->v.data, bytes);
            }
        }
        golden_close(&all);
        golden_close(&off);
    }
}

static const char *refused(struct golden *g, const char *key, const char *value)
{
    static struct err err;
    char *before = strdup(settings_text(engine_settings(g->engine), key));
    assert_int_equal(engine_set(g->engine, key, value, &err), -1);
    assert_string_equal(settings_text(engine_settings(g->engine), key), before);
    free(before);
    return err.text;
}

static void bad_settings_are_refused(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    for (int on = 0; on < 2; on++) {
        assert_non_null(strstr(refused(&g, "prune.layer", "4"), "prune.layer"));
        assert_non_null(strstr(refused(&g, "prune.keep", "-0.1"), "prune.keep"));
        assert_non_null(strstr(refused(&g, "prune.keep", "nan"), "prune.keep"));
        assert_non_null(strstr(refused(&g, "prune.keep", "1.5"), "prune.keep"));
        assert_non_null(strstr(refused(&g, "prune.score", "best"), "prune.score"));
        assert_non_null(strstr(refused(&g, "prune.tokens", "4-2"), "prune.tokens"));
        set(&g, "prune.score", "contribution");
    }
    set(&g, "prune.worst", "on");
    assert_non_null(strstr(refused(&g, "prune.score", "uniform"), "ranks no tokens"));
    set(&g, "prune.worst", "off");
    // Values are checked against each other only at use, so they may be set one by one.
    must(engine_attach(g.engine, PICTURE, &err), &err);
    set(&g, "prune.layer", "1,2");
    assert_int_equal(engine_ask(g.engine, "What is this?", &err), -1);
    assert_non_null(strstr(err.text, "one value per layer"));
    assert_non_null(strstr(refused(&g, "prune.keep", "0.25,0.5"), "do not come back"));
    set(&g, "prune.keep", "0.5,0.25");
    set(&g, "sample.max_tokens", "2");
    must(engine_ask(g.engine, "What is this?", &err), &err);
    golden_close(&g);
}

static void choices_are_the_rounded_best(void **state)
{
    static const struct {
        double share;
        int64_t visual, k;
    } counts[] = { { 0.25, 576, 144 }, { 0.5, 25, 12 }, { 0.5, 27, 14 }, { 0.5, 1, 1 },
                   { 0.01, 7, 1 },     { 1, 9, 9 },     { 0.25, 0, 0 },  { 1e-9, 1000, 1 },
                   { 0.25, 10, 2 },    { 0.25, 14, 4 } };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_int_equal(prune_count(counts[i].share, counts[i].visual), counts[i].k);
    const float score[] = { 1, 3, NAN, 3, -INFINITY, 3, 0 };
    bool keep[7];
    prune_choose(PRUNE_ATTENTION, score, 7, 2, false, keep);
    assert_true(keep[1] && keep[3] && !keep[5] && !keep[0]);
    prune_choose(PRUNE_ATTENTION, score, 7, 6, false, keep);
    assert_true(keep[0] && keep[2] && keep[6] && !keep[4]);
    prune_choose(PRUNE_UNIFORM, NULL, 7, 3, false, keep); // keeps 0, 2, 4
    assert_true(keep[0] && keep[2] && keep[4] && !keep[1] && !keep[6]);
    prune_choose(PRUNE_UNIFORM, NULL, 0, 0, false, keep);
}

// --- diversity -----------------------------------------------------------------------------------

enum { ROWS = 40, WIDTH = 5 };

static double cosine_distance(const float *a, const float *b)
{
    double dot = 0, aa = 0, bb = 0;
    for (int c = 0; c < WIDTH; c++) {
        dot += (double)a[c] * b[c];
        aa += (double)a[c] * a[c];
        bb += (double)b[c] * b[c];
    }
    return 1 - dot / sqrt(aa * bb);
}

// The smallest distance of row i to the other rows of a set.
static double smallest(const float *x, int i, const bool *set)
{
    double least = INFINITY;
    for (int j = 0; j < ROWS; j++)
        if (set[j] && j != i) least = fmin(least, cosine_distance(x + i * WIDTH, x + j * WIDTH));
    return least;
}

// Each choice of k rows contains the choice of k - 1, and the added row is the furthest from that
// choice (the first: from all other rows).
static void diverse_choices_are_the_furthest(void **state)
{
    float x[ROWS * WIDTH];
    bool all[ROWS], before[ROWS] = { false }, now[ROWS];
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)random_unit(3, RANDOM_WEIGHTS, (uint64_t)i) - 0.3f;
    for (int i = 0; i < ROWS; i++) all[i] = true;
    for (int k = 1; k <= ROWS; k++) {
        int added = -1;
        prune_choose_diverse(x, ROWS, WIDTH, k, now);
        for (int i = 0; i < ROWS; i++) {
            assert_true(now[i] || !before[i]);
            if (now[i] && !before[i]) added = i;
        }
        assert_true(added >= 0);
        const double far = smallest(x, added, k > 1 ? before : all);
        for (int i = 0; i < ROWS; i++)
            if (!before[i]) assert_true(smallest(x, i, k > 1 ? before : all) <= far + 1e-12);
        memcpy(before, now, sizeof now);
    }
    prune_choose_diverse(x, ROWS, WIDTH, 0, now);
    for (int i = 0; i < ROWS; i++) assert_false(now[i]);
}

// Diversity is switched on, changed and switched off in a conversation, then switched on with
// several stages.
static void diversity_equals_fresh_runs(void **state)
{
    static const struct {
        const char *score, *layer, *keep;
    } turns[] = { { "off", "1", "0.25" },          { "diversity", "1", "0.25" },
                  { "diversity", "1", "0.6" },     { "diversity", "0", "0.6" },
                  { "contribution", "0", "0.25" }, { "diversity", "0", "0.25" },
                  { "off", "0", "0.25" } };
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    set(&g, "sample.max_tokens", "4");
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        set(&g, "prune.layer", turns[i].layer);
        set(&g, "prune.keep", turns[i].keep);
        set(&g, "prune.score", turns[i].score);
        if (i % 3 == 0) must(engine_attach(g.engine, PICTURE, &err), &err);
        must(engine_ask(g.engine, "What is this?", &err), &err);
        equals_a_fresh_run(&g);
    }
    set(&g, "prune.score", "off");
    set(&g, "prune.layer", "0,2,3");
    set(&g, "prune.keep", "0.7,0.7,0.2");
    set(&g, "prune.score", "diversity");
    must(engine_ask(g.engine, "And now?", &err), &err);
    equals_a_fresh_run(&g);
    assert_non_null(strstr(refused(&g, "prune.mode", "dynamic"), "no dynamic mode"));
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_score_equals_the_reference),
        cmocka_unit_test(kinds_of_sinks_are_chosen),
        cmocka_unit_test(stages_equal_the_reference),
        cmocka_unit_test(dynamic_mode_equals_the_reference),
        cmocka_unit_test(random_setting_changes_equal_fresh_runs),
        cmocka_unit_test(changes_of_stages_equal_fresh_runs),
        cmocka_unit_test(keeping_all_is_off_to_the_bit),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(choices_are_the_rounded_best),
        cmocka_unit_test(diverse_choices_are_the_furthest),
        cmocka_unit_test(diversity_equals_fresh_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
