// core/model/ffn_experts.c -- a mixture of experts (DeepSeek-AI 2024, arXiv 2412.19437, section
// 2.1.2): each row passes through a few of many small gated FFNs, and through shared ones.
//
//   s = sigmoid(W x), in f32; a row's experts have the greatest s + bias, in its best groups
//   y = shared(x) + sum over them of weight * expert(x);  weight = s / sum of s * scale
//
// Without "norm_topk_prob" there is no division by the sum.
//
// ffn_softmax_experts (Qwen3) has neither biases nor groups: s = softmax(W x). Only Qwen3.5 has a
// shared expert there, whose output is multiplied by sigmoid(w x).
//
// ffn_beside_experts (Gemma 4) adds such a mixture to the gated FFN of the same layer. The mixture
// reads the layer's h, not the FFN's x, through norms of its own, and each expert has a factor:
//
//   s = softmax(W (norm(h) * scale / sqrt(D)));  weight = s / sum of s * factor of the expert
//   y = norm1(ffn(x)) + norm3(sum over the chosen experts of weight * expert(norm2(h)))
//
// Computes a block of rows expert by expert, so that the weights of each chosen expert are read
// once, and those of other experts never. Some layers may have only an ordinary gated FFN
// (is_dense).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/fused.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

// --- config and weights --------------------------------------------------------------------------

// The router [E,D]; its bias [E], unless scores are a softmax; the shared experts as one FFN [W,D]
// [W,D] [D,W], and their gate [1,D]; then three matrices per expert [m,D] [m,D] [D,m].
enum { ROUTER, ROUTER_BIAS };
enum { SHARED_GATE = FFN_DOWN + 1 }; // after the three of the FFN

static int experts_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    const struct experts_config *usual = c->kind->experts;
    struct experts_config *x = &c->experts;
    const char *scoring, *choice;
    int64_t every;
    if (ffn_gated.read(c, json, err) < 0 ||
        json_text(json, "scoring_func", "sigmoid", &scoring, err) < 0 ||
        json_text(json, "topk_method", "noaux_tc", &choice, err) < 0 ||
        json_int(json, "moe_layer_freq", 1, 1000, 1, &every, err) < 0)
        return -1;
    // Refuses configs with formulas other than those of the head comment.
    if (strcmp(scoring, "sigmoid") != 0)
        return err_set(err, "\"scoring_func\" \"%s\" is not supported (known: sigmoid)", scoring);
    if (strcmp(choice, "noaux_tc") != 0)
        return err_set(err, "\"topk_method\" \"%s\" is not supported (known: noaux_tc)", choice);
    if (every != 1) return err_set(err, "\"moe_layer_freq\" must be 1");

    if (json_int(json, "n_routed_experts", 1, 10000, usual->count, &x->count, err) < 0 ||
        json_int(json, "num_experts_per_tok", 1, 10000, usual->per_token, &x->per_token, err) < 0 ||
        json_int(json, "n_shared_experts", 0, 1000, usual->shared, &x->shared, err) < 0 ||
        json_int(json, "moe_intermediate_size", 1, 1000000, usual->width, &x->width, err) < 0 ||
        json_int(json, "first_k_dense_replace", 0, 1000, usual->dense, &x->dense, err) < 0 ||
        json_int(json, "n_group", 1, 10000, usual->groups, &x->groups, err) < 0 ||
        json_int(json, "topk_group", 1, 10000, usual->groups_per_token, &x->groups_per_token, err) <
            0 ||
        json_bool(json, "norm_topk_prob", usual->normalise, &x->normalise, err) < 0 ||
        json_real(json, "routed_scaling_factor", usual->scale, &x->scale, err) < 0)
        return -1;
    x->shared_width = x->shared * x->width;
    const int64_t group = x->count / x->groups;
    if (x->count % x->groups || (x->groups > 1 && group < 2))
        return err_set(err, "%lld experts cannot be divided into \"n_group\" %lld groups",
                       (long long)x->count, (long long)x->groups);
    if (x->groups_per_token > x->groups)
        return err_set(err, "\"topk_group\" %lld is greater than \"n_group\" %lld",
                       (long long)x->groups_per_token, (long long)x->groups);
    if (x->per_token > x->groups_per_token * group)
        return err_set(err, "\"num_experts_per_tok\" %lld: the chosen groups have only %lld",
                       (long long)x->per_token, (long long)(x->groups_per_token * group));
    return 0;
}

// Reads "mlp_only_layers", a list of layers with an ordinary FFN.
static int read_plain_layers(struct experts_config *x, const cJSON *json, struct err *err)
{
    const cJSON *list = json_get(json, "mlp_only_layers"), *item;
    bool valid = !list || cJSON_IsArray(list);
    cJSON_ArrayForEach(item, list)
    {
        const int64_t layer = json_whole(item, -1);
        if (layer >= 0 && layer < (int64_t)(8 * sizeof x->plain))
            x->plain[layer / 64] |= UINT64_C(1) << layer % 64;
        else
            valid = false;
    }
    return valid ? 0 : err_set(err, "\"mlp_only_layers\" must be a list of layers");
}

static int softmax_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    struct experts_config *x = &c->experts;
    const struct experts_config *usual = c->kind->experts;
    *x = *usual;
    x->softmax = true;
    x->groups = x->groups_per_token = 1;
    x->scale = 1;
    // transformers has written the second name since 5.24, and reads both.
    const char *count = json_get(json, "num_experts") ? "num_experts" : "num_local_experts";
    if (ffn_gated.read(c, json, err) < 0 ||
        json_int(json, count, 1, 10000, usual->count, &x->count, err) < 0 ||
        json_int(json, "num_experts_per_tok", 1, 10000, usual->per_token, &x->per_token, err) < 0 ||
        json_int(json, "moe_intermediate_size", 1, 1000000, usual->width, &x->width, err) < 0 ||
        (usual->shared && json_int(json, "shared_expert_intermediate_size", 1, 1000000,
                                   usual->shared_width, &x->shared_width, err) < 0) ||
        json_int(json, "decoder_sparse_step", 1, 1000, 1, &x->every, err) < 0 ||
        (!x->normalise && json_bool(json, "norm_topk_prob", false, &x->normalise, err) < 0) ||
        read_plain_layers(x, json, err) < 0)
        return -1;
    if (x->per_token <= x->count) return 0;
    return err_set(err, "\"num_experts_per_tok\" %lld: the model has only %lld experts",
                   (long long)x->per_token, (long long)x->count);
}

// True if the layer has an ordinary FFN.
static bool is_dense(const struct experts_config *x, int layer)
{
    return layer < x->dense || (x->every > 1 && (layer + 1) % x->every) ||
           x->plain[layer / 64] >> layer % 64 & 1;
}

static struct layer_weight of_expert(const struct decoder_config *c, int expert, int part)
{
    static const char *const names[2][3] = {
        { "mlp.experts.%d.gate_proj", "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj" },
        { "experts.%d.gate_proj", "experts.%d.up_proj", "experts.%d.down_proj" },
    };
    static const char *const stacks[2][2] = {
        { "mlp.experts.gate_up_proj", "mlp.experts.down_proj" },
        { "experts.gate_up_proj", "experts.down_proj" },
    };
    const struct experts_config *x = &c->experts;
    const int64_t m = x->width, D = c->hidden;
    const bool down = part == FFN_DOWN;
    return (struct layer_weight){ .name = names[x->beside][part],
                                  .out = down ? D : m,
                                  .in = down ? m : D,
                                  .expert = expert,
                                  .share = (double)x->per_token / (double)x->count,
                                  .stack = stacks[x->beside][down],
                                  .count = x->count,
                                  .rows = down ? D : 2 * m,
                                  .row = part == FFN_UP ? m : 0,
                                  .transposed = x->transposed };
}

// Returns the number of weights before the shared experts'.
static int shared_first(const struct experts_config *x)
{
    return x->softmax ? ROUTER + 1 : ROUTER_BIAS + 1;
}

// Returns the number of weights before the experts'.
static int common_count(const struct experts_config *x)
{
    const int shared = x->shared_gated ? SHARED_GATE + 1 : FFN_DOWN + 1;
    return shared_first(x) + (x->shared_width ? shared : 0);
}

static struct layer_weight of_shared(const struct decoder_config *c, int part)
{
    static const char *const names[] = { "mlp.shared_experts.gate_proj",
                                         "mlp.shared_experts.up_proj",
                                         "mlp.shared_experts.down_proj" };
    static const char *const gated[] = { "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj",
                                         "mlp.shared_expert.down_proj", "mlp.shared_expert_gate" };
    const struct experts_config *x = &c->experts;
    const int64_t D = c->hidden, W = x->shared_width;
    return (struct layer_weight){ .name = (x->shared_gated ? gated : names)[part],
                                  .out = part == SHARED_GATE ? 1
                                         : part == FFN_DOWN  ? D
                                                             : W,
                                  .in = part == FFN_DOWN ? W : D };
}

static bool experts_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const struct experts_config *x = &c->experts;
    const struct layer_weight routing[] = {
        [ROUTER] = { .name = "mlp.gate", .out = x->count, .in = c->hidden, .f32 = true },
        [ROUTER_BIAS] = { .name = "mlp.gate.e_score_correction_bias",
                          .out = x->count,
                          .constant = true },
    };
    if (is_dense(x, layer)) return ffn_gated.weight(c, layer, i, w);
    const int shared = shared_first(x), first = common_count(x), expert = (i - first) / 3;
    if (i >= first && expert >= x->count) return false;
    *w = i < shared  ? routing[i]
         : i < first ? of_shared(c, i - shared)
                     : of_expert(c, expert, (i - first) % 3);
    return true;
}

// --- the choice ----------------------------------------------------------------------------------

// The candidates of one row: scores (s + bias, or the logits of a softmax), and which experts are
// excluded or already chosen.
struct choice {
    const struct experts_config *x;
    float *score; // [E]
    bool *taken;  // [E]
};

static float group_score(const struct choice *c, int64_t group)
{
    const int64_t size = c->x->count / c->x->groups;
    const float *s = c->score + group * size;
    float best = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < size; i++) {
        if (s[i] > best) {
            second = best;
            best = s[i];
        } else if (s[i] > second) {
            second = s[i];
        }
    }
    return best + second;
}

// Excludes experts outside the best groups. A group's score is the sum of its two best experts'
// scores.
static void choose_groups(struct choice *c)
{
    const struct experts_config *x = c->x;
    const int64_t size = x->count / x->groups;
    for (int64_t i = 0; i < x->count; i++) c->taken[i] = x->groups_per_token < x->groups;
    for (int64_t k = 0; k < x->groups_per_token && x->groups_per_token < x->groups; k++) {
        int64_t best = -1;
        for (int64_t j = 0; j < x->groups; j++)
            if (c->taken[j * size] && (best < 0 || group_score(c, j) > group_score(c, best)))
                best = j;
        for (int64_t i = 0; i < size; i++) c->taken[best * size + i] = false;
    }
}

// Chooses the row's experts, best first; on ties the lower index.
static void choose_row(struct choice *c, const float *logits, const float *bias, int32_t *index)
{
    const struct experts_config *x = c->x;
    for (int64_t i = 0; i < x->count; i++)
        c->score[i] = x->softmax ? logits[i] : 1 / (1 + expf(-logits[i])) + bias[i];
    choose_groups(c);
    for (int64_t k = 0; k < x->per_token; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < x->count; i++)
            if (!c->taken[i] && (best < 0 || c->score[i] > c->score[best])) best = i;
        c->taken[best] = true;
        index[k] = (int32_t)best;
    }
}

// The experts of each row, and the rows of each expert.
struct routes {
    int32_t *index; // [m, K]
    int32_t *rows;  // [m * K] rows, expert by expert
    int32_t *slots; // [m * K] their indices in `index`
    int32_t *first; // [E + 1] start of each expert in rows and slots
};

static struct routes route(struct graph *g, const struct experts_config *x,
                           const struct tensor *logits, const struct tensor *bias)
{
    const int64_t m = logits->shape[0], E = x->count, count = m * x->per_token;
    struct routes r = { .index = xreallocarray(NULL, (size_t)count, sizeof *r.index),
                        .rows = xreallocarray(NULL, (size_t)count, sizeof *r.rows),
                        .slots = xreallocarray(NULL, (size_t)count, sizeof *r.slots),
                        .first = xcalloc((size_t)x->count + 2, sizeof *r.first) };
    float *host = xreallocarray(NULL, (size_t)(m + 2) * (size_t)E, sizeof *host);
    float *add = host + m * E;
    struct choice c = { x, add + E, xcalloc((size_t)E, sizeof *c.taken) };
    graph_download(g, host, logits);
    if (bias) graph_download(g, add, bias);
    for (int64_t i = 0; i < m; i++) choose_row(&c, host + i * E, add, r.index + i * x->per_token);
    free(c.taken);
    free(host);

    // next[e] is first the start of expert e; filling advances it to the start of e + 1, so that
    // r.first[e] ends as the start of e.
    int32_t *next = r.first + 1;
    for (int64_t i = 0; i < count; i++) next[r.index[i] + 1]++;
    for (int64_t e = 0; e < E; e++) next[e + 1] += next[e];
    for (int64_t i = 0; i < count; i++) {
        const int32_t at = next[r.index[i]]++;
        r.rows[at] = (int32_t)(i / x->per_token);
        r.slots[at] = (int32_t)i;
    }
    return r;
}

// --- forward pass --------------------------------------------------------------------------------

static struct tensor *gated(struct graph *g, const struct decoder_config *c, struct tensor *x,
                            const struct linear *w)
{
    struct tensor *at_once = c->gelu ? NULL : fused_gated(g, w, x);
    if (at_once || !graph_ok(g)) return at_once;
    struct tensor *gate = linear_forward(g, x, &w[FFN_GATE]);
    struct tensor *up = linear_forward(g, x, &w[FFN_UP]);
    x = c->gelu ? op_geglu(g, gate, up) : op_swiglu(g, gate, up);
    return linear_forward(g, x, &w[FFN_DOWN]);
}

// Computes the router in f32: choices must not depend on how the device rounds products.
static struct tensor *router(struct graph *g, struct tensor *x, const struct linear *w)
{
    const enum matmul_mode mode = g->matmul;
    g->matmul = MATMUL_F32;
    struct tensor *logits = linear_forward(g, x, w);
    g->matmul = mode;
    return logits;
}

static struct fused_gated gated_of(const struct linear *w)
{
    return (struct fused_gated){ &w[FFN_GATE].weight, &w[FFN_UP].weight, &w[FFN_DOWN].weight };
}

static int by_rows(const void *a, const void *b)
{
    const struct expert_piece *p = a, *q = b;
    return p->count != q->count ? (p->count < q->count) - (p->count > q->count)
                                : (p->first > q->first) - (p->first < q->first);
}

static int64_t parts_of(const struct routes *r, int64_t e)
{
    return (r->first[e + 1] - r->first[e] + EXPERT_ROWS - 1) / EXPERT_ROWS;
}

// Cuts each expert's rows into pieces of about equal size, and sorts all pieces largest first, so
// that no thread waits long for the last one. NULL: too few pieces for the threads.
static struct expert_piece *cut(const struct graph *g, const struct experts_config *c,
                                const struct routes *r, int64_t *pieces)
{
    enum { EACH = 4 }; // minimum number of pieces per thread
    int64_t count = 0;
    for (int64_t e = 0; e < c->count; e++) count += parts_of(r, e);
    if (count < (int64_t)EACH * g->backend->threads()) return NULL;
    struct expert_piece *all = xreallocarray(NULL, (size_t)count, sizeof *all), *next = all;
    for (int64_t e = 0; e < c->count; e++) {
        const int64_t n = r->first[e + 1] - r->first[e], parts = parts_of(r, e);
        for (int64_t k = 0; k < parts; k++) {
            const int32_t from = (int32_t)(n * k / parts), to = (int32_t)(n * (k + 1) / parts);
            *next++ = (struct expert_piece){ (int32_t)e, r->first[e] + from, to - from };
        }
    }
    qsort(all, (size_t)count, sizeof *all, by_rows);
    *pieces = count;
    return all;
}

// Returns, for each of the m rows, its K indices in r->rows, ascending: [m, K]. The caller frees
// them.
static int32_t *row_indices(const struct routes *r, int64_t m, int64_t per_row)
{
    int32_t *entries = xreallocarray(NULL, (size_t)(m * per_row), sizeof *entries);
    int32_t *seen = xcalloc((size_t)m, sizeof *seen);
    for (int64_t i = 0; i < m * per_row; i++) {
        const int32_t row = r->rows[i];
        entries[row * per_row + seen[row]++] = (int32_t)i;
    }
    free(seen);
    return entries;
}

// Adds the results of the pieces in p to p.y; w holds the experts' weights.
static void add_pieces(struct graph *g, const struct linear *w, const struct experts_config *c,
                       struct expert_rows p)
{
    const int64_t D = p.x->shape[1], threads = g->backend->threads();
    struct arena_mark mark = graph_scratch_begin(g);
    struct tensor *each = graph_new2(g, DTYPE_F32, tensor_count(p.weights), D);
    struct tensor *scratch = graph_new2(g, DTYPE_F32, threads * EXPERT_ROWS, D + 2 * c->width);
    struct tensor *narrow = graph_new2(g, DTYPE_BF16, p.x->shape[0], D);
    if (each && scratch && narrow) {
        struct fused_gated *expert = xreallocarray(NULL, (size_t)c->count, sizeof *expert);
        for (int64_t e = 0; e < c->count; e++) expert[e] = gated_of(w + 3 * e);
        p.expert = expert, p.each = each->data, p.scratch = scratch->data, p.narrow = narrow->data;
        if (g->backend->expert_rows(&p) < 0) graph_fail(g, "experts: %s", g->backend->failure());
        free(expert);
    }
    graph_scratch_end(g, mark);
}

// Adds the chosen experts' results to y; w: the experts' weights. Each piece runs on one thread.
// False: not possible here.
static bool add_at_once(struct graph *g, const struct decoder_config *config,
                        const struct linear *w, struct tensor *y, struct tensor *x,
                        struct tensor *weights, const struct routes *r)
{
    const struct experts_config *c = &config->experts;
    if (!g->backend->expert_rows || g->tape) return false;
    for (int64_t e = 0; e < c->count; e++)
        if (!fused_is_plain(w + 3 * e, 3)) return false;
    int64_t pieces;
    struct expert_piece *piece = cut(g, c, r, &pieces);
    if (!piece) return false;
    int32_t *entries = row_indices(r, x->shape[0], c->per_token);
    add_pieces(g, w, c,
               (struct expert_rows){ .y = y,
                                     .x = x,
                                     .weights = weights,
                                     .rows = r->rows,
                                     .slots = r->slots,
                                     .entries = entries,
                                     .piece = piece,
                                     .pieces = pieces,
                                     .gelu = config->gelu,
                                     .mode = (int)g->matmul });
    free(entries);
    free(piece);
    return true;
}

static const struct tensor *bias_of(const struct experts_config *c, const struct linear *w)
{
    return c->softmax ? NULL : &w[ROUTER_BIAS].weight;
}

// Computes the weights of the chosen experts, [m, K]. A softmax over all experts, divided by the
// sum of the chosen ones, is the softmax over the chosen ones.
static struct tensor *expert_weights(struct graph *g, const struct experts_config *c,
                                     struct tensor *logits, const int32_t *index)
{
    const int64_t m = logits->shape[0], E = c->count, K = c->per_token;
    if (!c->softmax) return op_expert_weights(g, logits, index, K, c->normalise, (float)c->scale);
    if (m * E > INT32_MAX) return graph_fail(g, "too many rows of %lld experts", (long long)E);
    if (!c->normalise) logits = op_softmax(g, logits, 1);
    int32_t *at = xreallocarray(NULL, (size_t)(m * K), sizeof *at);
    for (int64_t i = 0; i < m * K; i++) at[i] = (int32_t)(i / K * E + index[i]);
    logits = graph_view(g, logits, 2, (int64_t[]){ m * E, 1 });
    struct tensor *w = op_gather_rows(g, logits, at, m * K);
    free(at);
    w = graph_view(g, w, 2, (int64_t[]){ m, K });
    return c->normalise ? op_softmax(g, w, 1) : w;
}

static struct tensor *zeros_like(struct graph *g, const struct tensor *x)
{
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (y && g->backend->fill(y, 0) < 0) return graph_fail(g, "%s", g->backend->failure());
    return y;
}

// Multiplies each row of y [m, D] by sigmoid(w x).
static struct tensor *multiply_by_gate(struct graph *g, struct tensor *y, struct tensor *x,
                                       const struct linear *w)
{
    const int64_t m = x->shape[0];
    struct tensor *logits = linear_forward(g, x, w), *to = zeros_like(g, x); // [m, 1], [m, D]
    int32_t *rows = xcalloc((size_t)m + 1, sizeof *rows);
    struct tensor *gate = op_expert_weights(g, logits, rows, 1, false, 1); // the only column
    for (int64_t i = 0; i < m; i++) rows[i] = (int32_t)i;
    y = op_add_weighted_rows(g, to, y, rows, gate);
    free(rows);
    return y;
}

// Returns the output of the shared experts; zeros without any.
static struct tensor *shared_forward(struct graph *g, const struct decoder_config *config,
                                     const struct linear *w, struct tensor *x)
{
    const struct experts_config *c = &config->experts;
    if (!c->shared_width) return zeros_like(g, x);
    struct tensor *y = gated(g, config, x, w);
    return y && c->shared_gated ? multiply_by_gate(g, y, x, &w[SHARED_GATE]) : y;
}

// Multiplies the weights [m*K, 1] of chosen experts by the factors [E] of these experts.
static struct tensor *scaled_weights(struct graph *g, struct tensor *weights,
                                     const struct tensor *factors, const int32_t *index)
{
    const int64_t count = tensor_count(weights);
    struct tensor *all = graph_weight(factors);
    all = graph_view(g, all, 2, (int64_t[]){ all->shape[0], 1 });
    struct tensor *chosen = op_gather_rows(g, all, index, count);
    weights = graph_view(g, weights, 2, (int64_t[]){ 1, count });
    if (chosen) chosen = graph_view(g, chosen, 1, &count);
    weights = op_scale_columns(g, weights, chosen);
    return weights ? graph_view(g, weights, 2, (int64_t[]){ count, 1 }) : NULL;
}

// Adds to y [m, D] the chosen experts of x [m, D]. w: the experts' weights; logits [m, E]; bias and
// factors [E] or NULL.
static struct tensor *add_experts(struct graph *g, const struct decoder_config *config,
                                  const struct linear *w, struct tensor *y, struct tensor *x,
                                  struct tensor *logits, const struct tensor *bias,
                                  const struct tensor *factors)
{
    const struct experts_config *c = &config->experts;
    struct routes r = route(g, c, logits, bias);
    struct tensor *weights = expert_weights(g, c, logits, r.index); // [m, K]
    if (weights) weights = graph_view(g, weights, 2, (int64_t[]){ tensor_count(weights), 1 });
    if (weights && factors) weights = scaled_weights(g, weights, factors, r.index);
    const bool done = weights && add_at_once(g, config, w, y, x, weights, &r);
    for (int64_t e = 0; e < c->count && y && weights && !done; e++) {
        const int32_t from = r.first[e], count = r.first[e + 1] - from;
        if (!count) continue;
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *some = op_gather_rows(g, x, r.rows + from, count);
        struct tensor *weight = op_gather_rows(g, weights, r.slots + from, count); // [count, 1]
        struct tensor *one = gated(g, config, some, w + 3 * e);
        y = op_add_weighted_rows(g, y, one, r.rows + from, weight);
        graph_scratch_end(g, scratch);
    }
    free(r.index);
    free(r.rows);
    free(r.slots);
    free(r.first);
    return weights ? y : NULL;
}

static struct tensor *experts_forward(struct graph *g, const struct layer *layer, struct tensor *x,
                                      bool unread)
{
    const struct decoder_config *config = layer->pass->config;
    const struct experts_config *c = &config->experts;
    const struct linear *w = layer->w->ffn.weight;
    if (is_dense(c, layer->number)) return ffn_gated.forward(g, layer, x, unread);
    struct tensor *logits = router(g, x, &w[ROUTER]); // [m, E]
    struct tensor *y = logits ? shared_forward(g, config, w + shared_first(c), x) : NULL;
    if (!y) return NULL;
    return add_experts(g, config, w + common_count(c), y, x, logits, bias_of(c, w), NULL);
}

// Computes the mixture for few rows in one call; NULL: not possible here.
static struct tensor *experts_fused(struct graph *g, const struct layer *layer, struct tensor *h,
                                    const struct fused_after *after, bool unread)
{
    const struct experts_config *c = &layer->pass->config->experts;
    const struct sublayer *s = &layer->w->ffn;
    const struct linear *w = s->weight;
    if (is_dense(c, layer->number)) return ffn_gated.fused(g, layer, h, after, unread);
    if (after->gain || !g->backend->fused || !h || h->shape[0] > backend_few_rows(g->backend))
        return NULL;
    struct fused_gated *expert = xreallocarray(NULL, (size_t)c->count, sizeof *expert);
    for (int64_t e = 0; e < c->count; e++) expert[e] = gated_of(w + common_count(c) + 3 * e);
    const struct linear *shared = w + shared_first(c);
    const struct fused_experts form = {
        .h = h,
        .gain = graph_weight(&s->before),
        .eps = (float)layer->pass->config->eps,
        .router = &w[ROUTER].weight,
        .bias = bias_of(c, w),
        .shared = c->shared_width ? gated_of(shared) : (struct fused_gated){ 0 },
        .shared_gate = c->shared_gated ? &shared[SHARED_GATE].weight : NULL,
        .expert = expert,
        .count = c->per_token,
        .groups = c->groups,
        .groups_per_token = c->groups_per_token,
        .normalise = c->normalise,
        .scale = (float)c->scale
    };
    const bool done = fused_experts(g, w, s->count, &form);
    free(expert);
    return done ? h : NULL;
}

// --- a gated FFN with experts beside it ----------------------------------------------------------

// The weights after the FFN's three: the router [E,D], the scale of what it reads [D], the experts'
// factors [E], three gains [D]; then the experts'.
enum { BESIDE_ROUTER = 3, BESIDE_SCALE, BESIDE_FACTORS, NORM_1, NORM_2, NORM_3, BESIDE_EXPERTS };

static int beside_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    struct experts_config *x = &c->experts;
    if (ffn_gated.read(c, json, err) < 0 ||
        json_bool(json, "enable_moe_block", false, &x->beside, err) < 0)
        return -1;
    if (!x->beside) return 0;
    x->softmax = x->normalise = true;
    x->groups = x->groups_per_token = x->every = 1;
    x->scale = 1;
    if (json_int(json, "num_experts", 1, 10000, 0, &x->count, err) < 0 ||
        json_int(json, "top_k_experts", 1, 10000, 0, &x->per_token, err) < 0 ||
        json_int(json, "moe_intermediate_size", 1, 1000000, 0, &x->width, err) < 0)
        return -1;
    if (!x->count || !x->per_token || !x->width)
        return err_set(err,
                       "\"enable_moe_block\" true needs \"num_experts\", \"top_k_experts\" and "
                       "\"moe_intermediate_size\"");
    if (x->per_token <= x->count) return 0;
    return err_set(err, "\"top_k_experts\" %lld: the model has only %lld experts",
                   (long long)x->per_token, (long long)x->count);
}

static bool beside_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const struct experts_config *x = &c->experts;
    const int64_t D = c->hidden;
    const struct layer_weight common[BESIDE_EXPERTS] = {
        [BESIDE_ROUTER] = { .name = "router.proj", .out = x->count, .in = D, .f32 = true },
        [BESIDE_SCALE] = { .name = "router.scale", .out = D, .constant = true },
        [BESIDE_FACTORS] = { .name = "router.per_expert_scale", .out = x->count, .constant = true },
        [NORM_1] = { .name = "post_feedforward_layernorm_1", .out = D },
        [NORM_2] = { .name = "pre_feedforward_layernorm_2", .out = D },
        [NORM_3] = { .name = "post_feedforward_layernorm_2", .out = D },
    };
    if (i < BESIDE_ROUTER) return ffn_gated.weight(c, layer, i, w);
    const int expert = (i - BESIDE_EXPERTS) / 3;
    if (!x->beside || (i >= BESIDE_EXPERTS && expert >= x->count)) return false;
    *w = i < BESIDE_EXPERTS ? common[i] : of_expert(c, expert, (i - BESIDE_EXPERTS) % 3);
    return true;
}

static struct tensor *beside_forward(struct graph *g, const struct layer *layer, struct tensor *x,
                                     bool unread)
{
    return ffn_gated.forward(g, layer, x, unread);
}

static struct tensor *beside_add(struct graph *g, const struct layer *layer, struct tensor *h,
                                 struct tensor *y)
{
    const struct decoder_config *c = layer->pass->config;
    const struct linear *w = layer->w->ffn.weight;
    if (!c->experts.beside || !h || !graph_ok(g)) return y;
    y = layer_rmsnorm(g, layer, &w[NORM_1].weight, y);
    struct tensor *x = layer_rmsnorm(g, layer, &w[BESIDE_SCALE].weight, h);
    struct tensor *logits =
        router(g, op_scale(g, x, 1 / sqrtf((float)c->hidden)), &w[BESIDE_ROUTER]); // [m, E]
    x = layer_rmsnorm(g, layer, &w[NORM_2].weight, h);
    struct tensor *sum = logits && x ? zeros_like(g, x) : NULL;
    if (!sum) return NULL;
    sum = add_experts(g, c, w + BESIDE_EXPERTS, sum, x, logits, NULL, &w[BESIDE_FACTORS].weight);
    return op_add(g, y, layer_rmsnorm(g, layer, &w[NORM_3].weight, sum));
}

// A block reads the weights of all experts that its rows choose. In blocks as large as those of a
// single FFN, an expert would have about 100 rows, too few to hide these reads. So blocks are
// larger, at the cost of 50 MB.
enum { BLOCK_ROWS = 2048 };

const struct ffn_kind ffn_experts = {
    .rows = BLOCK_ROWS,
    .read = experts_read,
    .weight = experts_weight,
    .forward = experts_forward,
    .fused = experts_fused,
};

const struct ffn_kind ffn_beside_experts = {
    .rows = BLOCK_ROWS,
    .read = beside_read,
    .weight = beside_weight,
    .forward = beside_forward,
    .beside = beside_add,
};

const struct ffn_kind ffn_softmax_experts = {
    .rows = BLOCK_ROWS,
    .read = softmax_read,
    .weight = experts_weight,
    .forward = experts_forward,
    .fused = experts_fused,
};
