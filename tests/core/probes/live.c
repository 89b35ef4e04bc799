// tests/core/probes/live.c -- core/probes/live.c: the live maps of an answer equal those that
// /attention measures afterwards and change no token; drafts change no map; pauses between maps.
#include "tests/core/probes/probe.h"

enum { TOKENS = 8, MAPS = 64, CELLS = 4096 };

struct caught {
    int count, cells[MAPS], token[MAPS], layer[MAPS], head[MAPS];
    float values[MAPS][CELLS];
    int32_t ids[TOKENS];
    size_t id_count;
};

static void catch_event(void *self, const struct event *e)
{
    struct caught *c = self;
    if (e->kind == EVENT_ANSWER) {
        c->id_count = e->answer->count < TOKENS ? e->answer->count : TOKENS;
        memcpy(c->ids, e->answer->ids, c->id_count * sizeof *c->ids);
    }
    if (e->kind != EVENT_HEATMAP || c->count == MAPS) return;
    const struct event_heatmap *h = e->heatmap;
    // Keeps only the first tile's map.
    if (h->tile && strncmp(h->tile, "tile 1 ", 7) != 0) return;
    assert_string_equal(h->name, "live");
    assert_true(h->rows * h->cols <= CELLS);
    c->cells[c->count] = h->rows * h->cols;
    c->token[c->count] = h->token;
    c->layer[c->count] = h->layer;
    c->head[c->count] = h->head;
    memcpy(c->values[c->count++], h->values, (size_t)(h->rows * h->cols) * sizeof *h->values);
}

static struct caught *watched(struct golden *g, const char *model, bool watch, const char *layer,
                              const char *head)
{
    struct err err = { 0 };
    struct caught *c = xcalloc(1, sizeof *c);
    golden_open(g, model);
    say(g, chat_named(g, "single"));
    must(engine_set(g->engine, "sample.max_tokens", "8", &err), &err);
    must(engine_set(g->engine, "screen.live_layer", layer, &err), &err);
    must(engine_set(g->engine, "screen.live_head", head, &err), &err);
    engine_watch(g->engine, watch, 0);
    sinks_add(engine_sinks(g->engine), (struct sink){ .emit = catch_event, .self = c });
    must(engine_answer(g->engine, &err), &err);
    return c;
}

static void maps_equal_later_measurements(void **state)
{
    for (int i = 0; i < MODELS; i++)
        for (int head = -1; head < 2; head += 2) {
            struct golden g;
            struct caught *c = watched(&g, models[i], true, "2", head < 0 ? "mean" : "1");
            engine_watch(g.engine, false, 0);
            assert_int_equal(c->count, c->id_count - 1); // the last token's row is not computed
            for (int k = 0; k < c->count; k++) {
                struct results r = { 0 };
                struct probe_options options = probe_defaults;
                options.layer = 2, options.head = head;
                options.token = PROBE_TOKEN_NUMBER, options.number = k;
                run_probe(&g, &probe_attention, &options, &r);
                assert_int_equal(c->token[k], k);
                assert_int_equal(c->layer[k], 2);
                assert_int_equal(c->head[k], head);
                assert_int_equal(r.maps[0].rows * r.maps[0].cols, c->cells[k]);
                for (int p = 0; p < c->cells[k]; p++)
                    near(&g, "live", (double)c->values[k][p], (double)r.maps[0].values[p], 1e-5);
                results_release(&r);
            }
            golden_close(&g);
            free(c);
        }
}

static void watching_changes_no_answer(void **state)
{
    struct golden g;
    struct caught *with = watched(&g, models[0], true, "auto", "mean");
    golden_close(&g);
    struct caught *without = watched(&g, models[0], false, "auto", "mean");
    golden_close(&g);
    assert_true(with->count > 0);
    assert_int_equal(without->count, 0);
    assert_int_equal(with->id_count, without->id_count);
    assert_memory_equal(with->ids, without->ids, sizeof with->ids);
    free(with);
    free(without);
}

static void layers_that_do_not_exist_are_the_last(void **state)
{
    struct golden g;
    struct caught *c = watched(&g, models[0], true, "1000", "1000");
    const struct decoder_config *d = &engine_model(g.engine)->decoder.config;
    assert_true(c->count > 0);
    assert_int_equal(c->layer[0], d->layers - 1);
    assert_int_equal(c->head[0], d->heads - 1);
    golden_close(&g);
    free(c);
}

// With a pause longer than the answer, only the first token has a map, and the answer is the same.
static void tokens_during_the_pause_have_no_map(void **state)
{
    struct golden g;
    struct caught *c = xcalloc(1, sizeof *c);
    struct err err = { 0 };
    struct caught *all = watched(&g, models[0], true, "2", "mean");
    golden_close(&g);
    golden_open(&g, models[0]);
    say(&g, chat_named(&g, "single"));
    must(engine_set(g.engine, "sample.max_tokens", "8", &err), &err);
    must(engine_set(g.engine, "screen.live_layer", "2", &err), &err);
    engine_watch(g.engine, true, 1e6);
    sinks_add(engine_sinks(g.engine), (struct sink){ .emit = catch_event, .self = c });
    must(engine_answer(g.engine, &err), &err);
    golden_close(&g);
    assert_int_equal(c->count, 1);
    assert_int_equal(c->token[0], 0);
    assert_memory_equal(c->values[0], all->values[0], (size_t)c->cells[0] * sizeof **c->values);
    assert_int_equal(c->id_count, all->id_count);
    assert_memory_equal(c->ids, all->ids, sizeof c->ids);
    free(all);
    free(c);
}

// Tokens and maps in the order of their events.
struct course {
    struct buf told;
    int64_t accepted, maps;
};

static void note_event(void *self, const struct event *e)
{
    struct course *c = self;
    if (e->kind == EVENT_TOKEN) buf_printf(&c->told, "token %d\n", (int)e->id);
    if (e->kind == EVENT_ANSWER) c->accepted += e->answer->accepted;
    if (e->kind != EVENT_HEATMAP) return;
    const struct event_heatmap *h = e->heatmap;
    c->maps++;
    buf_printf(&c->told, "map of %d:", h->token);
    for (int i = 0; i < h->rows * h->cols; i++) buf_printf(&c->told, " %a", (double)h->values[i]);
    buf_puts(&c->told, "\n");
}

static void follow(struct course *c, const char *model, const char *lookahead)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, model);
    engine_watch(g.engine, true, 0);
    sinks_add(engine_sinks(g.engine), (struct sink){ .emit = note_event, .self = c });
    must(engine_set(g.engine, "sample.max_tokens", "40", &err), &err);
    must(engine_set(g.engine, "sample.lookahead", lookahead, &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "say it again and again and again", &err), &err);
    must(engine_ask(g.engine, "say it again and again and again", &err), &err);
    golden_close(&g);
}

// Maps are shown for tokens of the answer, but not for rejected drafts.
static void drafts_change_no_map(void **state)
{
    int64_t accepted = 0;
    for (int i = 0; i < MODELS; i++) {
        struct course with = { 0 }, without = { 0 };
        follow(&with, models[i], "7");
        follow(&without, models[i], "off");
        assert_true(with.maps > 70);
        assert_string_equal(with.told.data, without.told.data);
        accepted += with.accepted;
        buf_release(&with.told);
        buf_release(&without.told);
    }
    // A device whose passes depend on the number of rows drafts nothing.
    assert_true(accepted > 0 || backend_few_rows(test_device()) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_equal_later_measurements),
        cmocka_unit_test(watching_changes_no_answer),
        cmocka_unit_test(tokens_during_the_pause_have_no_map),
        cmocka_unit_test(layers_that_do_not_exist_are_the_last),
        cmocka_unit_test(drafts_change_no_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
