// tests/core/probes/share.c -- core/probes/share.c: shares measured during an answer equal those of
// /attention afterwards; the first token's share equals that of contributions in plain loops;
// drafts do not change them; measuring changes no bit; events have numbers only for sinks that read
// them.
#include "core/probes/share.h"
#include "core/base/dtype.h"
#include "core/probes/kit.h"
#include "core/probes/measure.h"
#include "tests/core/probes/probe.h"

enum { TOKENS = 6 };

struct caught {
    struct event_token numbers[64];
    int32_t ids[64];
    int count;
    bool unread; // the sink does not read event.token
};

static void catch_event(void *self, const struct event *e)
{
    struct caught *c = self;
    if (e->kind != EVENT_TOKEN || e->id < 0) return;
    assert_true(c->unread == !e->token);
    if (e->token) c->numbers[c->count] = *e->token;
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
            near(&g, "share", c.numbers[t].share, attention_of(&g, t), 1e-5);
        golden_close(&g);
    }
}

// The picture's share of the contributions to the prompt's last row, averaged over layers, in plain
// loops over dumped probabilities and values: C[j] is the norm of the sum over heads h of
// A[h,j] v[j,kv(h)] W_O[h].
static double contribution_of_first(struct golden *g)
{
    struct safetensors *f = answer(g, chat_named(g, "single"), 1, "attn.*.probs attn.*.value");
    const struct decoder *d = &engine_model(g->engine)->decoder;
    const struct sequence *s = &golden_conversation(g)->cached;
    const int64_t H = d->config.heads, D = d->config.hidden;
    double mean = 0;
    for (int l = 0; l < d->config.layers; l++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "attn.%d.probs", l); // [H,N,N]
        snprintf(name[1], sizeof name[1], "attn.%d.value", l); // [Hkv,N,d]
        const float *probs = safetensors_find(f, name[0])->data;
        const struct safetensor *v = safetensors_find(f, name[1]);
        const int64_t group = H / v->shape[0], n = v->shape[1], dim = v->shape[2];
        const struct tensor *out = &d->layer[l].attention.weight[ATTENTION_O].weight; // [D,H*d]
        float *w = xcalloc((size_t)(D * H * dim), sizeof *w);
        floats_from(w, out->data, out->dtype, (size_t)(D * H * dim));
        double picture = 0, all = 0;
        for (int64_t j = 0; j < n; j++) {
            double squares = 0;
            for (int64_t o = 0; o < D; o++) {
                double sum = 0;
                for (int64_t k = 0; k < H * dim; k++) {
                    const int64_t h = k / dim;
                    sum += (double)probs[(h * n + n - 1) * n + j] *
                           (double)((const float *)v->data)[(h / group * n + j) * dim + k % dim] *
                           (double)w[o * H * dim + k];
                }
                squares += sum * sum;
            }
            all += sqrt(squares);
            if (s->picture[j] >= 0) picture += sqrt(squares);
        }
        mean += picture / all / d->config.layers;
        free(w);
    }
    safetensors_close(f);
    return mean;
}

static void live_shares_equal_contributions(void **state)
{
    struct golden g;
    struct caught c = { 0 };
    catch (&g, "llava-1.5", "on", "contribution", "auto", &c);
    assert_true(c.count > 1);
    near(&g, "share", c.numbers[0].share, contribution_of_first(&g), 1e-5);
    golden_close(&g);
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
                assert_true(with.numbers[t].probability == without.numbers[t].probability);
                assert_true(with.numbers[t].entropy == without.numbers[t].entropy);
                assert_true(with.numbers[t].share > 0 && with.numbers[t].share < 1);
                assert_true(isnan(without.numbers[t].share));
            }
        }
}

// A token's share is that of the row that predicts it, with drafts and without.
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
        near(&g, "share", c[1].numbers[t].share, c[0].numbers[t].share, 1e-6);
}

// If no sink reads the numbers of tokens, events have none, and the answer is the same.
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
        cmocka_unit_test(live_shares_equal_contributions),
        cmocka_unit_test(measuring_changes_no_bit),
        cmocka_unit_test(drafts_change_no_share),
        cmocka_unit_test(only_readers_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
