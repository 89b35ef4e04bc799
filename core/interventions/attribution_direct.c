// core/interventions/attribution_direct.c -- direct logit attribution: splits the logits of the
// answer's tokens into the direct contributions of embedding, heads and FFNs (Elhage et al. 2021, A
// Mathematical Framework for Transformer Circuits).
//
//   logit of token t at row q = u h[L] / |h[L]|,    u: the final norm's gain times t's row of the
//                                                   head, | |: the norm's root mean square
//   h[L] = embedding + sum over layers of attention + FFN + rest (struct direct_parts)
//   attention = o(heads) = sum over heads and keys of Wo p v, plus the bias of o
//
// The scales of norms (the final one, and one after attention) are those of the pass, so the parts
// add up to the logit (before its cap, if the model has one). A head contributes p (Wo^T u) v from
// a key: one product per head. If heads' outputs have gates (Qwen3.5), the sigmoids of the query's
// gates multiply Wo^T u. If layers scale their output (decoder_layer.scale), attention and FFN are
// multiplied by the scales of their layer and of all later ones, the rest only by the later ones.
#include <math.h>
#include <stdlib.h>

#include "core/graph/tape.h"
#include "core/interventions/attribution.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"

struct direct {
    struct attributing *w;
    const struct decoder *d;
    int64_t tokens, width; // T, D
    double *later;         // [L+1] product of the scales of layers l .. L-1
    int32_t *query;        // [T] rows that predict the tokens
    float *u;              // [T,D]
    float *h;              // [T,D] residual stream after the last part
    float *back;           // [T,H*dv] Wo^T u of the layer, with u times the gain of `after`
    float *gated;          // [H*dv] back of a token, times the sigmoids of its query's gates
    int64_t heads, head;   // H, dv of the layer
    double *scale;         // [T] of the final norm
    double **part;         // [L*(H+3)+1] [T] contributions: heads, attention, ffn, rest; embedding
    double *key, *layer;   // [T,N] contributions of keys: over all layers; in this layer
    bool *reached;         // [L] layers whose heads were read
    struct rows rows, gates;
};

// Returns the contributions [T] of a part: 0..H-1: a head, H: attention, H+1: FFN, H+2: additions
// after the FFN. Part 0 of layer L is the embedding.
static double *part_of(const struct direct *d, int layer, int64_t what)
{
    return d->part[layer * (d->d->config.heads + 3) + what];
}

// Calls `take` for each token's row among the rows of x.
static void each_token(struct direct *d, struct graph *g, const struct site_args *args,
                       void (*take)(struct direct *d, int64_t token, const float *x, double *to),
                       double *to)
{
    const float *x = rows_read(&d->rows, g, args->x);
    const int64_t width = tensor_count(args->x) / args->x->shape[0];
    for (int64_t i = 0; i < args->x->shape[0] && graph_ok(g); i++)
        for (int64_t t = 0; t < d->tokens; t++)
            if (d->query[t] == site_row(args, i)) take(d, t, x + i * width, to);
}

// Adds the contribution of the change from the stored residual stream to x, and stores x.
static void take_part(struct direct *d, int64_t t, const float *x, double *to)
{
    float *h = d->h + t * d->width;
    for (int64_t k = 0; k < d->width; k++) {
        to[t] += (double)d->u[t * d->width + k] * ((double)x[k] - (double)h[k]);
        h[k] = x[k];
    }
}

// Multiplies the stored residual stream by the layer's output scale.
static void scale_stream(struct direct *d, int layer)
{
    const float scale = d->d->layer[layer].scale;
    for (int64_t i = 0; i < d->tokens * d->width; i++) d->h[i] *= scale;
}

// Sets a part [T] from the residual stream at its site. Layers from `layer` on will scale it.
static void put_part(struct direct *d, struct graph *g, const struct site_args *args, int layer,
                     double *part)
{
    each_token(d, g, args, take_part, part);
    for (int64_t t = 0; t < d->tokens; t++) part[t] *= d->later[layer];
}

static void take_scale(struct direct *d, int64_t t, const float *x, double *to)
{
    to[t] = 1 / sqrt(rows_dot(x, x, d->width) / (double)d->width + d->d->config.eps);
}

// Computes back[T,H*dv]: the gradient of u gain o(heads) with respect to the heads. A separate
// tape carries it through any kind of weight, LoRA included.
static int project_back(struct direct *d, struct graph *g, int layer)
{
    const struct sublayer *w = &d->d->layer[layer].attention;
    const struct linear *o = attention_output(&d->d->layer[layer]);
    const int64_t in = o->weight.shape[1], shape[] = { d->tokens, in };
    struct tape tape = { .backend = g->backend }, *former = g->tape;
    struct arena_mark mark = arena_mark(g->arena);
    float *zero = xcalloc((size_t)(d->tokens * in) + 1, sizeof *zero);
    d->back = xreallocarray(d->back, (size_t)(d->tokens * in), sizeof *d->back);
    d->heads = d->d->config.heads, d->head = in / d->heads;
    struct tensor *x = graph_upload(g, DTYPE_F32, 2, shape, zero);
    struct grad *slope = grad_new(g->backend, d->tokens * in);
    struct tensor *u = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ d->tokens, d->width }, d->u);
    if (u && w->after.data) u = op_scale_columns(g, u, op_widen(g, graph_weight(&w->after)));
    if (!slope) graph_fail(g, "out of memory for the gradient of the heads");
    g->tape = &tape;
    if (graph_ok(g) && slope) x->grad = slope;
    struct tensor *y = graph_ok(g) ? linear_forward(g, x, o) : NULL;
    if (y && slope && tape_seed(g, y, u) == 0 && tape_backward(g) == 0)
        g->backend->download(d->back, slope->data, (size_t)(d->tokens * in) * sizeof *d->back);
    g->tape = former;
    tape_release(&tape);
    grad_free(g->backend, slope);
    arena_reset(g->arena, mark);
    free(zero);
    return graph_ok(g) ? 0 : -1;
}

// Returns [H*dv] the factors of the values that a token's query row reads: `back`, gated if heads'
// outputs have gates.
static const float *back_of(struct direct *d, struct graph *g, const struct site_args *args,
                            int64_t row, int64_t t)
{
    const int64_t count = d->heads * d->head;
    const float *back = d->back + t * count;
    if (!args->gate) return back;
    struct tensor *x = graph_rows(g, args->gate, row, 1); // [1,H,dv]
    const float *gate = x ? rows_read(&d->gates, g, x) : NULL;
    d->gated = xreallocarray(d->gated, (size_t)count, sizeof *d->gated);
    for (int64_t k = 0; k < count; k++) d->gated[k] = gate ? back[k] / (1 + expf(-gate[k])) : 0;
    return d->gated;
}

// Adds the heads' contributions from each key to d->layer, for each token that the row predicts.
static int take_keys(void *self, struct graph *g, const struct site_args *args, int64_t row,
                     const float *probs)
{
    struct direct *d = self;
    const int64_t keys = args->v->shape[0], group = d->heads / args->v->shape[1];
    const int64_t n = d->w->env->sequence->n;
    const float *v = rows_read(&d->rows, g, args->v); // [P,Hkv,dv]
    for (int64_t t = 0; t < d->tokens && graph_ok(g); t++) {
        if (d->query[t] != site_row(args, row)) continue;
        const float *back = back_of(d, g, args, row, t);
        for (int64_t j = 0; j < keys; j++)
            for (int64_t h = 0; h < d->heads; h++)
                d->layer[t * n + site_key(args, j)] +=
                    (double)probs[h * keys + j] *
                    rows_dot(back + h * d->head, v + (j * args->v->shape[1] + h / group) * d->head,
                             d->head);
    }
    return graph_ok(g) ? 0 : -1;
}

// Sets scale [T] to 1 / root mean square of the norm after attention; 1 if there is no such norm.
static void after_scales(struct direct *d, struct graph *g, const struct site_args *args,
                         double *scale)
{
    const struct decoder_layer *w = &d->d->layer[args->layer];
    const int64_t n = args->x->shape[0];
    for (int64_t t = 0; t < d->tokens; t++) scale[t] = 1;
    if (!w->attention.after.data) return;
    struct arena_mark mark = arena_mark(g->arena);
    struct tensor *x = graph_view(g, args->x, 2, (int64_t[]){ n, tensor_count(args->x) / n });
    struct site_args of = *args;
    of.x = linear_forward(g, x, attention_output(w));
    if (of.x) each_token(d, g, &of, take_scale, scale);
    arena_reset(g->arena, mark);
}

static void take_heads(struct direct *d, int64_t t, const float *x, double *to)
{
    for (int64_t h = 0; h < d->heads; h++)
        to[h * d->tokens + t] =
            rows_dot(d->back + (t * d->heads + h) * d->head, x + h * d->head, d->head);
}

static int add_heads(struct direct *d, struct graph *g, const struct site_args *args)
{
    const int64_t n = d->w->env->sequence->n;
    double *scale = xcalloc((size_t)d->tokens + 1, sizeof *scale);
    double *head = xcalloc((size_t)(d->heads * d->tokens) + 1, sizeof *head);
    after_scales(d, g, args, scale);
    each_token(d, g, args, take_heads, head);
    for (int64_t t = 0; t < d->tokens; t++) {
        scale[t] *= d->later[args->layer];
        for (int64_t h = 0; h < d->heads; h++)
            part_of(d, args->layer, h)[t] += scale[t] * head[h * d->tokens + t];
        for (int64_t i = 0; i < n; i++) {
            d->key[t * n + i] += scale[t] * d->layer[t * n + i];
            d->layer[t * n + i] = 0;
        }
    }
    d->reached[args->layer] = true;
    free(head);
    free(scale);
    return graph_ok(g) ? 0 : -1;
}

// Reads u: the final norm's gain times the head's rows of the tokens.
static int read_directions(struct direct *d, struct graph *g)
{
    const struct sequence *s = d->w->env->sequence;
    const int32_t *ids = s->ids + s->prompt + d->w->first;
    struct arena_mark mark = arena_mark(g->arena);
    struct tensor *u = op_embedding(g, graph_weight(&d->d->head), ids, d->tokens); // [T,D]
    if (u && d->d->norm.data) u = op_scale_columns(g, u, op_widen(g, graph_weight(&d->d->norm)));
    if (u) graph_download(g, d->u, u);
    arena_reset(g->arena, mark);
    return graph_ok(g) ? 0 : -1;
}

static bool direct_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_EMBED || site == SITE_LAYER_IN || site == SITE_VALUES ||
           site == SITE_HEADS || site == SITE_FFN_IN || site == SITE_FFN_OUT || site == SITE_FINAL;
}

static int direct_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct direct *d = self;
    const int64_t heads = d->d->config.heads;
    const int last = d->d->config.layers - 1, layer = args->layer;
    if (site == SITE_EMBED) return read_directions(d, g);
    if (site == SITE_VALUES) {
        if (project_back(d, g, layer) < 0) return -1;
        if (args->v->shape[2] != d->head || d->heads % args->v->shape[1])
            graph_fail(
                g,
                "layer %d has values of %lld elements, but head outputs of %lld: their direct "
                "effect is not supported",
                layer, (long long)args->v->shape[2], (long long)d->head);
        return graph_ok(g) ? probe_each_query(g, args, d->query, d->tokens, take_keys, d) : -1;
    }
    if (site == SITE_HEADS) return add_heads(d, g, args);
    if (site == SITE_LAYER_IN)
        put_part(d, g, args, layer,
                 layer ? part_of(d, layer - 1, heads + 2) : part_of(d, last + 1, 0));
    if (site == SITE_FFN_IN) put_part(d, g, args, layer, part_of(d, layer, heads));
    if (site == SITE_FFN_OUT) {
        put_part(d, g, args, layer, part_of(d, layer, heads + 1));
        scale_stream(d, layer);
    }
    if (site == SITE_FINAL) {
        put_part(d, g, args, last + 1, part_of(d, last, heads + 2));
        each_token(d, g, args, take_scale, d->scale);
    }
    return graph_ok(g) ? 0 : -1;
}

static double total(const struct direct *d, const double *part)
{
    double sum = 0;
    for (int64_t t = 0; t < d->tokens; t++) sum += d->scale[t] * part[t];
    return sum;
}

// Sums the parts over the tokens.
static void put_parts(const struct direct *d, struct direct_parts *to)
{
    const int64_t heads = d->d->config.heads;
    const int layers = d->d->config.layers;
    to->logit = to->embedding = total(d, part_of(d, layers, 0));
    for (int l = 0; l < layers; l++) {
        for (int64_t h = 0; h < heads; h++) to->heads[l * heads + h] = total(d, part_of(d, l, h));
        to->attention[l] = total(d, part_of(d, l, heads));
        to->ffn[l] = total(d, part_of(d, l, heads + 1));
        to->rest[l] = total(d, part_of(d, l, heads + 2));
        to->reached[l] = d->reached[l];
        to->logit += to->attention[l] + to->ffn[l] + to->rest[l];
    }
}

int attribute_direct(struct attributing *w, struct passing *p, struct attribution *to,
                     struct err *err)
{
    const struct sequence *s = w->env->sequence;
    const struct decoder_config *c = &w->env->model->decoder.config;
    const size_t parts = (size_t)(c->layers * (c->heads + 3) + 1), T = (size_t)(w->end - w->first);
    const size_t n = (size_t)s->n;
    struct direct d = { .w = w, .d = &w->env->model->decoder, .tokens = w->end - w->first };
    const struct hook hook = {
        .wants = direct_wants, .run = direct_run, .self = &d, .changes = true
    };
    double *logp = xcalloc((size_t)(s->n - s->prompt) + 1, sizeof *logp);
    d.width = c->hidden;
    d.query = xcalloc(T + 1, sizeof *d.query);
    d.u = xcalloc(T * (size_t)c->hidden + 1, sizeof *d.u);
    d.h = xcalloc(T * (size_t)c->hidden + 1, sizeof *d.h);
    d.scale = xcalloc(T + 1, sizeof *d.scale);
    d.later = xcalloc((size_t)c->layers + 1, sizeof *d.later);
    d.later[c->layers] = 1;
    for (int l = c->layers; l-- > 0;) d.later[l] = d.later[l + 1] * (double)d.d->layer[l].scale;
    d.key = xcalloc(T * n + 1, sizeof *d.key);
    d.layer = xcalloc(T * n + 1, sizeof *d.layer);
    d.part = xcalloc(parts, sizeof *d.part);
    d.reached = xcalloc((size_t)c->layers + 1, sizeof *d.reached);
    for (size_t k = 0; k < parts; k++) d.part[k] = xcalloc(T + 1, sizeof **d.part);
    for (int64_t t = 0; t < d.tokens; t++) d.query[t] = (int32_t)(s->prompt - 1 + w->first + t);
    attribution_progress(w, p);
    const int status = passes_run(p, &hook, 0, logp, err);
    for (int64_t i = 0; i < s->n && status == 0; i++) {
        if (!w->at[i]) continue;
        to->rows[i] = 0;
        for (int64_t t = 0; t < d.tokens; t++) to->rows[i] += d.scale[t] * d.key[t * s->n + i];
    }
    if (status == 0 && to == &w->maps[ATTRIBUTION_direct]) put_parts(&d, &w->direct);
    for (size_t k = 0; k < parts; k++) free(d.part[k]);
    free(d.part);
    free(d.reached);
    free(d.layer);
    free(d.key);
    free(d.scale);
    free(d.later);
    free(d.back);
    free(d.gated);
    free(d.h);
    free(d.u);
    free(d.query);
    free(logp);
    rows_release(&d.rows);
    rows_release(&d.gates);
    return status;
}
