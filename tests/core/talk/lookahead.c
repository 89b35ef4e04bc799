// tests/core/talk/lookahead.c -- core/talk/lookahead.c: when it drafts, and which tokens; and
// core/talk/answer.c with drafts: tokens and cache equal those without drafts, bit for bit.
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/jobs/job.h"
#include "core/settings/changes.h"
#include "core/talk/answer.h"
#include "core/talk/lookahead.h"
#include "tests/core/model/families/golden.h"

static char folder[256], ira_layers[32];

static const char *const models[] = { GOLDEN_SEEING,       GOLDEN_TEXT, "internvl2-internlm2",
                                      "internvl2.5-qwen2", "kimi-text", "llava-next",
                                      "internvl3.5",       "gemma3" };
enum {
    MODELS = sizeof models / sizeof *models,
    SEEING = sizeof((const char *const[]){ GOLDEN_SEEING }) / sizeof *models // the first of them
};

// --- drafts --------------------------------------------------------------------------------------

static struct sequence sequence_of(const char *letters)
{
    struct sequence s;
    sequence_init(&s, 0, 1);
    for (; *letters; letters++) sequence_append(&s, *letters);
    return s;
}

// Checks the draft after these letters under this sample.lookahead.
static void check_draft(const char *value, const char *letters, int64_t rows, int64_t room,
                        const char *want)
{
    struct err err = { 0 };
    struct settings *settings = settings_new();
    struct sequence s = sequence_of(letters);
    struct lookahead l = { 0 };
    int32_t to[LOOKAHEAD_MOST];
    must(settings_set(settings, "sample.lookahead", value, &err), &err);
    lookahead_configure(&l, settings, rows);
    const int64_t n = lookahead_draft(&l, &s, room, to);
    if (n != (int64_t)strlen(want)) fail_msg("%s: %d tokens, not '%s'", letters, (int)n, want);
    for (int64_t i = 0; i < n; i++) assert_int_equal(to[i], want[i]);
    lookahead_release(&l);
    sequence_release(&s);
    settings_free(settings);
}

static void drafts_follow_repetitions(void **state)
{
    check_draft("7", "abcdefgh", 8, 100, "");
    check_draft("7", "abcdefghXabc", 8, 100, "defghXa");
    check_draft("7", "abcdeXabcfgYabc", 8, 100, "fgYabcf"); // uses the last occurrence
    check_draft("7", "zbcdeXabcfgYzbc", 8, 100,
                "deXabcf"); // three equal tokens take precedence over two
    check_draft("7", "abcdeXaYbc", 8, 100, "deXaYbc"); // two equal tokens are enough
    check_draft("7", "Xababab", 8, 100, "abababa");    // past the end the draft repeats itself
    check_draft("2", "abcdefghXabc", 8, 100, "de");
    check_draft("7", "abcdefghXabc", 4, 100, "def"); // a pass of four rows
    check_draft("7", "abcdefghXabc", 1, 100, "");
    check_draft("7", "abcdefghXabc", 8, 4, "defg");
    check_draft("7", "abcdefghXabc", 8, 0, "");
    check_draft("off", "abcdefghXabc", 8, 100, "");
    check_draft("7", "a", 8, 100, "");
    check_draft("7", "", 8, 100, "");
}

// Visual tokens are not drafted, because a model does not choose them.
static void drafts_end_before_pictures(void **state)
{
    struct settings *settings = settings_new();
    struct sequence s = sequence_of("abcdeffffXabc");
    struct lookahead l = { 0 };
    int32_t to[LOOKAHEAD_MOST];
    for (int i = 5; i < 9; i++) s.picture[i] = 0;
    settings_set(settings, "sample.lookahead", "7", NULL);
    lookahead_configure(&l, settings, 8);
    assert_int_equal(lookahead_draft(&l, &s, 100, to), 2);
    lookahead_release(&l);
    sequence_release(&s);
    settings_free(settings);
}

// The index of a long sequence that grows token by token finds the same drafts as a new index.
static void the_index_grows(void **state)
{
    struct settings *settings = settings_new();
    struct sequence s = sequence_of("");
    struct lookahead l = { 0 };
    int32_t to[LOOKAHEAD_MOST], again[LOOKAHEAD_MOST];
    int hits = 0;
    settings_set(settings, "sample.lookahead", "7", NULL);
    lookahead_configure(&l, settings, 8);
    for (int i = 0; i < 3000; i++) {
        sequence_append(&s, i * i / 7 % 31);
        const int64_t n = lookahead_draft(&l, &s, 7, to);
        if (i % 50) continue;
        struct lookahead fresh = { 0 };
        lookahead_configure(&fresh, settings, 8);
        if (i == 1500) lookahead_forget(&l); // the index enters all rows again
        assert_int_equal(lookahead_draft(&fresh, &s, 7, again), n);
        assert_memory_equal(to, again, (size_t)n * sizeof *to);
        hits += n > 0;
        lookahead_release(&fresh);
    }
    assert_true(hits > 10);
    lookahead_release(&l);
    sequence_release(&s);
    settings_free(settings);
}

struct course {
    int passes;
    int64_t drafted;
};

// An answer of `count` tokens under `auto`: two of every three tokens repeat, and the third is
// always new; from row `again` on, a cycle of eight tokens repeats.
static struct course course_of(int count, int again, bool blocks)
{
    struct sequence s = sequence_of("");
    struct lookahead l = { .blocks = blocks };
    struct course c = { 0 };
    int32_t draft[LOOKAHEAD_MOST];
    int64_t drafts = 0, right = 0;
    lookahead_configure(&l, NULL, 8);
    for (int i = 0; i < count; i++) {
        const int32_t id = i >= again ? 100 + i % 8 : i % 3 ? i % 3 : 1000 + i;
        sequence_append(&s, id);
        if (right < drafts && draft[right] == id) {
            right++;
            continue;
        }
        lookahead_judge(&l, drafts, right);
        c.drafted += drafts = lookahead_draft(&l, &s, 100, draft);
        right = 0;
        c.passes++;
    }
    assert_int_equal(l.drafted, c.drafted - drafts);
    lookahead_release(&l);
    sequence_release(&s);
    return c;
}

static void auto_drafts_only_if_proposals_succeed(void **state)
{
    assert_true(course_of(1000, 0, false).passes < 200);
    assert_true(course_of(1000, 1000, false).drafted < 10);
    // If rows are expensive, drafting starts only after proposals were correct.
    assert_true(course_of(1000, 0, true).passes < 200);
    assert_int_equal(course_of(1000, 1000, true).drafted, 0);
    // Proposals are counted even while no drafts are used.
    const struct course late = course_of(1000, 500, false);
    assert_true(late.passes > 480 && late.passes < 620);
}

// --- answers -------------------------------------------------------------------------------------

// Settings of answers, as keys and values in turn.
static const char *const ways[][12] = {
    { NULL },
    { "kv.dtype", "bf16", "compute.matmul", "bf16" },
    { "sample.temperature", "0.7", "sample.top_k", "40", "sample.top_p", "0.95", "sample.min_p",
      "0.01", "sample.seed", "5" },
    { "sample.temperature", "0.3", "sample.repeat_penalty", "1.05", "sample.seed", "3" },
    { "prune.score", "contribution", "prune.layer", "1", "prune.keep", "0.5" },
    { "prune.score", "attention", "prune.layer", "0,1", "prune.keep", "0.5,0.25", "prune.mode",
      "dynamic" },
    { "prune.score", "contribution", "prune.layer", "1", "prune.mode", "dynamic", "kv.dtype",
      "bf16" },
    { "norm.align", "on", "ffn.layers", "1", "ffn.approx", "skip" },
    { "adapter", folder, "ira.layers", ira_layers, "ira.on", "on" },
};
enum { WAYS = sizeof ways / sizeof *ways };

struct answers {
    struct ids ids;
    int64_t drafted, accepted;
};

static void listen(void *self, const struct event *e)
{
    struct answers *t = self;
    if (e->kind != EVENT_ANSWER) return;
    ids_append(&t->ids, e->answer->ids, e->answer->count);
    t->drafted += e->answer->drafted;
    t->accepted += e->answer->accepted;
}

// Lists the layers for which the golden has parameters of IRA.
static void list_ira_layers(const struct golden *g)
{
    struct buf list = { 0 };
    char name[64];
    for (int l = 0; l < golden_layers(g); l++) {
        snprintf(name, sizeof name, "ira.%d.head.bias", l);
        if (safetensors_find(g->tensors, name))
            buf_printf(&list, "%s%d", list.length ? "," : "", l);
    }
    snprintf(ira_layers, sizeof ira_layers, "%s", list.data ? list.data : "");
    buf_release(&list);
}

// Model m gives two answers, about a picture if m < SEEING; settings change during the second.
static void talk(struct golden *g, int m, const struct backend *b, const char *const *way,
                 const char *lookahead, struct answers *answers)
{
    struct err err = { 0 };
    const bool sees = m < SEEING;
    golden_open_on(g, models[m], b);
    sinks_add(&g->sinks, (struct sink){ .emit = listen, .self = answers });
    write_ira(g, folder);
    list_ira_layers(g);
    for (; *way; way += 2) must(engine_set(g->engine, way[0], way[1], &err), &err);
    must(engine_set(g->engine, "sample.lookahead", lookahead, &err), &err);
    must(engine_set(g->engine, "sample.max_tokens", "40", &err), &err);
    if (sees) must(engine_attach(g->engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g->engine, "say it again and again and again and again", &err), &err);
    const struct change changes[] = { { "sample.temperature", "0.2" },
                                      { "chat.template", "plain" } };
    engine_post(g->engine, changes, 1, 9);
    engine_post(g->engine, changes + 1, 1, 21);
    must(engine_ask(g->engine, "say it again and again", &err), &err);
}

static void same_rows(const struct backend *b, const struct tensor *x, const struct tensor *y,
                      int64_t rows, const char *what)
{
    struct tensor some = *x;
    some.shape[0] = rows;
    const size_t bytes = tensor_bytes(&some);
    char *one = malloc(bytes + 1), *two = malloc(bytes + 1);
    b->download(one, x->data, bytes);
    b->download(two, y->data, bytes);
    if (memcmp(one, two, bytes)) fail_msg("%s: the cache differs", what);
    free(one);
    free(two);
}

// The caches hold the same rows with the same bits.
static void same_cache(const struct golden *a, const struct golden *b, const char *what)
{
    const struct conversation *x = engine_conversation(a->engine),
                              *y = engine_conversation(b->engine);
    assert_int_equal(x->cached.n, y->cached.n);
    assert_memory_equal(x->cached.ids, y->cached.ids, (size_t)x->cached.n * sizeof(int32_t));
    for (int l = 0; l < x->kv.layers; l++) {
        const struct kv_layer *p = &x->kv.layer[l], *q = &y->kv.layer[l];
        assert_int_equal(p->rows, q->rows);
        assert_memory_equal(p->position, q->position, (size_t)p->rows * sizeof *p->position);
        same_rows(x->backend, &p->k, &q->k, p->rows, what);
        same_rows(x->backend, &p->v, &q->v, p->rows, what);
    }
}

static void check_way(int m, const struct backend *b, int way, const char *lookahead,
                      int64_t *accepted)
{
    struct golden on, off;
    struct answers with = { 0 }, without = { 0 };
    char what[160];
    talk(&off, m, b, ways[way], "off", &without);
    talk(&on, m, b, ways[way], lookahead, &with);
    snprintf(what, sizeof what, "%s, %s, way %d, lookahead %s", models[m], b->describe(), way,
             lookahead);
    assert_int_equal(without.drafted, 0);
    assert_int_equal(with.ids.count, without.ids.count);
    if (memcmp(with.ids.data, without.ids.data, with.ids.count * sizeof(int32_t)))
        fail_msg("%s: the answer differs", what);
    same_cache(&on, &off, what);
    assert_true(with.accepted <= with.drafted);
    *accepted += with.accepted;
    golden_close(&on);
    golden_close(&off);
    ids_release(&with.ids);
    ids_release(&without.ids);
}

// Checks all ways or a third of them with each model; returns how many drafts were accepted.
static int64_t check_device(const struct backend *b, bool all)
{
    int64_t accepted = 0;
    for (int m = 0; m < MODELS; m++)
        for (int way = 0; way < WAYS; way++) {
            if ((m >= SEEING && way >= 4) || (!all && (m + way) % 3))
                continue; // the ways from 4 on need pictures
            check_way(m, b, way, (m + way) % 2 ? "7" : "auto", &accepted);
        }
    return accepted;
}

// With the newest instruction set of this CPU all ways are tested, with the others a third of them;
// on another device, a third.
static void answers_stay_the_same(void **state)
{
    int tried = 0;
    if (test_device() != backend_cpu()) {
        assert_true(check_device(test_device(), false) > 50);
        return;
    }
    for (int i = TEST_ISAS - 1; i >= 0; i--) {
        const struct backend *b = test_isa(i);
        if (b) assert_true(check_device(b, !tried) > (tried ? 50 : 500));
        tried += b != NULL;
    }
}

static void jobs_draft(void **state)
{
    (void)state;
    struct job job = { .answer_lock = -1 };
    struct hooks hooks = { 0 };
    job_hooks(&job, &hooks);
    assert_true(hooks_allow_drafts(&(struct graph){ .hooks = &hooks }));
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    char path[320];
    snprintf(folder, sizeof folder, "%s/vlmsh-lookahead-%d", base ? base : "/tmp", (int)getpid());
    mkdir(folder, 0700);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_follow_repetitions),
        cmocka_unit_test(drafts_end_before_pictures),
        cmocka_unit_test(the_index_grows),
        cmocka_unit_test(auto_drafts_only_if_proposals_succeed),
        cmocka_unit_test(answers_stay_the_same),
        cmocka_unit_test(jobs_draft),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(path, sizeof path, "%s/extra.safetensors", folder);
    unlink(path);
    rmdir(folder);
    return failed;
}
