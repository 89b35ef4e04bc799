// tests/core/probes/share.c -- core/probes/share.c: shares measured during an answer are those of
// /attention and of a plain sum of contributions afterwards; measuring changes no bit.
#include "core/probes/share.h"
#include "core/probes/kit.h"
#include "core/probes/measure.h"
#include "tests/core/probes/probe.h"

enum { TOKENS = 6 };

struct caught {
    struct event_token sure[64];
    int32_t ids[64];
    int count;
    bool unread; // the sink does not read event.token
};

static void catch_event(void *self, const struct event *e)
{
    struct caught *c = self;
    if (e->kind != EVENT_TOKEN || e->id < 0) return;
    assert_true(c->unread == !e->token);
    if (e->token) c->sure[c->count] = *e->token;
    c->ids[c->count++] = e->id;
}

static void catch (struct golden *g, const char *model, const char *live, const char *by,
                   const char *lookahead, struct caught *c)
{
    struct err err = { 0 };
    golden_open(g, model);
    say(g, chat_named(g, "single"));
    must(engine_set(g->engine, "sample.max_tokens", "6", &err), &err);
    must(engine_set(g->engine, "sample.lookahead", lookahead, &err), &err);
    must(engine_set(g->engine, "why.live", live, &err), &err);
    must(engine_set(g->engine, "why.share", by, &err), &err);
    sinks_add(engine_sinks(g->engine),
              (struct sink){ .emit = catch_event, .self = c, .reads_token = !c->unread });
    must(engine_answer(g->engine, &err), &err);
}

// Mean over layers of the attention of the row before token t to the picture.
static double attention_of(struct golden *g, int64_t t)
{
    struct results r = { 0 };
    struct probe_options options = probe_defaults;
    options.layer = PROBE_LAYER_ALL;
    options.token = PROBE_TOKEN_ROW;
    struct sequence s = { 0 };
    struct err err = { 0 };
    must(measure_sequence((struct conversation *)(uintptr_t)engine_conversation(g->engine),
                          engine_settings(g->engine), &s, &err),
         &err);
    options.number = s.prompt - 1 + t;
    sequence_release(&s);
    run_probe(g, &probe_attention, &options, &r);
    const struct result_table *table = results_find(&r, "attention");
    assert_non_null(table);
    double sum = 0;
    for (size_t i = 0; i < table->row_count; i++)
        sum += *results_value(&r, "attention", table->rows[i].key, "to the pictures");
    sum /= (double)table->row_count;
    results_release(&r);
    return sum;
}

static void live_shares_equal_attention(void **state)
{
    static const char *const folders[] = { "llava-1.5", "qwen2.5-vl", "gemma3", "kimi-vl" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct caught c = { 0 };
        catch (&g, folders[i], "on", "attention", "auto", &c);
        assert_true(c.count > 1);
        for (int t = 0; t < c.count; t++)
            near(&g, "share", c.sure[t].share, attention_of(&g, t), 1e-5);
        golden_close(&g);
    }
}

static void measuring_changes_no_bit(void **state)
{
    static const char *const folders[] = { "llava-1.5", "kimi-vl" };
    static const char *const ways[] = { "attention", "contribution" };
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            struct golden g;
            struct caught with = { 0 }, without = { 0 };
            catch (&g, folders[i], "on", ways[k], "4", &with);
            golden_close(&g);
            catch (&g, folders[i], "off", ways[k], "4", &without);
            golden_close(&g);
            assert_int_equal(with.count, without.count);
            for (int t = 0; t < with.count; t++) {
                assert_int_equal(with.ids[t], without.ids[t]);
                assert_true(with.sure[t].probability == without.sure[t].probability);
                assert_true(with.sure[t].entropy == without.sure[t].entropy);
                assert_true(with.sure[t].share > 0 && with.sure[t].share < 1);
                assert_true(isnan(without.sure[t].share));
            }
        }
}

// With drafts, a token's share is that of its own row.
static void drafts_change_no_share(void **state)
{
    struct golden g;
    struct caught c[2] = { { .count = 0 } };
    for (int i = 0; i < 2; i++) {
        catch (&g, "llava-1.5", "on", "contribution", i ? "7" : "off", &c[i]);
        golden_close(&g);
    }
    assert_int_equal(c[0].count, c[1].count);
    for (int t = 0; t < c[0].count; t++)
        near(&g, "share", c[1].sure[t].share, c[0].sure[t].share, 1e-6);
}

// For a sink that does not read them, no numbers are computed; the answer is the same.
static void only_readers_cost(void **state)
{
    struct golden g;
    struct caught read = { 0 }, unread = { .unread = true };
    catch (&g, "llava-1.5", "on", "attention", "4", &read);
    golden_close(&g);
    catch (&g, "llava-1.5", "on", "attention", "4", &unread);
    golden_close(&g);
    assert_true(read.count > 1);
    assert_int_equal(read.count, unread.count);
    assert_memory_equal(read.ids, unread.ids, sizeof read.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_shares_equal_attention),
        cmocka_unit_test(measuring_changes_no_bit),
        cmocka_unit_test(drafts_change_no_share),
        cmocka_unit_test(only_readers_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
