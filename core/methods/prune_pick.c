// core/methods/prune_pick.c -- CAPA pruning: chooses the visual tokens to keep: for all rows by one
// query (prefill), without a query (diversity, cls, divergence, before the first layer), and for
// each row of a pass (dynamic).
//
// prune_score.c has the formulas; this file gathers the tokens to score and keeps data of earlier
// passes.
#include <math.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "core/methods/prune.h"
#include "core/methods/prune_parts.h"
#include "core/methods/sinks.h"
#include "core/model/attend.h"
#include "core/ops/ops.h"

int prune_stage_at(const struct prune *p, int layer)
{
    for (int i = 0; i < p->stages; i++)
        if (p->layer[i] == layer) return i;
    return -1;
}

int64_t prune_stage_count(const struct prune *p, int stage)
{
    return prune_count(p->keep[stage], p->visual);
}

const struct site SITE_SCORE[1] = { { "SCORE", HAS_ROWS, MAY_NOT,
                                      "[S] scores of the visual tokens that remain in `layer`" } };
const struct site SITE_KEPT[1] = {
    { "KEPT", HAS_ROWS, MAY_NOT,
      "[k] i32 visual tokens kept after `layer`, counted among all visual tokens" }
};

// Passes the scores and the kept tokens to probes.
static int emit_choice(struct graph *g, const struct prune *p, int layer,
                       const struct prune_view *view, const float *score, const bool *keep)
{
    struct site_args args = {
        .layer = layer, .picture = -1, .sequence = view->sequence, .prefill = true
    };
    const bool scored = score && p->kind != PRUNE_UNIFORM && p->kind != PRUNE_LIST;
    if (scored && hooks_wanted(g, SITE_SCORE, layer)) {
        args.x = graph_upload(g, DTYPE_F32, 1, &view->count, score); // [S]
        if (hooks_run(g, SITE_SCORE, &args) < 0) return -1;
    }
    if (!hooks_wanted(g, SITE_KEPT, layer)) return 0;
    int32_t *kept = xreallocarray(NULL, (size_t)view->count + 1, sizeof *kept);
    int64_t n = 0;
    for (int64_t i = 0; i < view->count; i++)
        if (keep[i]) kept[n++] = view->number[i];
    args.x = graph_upload(g, DTYPE_I32, 1, &n, kept); // [k]
    free(kept);
    return args.x ? hooks_run(g, SITE_KEPT, &args) : -1;
}

// --- contributions -------------------------------------------------------------------------------

void prune_grams_forget(struct prune *p)
{
    for (int i = 0; i < p->gram_count; i++) {
        grams_release(&p->grams[i].grams);
        free(p->grams[i].row);
    }
    free(p->grams);
    p->grams = NULL;
    p->gram_count = 0;
}

void prune_grams_begin(struct prune *p, int stage, int64_t past)
{
    if (p->gram_count != p->stages) {
        prune_grams_forget(p);
        p->grams = xcalloc((size_t)p->stages, sizeof *p->grams);
        p->gram_count = p->stages;
    }
    struct token_grams *t = &p->grams[stage];
    if (t->layer != p->layer[stage]) grams_trim(&t->grams, 0);
    t->layer = p->layer[stage];
    int64_t keys = t->grams.keys;
    while (keys > 0 && t->row[keys - 1] >= past) keys--;
    grams_trim(&t->grams, keys);
}

// Computes the missing Gram matrices of the first `visual` visual tokens.
static int grams_complete(struct prune *p, struct graph *g, const struct site_args *args,
                          struct token_grams *t, int64_t visual)
{
    const struct linear *o = attention_output(&p->model->decoder.layer[args->layer]);
    const int64_t known = t->grams.keys;
    if (known >= visual) return 0;
    int32_t *index = xreallocarray(NULL, (size_t)(visual - known), sizeof *index);
    int64_t count = 0;
    t->row = xreallocarray(t->row, (size_t)visual, sizeof *t->row);
    for (int64_t j = 0; j < args->k->shape[0]; j++) {
        const int64_t row = site_key(args, j);
        if (p->number[row] < known || p->number[row] >= visual) continue;
        t->row[p->number[row]] = (int32_t)row;
        index[count++] = (int32_t)j;
    }
    struct tensor *v = op_gather_rows(g, args->v, index, count); // [count, Hkv, d]
    free(index);
    return v ? grams_add(&t->grams, g, o, v, args->q->shape[1]) : -1;
}

// Scores the view's tokens by their contributions.
static int score_dynamic(struct prune *p, struct graph *g, const struct site_args *args,
                         struct token_grams *t, const struct prune_view *view, float *score)
{
    const int64_t heads = args->q->shape[1], keys = view->k->shape[0];
    if (!view->count) return 0;
    // A query's gates weight the elements of values, so a key's Gram matrix cannot serve all
    // queries.
    if (view->gate) return prune_score(g, PRUNE_CONTRIBUTION, p->seed, view, score);
    if (grams_complete(p, g, args, t, view->number[view->count - 1] + 1) < 0) return -1;
    struct tensor *probs = attend_probs(g, view->q, view->k, view->first, args->scale);
    if (!probs) return -1;
    float *host = xmalloc(tensor_bytes(probs));
    double *a = xreallocarray(NULL, (size_t)heads, sizeof *a);
    g->backend->download(host, probs->data, tensor_bytes(probs));
    for (int64_t i = 0; i < view->count; i++) {
        for (int64_t h = 0; h < heads; h++) a[h] = (double)host[h * keys + view->token[i]];
        score[i] = (float)grams_contribution(&t->grams, view->number[i], a);
    }
    free(host);
    free(a);
    return 0;
}

// --- chosen tokens -------------------------------------------------------------------------------

// Marks the view's tokens that stay: those in prune.tokens, or the sinks that p->kind selects; with
// p->worst, all other tokens. For sinks, `score` holds the contributions and is overwritten with
// phi.
static int choose_named(const struct prune *p, struct graph *g, int stage,
                        const struct prune_view *view, const int32_t *rows, float *score,
                        bool *stays)
{
    const int32_t *picture = view->sequence->picture;
    struct err err;
    if (!view->count) return 0;
    if (p->kind == PRUNE_LIST) {
        bool *listed = xcalloc((size_t)p->visual + 1, sizeof *listed);
        const int status = settings_numbers(p->settings, "prune.tokens", p->visual, "prompt",
                                            "visual token", listed, &err);
        for (int64_t i = 0; i < view->count && status >= 0; i++)
            stays[i] = listed[view->number[i]] != p->worst;
        free(listed);
        if (status < 0) graph_fail(g, "%s", err.text);
        return status < 0 ? -1 : 0;
    }
    struct sink_token *t = xcalloc((size_t)view->count + 1, sizeof *t);
    for (int64_t i = 0; i < view->count; i++) {
        const float phi = p->row_score[stage][rows[i]];
        t[i] = (struct sink_token){ (double)phi, (double)score[i], picture[rows[i]] };
        score[i] = phi;
    }
    double split = NAN;
    for (int64_t i = 0; i < view->count; i++) {
        if (!i || t[i].picture != t[i - 1].picture)
            split = sinks_split(t, (size_t)view->count, t[i].picture, p->tau);
        const enum sink_kind kind = sinks_kind(&t[i], split, p->tau);
        const bool is = p->kind == PRUNE_SINKS   ? t[i].phi > p->tau
                        : p->kind == PRUNE_DUMPS ? kind == SINK_DUMP
                                                 : kind == SINK_ANCHOR;
        stays[i] = is != p->worst;
    }
    free(t);
    return 0;
}

// --- by a query ----------------------------------------------------------------------------------

// Chooses which of the listed keys (NULL: the first `count`) a query keeps: keep[count], true for
// text. `at` is the query's row in q.
static int choose(struct prune *p, struct graph *g, const struct site_args *args, int stage,
                  int64_t at, const int32_t *list, int64_t count, bool emit, bool *keep)
{
    struct arena_mark scratch = graph_scratch_begin(g);
    const size_t capacity = (size_t)count + 1;
    int32_t *rows = xreallocarray(NULL, capacity, sizeof *rows);
    int32_t *token = xreallocarray(NULL, capacity, sizeof *token);
    int32_t *number = xreallocarray(NULL, capacity, sizeof *number);
    float *score = xcalloc(capacity, sizeof *score);
    bool *stays = xcalloc(capacity, sizeof *stays);
    struct prune_view view = { .model = p->model,
                               .layer = args->layer,
                               .q = graph_rows(g, args->q, at, 1),
                               .gate = args->gate ? graph_rows(g, args->gate, at, 1) : NULL,
                               .sequence = site_sequence(args),
                               .query = (int32_t)site_row(args, at),
                               .scale = args->scale,
                               .rows = rows,
                               .token = token,
                               .number = number };
    for (int64_t i = 0; i < count; i++) {
        const int64_t key = list ? list[i] : i;
        rows[i] = (int32_t)site_key(args, key);
        if (args->first && key < args->first[at]) view.first = i + 1;
        keep[i] = true;
        if (p->number[rows[i]] < 0) continue;
        token[view.count] = (int32_t)i;
        number[view.count++] = p->number[rows[i]];
    }
    view.k = list ? op_gather_rows(g, args->k, list, count) : graph_rows(g, args->k, 0, count);
    view.v = list ? op_gather_rows(g, args->v, list, count) : graph_rows(g, args->v, 0, count);
    int status = graph_ok(g) ? 0 : -1;
    if (status == 0 && p->dynamic && (p->kind == PRUNE_CONTRIBUTION || prune_reads_sinks(p->kind)))
        status = score_dynamic(p, g, args, &p->grams[stage], &view, score);
    else if (status == 0 && p->kind != PRUNE_LIST)
        status = prune_score(g, prune_names_tokens(p->kind) ? PRUNE_CONTRIBUTION : p->kind, p->seed,
                             &view, score);
    if (status == 0 && prune_names_tokens(p->kind)) {
        int32_t *of_token = xreallocarray(NULL, capacity, sizeof *of_token);
        for (int64_t i = 0; i < view.count; i++) of_token[i] = rows[token[i]];
        status = choose_named(p, g, stage, &view, of_token, score, stays);
        free(of_token);
    } else {
        prune_choose(p->kind, score, view.count, prune_stage_count(p, stage), p->worst, stays);
    }
    for (int64_t i = 0; i < view.count; i++) keep[token[i]] = stays[i];
    if (status == 0 && emit) status = emit_choice(g, p, args->layer, &view, score, stays);
    free(rows);
    free(token);
    free(number);
    free(score);
    free(stays);
    graph_scratch_end(g, scratch);
    return status;
}

int prune_pick_for_all(struct prune *p, struct graph *g, const struct site_args *args, int stage)
{
    const int64_t row = sequence_query(site_sequence(args));
    int64_t query = args->k->shape[0] - 1; // index of the query row among the keys
    while (query >= args->past && site_key(args, query) != row) query--;
    if (query < args->past) BUG("pruning without its query row");
    const struct seen_keys *seen = &args->seen; // without tokens that another method hides
    const int64_t at = query - args->past;
    const bool listed = seen->keys && at >= seen->from;
    const int32_t *list = listed ? seen->keys[at - seen->from] : NULL;
    const int64_t count = listed ? seen->count[at - seen->from] : query + 1;
    bool *keep = xcalloc((size_t)query + 1, sizeof *keep);
    int status = choose(p, g, args, stage, at, list, count, true, keep);
    for (int64_t i = 0, j = 0; i <= query; i++) {
        const bool chosen = !list || (j < count && list[j] == i);
        const int64_t of = site_key(args, i);
        if (chosen ? !keep[j] : p->number[of] >= 0) p->dropped[of] = true;
        j += chosen;
    }
    free(keep);
    return status;
}

// --- without a query -----------------------------------------------------------------------------

// Returns the end of the positions that hide.tokens hides from the others in the layer of the stage
// (before the first layer: in the first layer). Choices by a query leave them out through
// args->seen.
static int64_t end_of_hidden(const struct prune *p, int stage)
{
    const int layers = p->model->decoder.config.layers;
    const int layer = p->layer[stage] == PRUNE_INPUT ? 0 : p->layer[stage];
    return p->hidden_end && settings_has_layer(p->settings, "hide.layers", layers, layer)
               ? p->hidden_end
               : 0;
}

int prune_pick_rows(struct prune *p, struct graph *g, const struct site_args *args, int stage)
{
    if (p->blind) return 0;
    const bool all = stage == 0 && args->kv;
    struct tensor *from = all ? &p->residual : args->x; // h after the layer
    const int64_t n = all ? site_sequence(args)->n : args->x->shape[0];
    const int64_t query = sequence_query(site_sequence(args)), most = prune_stage_count(p, stage);
    const int64_t hidden = end_of_hidden(p, stage);
    // The remaining visual tokens: their rows in `from` and in the sequence, and their numbers.
    int32_t *index = xreallocarray(NULL, 3 * (size_t)n + 1, sizeof *index);
    int32_t *row = index + n, *number = row + n;
    struct prune_view view = { .number = number, .sequence = site_sequence(args) };
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = all ? i : site_row(args, i);
        if (at > query || p->number[at] < 0 || p->dropped[at]) continue;
        if (at < hidden && p->hidden[at]) {
            p->dropped[at] = true;
            continue;
        }
        index[count] = (int32_t)i;
        row[count] = (int32_t)at;
        number[count++] = p->number[at];
    }
    view.count = count;

    const bool diverse = p->kind == PRUNE_DIVERSITY;
    const float *known = p->row_score[p->kind == PRUNE_DIVERGENCE ? stage : 0];
    bool *keep = xcalloc((size_t)count + 1, sizeof *keep);
    float *score = xcalloc((size_t)count + 1, sizeof *score);
    int status = 0;
    if (diverse) { // by distances in the residual stream
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *x = op_gather_floats(g, from, index, count); // [S, D]
        if (x) {
            float *host = xmalloc(tensor_bytes(x) + 1);
            g->backend->download(host, x->data, tensor_bytes(x));
            prune_choose_diverse(host, count, x->shape[1], most, keep);
            free(host);
        }
        graph_scratch_end(g, scratch);
        status = x ? 0 : -1;
    } else if (p->kind == PRUNE_LIST) {
        status = choose_named(p, g, stage, &view, row, score, keep);
    } else { // by the tokens' scores
        for (int64_t i = 0; i < count; i++)
            if (p->kind == PRUNE_RANDOM)
                score[i] = (float)random_unit(p->seed, RANDOM_PRUNE, (uint64_t)number[i]);
            else
                score[i] = p->kind == PRUNE_UNIFORM ? 0 : known[row[i]];
        prune_choose(p->kind, score, count, most, p->worst, keep);
    }
    for (int64_t i = 0; i < count && status == 0; i++)
        if (!keep[i]) p->dropped[row[i]] = true;
    if (status == 0) status = emit_choice(g, p, args->layer, &view, diverse ? NULL : score, keep);
    free(score);
    free(keep);
    free(index);
    return status;
}

// --- for each row --------------------------------------------------------------------------------

// The keys that a row may choose among: `count` of `list` (NULL: the first ones).
struct key_list {
    const int32_t *list;
    int64_t count;
};

static int32_t key_at(struct key_list keys, int64_t i)
{
    return keys.list ? keys.list[i] : (int32_t)i;
}

// Lists in `to` the keys of `all` that a row sees from the next layer on: the kept ones of those
// that it sees in this layer, and text that only another method hides from it in this layer.
// Returns their number.
static int64_t list_next(const struct prune *p, const struct site_args *args, struct key_list all,
                         struct key_list seen, const bool *keep, int32_t *to)
{
    int64_t count = 0;
    for (int64_t i = 0, j = 0; i < all.count; i++) {
        const int32_t key = key_at(all, i);
        while (j < seen.count && key_at(seen, j) < key) j++;
        const bool sees = j < seen.count && key_at(seen, j) == key;
        if (sees ? keep[j] : p->number[site_key(args, key)] < 0) to[count++] = key;
    }
    return count;
}

int prune_pick_for_each(struct prune *p, struct graph *g, const struct site_args *args, int stage)
{
    const int64_t n = args->q->shape[0], query = sequence_query(site_sequence(args));
    const int64_t from = query > args->past ? query - args->past : 0;
    int status = 0;
    p->next = (struct seen_lists){ .from = from, .rows = n - from };
    p->next.keys = xcalloc((size_t)(n - from), sizeof *p->next.keys);
    p->next.count = xcalloc((size_t)(n - from), sizeof *p->next.count);
    for (int64_t i = from; i < n && status == 0; i++) {
        const int64_t at = i - from;
        const struct seen_keys *now = &args->seen; // what earlier stages and other methods leave
        const struct key_list every = { NULL, args->past + i + 1 };
        const struct key_list all =
            p->seen.keys ? (struct key_list){ p->seen.keys[at], p->seen.count[at] } : every;
        const struct key_list seen =
            now->keys && i >= now->from
                ? (struct key_list){ now->keys[i - now->from], now->count[i - now->from] }
                : every;
        const bool emit = args->prefill && site_row(args, i) == query;
        bool *keep = xcalloc((size_t)seen.count, sizeof *keep);
        int32_t *keys = p->next.keys[at] = xreallocarray(NULL, (size_t)all.count, sizeof *keys);
        status = choose(p, g, args, stage, i, seen.list, seen.count, emit, keep);
        p->next.count[at] = list_next(p, args, all, seen, keep, keys);
        free(keep);
    }
    return status;
}
