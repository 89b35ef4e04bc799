// core/model/layer_inputs.c -- an input of its own for each layer and row (Gemma 3n and 4,
// "per-layer embeddings"), and the factor of a layer's output.
//
//   all  = (norm(W e / sqrt(D)) + table[id] sqrt(P)) / sqrt(2)   [n, L*P]; e = h[0], norm over P
//   h   += norm(W' (gelu(W'' h) * all[l]))                       after the FFN of layer l
//   h   *= scale[l]
//
// e includes the methods' changes to visual tokens; `id` of a visual token is the padding token.
// The table is large and stays on the host: a pass reads few of its rows.
#include "core/model/layer_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/graph/tape.h"
#include "core/model/attend.h"
#include "core/model/linear.h"
#include "core/ops/ops.h"

int layer_inputs_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    int64_t pad;
    if (!text_listed(c->kind->keys, "hidden_size_per_layer_input")) return 0;
    if (json_int(json, "hidden_size_per_layer_input", 0, 100000, 256, &c->layer_input, err) < 0 ||
        json_int(json, "vocab_size_per_layer_input", 1, 100000000, 262144, &c->input_vocab, err) <
            0 ||
        json_int(json, "pad_token_id", 0, INT32_MAX, 0, &pad, err) < 0)
        return -1;
    c->input_pad = (int32_t)pad;
    if (!c->layer_input || (pad < c->input_vocab && c->vocab <= c->input_vocab)) return 0;
    return err_set(
        err,
        "\"vocab_size_per_layer_input\" %lld is less than \"vocab_size\" %lld, or has no "
        "row for \"pad_token_id\" %lld; this is not supported",
        (long long)c->input_vocab, (long long)c->vocab, (long long)pad);
}

// --- weights -------------------------------------------------------------------------------------

void layer_inputs_bind(struct decoder *d, struct binder *b)
{
    const struct decoder_config *c = &d->config;
    struct layer_inputs *to = &d->inputs;
    const int64_t P = c->layer_input, all = P * c->layers;
    if (!P) return;
    bind_table(b, &to->table, c->input_vocab, all, "embed_tokens_per_layer.weight");
    bind_linear(b, &to->projection, all, c->hidden, false, "per_layer_model_projection");
    to->projection.share = 1;
    bind_vector(b, &to->norm, P, "per_layer_projection_norm.weight");
}

enum { GATE, PROJECTION, NORM, SCALE, ALL };

bool layer_inputs_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const int64_t D = c->hidden, P = c->layer_input;
    const struct layer_weight all[ALL] = {
        [GATE] = { .name = "per_layer_input_gate", .out = P, .in = D },
        [PROJECTION] = { .name = "per_layer_projection", .out = D, .in = P },
        [NORM] = { .name = "post_per_layer_input_norm", .out = D },
        [SCALE] = { .name = "layer_scalar", .out = 1, .constant = true, .factor = true },
    };
    if (!P) i += SCALE;
    if (i >= ALL) return false;
    *w = all[i];
    return true;
}

// --- forward pass --------------------------------------------------------------------------------

// Sets the row of the table for each of the pass's rows from..from+n-1.
static void table_rows(const struct pass *p, int64_t from, int64_t n, int32_t *row)
{
    const struct sequence *s = p->sequence;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = pass_row(p, from + i);
        row[i] = s->picture[at] >= 0 ? p->config->input_pad : s->ids[at];
    }
}

// Gathers rows of the table [m, L*P]. On a tape, the padding row gets no gradient, as in
// transformers, although the rows of pictures use it.
static struct tensor *table_inputs(struct graph *g, const struct decoder *d, const int32_t *row,
                                   int64_t m)
{
    struct tensor *table = graph_weight(&d->inputs.table), *fixed;
    if (!tape_on(g) || !table || !table->grad) return op_embedding(g, table, row, m);
    if (!(fixed = arena_alloc_host(g->arena, sizeof *fixed)))
        return graph_fail(g, "out of memory on %s", g->backend->name);
    *fixed = *table;
    fixed->grad = NULL;
    struct tensor *all = op_embedding(g, fixed, row, m); // [m, L*P]
    int32_t *id = xreallocarray(NULL, (size_t)m + 1, 2 * sizeof *id), *index = id + m + 1;
    int64_t n = 0;
    for (int64_t i = 0; i < m; i++) {
        if (row[i] == d->config.input_pad) continue;
        id[n] = row[i];
        index[n++] = (int32_t)i;
    }
    if (n) all = op_scatter_rows(g, all, op_embedding(g, table, id, n), index);
    free(id);
    return all;
}

// Computes the inputs of rows from..from+m-1, whose h[0] is h [m, D]: [m, L*P].
static struct tensor *inputs_of_rows(struct graph *g, const struct decoder *d, const struct pass *p,
                                     int64_t from, struct tensor *h)
{
    const struct decoder_config *c = &d->config;
    const int64_t m = h ? h->shape[0] : 0, P = c->layer_input;
    int32_t *row = xreallocarray(NULL, (size_t)m + 1, sizeof *row);
    table_rows(p, from, m, row);
    struct tensor *x = op_scale(g, linear_forward(g, h, &d->inputs.projection),
                                1 / sqrtf((float)c->hidden)); // [m, L*P]
    if (x) x = graph_view(g, x, 2, (int64_t[]){ m * c->layers, P });
    x = op_rmsnorm(g, x, graph_weight(&d->inputs.norm), (float)c->eps);
    if (x) x = graph_view(g, x, 2, (int64_t[]){ m, P * c->layers });
    struct tensor *own = table_inputs(g, d, row, m);
    free(row);
    return op_scale(g, op_add(g, x, op_scale(g, own, sqrtf((float)P))), sqrtf(0.5f));
}

struct tensor *layer_inputs_of(struct graph *g, const struct decoder *d, const struct pass *p,
                               struct tensor *h)
{
    const int64_t n = h ? h->shape[0] : 0;
    if (!h || !graph_ok(g)) return NULL;
    if (g->tape) return inputs_of_rows(g, d, p, 0, h);
    struct tensor *all = graph_new2(g, DTYPE_F32, n, d->config.layer_input * d->config.layers);
    for (int64_t i = 0, m; i < n && graph_ok(g); i += m) {
        m = layer_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        op_copy_rows_into(g, all, i, inputs_of_rows(g, d, p, i, graph_rows(g, h, i, m)));
        graph_scratch_end(g, block);
    }
    return all;
}

// Returns the layer's inputs of the pass's rows: [n, P].
static struct tensor *inputs_of_layer(struct graph *g, const struct layer *layer)
{
    const struct pass *p = layer->pass, *of = p->inputs_of;
    const int64_t P = p->config->layer_input;
    struct tensor *x = attend_columns(g, p->inputs, layer->number * P, P);
    if (p->n == of->n || !x) return x;
    int32_t *index = xreallocarray(NULL, (size_t)p->n, sizeof *index);
    pass_find_rows(of, p, index);
    x = op_gather_rows(g, x, index, p->n);
    free(index);
    return x;
}

struct tensor *layer_inputs_add(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct linear *w = layer->w->end.weight;
    const struct decoder_config *c = layer->pass->config;
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *inputs = c->layer_input ? inputs_of_layer(g, layer) : NULL;
    for (int64_t i = 0, m, n = h && inputs ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = layer_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *x = linear_forward(g, graph_rows(g, h, i, m), &w[GATE]); // [m, P]
        x = op_geglu(g, x, graph_rows(g, inputs, i, m));
        x = linear_forward(g, x, &w[PROJECTION]); // [m, D]
        h = op_add_rows(g, h, i, layer_rmsnorm(g, layer, &w[NORM].weight, x));
        graph_scratch_end(g, block);
    }
    graph_scratch_end(g, scratch);
    const float scale = layer->w->scale;
    if (scale == 1 || !h || !graph_ok(g)) return h;
    if (tape_on(g)) return op_scale(g, h, scale);
    if (g->backend->scale(h, h, scale) < 0) // in place, like the sums
        return graph_fail(g, "scale: %s", g->backend->failure());
    return h;
}
