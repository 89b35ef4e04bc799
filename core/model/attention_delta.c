// core/model/attention_delta.c -- Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464): a state in
// place of keys and values.
//
//   x = before(h)
//   (q, k, v) = silu(causal convolution of Wqkv x)         [Hk,dk] [Hk,dk] [Hv,dv] per row
//   alpha, beta from Wa x and Wb x                         [Hv]
//   S = alpha S;  S += k (x) beta (v - S^T k);  o = S^T q  S [dk,dv] of each value head
//   h += out(norm(o) * silu(Wz x))                         the norm is that of a head
//
// A row reads all earlier rows through S and the convolution's last inputs (the tail); the cache
// keeps both at some rows (core/model/kv_states.c). If a method has dropped rows before this layer,
// the state comes from the rows that are left.
//
// Pieces of up to backend->few_rows rows give each row the bits that it has alone. A longer piece
// goes in chunks that begin at its first row, so the last bits of a row depend on where its piece
// begins.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

const struct site SITE_STATE[1] = { { "STATE", HAS_ROWS | IN_STEP, MAY_ONLY,
                                      "[N,D] h before a recurrent layer" } };
const struct site SITE_RECURRENCE[1] = {
    { "RECURRENCE", HAS_ROWS | IN_STEP, MAY_NOT,
      "[N, 2*Hk*dk + Hv*dv + 2*Hv] inputs of the recurrence: queries, keys, values, a, b" }
};

// --- config and weights --------------------------------------------------------------------------

// [2*Hk*dk + Hv*dv, D] [Hv*dv,D] [Hv,D] [Hv,D], the filter [C,taps], [Hv] [Hv] [dv] [D,Hv*dv]
enum { QKV, Z, A, B, FILTER, LOG_A, BIAS, NORM, OUT, WEIGHTS };

static const char level[] = ".linear_attn."; // of the names of these weights

static int64_t channels(const struct delta_config *d)
{
    return 2 * d->key_heads * d->key_width + d->heads * d->width;
}

static bool delta_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const struct delta_config *d = &c->delta;
    const int64_t D = c->hidden, C = channels(d), values = d->heads * d->width;
    const struct layer_weight all[WEIGHTS] = {
        [QKV] = { .name = "linear_attn.in_proj_qkv", .out = C, .in = D },
        [Z] = { .name = "linear_attn.in_proj_z", .out = values, .in = D },
        [A] = { .name = "linear_attn.in_proj_a", .out = d->heads, .in = D },
        [B] = { .name = "linear_attn.in_proj_b", .out = d->heads, .in = D },
        [FILTER] = { .name = "linear_attn.conv1d", .out = C, .taps = d->taps },
        [LOG_A] = { .name = "linear_attn.A_log", .out = d->heads, .constant = true },
        [BIAS] = { .name = "linear_attn.dt_bias", .out = d->heads, .constant = true },
        [NORM] = { .name = "linear_attn.norm", .out = d->width, .plain = true },
        [OUT] = { .name = "linear_attn.out_proj", .out = D, .in = values },
    };
    if (i >= WEIGHTS) return false;
    *w = all[i];
    return true;
}

static struct kv_row delta_cached(const struct decoder_config *c, int layer)
{
    const struct delta_config *d = &c->delta;
    return (struct kv_row){ .state = d->heads * d->key_width * d->width,
                            .tail = (d->taps - 1) * channels(d) };
}

static double delta_pair_flops(const struct decoder_config *c, int layer)
{
    return 0;
}

// Counts S^T k, the update of S, and S^T q, 2 per multiply-add; the filter counts with the weights.
static double delta_row_flops(const struct decoder_config *c)
{
    return 6 * (double)(c->delta.heads * c->delta.key_width * c->delta.width);
}

// --- the order of value heads --------------------------------------------------------------------

struct value_heads decoder_value_heads(const struct decoder_config *c, const char *weight)
{
    const struct delta_config *d = &c->delta;
    const int64_t keys = 2 * d->key_heads * d->key_width;
    const struct {
        const char *name;
        struct value_heads heads;
    } all[] = {
        { "in_proj_qkv", { keys, d->width, false } },
        { "conv1d", { keys, d->width, false } },
        { "in_proj_z", { 0, d->width, false } },
        { "out_proj", { 0, d->width, true } },
        { "in_proj_a", { 0, 1, false } },
        { "in_proj_b", { 0, 1, false } },
        { "A_log", { 0, 1, false } },
        { "dt_bias", { 0, 1, false } },
    };
    const char *at = strstr(weight, level);
    for (size_t i = 0; at && i < sizeof all / sizeof *all; i++)
        if (!strncmp(at + strlen(level), all[i].name, strlen(all[i].name))) return all[i].heads;
    return (struct value_heads){ 0 };
}

bool decoder_alternates(const struct decoder_config *c, const char *weight)
{
    return c->delta.alternate && decoder_value_heads(c, weight).piece;
}

void decoder_reorder_heads(const struct decoder_config *c, const char *weight, bool columns,
                           void *x, int64_t outer, size_t inner, bool to_file)
{
    const struct delta_config *d = &c->delta;
    const struct value_heads at = decoder_value_heads(c, weight);
    const int64_t keys = d->key_heads;
    if (keys <= 0 || !decoder_alternates(c, weight) || at.columns != columns) return;
    const size_t piece = (size_t)at.piece * inner, all = (size_t)d->heads * piece;
    const size_t first = (size_t)at.first * inner;
    char *from = xmalloc(all);
    for (int64_t o = 0; o < outer; o++) {
        char *heads = (char *)x + (size_t)o * (first + all) + first;
        memcpy(from, heads, all);
        for (int64_t i = 0; i < d->heads; i++) { // head i of the file
            const size_t file = (size_t)i * piece;
            const size_t folder = (size_t)(i % keys * (d->heads / keys) + i / keys) * piece;
            memcpy(heads + (to_file ? file : folder), from + (to_file ? folder : file), piece);
        }
    }
    free(from);
}

// --- pieces --------------------------------------------------------------------------------------

// Rows of a pass that run in one call: a piece ends at the end of a block or sample, where the
// cache keeps a state, and before and after a hidden row.
struct piece {
    int64_t first, end;
    int slot;    // where the cache keeps the state after the piece; -1: nowhere
    bool anew;   // begins a sample, with a state of zeros
    bool hidden; // a row that later rows do not read
};

struct pieces {
    struct piece *list;
    size_t count, capacity;
};

static void add_piece(struct pieces *p, struct piece one)
{
    p->list = xgrow(p->list, &p->capacity, p->count, sizeof *p->list);
    p->list[p->count++] = one;
}

// Splits the rows of a pass into pieces. hidden [n]: rows that later rows do not read, each a piece
// of its own; NULL: none.
static struct pieces cut(const struct graph *g, const struct layer *layer, const bool *hidden)
{
    const struct pass *p = layer->pass;
    const struct sequence *s = p->sequence;
    const struct kv_marks *marks = layer->cache ? &p->kv->coming : NULL;
    const int64_t known = layer->past ? s->n - p->n : 0; // marks up to here hold their states
    struct pieces all = { 0 };
    int64_t first = 0, block = layer_rows(g, p->n, 0);
    int m = 0;
    bool anew = false;
    while (marks && m < marks->count && marks->at[m].row <= known) m++;
    for (int64_t i = 0; i <= p->n; i++) {
        const int64_t row = i == p->n ? s->n : p->rows ? p->rows[i] : s->n - p->n + i;
        for (; marks && m < marks->count && marks->at[m].row <= row; m++, first = i, anew = false)
            add_piece(&all, (struct piece){ first, i, marks->at[m].slot, anew,
                                            first < i && hidden && hidden[first] });
        const bool sample = s->start && i < p->n && s->start[row] == row;
        const bool apart = hidden && first < i && (hidden[first] || (i < p->n && hidden[i]));
        if (first < i && (sample || apart || i == block || i == p->n)) {
            add_piece(&all, (struct piece){ first, i, -1, anew, hidden && hidden[first] });
            first = i;
            anew = false;
        }
        if (i == block && i < p->n) block += layer_rows(g, p->n, i);
        anew |= sample;
    }
    return all;
}

// The state and the tail after the rows so far; data NULL: zeros. By value, because the tensor
// structs of a block are freed with it.
struct memory {
    struct tensor state, tail;
};

// Computes the outputs [m,Hv,dv] of the m rows of a piece: x [m,C] before the convolution, a and b
// [m,Hv]. `after` (data NULL: not needed) receives the memory after them and becomes *memory.
// `inputs` (NULL: not needed) receives x after the convolution, a and b from row `row` on.
static struct tensor *run_piece(struct graph *g, const struct layer *layer, struct tensor *x,
                                struct tensor *a, struct tensor *b, struct memory *memory,
                                struct memory after, struct tensor *inputs, int64_t row)
{
    const struct delta_config *d = &layer->pass->config->delta;
    const struct linear *w = layer->w->attention.weight;
    const struct memory before = *memory;
    *memory = after;
    x = op_causal_conv(g, x, graph_weight(&w[FILTER].weight), graph_weight(&before.tail),
                       graph_weight(&after.tail));
    if (inputs && x && x->shape[0]) {
        const struct column_part part[] = { { x, { 0, 1, x->shape[1] } },
                                            { a, { 0, 1, d->heads } },
                                            { b, { 0, 1, d->heads } } };
        op_copy_rows_into(g, inputs, row, op_columns_of(g, x->shape[0], part, 3));
    }
    return op_delta_rule(g, &(struct delta_rule){ .x = x,
                                                  .a = a,
                                                  .b = b,
                                                  .log_a = graph_weight(&w[LOG_A].weight),
                                                  .bias = graph_weight(&w[BIAS].weight),
                                                  .key_heads = d->key_heads,
                                                  .key_width = d->key_width,
                                                  .heads = d->heads,
                                                  .width = d->width,
                                                  .alternate = d->alternate,
                                                  .before = graph_weight(&before.state),
                                                  .after = graph_weight(&after.state) });
}

// Returns slot i of the layer's states.
static struct memory slot_of(const struct layer *layer, int i)
{
    struct memory m = { layer->cache->state, layer->cache->tail };
    m.state.data = (float *)m.state.data + i * m.state.shape[1];
    m.tail.data = (float *)m.tail.data + i * m.tail.shape[1];
    m.state.shape[0] = m.tail.shape[0] = 1;
    return m;
}

// --- forward pass --------------------------------------------------------------------------------

// Returns the outputs of the heads [m, Hv*dv] of rows i .. i+m-1 of h, normed and gated; *piece
// becomes the first piece after them.
static struct tensor *block_outputs(struct graph *g, const struct layer *layer, struct tensor *h,
                                    int64_t i, int64_t m, const struct piece **piece,
                                    struct memory *memory, struct memory spare,
                                    struct tensor *inputs)
{
    const struct decoder_config *c = layer->pass->config;
    const struct delta_config *d = &c->delta;
    const struct linear *w = layer->w->attention.weight;
    struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, graph_rows(g, h, i, m));
    struct tensor *qkv = linear_forward(g, x, &w[QKV]), *z = linear_forward(g, x, &w[Z]);
    struct tensor *a = linear_forward(g, x, &w[A]), *b = linear_forward(g, x, &w[B]), *y = NULL;
    for (const struct piece *p = *piece; p->end <= i + m && graph_ok(g); *piece = ++p) {
        const int64_t from = p->first - i, rows = p->end - p->first;
        const struct memory after = p->slot < 0 ? spare : slot_of(layer, p->slot), none = { 0 };
        if (p->anew) *memory = none;
        struct memory apart = *memory;
        struct tensor *rows_x = graph_rows(g, qkv, from, rows), *rows_a, *rows_b;
        rows_a = graph_rows(g, a, from, rows), rows_b = graph_rows(g, b, from, rows);
        struct tensor *o = run_piece(g, layer, rows_x, rows_a, rows_b, p->hidden ? &apart : memory,
                                     p->hidden ? none : after, inputs,
                                     p->first); // [rows, Hv, dv]
        if (p->hidden && p->slot >= 0)          // copies the memory
            run_piece(g, layer, graph_rows(g, qkv, from, 0), graph_rows(g, a, from, 0),
                      graph_rows(g, b, from, 0), memory, after, NULL, 0);
        if (rows == m) {
            y = o;
        } else if (rows) {
            if (!y) y = graph_new3(g, DTYPE_F32, m, d->heads, d->width);
            op_copy_rows_into(g, y, from, o);
        }
    }
    y = graph_view(g, y, 2, (int64_t[]){ m * d->heads, d->width });
    y = op_rmsnorm(g, y, graph_weight(&w[NORM].weight), (float)c->eps);
    y = graph_view(g, y, 2, (int64_t[]){ m, d->heads * d->width });
    return op_swiglu(g, z, y);
}

// Returns the flags [n] of the rows that are not in args->only; the caller frees them. NULL: none.
static bool *hidden_rows(const struct site_args *args, int64_t n)
{
    bool *hidden = args->only ? xcalloc((size_t)n + 1, sizeof *hidden) : NULL;
    for (int64_t i = 0; hidden && i < n; i++) hidden[i] = true;
    for (int64_t i = 0; hidden && i < args->only_count; i++) hidden[args->only[i]] = false;
    return hidden;
}

static bool delta_forward(struct graph *g, const struct layer *layer, struct tensor **h)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    const struct kv_row size = delta_cached(c, layer->number);
    const int64_t n = p->n, wide = c->delta.heads * c->delta.width;
    struct memory memory = { 0 }, spare = { 0 };
    struct tensor *y = NULL, *inputs = NULL; // [n, Hv*dv], x of SITE_RECURRENCE
    struct site_args args = layer_site(layer, *h);
    hooks_run(g, SITE_STATE, &args);
    if (g->tape && args.only) BUG("rows hidden from a recurrence, with a tape");
    if (hooks_wanted(g, SITE_RECURRENCE, layer->number))
        inputs = graph_new2(g, DTYPE_F32, n, channels(&c->delta) + 2 * c->delta.heads);
    if (!g->tape) {
        struct tensor *const state = graph_new2(g, DTYPE_F32, 1, size.state);
        struct tensor *const tail = graph_new2(g, DTYPE_F32, 1, size.tail);
        y = graph_new2(g, DTYPE_F32, n, wide);
        if (y) spare = (struct memory){ *state, *tail };
    }
    if (layer->cache && layer->past) memory = slot_of(layer, p->kv->first_slot);
    bool *hidden = hidden_rows(&args, n);
    struct pieces pieces = cut(g, layer, hidden);
    free(hidden);
    add_piece(&pieces, (struct piece){ .end = INT64_MAX }); // ends the list
    const struct piece *piece = pieces.list;
    for (int64_t i = 0, m; i < n && graph_ok(g); i += m) {
        m = layer_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *part = block_outputs(g, layer, *h, i, m, &piece, &memory, spare, inputs);
        if (y)
            op_copy_rows_into(g, y, i, part);
        else
            y = part; // with a tape a single block holds all rows
        graph_scratch_end(g, block);
    }
    free(pieces.list);
    if (inputs) site_run(g, SITE_RECURRENCE, layer_site(layer, inputs));
    *h = graph_ok(g) ? layer_output(g, layer, *h, y) : NULL;
    return true;
}

const struct attention_kind attention_delta = { .weight = delta_weight,
                                                .cached = delta_cached,
                                                .pair_flops = delta_pair_flops,
                                                .row_flops = delta_row_flops,
                                                .forward = delta_forward };
