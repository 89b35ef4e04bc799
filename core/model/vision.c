// core/model/vision.c -- vision transformers and the projector: the forward pass shared by all
// kinds of encoders.
//
//   pixels -> patches -> linear -> (class token) -> + positions -> h
//          -> blocks: h += scale1 out(attention(norm1 h)), h += scale2 ffn(norm2 h)
//          -> features: of the stream after `depth` blocks -> projector
//
// config.feature_layer counts hidden states as the reference implementation does: 0 is the first
// block's input, -1 the last block's output, -2 the output of the block before it. Blocks after the
// feature layer run only for hooks that read their output.
//
// S' rows in the encoder, S features. Several pictures share a pass; a row attends only to its own
// tile or window. A step whose weights a kind of encoder lacks is a no-op.
#include "core/model/vision.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/tape.h"
#include "core/model/fused.h"
#include "core/model/linear_rows.h"
#include "core/ops/ops.h"

// Views queries, keys or values x [S', Dv] as heads [S', heads, d].
static struct tensor *heads(struct graph *g, const struct vision_config *c, struct tensor *x)
{
    return x ? graph_view3(g, x, x->shape[0], c->heads, c->hidden / c->heads) : NULL;
}

// Returns queries or keys [S', heads, d] of x [S', Dv], normalised over all heads together or, if
// the gain has d elements, over each of them.
static struct tensor *normed_heads(struct graph *g, const struct vision_config *c, struct tensor *x,
                                   const struct norm *norm)
{
    const bool each = norm->gain.data && tensor_count(&norm->gain) != c->hidden;
    if (!each) return heads(g, c, norm_forward(g, x, norm, c->qk_eps));
    return norm_forward(g, heads(g, c, x), norm, c->qk_eps);
}

// Rotates queries or keys [S', heads, d], if the kind has rotary positions.
static struct tensor *rotate(struct graph *g, const struct vision_block *block, struct tensor *x)
{
    if (!x || !block->cos) return x;
    if (block->config->kind->adjacent_pairs) {
        // Puts elements 2j first, then 2j + 1, the order that op_rope needs; reordering queries and
        // keys alike changes no score.
        const int64_t n = x->shape[0], count = x->shape[1], d = x->shape[2];
        x = graph_view(g, x, 2, (int64_t[]){ n * count, d });
        const struct column_part halves[] = { { x, { 0, 2, d / 2 } }, { x, { 1, 2, d / 2 } } };
        x = x ? op_columns_of(g, n * count, halves, 2) : NULL;
        x = x ? graph_view3(g, x, n, count, d) : NULL;
    }
    return op_rope(g, x, block->cos, block->sin);
}

// --- fused sublayers -----------------------------------------------------------------------------

// True if the device's fused kernels can compute a sublayer with this norm and scale: only RMSNorm,
// no layer scale.
static bool fusible(const struct graph *g, const struct norm *norm, const struct tensor *scale)
{
    return g->backend->fused && !g->tape && norm->gain.data && !norm->bias.data && !scale->data;
}

// h += out(attention(norm1 h)) in place, in one call for queries, keys and values and one for the
// rest. false: not possible.
static bool attention_fused(struct graph *g, const struct vision_block *block, struct tensor *h)
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
    const struct fused_attend attend = { .h = h,
                                         .q = q,
                                         .k = k,
                                         .v = v,
                                         .first = block->seen.first,
                                         .end = block->seen.end,
                                         .scale = 1 / sqrtf((float)d) };
    return fused_attend(g, &w->out, &attend);
}

// h += ffn(norm2 h) in place. false: not possible.
static bool ffn_fused(struct graph *g, const struct vision_block *block, struct tensor *h)
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

// --- a block -------------------------------------------------------------------------------------

// Computes one block of h [S', Dv]. The device's fused kernels compute a whole sublayer. Without
// them, linear_rows_* keep rows packed between products if the device can, or fall back to ops.
// Everything but h is scratch.
static struct tensor *block_forward(struct graph *g, void *self, struct tensor *h)
{
    static const struct norm none;
    const struct vision_block *block = self;
    const struct vision_config *c = block->config;
    const struct vision_layer *w = block->w;
    const int64_t head_dim = c->hidden / c->heads;
    if (c->kind->block) return c->kind->block(g, block, h);
    struct arena_mark scratch = graph_scratch_begin(g);

    if (!attention_fused(g, block, h)) {
        const bool packs = !block->focus && linear_rows_attends(g, h->shape[0], &w->out);
        const struct linear *const of[] = { &w->q, &w->k, &w->v };
        const struct linear *const norm1_for[] = { &w->qkv, of[0], of[1], of[2], NULL };
        struct linear_rows x = linear_rows_norm(g, h, &w->norm1, c->eps, norm1_for); // [S', Dv]

        // Queries, keys and values, from one matrix or three. Attention of packed rows rounds keys
        // and values to bf16, so the products that make them store bf16 directly, unless norms or
        // rotation follow.
        const bool changed = block->cos || w->k_norm.gain.data;
        const enum dtype dtype[] = { DTYPE_F32, packs && !changed ? DTYPE_BF16 : DTYPE_F32,
                                     packs ? DTYPE_BF16 : DTYPE_F32 };
        struct tensor *part[3] = { NULL }; // [S', Dv] each
        if (w->qkv.weight.data) linear_rows_apart(g, &x, &w->qkv, 3, dtype, part);
        for (int i = 0; i < 3 && !w->qkv.weight.data; i++)
            part[i] = linear_rows_times(g, &x, of[i], dtype[i]);
        struct tensor *q = normed_heads(g, c, part[0], &w->q_norm);
        struct tensor *k = normed_heads(g, c, part[1], &w->k_norm);
        struct tensor *v = heads(g, c, part[2]); // [S', heads, d]

        const float scale = 1 / sqrtf((float)head_dim);
        const struct vision_seen *seen = &block->seen;
        if (packs) {
            x = linear_rows_attention(
                g, &(struct packed_attention){ .q = q,
                                               .k = k,
                                               .v = v,
                                               .cos = block->cos,
                                               .sin = block->sin,
                                               .adjacent = c->kind->adjacent_pairs,
                                               .first = seen->first,
                                               .end = seen->end,
                                               .scale = scale });
        } else {
            q = rotate(g, block, q);
            k = rotate(g, block, k);
            if (block->focus) vision_focus_add(g, block->focus, q, k, seen->first, seen->end);
            struct tensor *a = op_attention(g, q, k, v, seen->first, seen->end, scale, NULL);
            if (a) a = graph_view(g, a, 2, (int64_t[]){ a->shape[0], c->hidden }); // [S', Dv]
            x = linear_rows_norm(g, a, &none, 0, (const struct linear *const[]){ &w->out, NULL });
        }
        h = linear_rows_add(g, h, 0, &x, &w->out, &w->scale1); // += scale1 out(x)
    }

    // The FFN runs in blocks of rows, so that thousands of patches take little memory. A tape keeps
    // everything anyway.
    enum { ROWS = 4096 };
    const struct linear *const norm2_for[] = { &w->gate, &w->up, &w->fc1, NULL };
    const bool gated = w->gate.weight.data;
    const struct linear *last = gated ? &w->down : &w->fc2;
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = g->tape || n - i < ROWS ? n - i : ROWS;
        struct arena_mark rows = graph_scratch_begin(g);
        struct tensor *part = graph_rows(g, h, i, m);
        if (!ffn_fused(g, block, part)) {
            struct linear_rows x =
                linear_rows_norm(g, part, &w->norm2, c->eps, norm2_for); // [m, Dv]
            x = gated ? linear_rows_gated(g, &x, &w->gate, &w->up, last)
                      : linear_rows_gelu(g, &x, &w->fc1, c->act, last); // [m, ffn]
            h = linear_rows_add(g, h, i, &x, last, &w->scale2);         // += scale2 last(x)
        }
        graph_scratch_end(g, rows);
    }
    graph_scratch_end(g, scratch);
    return h;
}

// --- the pass ------------------------------------------------------------------------------------

// Runs the listeners of a site for each picture on its rows of x: rows of the stream, or with
// `features` the rows that the projector reads.
static void each_picture(struct graph *g, const struct vision_batch *b, const struct site *site,
                         int layer, bool features, struct tensor *x)
{
    if (!x || !hooks_wanted(g, site, layer)) return;
    int64_t at = 0;
    for (size_t i = 0; i < b->count && graph_ok(g); i++) {
        const struct vision_picture *p = &b->picture[i];
        const int64_t rows =
            features ? vision_features(&b->vision->config, p) : b->at[i + 1] - b->at[i];
        struct site_args args = {
            .layer = layer, .picture = p->number, .x = graph_rows(g, x, at, rows), .prefill = true
        };
        hooks_run(g, site, &args);
        at += rows;
    }
}

static struct tensor *copy_rows(struct graph *g, struct tensor *x)
{
    if (!x || !graph_ok(g)) return NULL;
    struct tensor *copy = graph_new2(g, DTYPE_F32, x->shape[0], x->shape[1]);
    op_copy_rows_into(g, copy, 0, x);
    return copy;
}

// Projects the output h [S', Dv] of a block for DeepStack: [S, D].
static struct tensor *project_deep(struct graph *g, const struct vision *v, int i, struct tensor *h)
{
    const struct projector *p = &v->deep[i];
    if (!h || !graph_ok(g)) return NULL;
    struct tensor *rows = graph_new2(g, DTYPE_F32, h->shape[0] / p->merge, v->config.out);
    struct arena_mark scratch = graph_scratch_begin(g);
    if (g->tape &&
        g->tape->offloads.on) { // later blocks overwrite h, which the backward pass reads
        h = copy_rows(g, h);
    }
    op_copy_rows_into(g, rows, 0, projector_forward(g, p, h));
    graph_scratch_end(g, scratch);
    return rows;
}

// Returns the batch with lists of its own: `joined` says whether windows have been joined.
static struct vision_batch batch_of(const struct vision *v, const struct vision_picture *pictures,
                                    size_t count, bool joined)
{
    struct vision_picture *own = xcalloc(count + 1, sizeof *own);
    int64_t *at = xcalloc(count + 1, sizeof *at);
    for (size_t i = 0; i < count; i++) {
        own[i] = joined ? vision_joined(&v->config, &pictures[i]) : pictures[i];
        at[i + 1] = at[i] + vision_rows(&v->config, &own[i]);
    }
    return (struct vision_batch){
        .vision = v, .picture = own, .count = count, .rows = at[count], .at = at
    };
}

static void batch_release(struct vision_batch *b)
{
    free((void *)b->picture);
    free((void *)b->at);
}

struct tensor *vision_forward(struct graph *g, const struct vision *v,
                              const struct vision_picture *pictures, size_t count,
                              struct tensor **deep)
{
    const struct vision_config *c = &v->config;
    const struct vision_kind *kind = c->kind;
    if (!graph_ok(g)) return NULL;
    struct vision_batch b = batch_of(v, pictures, count, false);

    // Pixels to the stream that enters the first block.
    struct tensor *x = vision_patches(g, &b); // [patches, elements of a patch]
    if (kind->pixels) x = kind->pixels(g, x);
    x = norm_forward(g, x, &v->pixel_norm, c->eps); // Gemma 4 12B
    x = linear_forward(g, x, &v->patch);            // [patches, Dv]
    x = norm_forward(g, x, &v->patch_norm, c->eps); // GLM-4.1V, Gemma 4 12B
    x = vision_in_order(g, &b, x);                  // by windows: Qwen2.5-VL
    struct tensor *h = vision_add_class(g, &b, x);  // [S', Dv]
    h = kind->positions ? kind->positions(g, &b, h) : vision_add_positions(g, &b, h);
    h = norm_forward(g, h, &v->pre, c->eps); // CLIP, Pixtral, Gemma 4 12B

    // Which rows each row attends to, and the rotary angles.
    struct vision_seen tiles = vision_tiles(g, &b);
    const struct vision_seen windows = vision_windows(g, &b);
    struct vision_block block = { .config = c };
    vision_angles(g, &b, &block.cos, &block.sin); // [S', d/2]

    // Runs the blocks up to the feature layer, and later ones only for hooks that read them. On
    // request the last block before the feature layer also measures its attention, but not with a
    // tape, which recomputes blocks after the batch is gone.
    const int depth = vision_depth(c);
    const bool focus = count && pictures[0].received && !g->tape;
    int blocks = c->layers;
    while (blocks > depth && !hooks_read(g, SITE_VISION_LAYER, blocks)) blocks--;
    struct tensor *features = NULL;
    for (int l = 0; !graph_stop(g); l++) {
        each_picture(g, &b, SITE_VISION_LAYER, l, false, h);
        if (l == depth) {
            features = kind->post_norm ? norm_forward(g, h, &v->post, c->eps) : h;
            if (kind->features) features = kind->features(g, &b, features); // [S, Dv']
            if (features == h && l < blocks) features = copy_rows(g, h);    // blocks overwrite h
        }
        if (l == blocks) break;
        block.w = &v->layer[l];
        block.clip = v->clip ? &v->clip[l * CLIP_COUNT] : NULL;
        block.seen = kind->windowed && kind->windowed(c, l) ? windows : tiles;
        block.focus = l == depth - 1 && focus ? &b : NULL;
        h = graph_block(g, block_forward, &block, sizeof block, h);
        for (int i = 0; deep && i < c->deep_count; i++)
            if (c->deep[i] == l) deep[i] = project_deep(g, v, i, h);
        if (kind->join && l == c->join && !graph_stop(g)) {
            h = kind->join(g, &b, h);
            batch_release(&b);
            b = batch_of(v, pictures, count, true);
            tiles = vision_tiles(g, &b);
        }
    }
    if (graph_ok(g)) each_picture(g, &b, SITE_VISION, -1, true, features);
    if (kind->joined_later && c->merge > 1) features = vision_gather_cells(g, &b, features);
    batch_release(&b);
    return graph_ok(g) ? features : NULL;
}

struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x)
{
    if (p->kind->forward) return p->kind->forward(g, p, x);
    if (!p->kind->joined) x = norm_forward(g, x, &p->norm, p->kind->eps); // [S, Dv]
    if (x && p->merge > 1)
        x = graph_view(g, x, 2, (int64_t[]){ x->shape[0] / p->merge, p->merge * x->shape[1] });
    if (p->kind->joined) x = norm_forward(g, x, &p->norm, p->kind->eps);
    if (!p->linear_2.weight.data) return linear_forward(g, x, &p->linear_1); // [S/merge, D]
    x = linear_gelu(g, x, &p->linear_1, p->act);                             // [S/merge, inner]
    return linear_forward(g, x, &p->linear_2);                               // [S/merge, D]
}
