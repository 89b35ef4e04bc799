// core/fused.c -- the parts of a decoder layer in one call each, where the device has them so.
//
// A tape needs every result between, and LoRA adds to single products: there the ops are used.
#include "core/attend.h"
#include "core/decoder_parts.h"
#include "core/ops/check.h"

static bool usable(const struct graph *g, const struct linear *const w[], int count)
{
    if (!g->backend->fused || g->tape) return false;
    for (int i = 0; i < count; i++)
        if (w[i]->lora) return false;
    return true;
}

static struct fused_linear plain(const struct linear *w)
{
    return (struct fused_linear){ &w->weight, graph_weight(&w->bias) };
}

// Was it computed, or has it failed?
static bool done(struct graph *g, const char *what, int status)
{
    if (status < 0) graph_fail(g, "%s: %s", what, g->backend->failure());
    return status != FUSED_NOT;
}

bool fused_qkv(struct graph *g, const struct decoder_layer *w, float eps, struct tensor *h,
               struct tensor *cos, struct tensor *sin, struct tensor *places, int64_t first,
               struct tensor *q, struct tensor *k, struct tensor *v)
{
    const struct linear *const all[] = { &w->q, &w->k, &w->v };
    if (!usable(g, all, 3) || !graph_ok(g) || !h || !cos || !sin || !places || !q || !k || !v)
        return false;
    const struct fused_qkv p = { .h = h,
                                 .gain = &w->input_norm,
                                 .eps = eps,
                                 .wq = plain(&w->q),
                                 .wk = plain(&w->k),
                                 .wv = plain(&w->v),
                                 .cos = cos,
                                 .sin = sin,
                                 .rows = places,
                                 .first = first,
                                 .q = q,
                                 .k = k,
                                 .v = v,
                                 .mode = (int)g->matmul };
    return done(g, "queries, keys and values", g->backend->fused->qkv(&p));
}

bool fused_attend(struct graph *g, struct tensor *h, struct tensor *q, struct tensor *k,
                  struct tensor *v, struct tensor *first, struct tensor *last,
                  const struct linear *w)
{
    const struct linear *const all[] = { w };
    if (!usable(g, all, 1) || !graph_ok(g) || !h || !q || !k || !v) return false;
    const struct fused_attend p = { .h = h,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .first = first,
                                    .last = last,
                                    .scale = attend_scale(q),
                                    .w = plain(w),
                                    .mode = (int)g->matmul };
    return done(g, "attention", g->backend->fused->attend(&p));
}

bool fused_add(struct graph *g, struct tensor *h, struct tensor *x, const struct linear *w)
{
    const struct linear *const all[] = { w };
    if (!usable(g, all, 1) || !graph_ok(g) || !h || !x) return false;
    const struct fused_add p = { .h = h, .x = x, .w = plain(w), .mode = (int)g->matmul };
    return done(g, "attention output", g->backend->fused->add(&p));
}

bool fused_ffn(struct graph *g, const struct decoder_layer *w, float eps, struct tensor *h)
{
    const struct linear *const all[] = { &w->gate, &w->up, &w->down };
    if (!usable(g, all, 3) || !graph_ok(g) || !h) return false;
    const struct fused_ffn p = { .h = h,
                                 .gain = &w->post_norm,
                                 .eps = eps,
                                 .gate = plain(&w->gate),
                                 .up = plain(&w->up),
                                 .down = plain(&w->down),
                                 .mode = (int)g->matmul };
    return done(g, "FFN", g->backend->fused->ffn(&p));
}
