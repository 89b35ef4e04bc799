// tests/core/model/families/latent.c -- latent attention and mixtures of experts
// (core/model/attention_latent.c, ffn_experts.c) on the reference's token ids: one pass without a
// cache, and the same conversation over a cache of latents, over one of keys and values, in pieces,
// and with listeners. Other shapes (compressed queries, groups of experts, biases), files with the
// experts of a layer in stacks, LoRA and gradients, against loops in double (naive_latent.h). Many
// rows in few calls against the ops.
#include "core/graph/hooks.h"
#include "tests/core/model/families/golden.h"
#include "tests/core/model/families/naive_latent.h"
#include "tests/core/model/passes.h"

// Listens to the values and probabilities of every layer; keeps the probabilities of one.
struct listener {
    int layer;
    float *probs;
    int64_t count, heard;
};

static bool wants(void *self, const struct site *site, int layer)
{
    return site == SITE_VALUES || site == SITE_ATTN;
}

static int take(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct listener *l = self;
    l->heard++;
    if (site != SITE_ATTN || args->layer != l->layer) return 0;
    l->count = tensor_count(args->x);
    free(l->probs);
    l->probs = xreallocarray(NULL, (size_t)l->count, sizeof *l->probs);
    graph_download(g, l->probs, args->x);
    return 0;
}

static void check(const struct golden *g, const float *got, int64_t count, const char *name,
                  int64_t row)
{
    const struct safetensor ours = { .name = (char *)(uintptr_t) "ours",
                                     .data = got,
                                     .bytes = (uint64_t)count * 4 };
    compare(g, &ours, name, row * count, count);
}

static struct ids prompt_of(const struct golden *g)
{
    struct ids ids = { 0 };
    const struct safetensor *t = safetensors_find(g->tensors, "fwd.input_ids");
    ids_append(&ids, (const int32_t *)t->data, t->bytes / 4);
    return ids;
}

// Computes the prompt in pieces of `piece` rows, then the reference's own tokens one by one, and
// compares all logits; `steps` receives those of the tokens.
static void follow(const struct golden *g, struct kv *kv, int64_t piece, const struct hooks *hooks,
                   float *steps)
{
    const int64_t V = engine_model(g->engine)->decoder.config.vocab;
    const struct safetensor *gen = safetensors_find(g->tensors, "gen.ids");
    struct ids ids = prompt_of(g);
    const int64_t n = (int64_t)ids.count, count = (int64_t)(gen->bytes / 4);
    ids_append(&ids, (const int32_t *)gen->data, (size_t)count);
    for (int64_t from = 0, to; from < n; from = to) {
        to = from + piece < n ? from + piece : n;
        float *logits = pass_logits(engine_model(g->engine), kv, ids.data, to, hooks);
        for (int64_t i = from; i < to; i++) check(g, logits + (i - from) * V, V, "fwd.logits", i);
        if (to == n) memcpy(steps, logits + (n - 1 - from) * V, (size_t)V * sizeof *steps);
        free(logits);
    }
    check(g, steps, V, "gen.logits", 0);
    for (int64_t i = 1; i < count; i++) {
        float *logits = pass_logits(engine_model(g->engine), kv, ids.data, n + i, hooks);
        check(g, logits, V, "gen.logits", i);
        memcpy(steps + i * V, logits, (size_t)V * sizeof *steps);
        free(logits);
    }
    ids_release(&ids);
}

static float *room_for_steps(const struct golden *g)
{
    return xmalloc(safetensors_find(g->tensors, "gen.logits")->bytes);
}

static void passes_equal_the_reference(void **state)
{
    struct golden g;
    golden_open(&g, "kimi-text");
    const struct decoder *d = &engine_model(g.engine)->decoder;
    struct listener l = { .layer = 1 };
    struct hooks hooks = { 0 };
    hooks_add(&hooks, &(struct hook){ .wants = wants, .run = take, .self = &l });
    struct ids ids = prompt_of(&g);
    float *logits = pass_logits(engine_model(g.engine), NULL, ids.data, (int64_t)ids.count, &hooks);
    check(&g, logits, (int64_t)ids.count * d->config.vocab, "fwd.logits", 0);
    check(&g, l.probs, l.count, "fwd.attn", 1);
    free(logits);
    free(l.probs);
    ids_release(&ids);
    golden_close(&g);
}

// Cached rows of latents are short; with a method that may change values, rows hold all heads.
static void a_cache_of_latents_answers_as_one_of_keys_and_values(void **state)
{
    struct golden g;
    golden_open(&g, "kimi-text");
    const struct decoder *d = &engine_model(g.engine)->decoder;
    const struct latent_config *c = &d->config.latent;
    float *plain = room_for_steps(&g), *seen = room_for_steps(&g), *expanded = room_for_steps(&g);
    struct listener l = { .layer = 1 };
    struct hooks looking = { 0 }, changing = { 0 };
    struct kv kv;
    hooks_add(&looking, &(struct hook){ .wants = wants, .run = take, .self = &l });
    hooks_add(
        &changing,
        &(struct hook){ .wants = wants, .run = take, .self = &l, .changes = true, .values = true });

    decoder_cache(d, test_device(), &kv);
    follow(&g, &kv, INT32_MAX / 2, NULL, plain);
    assert_int_equal(kv_row_bytes(&kv, 0), (c->rank + c->rope) * 4);
    kv_trim(&kv, 0);
    follow(&g, &kv, INT32_MAX / 2, &looking, seen); // a probe changes no bit
    assert_memory_equal(seen, plain, safetensors_find(g.tensors, "gen.logits")->bytes);
    assert_true(l.heard > 100);
    kv_trim(&kv, 0);
    follow(&g, &kv, INT32_MAX / 2, &changing, expanded);
    assert_int_equal(kv_row_bytes(&kv, 0),
                     d->config.heads * (d->config.dim + d->config.value_dim) * 4);
    kv_trim(&kv, 0);
    follow(&g, &kv, 7, NULL, plain); // several rows after cached ones
    assert_int_equal(kv_row_bytes(&kv, 0), (c->rank + c->rope) * 4);
    kv_release(&kv);
    free(plain);
    free(seen);
    free(expanded);
    free(l.probs);
    golden_close(&g);
}

// --- other shapes --------------------------------------------------------------------------------

enum { ROWS = 9 };

static const int32_t some_ids[ROWS] = { 3, 500, 41, 41, 7, 260, 99, 12, 300 };
static const int32_t targets[ROWS] = { -1, -1, 41, 7, 260, 99, 12, 300, -1 };

static const struct naive_shape shapes[] = {
    { .layers = 3,
      .hidden = 20,
      .heads = 3,
      .q_rank = 10,
      .rank = 7,
      .nope = 5,
      .rope = 6,
      .value = 4,
      .ffn = 18,
      .experts = 8,
      .per_token = 3,
      .shared = 2,
      .width = 6,
      .dense = 1,
      .groups = 4,
      .groups_per_token = 2,
      .normalise = true,
      .bias = true,
      .scale = 2.446,
      .theta = 100 },
    { .layers = 2,
      .hidden = 14,
      .heads = 2,
      .rank = 9,
      .nope = 4,
      .rope = 2,
      .value = 6,
      .ffn = 10,
      .experts = 5,
      .per_token = 2,
      .width = 7,
      .groups = 1,
      .groups_per_token = 1,
      .scale = 1,
      .theta = 50 },
    // yarn as in DeepSeek-V3, but with different scales
    { .layers = 2,
      .hidden = 20,
      .heads = 2,
      .q_rank = 8,
      .rank = 10,
      .nope = 4,
      .rope = 8,
      .value = 6,
      .ffn = 10,
      .experts = 4,
      .per_token = 2,
      .width = 5,
      .dense = 1,
      .groups = 1,
      .groups_per_token = 1,
      .scale = 1,
      .theta = 10,
      .factor = 8,
      .original = 300,
      .mscale = 1,
      .mscale_all = 0.7 },
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct model *open_naive(struct naive *n, const struct naive_shape *s, bool stacked)
{
    struct err err = { 0 };
    char *folder = scratch_new();
    naive_open(n, s);
    naive_write(n, folder, stacked);
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    scratch_remove(folder); // mapped files stay readable
    return m;
}

static void near_naive(const float *got, const double *want, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < (to - from) * NAIVE_WORDS; i++)
        if (!(fabs(got[i] - want[from * NAIVE_WORDS + i]) <= 3e-5))
            fail_msg("logit %d: %.9g, not %.9g", (int)i, got[i], want[from * NAIVE_WORDS + i]);
}

static void other_shapes_equal_naive_loops(void **state)
{
    for (int k = 0; k < 2 * SHAPES; k++) {
        struct naive n;
        struct kv kv;
        struct model *m = open_naive(&n, &shapes[k / 2], k % 2);
        double *want = xcalloc((size_t)ROWS * NAIVE_WORDS, sizeof *want);
        naive_logits(&n, some_ids, ROWS, want);
        decoder_cache(&m->decoder, test_device(), &kv);
        for (int64_t from = 0, to = 4; from < ROWS; from = to, to++) {
            float *got = pass_logits(m, &kv, some_ids, to, NULL);
            near_naive(got, want, from, to);
            free(got);
        }
        kv_release(&kv);
        free(want);
        model_free(m);
        naive_close(&n);
    }
}

// --- in one call ---------------------------------------------------------------------------------

// Widths of whole tiles, for which a CPU with AMX computes many rows in a few calls.
static const struct naive_shape whole[] = {
    { .layers = 3,
      .hidden = 64,
      .heads = 3,
      .q_rank = 48,
      .rank = 32,
      .nope = 32,
      .rope = 16,
      .value = 32,
      .ffn = 64,
      .experts = 8,
      .per_token = 2,
      .shared = 1,
      .width = 32,
      .dense = 1,
      .groups = 1,
      .groups_per_token = 1,
      .bias = true,
      .scale = 2,
      .theta = 100 },
    { .layers = 2,
      .hidden = 96,
      .heads = 2,
      .rank = 48,
      .nope = 16,
      .rope = 8,
      .value = 16,
      .ffn = 64,
      .experts = 8,
      .per_token = 3,
      .shared = 2,
      .width = 64,
      .groups = 1,
      .groups_per_token = 1,
      .scale = 1,
      .theta = 50 },
};

// Converts matrices to bf16; `kept` holds the memory to free.
static void to_bf16(struct model *m, void **kept)
{
    for (size_t i = 0; i < m->weights.count; i++) {
        struct tensor *t = m->weights.list[i].tensor;
        if (t->rank != 2 || t->dtype != DTYPE_F32) continue;
        const uint32_t *from = t->data;
        uint16_t *to = xreallocarray(NULL, (size_t)tensor_count(t), sizeof *to);
        for (int64_t k = 0; k < tensor_count(t); k++) to[k] = (uint16_t)(from[k] >> 16);
        t->data = kept[i] = to;
        t->dtype = DTYPE_BF16;
    }
}

static float *bf16_logits(const struct model *m, const struct backend *b, int64_t n)
{
    struct arena step = { .backend = b };
    struct graph g = { .backend = b, .arena = &step, .matmul = MATMUL_BF16 };
    struct sequence s;
    struct kv kv;
    struct tensor *logits = NULL;
    sequence_init(&s, n, 1);
    for (int64_t i = 0; i < n; i++) s.ids[i] = (int32_t)(i * i % NAIVE_WORDS);
    decoder_cache(&m->decoder, b, &kv);
    struct tensor *h = splice(&g, &m->decoder, &s, 0, NULL, NULL, 0);
    if (decoder_forward(&g, &m->decoder, &kv, &s, h, LOGITS_ALL, true, &logits) < 0)
        fail_msg("%s", g.err.text);
    float *host = xmalloc(tensor_bytes(logits));
    graph_download(&g, host, logits);
    sequence_release(&s);
    kv_release(&kv);
    arena_release(&step);
    return host;
}

static void many_rows_in_few_calls_have_the_bits_of_the_ops(void **state)
{
    enum { MANY = 150 };
    struct backend ops = *test_device();
    if (!ops.rows_products) {
        print_message("SKIPPED: this device has no calls for many products: their bits\n");
        skip();
    }
    ops.rows_products = NULL, ops.rope_tail = NULL, ops.ffn_rows = NULL, ops.expert_rows = NULL;
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) {
        struct naive n;
        struct model *m = open_naive(&n, &whole[k], false);
        void **kept = xcalloc(m->weights.count, sizeof *kept);
        to_bf16(m, kept);
        float *got = bf16_logits(m, test_device(), MANY), *want = bf16_logits(m, &ops, MANY);
        assert_memory_equal(got, want, (size_t)MANY * NAIVE_WORDS * sizeof *got);
        free(got);
        free(want);
        for (size_t i = 0; i < m->weights.count; i++) free(kept[i]);
        free(kept);
        model_free(m);
        naive_close(&n);
    }
}

// --- gradients -----------------------------------------------------------------------------------

static void check_slopes(struct naive *n, const struct weight *w, const struct grad *d)
{
    enum { TRIED = 4 };
    struct naive_tensor *t = naive_find(n, "%s", w->name);
    const int64_t count = tensor_count(w->tensor);
    float *got = xreallocarray(NULL, (size_t)count, sizeof *got);
    backend_of(test_device(), w->tensor)->download(got, d->data, (size_t)count * sizeof *got);
    for (int k = 0; k < TRIED; k++) {
        const int64_t i = (int64_t)(random_bits(17, RANDOM_WEIGHTS, (uint64_t)k) % (uint64_t)count);
        const double step = 1e-5, was = t->data[i];
        t->data[i] = was + step;
        double slope = naive_loss(n, some_ids, targets, ROWS);
        t->data[i] = was - step;
        slope = (slope - naive_loss(n, some_ids, targets, ROWS)) / (2 * step);
        t->data[i] = was;
        if (!(fabs(got[i] - slope) <= 2e-5 + 2e-4 * fabs(slope)))
            fail_msg("gradient of %s: %.9g, not %.9g", w->name, got[i], slope);
    }
    free(got);
}

static void gradients_equal_differences_of_naive_losses(void **state)
{
    for (int k = 0; k < SHAPES; k++) {
        struct naive n;
        struct model *m = open_naive(&n, &shapes[k], false);
        pass_want_gradients(m);
        const double loss = pass_loss(m, some_ids, targets, ROWS, k == 0);
        assert_true(fabs(loss - naive_loss(&n, some_ids, targets, ROWS)) < 1e-5);
        for (size_t i = 0; i < m->weights.count; i++) {
            const struct weight *w = &m->weights.list[i];
            check_slopes(&n, w, w->tensor->grad);
            assert_null(strstr(w->name, "e_score_correction_bias"));
        }
        pass_free_gradients(m);
        model_free(m);
        naive_close(&n);
    }
}

// LoRA on the matrix that attention over cached latents splits: the pass of the prompt and those of
// single rows equal naive loops with the merged matrix.
static void lora_counts_in_both_forms(void **state)
{
    struct naive n;
    struct model *m = open_naive(&n, &shapes[0], false);
    float a[2 * 7], b[27 * 2];
    for (int i = 0; i < 14; i++) a[i] = (float)random_unit(1, RANDOM_WEIGHTS, (uint64_t)i) - 0.5F;
    for (int i = 0; i < 54; i++) b[i] = (float)random_unit(2, RANDOM_WEIGHTS, (uint64_t)i) - 0.5F;
    struct arena arena = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &arena };
    struct lora lora = { .a = *graph_upload(&g, DTYPE_F32, 2, (int64_t[]){ 2, 7 }, a),
                         .b = *graph_upload(&g, DTYPE_F32, 2, (int64_t[]){ 27, 2 }, b),
                         .scale = 0.7F };
    struct linear *up = &m->decoder.layer[1].attention.weight[2];
    assert_int_equal(up->weight.shape[0], 27);
    up->lora = &lora;
    struct naive_tensor *t = naive_find(&n, "model.layers.1.self_attn.kv_b_proj.weight");
    for (int i = 0; i < 27 * 7; i++)
        for (int r = 0; r < 2; r++) t->data[i] += 0.7F * b[i / 7 * 2 + r] * a[r * 7 + i % 7];
    double *want = xcalloc((size_t)ROWS * NAIVE_WORDS, sizeof *want);
    naive_logits(&n, some_ids, ROWS, want);
    struct kv kv;
    decoder_cache(&m->decoder, test_device(), &kv);
    for (int64_t from = 0, to = 4; from < ROWS; from = to, to++) {
        float *got = pass_logits(m, &kv, some_ids, to, NULL);
        near_naive(got, want, from, to);
        free(got);
    }
    kv_release(&kv);
    free(want);
    up->lora = NULL;
    arena_release(&arena);
    model_free(m);
    naive_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_equal_the_reference),
        cmocka_unit_test(a_cache_of_latents_answers_as_one_of_keys_and_values),
        cmocka_unit_test(other_shapes_equal_naive_loops),
        cmocka_unit_test(many_rows_in_few_calls_have_the_bits_of_the_ops),
        cmocka_unit_test(gradients_equal_differences_of_naive_losses),
        cmocka_unit_test(lora_counts_in_both_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
