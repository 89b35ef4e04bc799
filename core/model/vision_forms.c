// core/model/vision_forms.c -- computes a block's sublayers with a device's fused kernels.
#include "core/model/fused.h"
#include "core/model/vision.h"

// Can the device's fused kernels compute a sublayer with this norm and scale? Only RMSNorm, no
// layer scale.
static bool fusible(const struct graph *g, const struct norm *norm, const struct tensor *scale)
{
    return g->backend->fused && !g->tape && norm->gain.data && !norm->bias.data && !scale->data;
}

// One call for queries, keys and values, and one for the rest.
bool vision_attention_fused(struct graph *g, const struct vision_block *block, struct tensor *h)
{
    const struct vision_layer *w = block->w;
    const struct vision_config *c = block->config;
    if (!fusible(g, &w->norm1, &w->scale1) || !w->qkv.weight.data || w->q_norm.gain.data ||
        !block->cos || block->focus || !h || !graph_ok(g))
        return false;
    const int64_t n = h->shape[0], D = c->hidden, d = D / c->heads;
    struct tensor *q = graph_new3(g, DTYPE_F32, n, c->heads, d);
    struct tensor *k = graph_new3(g, DTYPE_BF16, n, c->heads, d);
    struct tensor *v = graph_new3(g, DTYPE_BF16, n, c->heads, d);
    const struct linear *all = &w->qkv;
    struct fused_qkv form = { .h = h,
                              .gain = graph_weight(&w->norm1.gain),
                              .eps = (float)c->eps,
                              .wq = fused_whole(all),
                              .adjacent = c->kind->adjacent_pairs ? d / 2 : 0,
                              .cos = block->cos,
                              .sin = block->sin,
                              .q = q,
                              .k = k,
                              .v = v };
    form.wq.run = form.wq.step = D;
    form.wk = form.wv = form.wq;
    form.wk.first = D;
    form.wv.first = 2 * D;
    if (d % 8 || !fused_qkv(g, all, 1, &form)) return false;
    const struct fused_attend attend = {
        .h = h, .q = q, .k = k, .v = v, .first = block->seen.first, .end = block->seen.end
    };
    return fused_attend(g, &w->out, &attend);
}

bool vision_ffn_fused(struct graph *g, const struct vision_block *block, struct tensor *h)
{
    const struct vision_layer *w = block->w;
    if (!fusible(g, &w->norm2, &w->scale2) || !w->gate.weight.data) return false;
    const struct linear all[] = { w->gate, w->up, w->down };
    const struct fused_ffn form = { .h = h,
                                    .gain = graph_weight(&w->norm2.gain),
                                    .eps = (float)block->config->eps,
                                    .gate = fused_whole(&w->gate),
                                    .up = fused_whole(&w->up),
                                    .down = fused_whole(&w->down) };
    return fused_ffn(g, all, 3, &form, false) != NULL;
}
