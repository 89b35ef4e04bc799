// tests/core/model/recurrent.c -- core/model/attention_delta.c and kv_states.c: passes of any size,
// caches that are cut, wrong drafts, cancelled passes, the number of kept states, positions without
// a trace, samples that share a pass.
// (tests/core/model/families/goldens.c compares values with the reference.)
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "core/interventions/cut.h"
#include "core/model/layer.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "core/probes/probe.h"
#include "tests/device.h"

enum { ROWS = 61, VOCAB_MOST = 1024 };

static const char *folder; // the model of the tests

struct bench {
    struct model *model;
    struct kv kv;
    struct arena step;
    struct hooks hooks;
    atomic_bool cancel;
    struct sequence s;
};

static void bench_open(struct bench *b)
{
    struct err err = { 0 };
    *b = (struct bench){ .step = { .backend = test_device() } };
    b->model = model_load(folder, test_device(), NULL, &err);
    if (!b->model) fail_msg("%s", err.text);
    decoder_cache(&b->model->decoder, test_device(), &b->kv);
    sequence_init(&b->s, ROWS, 1);
    for (int64_t i = 0; i < ROWS; i++)
        b->s.ids[i] = (int32_t)(random_bits(7, RANDOM_WEIGHTS, (uint64_t)i) %
                                (uint64_t)b->model->decoder.config.vocab);
}

static void bench_close(struct bench *b)
{
    sequence_release(&b->s);
    kv_release(&b->kv);
    arena_release(&b->step);
    model_free(b->model);
}

// Computes rows `from`..n-1; copies out the last row's logits.
static int pass(struct bench *b, int64_t from, int64_t n, bool prefill, float *logits)
{
    struct sequence head = b->s;
    struct tensor *all = NULL;
    struct graph g = {
        .backend = test_device(), .arena = &b->step, .hooks = &b->hooks, .cancel = &b->cancel
    };
    const struct decoder *d = &b->model->decoder;
    const struct arena_mark mark = arena_mark(&b->step);
    head.n = n;
    struct tensor *h = splice(&g, d, &head, from, NULL, NULL, 0);
    const int status = decoder_forward(&g, d, &b->kv, &head, h, LOGITS_LAST, prefill, &all);
    if (status == 0) test_device()->download(logits, all->data, tensor_bytes(all));
    arena_reset(&b->step, mark);
    return status;
}

static void must_pass(struct bench *b, int64_t from, int64_t n, bool prefill, float *logits)
{
    assert_int_equal(pass(b, from, n, prefill, logits), 0);
}

static void check_near(const struct bench *b, const float *a, const float *want)
{
    for (int64_t i = 0; i < b->model->decoder.config.vocab; i++)
        if (!(fabsf(a[i] - want[i]) <= 1e-4F)) fail_msg("logit %d: %g, %g", (int)i, a[i], want[i]);
}

static void check_same(const struct bench *b, const float *a, const float *want)
{
    assert_memory_equal(a, want, (size_t)b->model->decoder.config.vocab * sizeof *a);
}

// Computes all rows in passes of `size` rows.
static void in_pieces(struct bench *b, int64_t size, bool prefill, float *logits)
{
    kv_clear(&b->kv);
    for (int64_t i = 0; i < ROWS; i += size)
        must_pass(b, i, i + size < ROWS ? i + size : ROWS, prefill, logits);
}

static void passes_of_any_size_agree(void **state)
{
    struct bench b;
    float whole[VOCAB_MOST], pieces[VOCAB_MOST], again[VOCAB_MOST];
    bench_open(&b);
    in_pieces(&b, ROWS, true, whole);
    for (int64_t size = 1; size < ROWS; size += size < 9 ? 1 : 13) {
        in_pieces(&b, size, size > 1, pieces);
        check_near(&b, pieces, whole);
        in_pieces(&b, size, size > 1, again);
        check_same(&b, again, pieces); // the same path, the same bits
    }
    bench_close(&b);
}

// A cache can be cut at any row: it keeps the rows up to the last state at or before the cut, and a
// pass over the other rows gives the same logits.
static void a_cache_is_cut_anywhere(void **state)
{
    struct bench b;
    float whole[VOCAB_MOST], logits[VOCAB_MOST];
    bench_open(&b);
    in_pieces(&b, ROWS, true, whole);
    for (int64_t cut = ROWS; cut >= 0; cut--) {
        kv_clear(&b.kv);
        must_pass(&b, 0, 20, true, logits);
        must_pass(&b, 20, 55, true, logits);
        for (int64_t i = 55; i < ROWS; i++) must_pass(&b, i, i + 1, false, logits);
        const int64_t kept = kv_trim(&b.kv, cut);
        assert_int_equal(kept, cut >= ROWS - 1 ? cut
                               : cut >= 39     ? 39
                               : cut >= 20     ? 20
                               : cut >= 4      ? 4
                                               : 0);
        assert_true(kv_whole(&b.kv, 0, kept));
        if (kept < ROWS) must_pass(&b, kept, ROWS, true, logits);
        check_near(&b, logits, whole);
    }
    bench_close(&b);
}

// A wrong draft leaves no trace: after a cut before it, the right tokens give the logits that they
// give without drafts, with the same bits if the device computes five rows like single ones.
static void drafts_are_dropped(void **state)
{
    struct bench b;
    float want[VOCAB_MOST], logits[VOCAB_MOST];
    bench_open(&b);
    must_pass(&b, 0, 40, true, logits);
    for (int64_t i = 40; i < 46; i++) must_pass(&b, i, i + 1, false, want);
    for (int64_t right = 1; right <= 5; right++) {
        kv_clear(&b.kv);
        must_pass(&b, 0, 40, true, logits);
        int32_t *wrong = &b.s.ids[40 + right], was = *wrong;
        *wrong = (was + 1) % (int32_t)b.model->decoder.config.vocab;
        must_pass(&b, 40, 45, false, logits);
        *wrong = was;
        assert_int_equal(kv_trim(&b.kv, 40 + right), 40 + right);
        for (int64_t i = 40 + right; i < 46; i++) must_pass(&b, i, i + 1, false, logits);
        if (backend_few_rows(test_device()) >= 5) check_same(&b, logits, want);
        check_near(&b, logits, want);
    }
    bench_close(&b);
}

static bool at_layer_2(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_OUT && layer == 2;
}

static int stop(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    atomic_store((atomic_bool *)self, true);
    return 0;
}

// A pass that stops in the middle leaves the states as they were.
static void a_stopped_pass_changes_nothing(void **state)
{
    struct bench b;
    float want[VOCAB_MOST], logits[VOCAB_MOST];
    bench_open(&b);
    must_pass(&b, 0, 30, true, logits);
    must_pass(&b, 30, ROWS, true, want);
    kv_clear(&b.kv);
    must_pass(&b, 0, 30, true, logits);
    hooks_add(&b.hooks, &(struct hook){ .wants = at_layer_2, .run = stop, .self = &b.cancel });
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pass(&b, 30, ROWS, true, logits), -1);
        atomic_store(&b.cancel, false);
    }
    b.hooks.count = 0;
    must_pass(&b, 30, ROWS, true, logits);
    check_same(&b, logits, want);
    bench_close(&b);
}

// The cache keeps a limited number of borders, closer to each other towards the end.
static void borders_are_thinned(void **state)
{
    struct bench b;
    float logits[VOCAB_MOST];
    bench_open(&b);
    for (int64_t i = 0; i + 2 <= ROWS; i += 2) {
        must_pass(&b, i, i + 2, true, logits);
        int borders = 0;
        for (int k = 0; k < b.kv.marks.count; k++) {
            borders += b.kv.marks.at[k].border;
            assert_true(!k || b.kv.marks.at[k].row > b.kv.marks.at[k - 1].row);
            for (int j = 0; j < k; j++)
                assert_int_not_equal(b.kv.marks.at[j].slot, b.kv.marks.at[k].slot);
        }
        assert_true(borders <= KV_BORDERS);
        assert_int_equal(b.kv.marks.at[b.kv.marks.count - 1].row, i + 2);
    }
    assert_true(kv_reusable(&b.kv, 58) == 58 && kv_reusable(&b.kv, 57) >= 50);
    assert_true(kv_reusable(&b.kv, 30) >= 15);
    assert_true(b.kv.layer[0].state.shape[0] <= 2 * KV_BORDERS + 4);
    bench_close(&b);
}

// Positions cut out of attention and states leave no trace: later rows have the logits of a
// sequence without them.
static void cut_positions_leave_no_trace(void **state)
{
    enum { FROM = 9, COUNT = 14 };
    struct bench b;
    float cut[VOCAB_MOST], without[VOCAB_MOST];
    struct cut c;
    bench_open(&b);
    const struct probe_env env = { .model = b.model, .sequence = &b.s };
    cut_open(&c, &env);
    for (int64_t i = 0; i < ROWS; i++) c.to[i] = true, c.from[i] = i >= FROM && i < FROM + COUNT;
    for (int l = 0; l < b.model->decoder.config.layers; l++) c.listens[l] = c.layers[l] = true;
    assert_int_equal(cut_first(&c), FROM);
    hooks_add(
        &b.hooks,
        &(struct hook){ .wants = cut_hook(&c).wants, .run = cut_run, .self = &c, .changes = true });
    must_pass(&b, 0, FROM + 3, true, cut); // a state is kept after a hidden row
    must_pass(&b, FROM + 3, ROWS, true, cut);
    b.hooks.count = 0;
    struct sequence whole = b.s, rest;
    sequence_init(&rest, ROWS - COUNT, 1);
    for (int64_t i = 0; i < rest.n; i++) {
        const int64_t from = i < FROM ? i : i + COUNT;
        rest.ids[i] = whole.ids[from];
        rest.positions[i] = whole.positions[from];
    }
    kv_clear(&b.kv);
    b.s = rest;
    must_pass(&b, 0, rest.n, true, without);
    b.s = whole;
    check_near(&b, cut, without);
    sequence_release(&rest);
    cut_close(&c);
    bench_close(&b);
}

// Two samples in one pass without a cache have the logits that each has alone.
static void samples_share_a_pass(void **state)
{
    enum { FIRST = 23 };
    struct bench b;
    bench_open(&b);
    const struct decoder *d = &b.model->decoder;
    const int64_t vocab = d->config.vocab;
    float *all = calloc((size_t)(ROWS * vocab), sizeof *all);
    float *alone = calloc((size_t)(ROWS * vocab), sizeof *alone);
    int32_t start[ROWS];
    for (int64_t i = 0; i < ROWS; i++) start[i] = i < FIRST ? 0 : FIRST;
    for (int part = 0; part < 3; part++) {
        struct sequence s = b.s;
        struct tensor *logits = NULL;
        struct graph g = { .backend = test_device(), .arena = &b.step };
        const int64_t from = part == 2 ? FIRST : 0, end = part == 1 ? FIRST : ROWS;
        s.n = end - from;
        s.ids += from;
        s.picture += from;
        s.start = part ? NULL : start;
        for (int64_t i = 0; i < s.n; i++)
            b.s.positions[i] = (int32_t)(part ? i : i - start[i]); // one axis
        struct tensor *h = splice(&g, d, &s, 0, NULL, NULL, 0);
        assert_int_equal(decoder_forward(&g, d, NULL, &s, h, LOGITS_ALL, true, &logits), 0);
        test_device()->download((part ? alone : all) + from * vocab, logits->data,
                                tensor_bytes(logits));
        arena_reset(&b.step, (struct arena_mark){ 0 });
    }
    for (int64_t i = 0; i < ROWS * vocab; i++)
        if (!(fabsf(all[i] - alone[i]) <= 1e-4F)) fail_msg("%d: %g, %g", (int)i, all[i], alone[i]);
    free(all);
    free(alone);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_of_any_size_agree),
        cmocka_unit_test(a_cache_is_cut_anywhere),
        cmocka_unit_test(drafts_are_dropped),
        cmocka_unit_test(a_stopped_pass_changes_nothing),
        cmocka_unit_test(borders_are_thinned),
        cmocka_unit_test(cut_positions_leave_no_trace),
        cmocka_unit_test(samples_share_a_pass),
    };
    static const char *const folders[] = { "tests/goldens/qwen3.5", "tests/goldens/qwen3.5-moe" };
    int failed = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        folder = folders[i];
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
