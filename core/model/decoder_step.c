// core/model/decoder_step.c -- computes layers and head of a generated token by replaying a
// recording.
//
// Every such step runs the same ops on the same memory. Only a few inputs differ, which are copied
// there first: the token's embedding, its row of the cache and, for layers without and with a
// sliding window, cos and sin of its position and the keys that it sees. To keep the shapes fixed,
// attention gets keys up to the next multiple of KEYS_STEP and masks those from `end` on. The first
// step with a key (step_key) runs op by op, which also grows the device's scratch; the second is
// recorded.
//
// Listeners within the pass need the host between the ops, so passes with them are not recorded.
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

enum { KEYS_STEP = 256 }; // a multiple of the STRETCH of kernels/attention_few.cu

// True if nothing listens at the sites within the pass. Methods, too, act only at these sites, or
// at their own sites, which run inside them.
static bool quiet(const struct graph *g, int layers)
{
    if (!g->hooks || !g->hooks->count) return true;
    for (const struct site *const *site = pass_sites; *site; site++)
        for (int l = -1; l < layers && ((*site)->has & IN_STEP); l++)
            if (hooks_wanted(g, *site, l)) return false;
    return true;
}

// --- the key of a recording ----------------------------------------------------------------------

static void mix_pointer(uint64_t *key, const void *p)
{
    hash_mix(key, (uint64_t)(uintptr_t)p);
}

static void mix_sublayer(uint64_t *key, const struct sublayer *s)
{
    mix_pointer(key, s->before.data);
    for (int i = 0; i < s->count; i++) {
        const struct lora *lora = s->weight[i].lora;
        uint32_t scale = 0;
        mix_pointer(key, s->weight[i].weight.data);
        mix_pointer(key, s->weight[i].bias.data);
        if (!lora) continue;
        memcpy(&scale, &lora->scale, sizeof scale);
        hash_mix(key, scale);
        hash_mix(key, (uint64_t)lora->a.shape[0]);
        mix_pointer(key, lora->a.data);
        mix_pointer(key, lora->b.data);
    }
    mix_pointer(key, s->after.data);
}

static uint64_t step_key(const struct graph *g, const struct decoder *d, const struct kv *kv,
                         int64_t keys)
{
    uint64_t key = (uint64_t)keys;
    hash_mix(&key, (uint64_t)g->matmul);
    hash_mix(&key, (uint64_t)kv->dtype);
    mix_pointer(&key, d->layer);
    mix_pointer(&key, d->norm.data);
    mix_pointer(&key, d->head.data);
    for (int l = 0; l < kv->layers; l++) {
        mix_sublayer(&key, &d->layer[l].attention);
        mix_sublayer(&key, &d->layer[l].ffn);
        mix_pointer(&key, kv->layer[l].k.data);
        mix_pointer(&key, kv->layer[l].v.data);
    }
    return key ? key : 1;
}

// --- recording -----------------------------------------------------------------------------------

// Returns the number of elements of replay.in: the row of the cache (i32); for each view, the first
// key and the end (i32), then cos and sin [d/2].
static int64_t inputs(const struct decoder_config *c)
{
    return 1 + (c->window ? 2 : 1) * (2 + c->rope.dim);
}

// Returns a view of one i32 of replay.in.
static struct tensor *whole_input(struct graph *g, struct tensor *in, int64_t at)
{
    const int64_t one = 1;
    struct tensor *t = graph_view(g, graph_rows(g, in, at, 1), 1, &one);
    if (t) t->dtype = DTYPE_I32;
    return t;
}

// Returns the pass of a recorded step.
static struct pass step_pass(struct graph *g, const struct decoder *d, struct kv *kv,
                             const struct sequence *s, struct tensor *in, int64_t keys)
{
    const int64_t half = d->config.rope.dim / 2;
    struct pass p = { .config = &d->config, .sequence = s, .kv = kv, .n = 1, .keys = keys };
    p.cache_rows = whole_input(g, in, 0);
    int64_t at = 1;
    for (struct pass_view *v = p.view; v < p.view + (d->config.window ? 2 : 1); v++) {
        if (v > p.view) v->first = whole_input(g, in, at);
        v->end = whole_input(g, in, at + 1);
        v->cos = graph_view(g, graph_rows(g, in, at + 2, half), 2, (int64_t[]){ 1, half });
        v->sin = graph_view(g, graph_rows(g, in, at + 2 + half, half), 2, (int64_t[]){ 1, half });
        at += 2 + 2 * half;
    }
    p.past = p.keys - 1;
    p.recorded = true;
    return p;
}

// Returns an upper bound on the elements of a sublayer's results: each weight's input and output,
// and tensors derived from them.
static int64_t sublayer_numbers(const struct sublayer *s)
{
    int64_t numbers = 0;
    for (int i = 0; i < s->count; i++) {
        const struct tensor *w = &s->weight[i].weight;
        numbers += 3 * w->shape[0] + (w->rank == 2 ? w->shape[1] : 0);
    }
    return numbers;
}

// Returns an upper bound on the memory that a step's ops need: a recording cannot allocate.
static size_t step_bytes(const struct decoder *d)
{
    int64_t most = 0;
    for (int l = 0; l < d->config.layers; l++) {
        const int64_t one =
            sublayer_numbers(&d->layer[l].attention) + sublayer_numbers(&d->layer[l].ffn);
        if (one > most) most = one;
    }
    const int64_t wide = d->config.vocab + most + 8 * d->config.hidden;
    return (size_t)(wide + wide / 16) * sizeof(float) + (256 << 10);
}

// Records the step in kv->replay. False if the device cannot record it.
static bool step_record(const struct graph *of, const struct decoder *d, struct kv *kv,
                        const struct sequence *s, int64_t keys)
{
    struct replay *r = &kv->replay;
    struct graph g = *of;
    g.arena = &r->arena;
    g.hooks = NULL;
    arena_expect(&r->arena, step_bytes(d));
    r->in = graph_new1(&g, DTYPE_F32, inputs(&d->config));
    r->h = graph_new2(&g, DTYPE_F32, 1, d->config.hidden);
    const struct pass p = step_pass(&g, d, kv, s, r->in, keys);
    const struct arena_mark mark = arena_mark(g.arena);
    for (int gpu = g.backend->gpus ? backend_gpus(g.backend) - 1 : -1; gpu >= 0; gpu--) {
        backend_enter(g.backend, gpu);
        arena_alloc(g.arena, step_bytes(d));
    }
    arena_reset(g.arena, mark);
    if (!graph_ok(&g) || g.backend->recorder->start() < 0) return false;
    struct tensor *h = r->h;
    for (int l = 0; l < d->config.layers; l++) {
        const struct pass_view *view = &p.view[decoder_slides(&d->config, l)];
        struct layer layer = { .pass = &p,
                               .view = view,
                               .number = l,
                               .past = p.past,
                               .w = &d->layer[l],
                               .cache = &kv->layer[l] };
        backend_enter(g.backend, d->layer[l].gpu);
        h = layer_forward(&g, &layer, h);
    }
    backend_enter(g.backend, 0);
    r->out = decoder_logits(&g, d, h);
    r->recording = g.backend->recorder->finish();
    return r->recording && graph_ok(&g);
}

// --- playing -------------------------------------------------------------------------------------

static int step_play(struct graph *g, const struct decoder *d, const struct replay *r,
                     const struct sequence *s, int64_t past, struct tensor *h)
{
    const struct decoder_config *c = &d->config;
    const int64_t half = c->rope.dim / 2, window = c->window;
    const int32_t row = (int32_t)past;
    float *in = xreallocarray(NULL, (size_t)inputs(c), sizeof *in), *at = in + 1;
    memcpy(in, &row, sizeof row);
    for (int slides = 0; slides < (window ? 2 : 1); slides++, at += 2 + 2 * half) {
        const int32_t first = slides && past >= window ? (int32_t)(past + 1 - window) : 0;
        const int32_t keys[] = { first, row + 1 };
        memcpy(at, keys, sizeof keys);
        rope_angles_host(slides && c->sliding_rope.rotary ? &c->sliding_rope : &c->rope, s, NULL, 1,
                         at + 2, at + 2 + half);
    }
    g->backend->upload(r->in->data, in, tensor_bytes(r->in));
    free(in);
    if (g->backend->widen(r->h, h) < 0) return -1; // h is f32: widen copies it
    return g->backend->recorder->play(r->recording);
}

bool decoder_step(struct graph *g, const struct decoder *d, struct kv *kv, const struct sequence *s,
                  struct tensor *h, struct tensor **logits)
{
    struct replay *r = &kv->replay;
    // A recording supports neither per-layer inputs, nor shared keys and values, nor a second head
    // width. It would overwrite the previous state of a recurrent layer, which is needed if the
    // step fails.
    if (d->config.layer_input || d->config.sharing || d->config.unwindowed.dim || kv_recurrent(kv))
        return false;
    if (!g->backend->recorder || g->tape || h->shape[0] != 1 || !quiet(g, kv->layers)) return false;
    struct err err;
    float factor; // a recording cannot scale queries by position
    if (rope_query_factors(&d->config.rope, s, NULL, 1, &factor)) return false;
    const int64_t past = kv->layer[0].rows; // the same in all layers
    if (!kv_whole(kv, 0, past) || kv_reserve(kv, past + 1, &err) < 0) return false;
    int64_t keys = (past + KEYS_STEP) / KEYS_STEP * KEYS_STEP;
    for (int l = 0; l < kv->layers; l++)
        if (kv->layer[l].k.shape[0] < keys) keys = kv->layer[l].k.shape[0];
    if (!replay_again(r, g->backend, step_key(g, d, kv, keys))) return false;
    if (!r->recording && !step_record(g, d, kv, s, keys)) {
        const uint64_t key = r->key;
        replay_forget(r);
        *r = (struct replay){ .key = key, .refused = true };
        return false;
    }
    const int status = step_play(g, d, r, s, past, h);
    if (status > 0) { // the next step makes a new recording
        replay_forget(r);
        return false;
    }
    if (status < 0) graph_fail(g, "a recorded step: %s", g->backend->failure());
    for (int l = 0; status == 0 && l < kv->layers; l++) {
        struct kv_layer *layer = &kv->layer[l];
        layer->position[past] = (int32_t)(s->n - 1);
        layer->rows = layer->coming = past + 1;
    }
    *logits = status == 0 ? r->out : NULL;
    return true;
}
