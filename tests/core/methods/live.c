// tests/core/methods/live.c -- core/engine/engine.c, core/talk/answer.c: settings posted in the
// middle of an answer. The answer continues as in a new engine with the same tokens and the new
// settings. Also which cached rows a change of settings keeps, and a stopped prefill.
#include <pthread.h>
#include <sys/stat.h>

#include "core/adapter/adapters.h"
#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/base/random.h"
#include "core/settings/changes.h"
#include "core/talk/answer.h"
#include "tests/core/model/families/golden.h"

static char folder[256], calibration[300], vectors[300], steered[320];

static const char *const models[] = { GOLDEN_SEEING };
enum { TOKENS = 10 };

// The settings posted during an answer.
struct posting {
    struct golden *g;
    uint64_t seed, draws;
    int64_t tokens;  // tokens generated so far
    int64_t last;    // tokens generated before the last change to a setting; -1: never
    int64_t notices; // refusals
};

static const struct {
    const char *key, *values[5];
} switches[] = {
    { "norm.align", { "on", "off" } },
    { "norm.init", { "text", "default" } },
    { "ffn.layers", { "0-2", "1", "auto" } },
    { "ffn.approx", { "hadamard", "skip", "off" } },
    { "adapter", { folder, folder, "none" } },
    { "ira.on", { "on", "on", "off" } },
    { "chat.template", { "plain", "auto" } },
    { "prune.score", { "contribution", "attention", "random", "uniform", "off" } },
    { "prune.score", { "contribution", "norope", "contribution" } },
    { "prune.keep", { "0.1", "0.5", "1" } },
    { "prune.mode", { "dynamic", "prefill" } },
    { "prune.layer", { "0", "1", "2", "3" } },
    { "prune.seed", { "1", "2", "3" } },
    { "sample.top_k", { "3", "40" } },
    { "steer.vectors", { steered, steered, "none" } },
    { "hide.tokens", { "3-8", "4,20-30", "none" } },
    { "kv.dtype", { "bf16", "bf16", "f32" } },
};
enum { SWITCHES = sizeof switches / sizeof *switches };

static void write_parameters(const struct golden *g)
{
    write_ira(g, folder);
    write_ffn_calibration(g, calibration);
    write_steering(g, vectors);
}

static int draw(struct posting *p, int below)
{
    return (int)(random_unit(p->seed, RANDOM_WEIGHTS, p->draws++) * below);
}

static void *post(void *self)
{
    struct posting *p = self;
    const int i = draw(p, SWITCHES);
    int values = 0;
    while (values < 5 && switches[i].values[values]) values++;
    engine_post(p->g->engine,
                &(struct change){ switches[i].key, switches[i].values[draw(p, values)] }, 1, 0);
    return NULL;
}

// Posts from another thread at some tokens.
static void watch(void *self, const struct event *e)
{
    struct posting *p = self;
    if (e->kind == EVENT_SETTING && e->ok) p->last = p->tokens;
    if (e->kind == EVENT_NOTICE && !strncmp(e->text, "not changed: ", 13)) p->notices++;
    if (e->kind != EVENT_TOKEN) return;
    p->tokens++;
    pthread_t thread;
    if (p->tokens >= TOKENS || draw(p, 3)) return;
    assert_int_equal(pthread_create(&thread, NULL, post, p), 0);
    pthread_join(thread, NULL);
}

static void copy_settings(struct golden *fresh, const struct settings *s)
{
    struct err err = { 0 };
    struct change list[256];
    size_t count = 0;
    for (int i = 0; settings_row(i); i++)
        list[count++] =
            (struct change){ settings_row(i)->key, settings_text(s, settings_row(i)->key) };
    must(engine_set_all(fresh->engine, list, count, &err), &err);
}

// Values that are close may differ by one step where they are rounded to bf16.
static void check_table(int layer, const struct tensor *a, const struct tensor *b, int64_t rows)
{
    assert_int_equal(a->dtype, b->dtype);
    const int64_t count = rows * tensor_row(a);
    const float unit = a->dtype == DTYPE_BF16 ? 0x1p-7f : 0;
    float *x = xreallocarray(NULL, (size_t)count + 1, sizeof *x);
    float *y = xreallocarray(NULL, (size_t)count + 1, sizeof *y);
    floats_from(x, a->data, a->dtype, (size_t)count);
    floats_from(y, b->data, b->dtype, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-4f + unit * fabsf(y[i])))
            fail_msg("layer %d: %g, afresh %g", layer, x[i], y[i]);
    free(x);
    free(y);
}

static void check_cache(const struct conversation *a, const struct conversation *b)
{
    for (int l = 0; l < a->kv.layers; l++) {
        const struct kv_layer *p = &a->kv.layer[l], *q = &b->kv.layer[l];
        assert_int_equal(p->rows, q->rows);
        assert_memory_equal(p->position, q->position, (size_t)p->rows * sizeof *p->position);
        check_table(l, &p->k, &q->k, p->rows);
        check_table(l, &p->v, &q->v, p->rows);
    }
}

// Compares with the same conversation in a new engine that is given the answer's first `given`
// tokens.
static void check_against_fresh(struct golden *g, const char *model, int64_t given)
{
    struct golden fresh;
    struct err err = { 0 };
    struct hooks hooks = { 0 };
    bool answered;
    const struct conversation *from = engine_conversation(g->engine);
    golden_open(&fresh, model);
    copy_settings(&fresh, engine_settings(g->engine));
    for (size_t i = 0; i < from->picture_count; i++)
        must(engine_attach_bytes(fresh.engine, "p", from->pictures[i].bytes, from->pictures[i].size,
                                 &err),
             &err);
    for (size_t i = 0; i + 1 < from->message_count; i++)
        must(engine_add_message(fresh.engine, &from->messages[i], &err), &err);
    struct conversation *c = (struct conversation *)(uintptr_t)engine_conversation(fresh.engine);
    const struct method_env env = { .model = engine_model(fresh.engine),
                                    .backend = test_device(),
                                    .settings = engine_settings(fresh.engine),
                                    .tensors =
                                        adapter_tensors(engine_adapters(fresh.engine)->active) };
    const struct answer_options options = { .forced = g->answer.data,
                                            .forced_count = (size_t)given };
    must(methods_attach(&c->methods, &hooks, &env, &err), &err);
    must(answer_run(c, env.settings, &hooks, NULL, &options, &fresh.sinks, &answered, &err), &err);
    assert_int_equal(fresh.answer.count, g->answer.count);
    assert_memory_equal(fresh.answer.data, g->answer.data, g->answer.count * sizeof(int32_t));
    check_cache(from, c);
    golden_close(&fresh);
}

static void posted_changes_apply_during_an_answer(void **state)
{
    static const char *const questions[] = { "what is this?", "and now", "where", "why so" };
    int64_t middle = 0;
    for (int m = 0; m < 2; m++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            struct golden g;
            struct err err = { 0 };
            golden_open(&g, models[m]);
            write_parameters(&g);
            struct posting p = { .g = &g, .seed = 31 + seed };
            char count[8];
            snprintf(count, sizeof count, "%d", TOKENS);
            must(engine_set(g.engine, "sample.max_tokens", count, &err), &err);
            must(engine_set(g.engine, "adapter", folder, &err), &err);
            must(engine_set(g.engine, "ira.layers", "2-3", &err), &err);
            must(engine_set(g.engine, "ffn.calibration", calibration, &err), &err);
            sinks_add(&g.sinks, (struct sink){ .emit = watch, .self = &p });
            for (int turn = 0; turn < 4; turn++) {
                if (turn % 2 == 0)
                    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
                p.tokens = 0;
                p.last = -1;
                must(engine_ask(g.engine, questions[turn], &err), &err);
                const int64_t last = p.last; // of the last change; 0, -1, TOKENS: not in the middle
                if (last > 0 && last < TOKENS) {
                    check_against_fresh(&g, models[m], last);
                    middle++;
                }
            }
            golden_close(&g);
        }
    if (middle < 20) fail_msg("only %d answers changed in the middle", (int)middle);
}

// A batch applies as a whole or not at all, with the reason; later batches still apply.
static void impossible_batches_are_refused(void **state)
{
    struct golden g;
    struct err err = { 0 };
    const struct change pair[] = { { "prune.keep", "0.5" }, { "prune.layer", "99" } };
    const struct change stages[] = { { "prune.layer", "0,2" }, { "prune.keep", "0.5,0.25" } };
    golden_open(&g, models[0]);
    struct posting p = { .g = &g };
    must(engine_set(g.engine, "sample.max_tokens", "6", &err), &err);
    must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    engine_post(g.engine, pair, 2, 2);
    engine_post(g.engine, &stages[0], 1, 3); // with two layers and one share, which do not fit
    engine_post(g.engine, stages, 2, 4);
    p.tokens = TOKENS; // nothing more is posted
    sinks_add(&g.sinks, (struct sink){ .emit = watch, .self = &p });
    must(engine_ask(g.engine, "what is this?", &err), &err);
    assert_int_equal(p.notices, 2);
    assert_string_equal(settings_text(engine_settings(g.engine), "prune.layer"), "0,2");
    assert_string_equal(settings_text(engine_settings(g.engine), "prune.keep"), "0.5,0.25");
    check_against_fresh(&g, models[0], 4);
    golden_close(&g);
}

// Before the fifth token, reloads an adapter, then enables a method.
static void set_between(void *self)
{
    struct posting *p = self;
    struct err err = { 0 };
    if (p->tokens != 4) return;
    must(engine_adapter_load(p->g->engine, folder, &err), &err);
    must(engine_set(p->g->engine, "norm.align", "on", &err), &err);
}

static void count_tokens(void *self, const struct event *e)
{
    struct posting *p = self;
    if (e->kind == EVENT_TOKEN) p->tokens++;
}

static void changes_between_tokens_apply(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    write_parameters(&g);
    struct posting p = { .g = &g };
    must(engine_set(g.engine, "sample.max_tokens", "8", &err), &err);
    must(engine_set(g.engine, "adapter", folder, &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    sinks_add(&g.sinks, (struct sink){ .emit = count_tokens, .self = &p });
    engine_between(g.engine, set_between, &p);
    must(engine_ask(g.engine, "what is this?", &err), &err);
    engine_between(g.engine, NULL, NULL);
    assert_true(p.tokens > 4);
    check_against_fresh(&g, models[0], 4);
    golden_close(&g);
}

// Before the third token, a change and a reset that would lead to two layers and one share are
// refused, and the answer continues.
static void misfit_between(void *self)
{
    struct posting *p = self;
    struct err err = { 0 };
    if (p->tokens != 2) return;
    p->notices -= engine_set(p->g->engine, "prune.layer", "0,1", &err);
    assert_non_null(strstr(err.text, "one value per layer"));
    const struct change stages[] = { { "prune.layer", "0,1" }, { "prune.keep", "0.5,0.25" } };
    must(engine_set_all(p->g->engine, stages, 2, &err), &err);
    p->notices -= engine_reset(p->g->engine, "prune.keep", &err);
    assert_non_null(strstr(err.text, "one value per layer"));
}

static void conflicting_changes_do_not_end_an_answer(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    struct posting p = { .g = &g };
    must(engine_set(g.engine, "sample.max_tokens", "6", &err), &err);
    must(engine_set(g.engine, "sample.ignore_eos", "on", &err), &err);
    must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    sinks_add(&g.sinks, (struct sink){ .emit = count_tokens, .self = &p });
    engine_between(g.engine, misfit_between, &p);
    must(engine_ask(g.engine, "what is this?", &err), &err);
    engine_between(g.engine, NULL, NULL);
    assert_int_equal(p.tokens, 6);
    assert_int_equal(p.notices, 2);
    assert_string_equal(settings_text(engine_settings(g.engine), "prune.keep"), "0.5,0.25");
    check_against_fresh(&g, models[0], 2);
    golden_close(&g);
}

// Changes posted while no answer runs wait for engine_apply_posted.
static void late_changes_apply_before_the_next_line(void **state)
{
    struct golden g;
    golden_open(&g, models[0]);
    engine_post(g.engine, &(struct change){ "prune.score", "attention" }, 1, 0);
    assert_string_equal(settings_text(engine_settings(g.engine), "prune.score"), "off");
    engine_apply_posted(g.engine);
    assert_string_equal(settings_text(engine_settings(g.engine), "prune.score"), "attention");
    golden_close(&g);
}

// A different share or score of pruning keeps all cached tokens; norm alignment keeps those before
// the picture, a different arithmetic none.
static void layers_before_pruning_stay_cached(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    must(engine_set(g.engine, "sample.max_tokens", "2", &err), &err);
    must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "what is this?", &err), &err);
    const struct conversation *c = engine_conversation(g.engine);
    const int64_t cached = c->cached.n;
    must(engine_set(g.engine, "prune.keep", "0.5", &err), &err);
    must(engine_set(g.engine, "prune.score", "attention", &err), &err);
    assert_int_equal(c->cached.n, cached);
    must(engine_set(g.engine, "norm.align", "on", &err), &err);
    assert_true(c->cached.n > 0 && c->cached.n < cached); // the rows before the picture
    for (int64_t i = 0; i < c->cached.n; i++) assert_int_equal(c->cached.picture[i], -1);
    if (test_multiplies_bf16("that another arithmetic leaves no row")) {
        must(engine_set(g.engine, "compute.matmul", "bf16", &err), &err);
        assert_int_equal(c->cached.n, 0);
    }
    golden_close(&g);
}

// Settings of a disabled method do not invalidate the cache; enabling or disabling one does.
static void settings_of_disabled_methods_keep_the_cache(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    must(engine_set(g.engine, "sample.max_tokens", "2", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "what is this?", &err), &err);
    const struct conversation *c = engine_conversation(g.engine);
    const int64_t cached = c->cached.n;
    must(engine_set(g.engine, "prune.keep", "0.5", &err), &err);
    must(engine_set(g.engine, "norm.init", "default", &err), &err);
    must(engine_set(g.engine, "ira.sample", "on", &err), &err);
    must(engine_set(g.engine, "sample.seed", "7", &err), &err);
    assert_int_equal(c->cached.n, cached);
    must(engine_set(g.engine, "prune.score", "uniform", &err), &err);
    assert_true(c->cached.n < cached);
    must(engine_regenerate(g.engine, &err), &err);
    must(engine_set(g.engine, "prune.score", "off", &err), &err);
    assert_true(c->cached.n < cached);
    golden_close(&g);
}

// A different seed draws different IRA noise, so the picture's rows are computed again.
static void the_seed_of_noise_computes_the_picture_again(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    write_parameters(&g);
    must(engine_set(g.engine, "sample.max_tokens", "2", &err), &err);
    must(engine_set(g.engine, "adapter", folder, &err), &err);
    must(engine_set(g.engine, "ira.layers", "2-3", &err), &err);
    must(engine_set(g.engine, "ira.on", "on", &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "what is this?", &err), &err);
    const struct conversation *c = engine_conversation(g.engine);
    const int64_t cached = c->cached.n;
    must(engine_set(g.engine, "sample.seed", "7", &err), &err);
    assert_int_equal(c->cached.n, cached);
    must(engine_set(g.engine, "ira.sample", "on", &err), &err);
    must(engine_regenerate(g.engine, &err), &err);
    assert_int_equal(c->cached.n, cached);
    must(engine_set(g.engine, "sample.seed", "8", &err), &err);
    assert_true(c->cached.n < cached);
    golden_close(&g);
}

// Stops a pass after layer 2.
static bool stopper_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_OUT && layer == 2;
}

static int stop(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    atomic_store((atomic_bool *)self, true);
    return 0;
}

// The prefill stops after pruning has replaced rows in layer 2 and before it has in layer 3.
static void a_stopped_prefill_leaves_a_usable_cache(void **state)
{
    static const char *const changes[][2] = { { "prune.score", "off" },
                                              { "prune.layer", "2" },
                                              { "prune.keep", "1" },
                                              { "prune.mode", "dynamic" } };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct golden g;
        struct err err = { 0 };
        struct hooks hooks = { 0 };
        atomic_bool cancel = false;
        const struct answer_options options = { 0 };
        bool answered = true;
        golden_open(&g, models[0]);
        must(engine_set(g.engine, "sample.max_tokens", "4", &err), &err);
        must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
        must(engine_set(g.engine, "prune.layer", "1", &err), &err);
        must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
        must(engine_ask(g.engine, "what is this?", &err), &err);
        struct conversation *c = (struct conversation *)(uintptr_t)engine_conversation(g.engine);
        struct message asked = { .role = ROLE_USER };
        message_add_text(&asked, "and now");
        must(engine_add_message(g.engine, &asked, &err), &err);
        message_release(&asked);
        const struct method_env env = { .model = engine_model(g.engine),
                                        .backend = test_device(),
                                        .settings = engine_settings(g.engine) };
        must(methods_attach(&c->methods, &hooks, &env, &err), &err);
        hooks_add(&hooks, &(struct hook){ .wants = stopper_wants, .run = stop, .self = &cancel });
        must(answer_run(c, env.settings, &hooks, &cancel, &options, &g.sinks, &answered, &err),
             &err);
        assert_false(answered);
        must(engine_set(g.engine, changes[i][0], changes[i][1], &err), &err);
        must(engine_answer(g.engine, &err), &err);
        check_against_fresh(&g, models[0], 0);
        golden_close(&g);
    }
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vlmsh-live-%d", base ? base : "/tmp", (int)getpid());
    snprintf(calibration, sizeof calibration, "%s/ffn.safetensors", folder);
    snprintf(vectors, sizeof vectors, "%s/steer.safetensors", folder);
    snprintf(steered, sizeof steered, "%s=2", vectors);
    mkdir(folder, 0700);
    return 0;
}

static int tear_down(void **state)
{
    char path[320];
    snprintf(path, sizeof path, "%s/extra.safetensors", folder);
    unlink(path);
    unlink(calibration);
    unlink(vectors);
    rmdir(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted_changes_apply_during_an_answer),
        cmocka_unit_test(impossible_batches_are_refused),
        cmocka_unit_test(changes_between_tokens_apply),
        cmocka_unit_test(conflicting_changes_do_not_end_an_answer),
        cmocka_unit_test(late_changes_apply_before_the_next_line),
        cmocka_unit_test(layers_before_pruning_stay_cached),
        cmocka_unit_test(settings_of_disabled_methods_keep_the_cache),
        cmocka_unit_test(a_stopped_prefill_leaves_a_usable_cache),
        cmocka_unit_test(the_seed_of_noise_computes_the_picture_again),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
