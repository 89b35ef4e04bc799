// tests/core/model/decoder.c -- core/model/decoder.c: passes in parts, with a cache in f32 or
// bf16; long prompts in blocks; listeners that change nothing; passes that stop in the middle;
// methods that replace an FFN or drop rows. decoder_bind.c: the split of layers over GPUs.
// (tests/core/model/families compares values with the reference.)
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "tests/device.h"

struct bench {
    struct model *model;
    struct kv kv;
    struct arena step;
    struct hooks hooks;
    atomic_bool cancel;
    const struct backend *device;
    enum matmul_mode mode;
    struct graph graph; // graph of the newest pass
};

static void bench_open(struct bench *b, const char *folder)
{
    struct err err = { 0 };
    *b = (struct bench){ .step = { .backend = test_device() }, .device = test_device() };
    b->model = model_load(folder, test_device(), NULL, &err);
    if (!b->model) fail_msg("%s", err.text);
    decoder_cache(&b->model->decoder, test_device(), &b->kv);
}

static void bench_close(struct bench *b)
{
    kv_release(&b->kv);
    arena_release(&b->step);
    model_free(b->model);
}

static struct sequence random_sequence(const struct bench *b, int64_t n)
{
    struct sequence s;
    sequence_init(&s, n, 1);
    for (int64_t i = 0; i < n; i++)
        s.ids[i] = (int32_t)(random_bits(7, RANDOM_WEIGHTS, (uint64_t)i) %
                             (uint64_t)b->model->decoder.config.vocab);
    return s;
}

// Computes the rows of s after the cached ones, up to n; copies out the last row's logits [V].
static int pass_as(struct bench *b, const struct sequence *s, int64_t n, enum logits_rows want,
                   bool prefill, float *logits)
{
    struct sequence head = *s;
    struct tensor *all = NULL;
    head.n = n;
    b->graph = (struct graph){ .backend = b->device,
                               .arena = &b->step,
                               .hooks = &b->hooks,
                               .cancel = &b->cancel,
                               .matmul = b->mode };
    struct arena_mark mark = arena_mark(&b->step);
    struct tensor *h =
        splice(&b->graph, &b->model->decoder, &head, b->kv.layer[0].rows, NULL, NULL, 0);
    int status =
        decoder_forward(&b->graph, &b->model->decoder, &b->kv, &head, h, want, prefill, &all);
    if (status == 0 && want != LOGITS_NONE) {
        int64_t vocab = all->shape[1];
        memcpy(logits, (float *)all->data + (all->shape[0] - 1) * vocab,
               (size_t)vocab * sizeof *logits);
    }
    arena_reset(&b->step, mark);
    return status;
}

static int pass(struct bench *b, const struct sequence *s, int64_t n, enum logits_rows want,
                float *logits)
{
    return pass_as(b, s, n, want, true, logits);
}

// Computes the last row of s, as for a generated token.
static int step(struct bench *b, const struct sequence *s, float *logits)
{
    return pass_as(b, s, s->n, LOGITS_LAST, false, logits);
}

static int64_t best(const float *logits, int64_t vocab)
{
    int64_t at = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

static void check_near(const float *a, const float *b, int64_t vocab)
{
    for (int64_t i = 0; i < vocab; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f)) fail_msg("logit %d: %g, %g", (int)i, a[i], b[i]);
    assert_int_equal(best(a, vocab), best(b, vocab));
}

static void parts_equal_the_whole(void **state)
{
    static const char *const folders[] = { "tests/goldens/llama-3.2", "tests/goldens/qwen2",
                                           "tests/goldens/llava-siglip-llama3",
                                           "tests/goldens/gemma3" }; // a window of 27 rows
    for (int i = 0; i < 4; i++) {
        struct bench b;
        float whole[1024], parts[1024];
        bench_open(&b, folders[i]);
        int64_t vocab = b.model->decoder.config.vocab;
        struct sequence s = random_sequence(&b, 61);
        assert_int_equal(pass(&b, &s, 61, LOGITS_LAST, whole), 0);
        kv_trim(&b.kv, 0);
        assert_int_equal(pass(&b, &s, 20, LOGITS_NONE, NULL), 0);
        assert_int_equal(pass(&b, &s, 60, LOGITS_NONE, NULL), 0);
        assert_int_equal(pass(&b, &s, 61, LOGITS_LAST, parts), 0);
        check_near(whole, parts, vocab);
        // Rows computed before a trim are still valid after it.
        kv_trim(&b.kv, 33);
        assert_int_equal(pass(&b, &s, 61, LOGITS_LAST, parts), 0);
        check_near(whole, parts, vocab);
        sequence_release(&s);
        bench_close(&b);
    }
}

// With rounded keys and values, results are close to exact ones, and parts are close to the whole.
static void a_rounded_cache_is_close(void **state)
{
    static const char *const folders[] = { "tests/goldens/llama-3.2", "tests/goldens/qwen2",
                                           "tests/goldens/llava-siglip-llama3",
                                           "tests/goldens/gemma3" }; // a window of 27 rows
    for (int i = 0; i < 4; i++) {
        struct bench b;
        float exact[1024], whole[1024], parts[1024], most = 0, off = 0, apart = 0;
        bench_open(&b, folders[i]);
        int64_t vocab = b.model->decoder.config.vocab;
        struct sequence s = random_sequence(&b, 61);
        assert_int_equal(pass(&b, &s, 61, LOGITS_LAST, exact), 0);
        const uint64_t bytes = kv_bytes(&b.kv);
        kv_set_dtype(&b.kv, DTYPE_BF16);
        assert_int_equal(pass(&b, &s, 61, LOGITS_LAST, whole), 0);
        assert_int_equal(kv_bytes(&b.kv), bytes / 2);
        kv_trim(&b.kv, 0);
        assert_int_equal(pass(&b, &s, 20, LOGITS_NONE, NULL), 0);
        assert_int_equal(pass(&b, &s, 60, LOGITS_NONE, NULL), 0);
        assert_int_equal(step(&b, &s, parts), 0);
        for (int64_t k = 0; k < vocab; k++) {
            most = fmaxf(most, fabsf(exact[k]));
            off = fmaxf(off, fabsf(whole[k] - exact[k]));
            apart = fmaxf(apart, fabsf(parts[k] - whole[k]));
        }
        // Rounding changes a number by at most 2^-9 of its size, which adds up over the layers; a
        // number summed in a different order may round to its neighbour.
        if (!(off > 0 && off <= 2e-2f * most))
            fail_msg("%s: off by %g of %g", folders[i], off, most);
        if (!(apart <= 1e-2f * most))
            fail_msg("%s: parts differ from the whole by %g of %g", folders[i], apart, most);
        sequence_release(&s);
        bench_close(&b);
    }
}

// --- listeners -----------------------------------------------------------------------------------

// How often the pass reached each site.
struct seen {
    const struct site *site[12];
    int count, times[12];
};

static bool everywhere(void *self, const struct site *site, int layer)
{
    return true;
}

static int only_look(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct seen *seen = self;
    assert_non_null(args->x ? args->x : args->v);
    for (int i = 0; i < seen->count; i++)
        if (seen->site[i] == site) seen->times[i]++;
    return 0;
}

// On a CPU, the prompt takes three blocks of 700 rows.
static void check_looking(enum matmul_mode mode)
{
    struct bench b;
    float plain[1024], looked[1024];
    struct seen seen = { { SITE_LAYER_IN, SITE_VALUES, SITE_ATTN, SITE_HEADS, SITE_FFN_IN, SITE_FFN,
                           SITE_FFN_OUT, SITE_LAYER_OUT, SITE_EMBED, SITE_FINAL, SITE_LOGITS,
                           SITE_STEP_LOGITS },
                         .count = 12 };
    bench_open(&b, "tests/goldens/llama-3.2");
    b.mode = mode;
    int64_t vocab = b.model->decoder.config.vocab;
    struct sequence s = random_sequence(&b, 2100);
    assert_int_equal(pass(&b, &s, s.n, LOGITS_LAST, plain), 0);
    kv_trim(&b.kv, 0);
    hooks_add(&b.hooks, &(struct hook){ .wants = everywhere, .run = only_look, .self = &seen });
    assert_int_equal(pass(&b, &s, s.n, LOGITS_ALL, looked), 0);
    assert_memory_equal(plain, looked, (size_t)vocab * sizeof *plain);
    for (int i = 0; i < seen.count; i++) // the first eight sites are in each layer
        assert_int_equal(seen.times[i], i < 8 ? b.model->decoder.config.layers : 1);
    sequence_release(&s);
    bench_close(&b);
}

static void probes_change_no_bit_of_a_long_prompt(void **state)
{
    check_looking(MATMUL_F32);
    // tests/cuda/forms.c tests the fused forms of a GPU.
    if (!test_device()->own_memory) check_looking(MATMUL_BF16);
}

// Compares the CPU's single calls for queries, keys and values and for the FFN of many rows (two
// blocks) with their ops.
static void many_rows_in_one_call_have_the_bits_of_the_ops(void **state)
{
    struct backend ops = *test_device();
    float whole[1024], apart[1024];
    if (!ops.ffn_rows) {
        print_message("SKIPPED: this device has no call for the FFN of many rows: its bits\n");
        skip();
    }
    ops.ffn_rows = NULL;
    ops.rows_products = NULL;
    struct bench b;
    bench_open(&b, "tests/goldens/llama-3.2");
    b.mode = MATMUL_BF16;
    struct sequence s = random_sequence(&b, 1100);
    assert_int_equal(pass(&b, &s, s.n, LOGITS_LAST, whole), 0);
    kv_trim(&b.kv, 0);
    b.device = &ops;
    assert_int_equal(pass(&b, &s, s.n, LOGITS_LAST, apart), 0);
    assert_memory_equal(whole, apart, (size_t)b.model->decoder.config.vocab * sizeof *whole);
    sequence_release(&s);
    bench_close(&b);
}

// Beside the cache, only h, q, the attention's output, the angles and a few indices of rows are as
// long as the prompt.
static void memory_of_a_long_prompt_is_bounded(void **state)
{
    struct bench b;
    float logits[1024];
    bench_open(&b, "tests/goldens/llama-3.2");
    const struct decoder_config *c = &b.model->decoder.config;
    int64_t n = 8192, block = 1024;
    struct sequence s = random_sequence(&b, n);
    assert_int_equal(pass(&b, &s, n, LOGITS_LAST, logits), 0);
    int64_t row = c->hidden + 2 * c->heads * c->dim + c->dim + 1;
    int64_t block_row = 2 * c->hidden + 3 * c->ffn;
    assert_true(b.step.peak <= (size_t)(n * row + block * block_row + c->vocab) * 4 + 65536);
    sequence_release(&s);
    bench_close(&b);
}

struct stopper {
    int layer;
    atomic_bool *cancel; // NULL: the hook fails
};

static bool at_layer_out(void *self, const struct site *site, int layer)
{
    const struct stopper *stopper = self;
    return site == SITE_LAYER_OUT && layer == stopper->layer;
}

static int stop(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    const struct stopper *stopper = self;
    if (stopper->cancel) {
        atomic_store(stopper->cancel, true);
        return 0;
    }
    graph_fail(g, "on purpose");
    return -1;
}

static void a_pass_that_stops_leaves_the_cache(void **state)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct bench b;
        float before[1024], after[1024];
        bench_open(&b, "tests/goldens/llama-3.2");
        struct sequence s = random_sequence(&b, 40);
        assert_int_equal(pass(&b, &s, 25, LOGITS_NONE, NULL), 0);
        assert_int_equal(pass(&b, &s, 40, LOGITS_LAST, before), 0);
        kv_trim(&b.kv, 25);

        struct stopper stopper = { 2, cancelled ? &b.cancel : NULL };
        hooks_add(&b.hooks, &(struct hook){ .wants = at_layer_out, .run = stop, .self = &stopper });
        assert_int_equal(pass(&b, &s, 40, LOGITS_LAST, after), -1);
        assert_true(cancelled ? b.graph.cancelled : b.graph.failed);
        if (!cancelled) assert_string_equal(b.graph.err.text, "on purpose");
        for (int l = 0; l < b.kv.layers; l++) assert_int_equal(b.kv.layer[l].rows, 25);

        b.hooks.count = 0;
        atomic_store(&b.cancel, false);
        assert_int_equal(pass(&b, &s, 40, LOGITS_LAST, after), 0);
        assert_memory_equal(before, after, (size_t)b.model->decoder.config.vocab * sizeof *before);
        sequence_release(&s);
        bench_close(&b);
    }
}

// --- a method in the FFN's place ----------------------------------------------------------------

enum { ROWS = 30, COLUMNS = 64 };

struct replaced {
    float in[ROWS * COLUMNS], out[ROWS * COLUMNS];
};

static bool at_ffn_of_layer_1(void *self, const struct site *site, int layer)
{
    return layer == 1 && (site == SITE_FFN_IN || site == SITE_FFN || site == SITE_FFN_OUT);
}

static int put_ones(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct replaced *r = self;
    assert_int_equal(tensor_bytes(args->x), sizeof r->in);
    if (site == SITE_FFN_IN) memcpy(r->in, args->x->data, sizeof r->in);
    if (site == SITE_FFN_OUT) memcpy(r->out, args->x->data, sizeof r->out);
    if (site != SITE_FFN) return 0;
    static const int32_t none[1];
    for (int i = 0; i < ROWS * COLUMNS; i++) ((float *)args->x->data)[i] += 1;
    args->only = none;
    return 0;
}

static void a_method_takes_the_place_of_the_ffn(void **state)
{
    struct bench b;
    float logits[1024];
    struct replaced r = { 0 };
    bench_open(&b, "tests/goldens/llama-3.2");
    hooks_add(
        &b.hooks,
        &(struct hook){ .wants = at_ffn_of_layer_1, .run = put_ones, .self = &r, .changes = true });
    struct sequence s = random_sequence(&b, ROWS);
    assert_int_equal(pass(&b, &s, ROWS, LOGITS_LAST, logits), 0);
    for (int i = 0; i < ROWS * COLUMNS; i++) assert_true(r.out[i] == r.in[i] + 1);
    sequence_release(&s);
    bench_close(&b);
}

// --- pruned rows ---------------------------------------------------------------------------------

enum { LAYER = 1, TOKENS = 40 };

// Drops two of three rows (see is_kept) after LAYER, or bars them as keys in later layers.
struct dropping {
    bool bar;
    int cancel_at; // layer at which the pass is cancelled; 0: none
    atomic_bool *cancel;
    int32_t alive[TOKENS], *keys[TOKENS];
    int64_t count[TOKENS];
};

static bool is_kept(int64_t row)
{
    return row % 3 == 1 || row >= TOKENS - 2;
}

static bool where_rows_drop(void *self, const struct site *site, int layer)
{
    const struct dropping *d = self;
    if (site == SITE_LAYER_IN) return d->cancel_at && layer == d->cancel_at;
    return d->bar ? site == SITE_VALUES && layer > LAYER : site == SITE_LAYER_OUT && layer == LAYER;
}

static int drop_rows(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct dropping *d = self;
    if (site == SITE_LAYER_IN) atomic_store(d->cancel, true);
    if (site == SITE_LAYER_OUT && args->prefill) {
        int64_t n = 0;
        for (int32_t i = 0; i < args->x->shape[0]; i++)
            if (is_kept(site_row(args, i))) d->alive[n++] = i;
        args->x = op_gather_rows(g, args->x, d->alive, n);
        args->rows = d->alive;
    }
    for (int64_t i = 0; site == SITE_VALUES && i < args->q->shape[0]; i++) {
        free(d->keys[i]);
        d->keys[i] = xcalloc((size_t)(args->past + i) + 1, sizeof(int32_t));
        d->count[i] = 0;
        for (int64_t j = 0; j <= args->past + i; j++)
            if (is_kept(j) || j == args->past + i) d->keys[i][d->count[i]++] = (int32_t)j;
    }
    if (site == SITE_VALUES)
        args->seen =
            (struct seen_keys){ .keys = (const int32_t *const *)d->keys, .count = d->count };
    return 0;
}

static void rows_dropped_equal_keys_barred(void **state)
{
    static const char *const folders[] = { "tests/goldens/llama-3.2", "tests/goldens/qwen2" };
    for (int i = 0; i < 2; i++) {
        struct bench b[2];
        struct dropping d[2] = { { .bar = false }, { .bar = true } };
        float logits[2][2][1024];
        int64_t vocab = 0;
        for (int k = 0; k < 2; k++) {
            bench_open(&b[k], folders[i]);
            hooks_add(&b[k].hooks, &(struct hook){ .wants = where_rows_drop,
                                                   .run = drop_rows,
                                                   .self = &d[k],
                                                   .changes = true });
            vocab = b[k].model->decoder.config.vocab;
            struct sequence s = random_sequence(&b[k], TOKENS + 1);
            assert_int_equal(pass(&b[k], &s, TOKENS, LOGITS_LAST, logits[k][0]), 0);
            assert_int_equal(step(&b[k], &s, logits[k][1]), 0);
            sequence_release(&s);
        }
        for (int l = 0; l < b[0].kv.layers; l++) {
            const struct kv_layer *layer = &b[0].kv.layer[l];
            assert_int_equal(layer->rows, l <= LAYER ? TOKENS + 1 : 13 + 2 + 1);
            assert_int_equal(layer->position[layer->rows - 1], TOKENS);
            assert_int_equal(layer->position[1], l <= LAYER ? 1 : 4);
        }
        for (int k = 0; k < 2; k++) check_near(logits[0][k], logits[1][k], vocab);
        for (int k = 0; k < TOKENS; k++) free(d[1].keys[k]);
        for (int k = 0; k < 2; k++) bench_close(&b[k]);
    }
}

// The caches of layers that the pass reached after it dropped rows are emptied; all other layers
// keep their rows.
static void a_pass_that_stops_after_rows_dropped(void **state)
{
    struct bench b;
    struct dropping d = { .cancel_at = LAYER + 2 };
    float logits[1024];
    bench_open(&b, "tests/goldens/llama-3.2");
    d.cancel = &b.cancel;
    struct sequence s = random_sequence(&b, TOKENS);
    assert_int_equal(pass(&b, &s, 11, LOGITS_LAST, logits), 0);
    hooks_add(
        &b.hooks,
        &(struct hook){ .wants = where_rows_drop, .run = drop_rows, .self = &d, .changes = true });
    assert_int_equal(pass(&b, &s, TOKENS, LOGITS_LAST, logits), -1);
    for (int l = 0; l < b.kv.layers; l++)
        assert_int_equal(b.kv.layer[l].rows, l <= LAYER ? 11 : l <= LAYER + 2 ? 0 : 11);
    sequence_release(&s);
    bench_close(&b);
}

// Checks how many of the layers, of 100 bytes each, each GPU computes; `rest`: bytes of the other
// weights.
static void check_deal(int layers, double rest, int gpus, const int *expected)
{
    int count[16] = { 0 };
    for (int l = 0; l < layers; l++) {
        const int gpu = decoder_gpu(l, layers, 100, rest, gpus);
        assert_in_range(gpu, 0, gpus - 1);
        assert_true(l == 0 || gpu >= decoder_gpu(l - 1, layers, 100, rest, gpus)); // in order
        count[gpu]++;
    }
    for (int k = 0; k < gpus; k++) assert_int_equal(count[k], expected[k]);
}

static void layers_are_split_by_memory(void **state)
{
    check_deal(16, 0, 1, (int[]){ 16 });
    check_deal(16, 0, 2, (int[]){ 8, 8 });
    check_deal(16, 400, 2, (int[]){ 6, 10 });
    check_deal(32, 0, 4, (int[]){ 8, 8, 8, 8 });
    check_deal(16, 1600, 2, (int[]){ 0, 16 }); // the rest takes as much memory as all layers
    check_deal(16, 3000, 2, (int[]){ 0, 16 });
    check_deal(16, 800, 4, (int[]){ 0, 6, 5, 5 });
    check_deal(2, 0, 4, (int[]){ 0, 1, 0, 1 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_split_by_memory),
        cmocka_unit_test(parts_equal_the_whole),
        cmocka_unit_test(a_rounded_cache_is_close),
        cmocka_unit_test(probes_change_no_bit_of_a_long_prompt),
        cmocka_unit_test(many_rows_in_one_call_have_the_bits_of_the_ops),
        cmocka_unit_test(memory_of_a_long_prompt_is_bounded),
        cmocka_unit_test(a_pass_that_stops_leaves_the_cache),
        cmocka_unit_test(a_method_takes_the_place_of_the_ffn),
        cmocka_unit_test(rows_dropped_equal_keys_barred),
        cmocka_unit_test(a_pass_that_stops_after_rows_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
