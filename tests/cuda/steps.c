// tests/cuda/steps.c -- tokens of an answer replayed from a recording (core/model/decoder_step.c)
// equal those of passes computed op by op, alone or a few rows together; changing anything that the
// recording depends on makes a new one.
#include <math.h>

#include "core/base/random.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "tests/cuda/pair.h"

enum { VOCAB = 1024, FEW = 8 };

struct bench {
    const struct backend *gpu;
    struct model *model;
    struct kv kv;
    struct arena step;
    struct hooks hooks;
    struct sequence sequence;
    enum matmul_mode mode;
};

static bool wants_layers(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN && layer == 0;
}

static int listens(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    return 0;
}

static void bench_open(struct bench *b, const char *folder, bool listener, enum matmul_mode mode,
                       enum dtype cache)
{
    struct err err = { 0 };
    *b = (struct bench){ .gpu = devices[1], .step = { .backend = devices[1] }, .mode = mode };
    b->model = model_load(folder, b->gpu, NULL, &err);
    if (!b->model) fail_msg("%s", err.text);
    decoder_cache(&b->model->decoder, b->gpu, &b->kv);
    kv_set_dtype(&b->kv, cache);
    if (listener)
        hooks_add(&b->hooks, &(struct hook){ .wants = wants_layers, .run = listens, .self = NULL });
}

static void bench_close(struct bench *b)
{
    sequence_release(&b->sequence);
    kv_release(&b->kv);
    arena_release(&b->step);
    model_free(b->model);
}

// Computes the rows after the cached ones; returns the last one's logits, or all.
static void pass_of(struct bench *b, bool prefill, enum logits_rows want, float *logits)
{
    struct graph g = {
        .backend = b->gpu, .arena = &b->step, .hooks = &b->hooks, .matmul = b->mode
    };
    struct tensor *out = NULL;
    struct decoder *d = &b->model->decoder;
    struct tensor *h = splice(&g, d, &b->sequence, b->kv.layer[0].rows, NULL, NULL, 0);
    if (decoder_forward(&g, d, &b->kv, &b->sequence, h, want, prefill, &out) < 0)
        fail_msg("%s", g.err.text);
    assert_true(d->config.vocab <= VOCAB);
    b->gpu->download(logits, out->data, tensor_bytes(out));
    arena_reset(&b->step, (struct arena_mark){ 0 });
}

static void pass(struct bench *b, bool prefill, float logits[VOCAB])
{
    pass_of(b, prefill, LOGITS_LAST, logits);
}

static void begin(struct bench *b, int64_t n, float logits[VOCAB])
{
    sequence_init(&b->sequence, n, 1);
    for (int64_t i = 0; i < n; i++)
        b->sequence.ids[i] = (int32_t)(random_bits(7, RANDOM_WEIGHTS, (uint64_t)i) % 200);
    pass(b, true, logits);
}

static int32_t best(const struct bench *b, const float *logits)
{
    int32_t at = 0;
    for (int32_t i = 1; i < b->model->decoder.config.vocab; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

// Compares an answer from a recording with one that has a listener and therefore no recording.
static void check_answer(const char *folder, int64_t prompt, int tokens, enum matmul_mode mode,
                         enum dtype cache)
{
    struct bench played, plain;
    float a[VOCAB], b[VOCAB];
    int recordings = 0;
    const void *last = NULL;
    bench_open(&played, folder, false, mode, cache);
    bench_open(&plain, folder, true, mode, cache);
    begin(&played, prompt, a);
    begin(&plain, prompt, b);
    for (int t = 0; t < tokens; t++) {
        const int32_t id = best(&plain, b);
        sequence_append(&played.sequence, id);
        sequence_append(&plain.sequence, id);
        pass(&played, false, a);
        pass(&plain, false, b);
        assert_memory_equal(a, b, (size_t)plain.model->decoder.config.vocab * sizeof *a);
        assert_int_equal(played.kv.layer[1].rows, prompt + t + 1);
        assert_null(plain.kv.replay.recording);
        const void *now = played.kv.replay.recording;
        if (now && now != last) recordings++;
        last = now;
    }
    assert_non_null(last);
    // One recording for each stretch of 256 keys that the answer reaches.
    assert_int_equal(recordings, (prompt + tokens) / 256 - prompt / 256 + 1);
    bench_close(&played);
    bench_close(&plain);
}

static void replayed_tokens_equal_computed_ones(void **state)
{
    check_answer("tests/goldens/llama-3.2", 11, 8, MATMUL_BF16, DTYPE_BF16);
    check_answer("tests/goldens/llama-3.2", 11, 8, MATMUL_BF16, DTYPE_F32);
    check_answer("tests/goldens/llama-3.2", 250, 10, MATMUL_F32, DTYPE_F32);
    check_answer("tests/goldens/llama-3.2", 250, 10, MATMUL_F32, DTYPE_BF16);
    check_answer("tests/goldens/qwen2", 9, 5, MATMUL_BF16, DTYPE_BF16);
    check_answer("tests/goldens/llava-1.5", 9, 5, MATMUL_BF16, DTYPE_BF16); // f16 weights
    // Packed weights; pairs of neighbouring dimensions, and norms after products.
    check_answer("tests/goldens/internvl2-internlm2", 250, 9, MATMUL_BF16, DTYPE_BF16);
    check_answer("tests/goldens/glm-4.1v", 250, 9, MATMUL_BF16, DTYPE_BF16);
    check_answer("tests/goldens/qwen2.5-vl", 9, 5, MATMUL_BF16, DTYPE_BF16);
    // Normed heads.
    check_answer("tests/goldens/internvl3.5", 9, 5, MATMUL_BF16, DTYPE_BF16);
    // Latents and experts; the device chooses the experts.
    check_answer("tests/goldens/kimi-text", 250, 9, MATMUL_BF16, DTYPE_BF16);
    check_answer("tests/goldens/kimi-vl", 11, 5, MATMUL_F32, DTYPE_F32);
}

// Compares passes of two to eight rows, as for drafts, with a pass for each of the rows, recorded
// or not.
static void check_few(const char *folder, int64_t prompt, enum matmul_mode mode, enum dtype cache)
{
    struct bench together, alone;
    static float all[FEW * VOCAB], one[VOCAB];
    bench_open(&together, folder, false, mode, cache);
    bench_open(&alone, folder, false, mode, cache);
    begin(&together, prompt, one);
    begin(&alone, prompt, one);
    assert_int_equal(backend_few_rows(devices[1]), FEW);
    for (int n = 2; n <= FEW; n++) {
        const int64_t vocab = alone.model->decoder.config.vocab;
        for (int i = 0; i < n; i++) sequence_append(&together.sequence, (n * 7 + i * i) % 200);
        pass_of(&together, false, LOGITS_ALL, all);
        for (int i = 0; i < n; i++) {
            sequence_append(&alone.sequence, (n * 7 + i * i) % 200);
            pass(&alone, false, one);
            if (memcmp(one, all + i * vocab, (size_t)vocab * sizeof *one))
                fail_msg("%s: row %d of %d differs from the row alone", folder, i, n);
        }
    }
    bench_close(&together);
    bench_close(&alone);
}

static void a_row_has_the_same_bits_alone(void **state)
{
    check_few("tests/goldens/llama-3.2", 11, MATMUL_BF16, DTYPE_BF16);
    check_few("tests/goldens/llama-3.2", 230, MATMUL_F32, DTYPE_F32);
    check_few("tests/goldens/qwen2", 11, MATMUL_BF16, DTYPE_BF16);
    check_few("tests/goldens/llava-1.5", 11, MATMUL_BF16, DTYPE_F32);       // f16 weights
    check_few("tests/goldens/llava-onevision", 11, MATMUL_BF16, DTYPE_F32); // f32 weights
    check_few("tests/goldens/internvl2-internlm2", 230, MATMUL_BF16, DTYPE_BF16);
    check_few("tests/goldens/glm-4.1v", 230, MATMUL_BF16, DTYPE_BF16);
    check_few("tests/goldens/internvl3.5", 11, MATMUL_BF16, DTYPE_BF16);
    check_few("tests/goldens/kimi-text", 230, MATMUL_BF16, DTYPE_BF16);
    check_few("tests/goldens/kimi-vl", 11, MATMUL_F32, DTYPE_F32);
}

// Computes three tokens, after which there is a recording; returns it.
static void *played(struct bench *b)
{
    float logits[VOCAB];
    for (int t = 0; t < 3; t++) {
        sequence_append(&b->sequence, 5);
        pass(b, false, logits);
    }
    assert_non_null(b->kv.replay.recording);
    return b->kv.replay.recording;
}

static void changes_make_a_new_recording(void **state)
{
    struct bench b;
    float logits[VOCAB], others[VOCAB];
    bench_open(&b, "tests/goldens/llama-3.2", false, MATMUL_BF16, DTYPE_F32);
    begin(&b, 20, logits);
    const uint64_t key = (played(&b), b.kv.replay.key);

    // A different arithmetic, a different norm and LoRA each need a new recording.
    b.mode = MATMUL_F32;
    played(&b);
    assert_true(b.kv.replay.key != key);
    b.mode = MATMUL_BF16;
    played(&b);
    assert_true(b.kv.replay.key == key);
    struct decoder_layer *layer = &b.model->decoder.layer[1];
    const struct decoder_config *c = &b.model->decoder.config;
    struct tensor norm = layer->ffn.before;
    struct pair other = pair_noise(1, c->hidden, 0, 0, 3);
    layer->ffn.before.data = other.on[1].data;
    sequence_append(&b.sequence, 5);
    pass(&b, false, logits);
    assert_null(b.kv.replay.recording);
    played(&b);
    layer->ffn.before = norm;
    struct pair low = pair_noise(2, 2, c->hidden, 0, 4);
    struct pair high = pair_noise(2, c->ffn, 2, 0, 5);
    struct lora lora = { .a = low.on[1], .b = high.on[1], .scale = 0.5f };
    layer->ffn.weight[FFN_UP].lora = &lora;
    played(&b);
    lora.scale = 0;
    sequence_append(&b.sequence, 5);
    pass(&b, false, logits);
    assert_null(b.kv.replay.recording);
    sequence_append(&b.sequence, 5);
    pass(&b, false, logits); // records a step with LoRA of scale 0
    layer->ffn.weight[FFN_UP].lora = NULL;
    kv_trim(&b.kv, b.sequence.n - 1);
    pass(&b, false, others);
    for (int i = 0; i < c->vocab; i++) assert_true(fabsf(logits[i] - others[i]) < 1e-4f);

    // Clearing a cache drops its recording.
    kv_clear(&b.kv);
    assert_null(b.kv.replay.recording);
    pass(&b, true, logits);
    played(&b);
    // So does changing its dtype.
    kv_set_dtype(&b.kv, DTYPE_BF16);
    assert_null(b.kv.replay.recording);
    pass(&b, true, logits);
    played(&b);
    pairs_release();
    bench_close(&b);
}

// A recording fails if a GPU joins it and is not joined back; the next recording works.
static void recordings_need_all_gpus_joined_back(void **state)
{
    const struct backend *gpu = devices[1];
    if (!gpu->gpus) skip();
    struct pair x = pair_noise(1, 100, 0, 0, 1), y = pair_result(1, 100, 0, 0);
    for (int joined = 0; joined < 2; joined++) {
        float got[100] = { 0 };
        assert_int_equal(gpu->recorder->start(), 0);
        gpu->gpus->enter(1);
        assert_int_equal(gpu->add(&y.on[1], &x.on[1], &x.on[1]), 0);
        if (joined) gpu->gpus->enter(0);
        void *recording = gpu->recorder->finish();
        gpu->gpus->enter(0);
        assert_int_equal(recording != NULL, joined);
        if (!joined) continue;
        assert_int_equal(gpu->fill(&y.on[1], 0), 0);
        assert_int_equal(gpu->recorder->play(recording), 0);
        gpu->download(got, y.on[1].data, sizeof got);
        for (int i = 0; i < 100; i++) assert_true(got[i] == 2 * ((float *)x.on[0].data)[i]);
        gpu->recorder->forget(recording);
    }
    pairs_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replayed_tokens_equal_computed_ones),
        cmocka_unit_test(a_row_has_the_same_bits_alone),
        cmocka_unit_test(changes_make_a_new_recording),
        cmocka_unit_test(recordings_need_all_gpus_joined_back),
    };
    return cmocka_run_group_tests(tests, devices_open, NULL);
}
