// tests/core/model/families/latent.c -- latent attention and mixtures of experts
// (core/model/attention_latent.c, ffn_experts.c) on the reference's token ids: one pass without a
// cache, and the same conversation over a cache of latents, over one of keys and values, in pieces,
// and with listeners.
#include "core/graph/hooks.h"
#include "core/model/splice.h"
#include "tests/core/model/families/golden.h"

// Listens at every layer's values and probabilities; keeps the probabilities of one layer.
struct listener {
    int layer;
    float *probs;
    int64_t count, heard;
};

static bool wants(void *self, enum site site, int layer)
{
    return site == SITE_VALUES || site == SITE_ATTN;
}

static int take(void *self, struct graph *g, enum site site, struct site_args *args)
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

// Rows up to `to` of the ids behind those in the cache; the logits of all of them.
static float *pass(const struct golden *g, struct kv *kv, const struct ids *ids, int64_t to,
                   const struct hooks *hooks)
{
    const struct model *m = engine_model(g->engine);
    const int64_t past = kv ? kv->layer[0].rows : 0;
    struct arena step = { .backend = test_device() };
    struct graph pass = { .backend = test_device(), .arena = &step, .hooks = hooks };
    struct sequence s;
    struct tensor *logits = NULL;
    sequence_init(&s, to, 1);
    memcpy(s.ids, ids->data, (size_t)to * sizeof *s.ids);
    struct tensor *h = splice(&pass, &m->decoder.embed, &s, past, NULL, 0);
    if (decoder_forward(&pass, &m->decoder, kv, &s, h, LOGITS_ALL, past == 0, &logits) < 0)
        fail_msg("%s", pass.err.text);
    float *host = xmalloc(tensor_bytes(logits));
    graph_download(&pass, host, logits);
    sequence_release(&s);
    arena_release(&step);
    return host;
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

// The prompt in pieces of `piece` rows, then the reference's own tokens one by one.
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
        float *logits = pass(g, kv, &ids, to, hooks);
        for (int64_t i = from; i < to; i++) check(g, logits + (i - from) * V, V, "fwd.logits", i);
        if (to == n) memcpy(steps, logits + (n - 1 - from) * V, (size_t)V * sizeof *steps);
        free(logits);
    }
    check(g, steps, V, "gen.logits", 0);
    for (int64_t i = 1; i < count; i++) {
        float *logits = pass(g, kv, &ids, n + i, hooks);
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
    float *logits = pass(&g, NULL, &ids, (int64_t)ids.count, &hooks);
    check(&g, logits, (int64_t)ids.count * d->config.vocab, "fwd.logits", 0);
    check(&g, l.probs, l.count, "fwd.attn", 1);
    free(logits);
    free(l.probs);
    ids_release(&ids);
    golden_close(&g);
}

// Latents are a short row; with a method that may change values they are as long as all heads.
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
    hooks_add(&changing,
              &(struct hook){ .wants = wants, .run = take, .self = &l, .changes = true });

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
    follow(&g, &kv, 7, NULL, plain); // several rows behind cached ones
    assert_int_equal(kv_row_bytes(&kv, 0), (c->rank + c->rope) * 4);
    kv_release(&kv);
    free(plain);
    free(seen);
    free(expanded);
    free(l.probs);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_equal_the_reference),
        cmocka_unit_test(a_cache_of_latents_answers_as_one_of_keys_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
