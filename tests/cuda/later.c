// tests/cuda/later.c -- asynchronous downloads (kernels/copy.cu), and probes' readbacks
// (core/graph/readback.h): the data are those at the time of the request, and the pass does not
// wait.
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/readback.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "tests/cuda/pair.h"

enum { MB = 1 << 20 };

static struct tensor numbers(size_t bytes)
{
    const struct tensor t = { .data = devices[1]->alloc(bytes),
                              .dtype = DTYPE_F32,
                              .rank = 1,
                              .shape = { (int64_t)(bytes / sizeof(float)) } };
    assert_non_null(t.data);
    return t;
}

static void downloads_precede_later_ops(void **state)
{
    const struct backend *gpu = devices[1];
    struct tensor x = numbers(4096);
    for (int round = 0; round < 700; round += 10) { // more downloads than the ring has entries
        for (int i = round; i < round + 10; i++) {
            assert_int_equal(gpu->fill(&x, (float)i), 0);
            assert_true(gpu->copies->download(x.data, 4096));
        }
        assert_int_equal(gpu->fill(&x, -1), 0);
        for (int i = round; i < round + 10; i++) {
            const float *got = gpu->copies->take();
            assert_non_null(got);
            assert_true(got[0] == (float)i && got[1023] == (float)i);
        }
    }
    assert_null(gpu->copies->take());
    gpu->release(x.data);
}

// The ring buffer has 64 MB.
static void the_readback_buffer_is_bounded(void **state)
{
    const struct backend *gpu = devices[1];
    struct tensor x = numbers(65 * MB);
    assert_false(gpu->copies->download(x.data, 65 * MB));
    for (int i = 0; i < 5; i++) {
        if (i > 1) { // the next download needs the memory of the oldest
            assert_false(gpu->copies->download(x.data, 30 * MB));
            const float *got = gpu->copies->take();
            assert_true(got[0] == (float)(i - 2) && got[30 * MB / 4 - 1] == (float)(i - 2));
        }
        assert_int_equal(gpu->fill(&x, (float)i), 0);
        assert_true(gpu->copies->download(x.data, 30 * MB));
    }
    for (int i = 3; i < 5; i++) assert_true(*(const float *)gpu->copies->take() == (float)i);
    int many = 0;
    while (gpu->copies->download(x.data, 6)) many++; // not a whole number of elements
    assert_int_equal(many, 512);
    for (int i = 0; i < many; i++) assert_non_null(gpu->copies->take());
    gpu->release(x.data);
}

// --- readbacks -----------------------------------------------------------------------------------

struct seen {
    float list[64];
    int count, fail_at; // fails at this call; 0: never
};

static int take_first(void *self, const struct site *site, const struct site_args *args,
                      struct err *err)
{
    struct seen *s = self;
    assert_null(args->q);
    assert_int_equal(args->x->dtype, DTYPE_F32);
    s->list[s->count++] = *(const float *)args->x->data;
    return s->count == s->fail_at ? err_set(err, "it does not like what it sees") : 0;
}

// If the buffer is full, the pass waits, and the order is kept.
static void readbacks_arrive_in_order(void **state)
{
    struct arena arena = { .backend = devices[1] };
    struct graph g = { .backend = devices[1], .arena = &arena };
    struct tensor small = numbers(400), large = numbers(65 * MB);
    const struct site_args args = { .layer = 3, .q = &small };
    struct seen seen = { 0 };
    struct readbacks readbacks;
    readbacks_begin(&g, &readbacks);
    for (int i = 0; i < 6; i++) {
        struct tensor *x = i % 3 == 2 ? &large : &small;
        assert_int_equal(devices[1]->fill(x, (float)i), 0);
        assert_int_equal(readback(&g, x, SITE_LAYER_IN, &args, take_first, &seen), 0);
        assert_int_equal(seen.count, i % 3 == 2 ? i + 1 : i / 3 * 3);
    }
    const uint16_t half = 0x3fc0; // 1.5
    struct tensor rounded = { .data = small.data, .dtype = DTYPE_BF16, .rank = 1, .shape = { 1 } };
    devices[1]->upload(small.data, &half, sizeof half);
    assert_int_equal(readback(&g, &rounded, SITE_LAYER_IN, &args, take_first, &seen), 0);
    readbacks_end(&g);
    assert_int_equal(seen.count, 7);
    for (int i = 0; i < 6; i++) assert_true(seen.list[i] == (float)i);
    assert_true(seen.list[6] == 1.5f);
    devices[1]->release(small.data);
    devices[1]->release(large.data);
    arena_release(&arena);
}

static void a_failed_pass_ignores_later_readbacks(void **state)
{
    struct arena arena = { .backend = devices[1] };
    struct tensor x = numbers(64);
    const struct site_args args = { 0 };
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct graph g = { .backend = devices[1], .arena = &arena };
        struct seen seen = { .fail_at = cancelled ? 0 : 2 };
        atomic_bool cancel = false;
        struct readbacks readbacks;
        g.cancel = &cancel;
        readbacks_begin(&g, &readbacks);
        for (int i = 0; i < 5; i++)
            assert_int_equal(readback(&g, &x, SITE_LAYER_IN, &args, take_first, &seen), 0);
        atomic_store(&cancel, cancelled);
        readbacks_end(&g);
        assert_int_equal(seen.count, cancelled ? 0 : 2);
        assert_true(cancelled ? g.cancelled : g.failed);
        if (!cancelled) assert_string_equal(g.err.text, "it does not like what it sees");
        assert_null(devices[1]->copies->take()); // no download remains
    }
    devices[1]->release(x.data);
    arena_release(&arena);
}

// --- a pass --------------------------------------------------------------------------------------

enum { PROMPT = 20, LOOKS = 400 };

struct watcher {
    bool waits; // waits at each site
    float *seen[LOOKS];
    size_t count, size[LOOKS];
};

static bool everywhere(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN || site == SITE_VALUES || site == SITE_ATTN ||
           site == SITE_FFN_IN || site == SITE_FFN_OUT || site == SITE_FINAL ||
           site == SITE_STEP_LOGITS;
}

static int keep(void *self, const struct site *site, const struct site_args *args, struct err *err)
{
    struct watcher *w = self;
    assert_true(w->count < LOOKS);
    const size_t bytes = tensor_bytes(args->x);
    w->seen[w->count] = xmalloc(bytes);
    memcpy(w->seen[w->count], args->x->data, bytes);
    w->size[w->count++] = bytes;
    return 0;
}

static int watch(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct watcher *w = self;
    struct readbacks *readbacks = g->readbacks;
    if (w->waits) g->readbacks = NULL;
    const int status = readback(g, site == SITE_VALUES ? args->k : args->x, site, args, keep, w);
    g->readbacks = readbacks;
    return status;
}

// Computes a prompt and a token with a cache in bf16; returns how often the host waited for the
// GPU.
static long pass(struct watcher *w)
{
    struct err err = { 0 };
    struct model *m = model_load("tests/goldens/llama-3.2", devices[1], NULL, &err);
    if (!m) fail_msg("%s", err.text);
    struct arena arena = { .backend = devices[1] };
    struct hooks hooks = { 0 };
    struct sequence s;
    struct kv kv;
    const long *count = drains();
    const long before = count ? *count : 0;
    decoder_cache(&m->decoder, devices[1], &kv);
    kv_set_dtype(&kv, DTYPE_BF16);
    hooks_add(&hooks, &(struct hook){ .wants = everywhere, .run = watch, .self = w });
    sequence_init(&s, PROMPT, 1);
    for (int i = 0; i < PROMPT; i++) s.ids[i] = 3 * i + 1;
    for (int i = 0; i < 2; i++) {
        struct graph g = { .backend = devices[1], .arena = &arena, .hooks = &hooks };
        struct tensor *logits;
        if (i) sequence_append(&s, 7);
        struct tensor *h = splice(&g, &m->decoder, &s, kv.layer[0].rows, NULL, NULL, 0);
        if (decoder_forward(&g, &m->decoder, &kv, &s, h, LOGITS_LAST, !i, &logits) < 0)
            fail_msg("%s", g.err.text);
        assert_null(g.readbacks);
        arena_reset(&arena, (struct arena_mark){ 0 });
    }
    const long drained = count ? *count - before : 0;
    kv_release(&kv);
    sequence_release(&s);
    arena_release(&arena);
    model_free(m);
    return drained;
}

static void a_pass_does_not_wait(void **state)
{
    struct watcher now = { .waits = true }, later = { 0 };
    const long waited = pass(&now), drained = pass(&later);
    assert_int_equal(now.count, later.count);
    for (size_t i = 0; i < now.count; i++) {
        assert_int_equal(now.size[i], later.size[i]);
        assert_memory_equal(now.seen[i], later.seen[i], now.size[i]);
        free(now.seen[i]);
        free(later.seen[i]);
    }
    if (!drains() || devices[1]->gpus) return; // with several GPUs, releasing waits for each
    assert_int_equal(waited, now.count);
    assert_int_equal(drained, 2); // once at the end of each pass
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(downloads_precede_later_ops),
        cmocka_unit_test(the_readback_buffer_is_bounded),
        cmocka_unit_test(readbacks_arrive_in_order),
        cmocka_unit_test(a_failed_pass_ignores_later_readbacks),
        cmocka_unit_test(a_pass_does_not_wait),
    };
    return cmocka_run_group_tests(tests, devices_open, NULL);
}
