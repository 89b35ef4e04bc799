// core/methods/prune.c -- CAPA pruning: after layer K, keeps only the visual tokens that contribute
// most (CAPA's paper).
//
// In:  SITE_VALUES at layer K: q, k, v. Out: SITE_LAYER_OUT at K: the rows that are kept, positions
// unchanged.
//
// prefill: dropped tokens leave the sequence after layer K. The query is the prompt's last row. At
//   every prefill, layers 0..K continue from their cache; later layers are recomputed from the
//   stored h[K+1] of all rows of the sequence.
// dynamic: the cache keeps all rows. From the prompt's last row on, each row selects tokens at
//   layer K and attends only to these in later layers. For sinks, phi is that of the
//   pass that computed the token's row; the contribution is that to the selecting row.
//
// prune_pick.c chooses the tokens to keep.
//
// Easy to get wrong: whether any stage drops tokens must be known right after the first stage,
// because only then are all rows of the sequence available.
#include <stdlib.h>
#include <string.h>

#include "core/graph/tape.h"
#include "core/methods/hide.h"
#include "core/methods/ira.h"
#include "core/methods/kit.h"
#include "core/methods/prune_parts.h"
#include "core/methods/sinks.h"

// --- settings ------------------------------------------------------------------------------------

// In mode prefill, the cache stays valid when a setting in `after` changes: layers 0..K do not
// depend on which tokens are kept, and later layers are recomputed from h[K+1].
static bool prune_keeps(const void *state, const char *key, const struct settings *s)
{
    static const char *const after[] = { "prune.score", "prune.keep", "prune.worst", "prune.tokens",
                                         "prune.seed" };
    const struct prune *p = state;
    const enum prune_kind kind = prune_kind_of(s);
    // These scores need a value for each token, which only passes with the same score have stored.
    const bool stored = kind == PRUNE_CLS || kind == PRUNE_DIVERGENCE || prune_reads_sinks(kind);
    if (stored && kind != p->kind) return false;
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        if (!strcmp(key, after[i])) return !p->dynamic && !settings_is(s, "prune.mode", "dynamic");
    return false;
}

static bool prune_reads(const char *key, const struct settings *s)
{
    return prune_reads_sinks(prune_kind_of(s)) && !strncmp(key, "sinks.", strlen("sinks."));
}

static void prune_release(void *state)
{
    struct prune *p = state;
    prune_grams_forget(p);
    p->backend->release(p->residual.data);
    p->backend->release(p->embedded.data);
    seen_lists_clear(&p->seen);
    seen_lists_clear(&p->next);
    free(p->both.keys);
    free(p->both.count);
    free(p->both.own);
    free(p->layer);
    free(p->keep);
    free(p->sink_dims);
    free(p->hidden);
    free(p->number);
    free(p->dropped);
    for (int i = 0; i < p->model->decoder.config.layers; i++) free(p->row_score[i]);
    free(p->row_score);
    free(p->dims);
    free(p->alive);
    free(p);
}

static int prune_start(void **state, const struct method_env *env, struct err *err)
{
    struct prune *p = *state;
    size_t shares;
    if (!p) {
        *state = p = xcalloc(1, sizeof *p);
        p->model = env->model;
        p->backend = env->backend;
        const size_t layers = (size_t)env->model->decoder.config.layers;
        p->layer = xcalloc(layers, sizeof *p->layer);
        p->row_score = xcalloc(layers, sizeof *p->row_score);
        p->dims = xcalloc(layers, sizeof *p->dims);
    }
    if (env->training && settings_is(env->settings, "prune.mode", "dynamic"))
        return err_set(err, "train.prune prunes once per sample: /set prune.mode prefill");
    p->kind = prune_kind_of(env->settings);
    p->seed = (uint64_t)settings_integer(env->settings, "prune.seed");
    p->dynamic = settings_is(env->settings, "prune.mode", "dynamic");
    p->worst = settings_flag(env->settings, "prune.worst");
    p->settings = env->settings;
    p->tau = sinks_tau(env->settings, env->model->decoder.config.hidden);
    free(p->sink_dims);
    free(p->hidden);
    p->sink_dims = NULL;
    p->hidden = NULL;
    p->hidden_end = 0;
    // Hiding does not act in training.
    if (!env->training && !(p->hidden = hide_positions(env->settings, &p->hidden_end, err)))
        return -1;
    if (prune_reads_sinks(p->kind) &&
        sinks_calibrated(env->settings, env->model, &p->sink_dims, err) < 0)
        return -1;
    if (p->kind == PRUNE_LIST && prune_agree(env, err) < 0) return -1;
    free(p->keep);
    p->keep = settings_reals(env->settings, "prune.keep", &shares);
    const int first = p->stages ? p->layer[0] : PRUNE_INPUT, before = p->stages;
    p->stages = prune_read_layers(env, p->layer, err);
    if (p->stages > before) p->capacity = 0; // the new stages need row_score
    if (p->stages > 0 && p->layer[0] != first) p->residual_rows = 0; // stored for another layer
    p->blind = p->kind == PRUNE_DIVERGENCE && !prune_diverges(env, p->layer, p->stages);
    return p->stages < 0 ? -1 : prune_check_stages(p->stages, shares, err);
}

static void prune_trim(void *state, int64_t rows)
{
    struct prune *p = state;
    if (rows < p->residual_rows) p->residual_rows = rows;
    if (rows) return;
    p->backend->release(p->residual.data);
    p->backend->release(p->embedded.data);
    p->residual = p->embedded = (struct tensor){ 0 };
}

// The state that grows with the conversation is h[K+1] of all rows, and h[0] where layers need it.
static uint64_t prune_bytes(const void *state)
{
    const struct prune *p = state;
    const uint64_t embedded = p->embedded.data ? tensor_bytes(&p->embedded) : 0;
    return embedded + (p->residual.data ? tensor_bytes(&p->residual) : 0);
}

// --- the sequence --------------------------------------------------------------------------------

// True if any stage may drop some of the visual tokens; `visual` is their number.
static bool drops(const struct prune *p, int64_t visual)
{
    if (prune_names_tokens(p->kind)) return visual > 0;
    for (int i = 0; i < p->stages && !p->blind; i++)
        if (prune_count(p->keep[i], visual) < visual) return true;
    return false;
}

// True if h[0] of all rows must be stored: later layers have inputs of their own, which follow from
// it.
static bool needs_embedded(const struct prune *p)
{
    return p->model->decoder.config.layer_input && p->layer[0] != PRUNE_INPUT && !p->dynamic;
}

// A prefill can continue from cached rows whose h[K+1] is stored. In dynamic mode a prompt cannot
// reuse rows of an answer, because these attended to selected tokens only.
static int64_t prune_reusable(void *state, const struct sequence *cached, int64_t rows)
{
    const struct prune *p = state;
    const struct decoder *d = &p->model->decoder;
    const int first = p->layer[0];
    // True if this process computes layer K of the first stage, and so stores h[K+1].
    const bool here = first == PRUNE_INPUT ? decoder_first(d) : decoder_has(d, first);
    int64_t limit = here ? p->residual_rows : rows;
    if (p->dynamic)
        limit = drops(p, sequence_visual_count(cached, 0)) ? sequence_query(cached) : rows;
    return rows < limit ? rows : limit;
}

static bool prune_wants(void *state, const struct site *site, int layer)
{
    const struct prune *p = state;
    if (site == SITE_FOCUS) return p->kind == PRUNE_CLS;
    if (site == SITE_INPUT) return p->layer[0] == PRUNE_INPUT || needs_embedded(p);
    if (site == SITE_LAYER_IN && !prune_reads_sinks(p->kind)) return false;
    if (site == SITE_KL && (p->kind != PRUNE_DIVERGENCE || p->blind)) return false;
    if (layer < 0) return true;
    if (p->dynamic && site != SITE_LAYER_IN) return site == SITE_VALUES && layer >= p->layer[0];
    return prune_stage_at(p, layer) >= 0;
}

// Grows the arrays to the number of rows of the sequence.
static void sequence_reserve(struct prune *p, const struct sequence *s)
{
    if (s->n <= p->capacity) return;
    p->capacity = s->n + 256;
    p->number = xreallocarray(p->number, (size_t)p->capacity, sizeof *p->number);
    p->dropped = xreallocarray(p->dropped, (size_t)p->capacity, sizeof *p->dropped);
    p->alive = xreallocarray(p->alive, (size_t)p->capacity, sizeof *p->alive);
    for (int i = 0; i < p->stages; i++)
        p->row_score[i] =
            xreallocarray(p->row_score[i], (size_t)p->capacity, sizeof *p->row_score[i]);
}

// Numbers the visual tokens of a sequence and marks no row as dropped.
static void sequence_begin(struct prune *p, const struct sequence *s)
{
    sequence_reserve(p, s);
    p->visual = 0;
    for (int64_t i = 0; i < s->n; i++) {
        p->number[i] = s->picture[i] >= 0 ? (int32_t)p->visual++ : -1;
        p->dropped[i] = false;
    }
}

// --- prefill -------------------------------------------------------------------------------------

// Appends x of this pass's rows to a table of the rows of the sequence.
static int keep_rows(struct prune *p, struct graph *g, const struct site_args *args,
                     struct tensor *table)
{
    const int64_t n = args->x->shape[0], width = args->x->shape[1], past = args->past;
    if (past > p->residual_rows) BUG("h[K+1] of cached rows is missing");
    if (!table->data)
        *table = (struct tensor){ .dtype = DTYPE_F32, .rank = 2, .shape = { 0, width } };
    if (kv_table_reserve(g->backend, table, past, past + n) < 0) {
        graph_fail(g, "out of memory for the residual stream of %lld tokens",
                   (long long)(past + n));
        return -1;
    }
    return op_copy_rows_into(g, table, past, args->x);
}

// Stores h[K+1] of this pass's rows.
static int keep_residual(struct prune *p, struct graph *g, const struct site_args *args)
{
    if (keep_rows(p, g, args, &p->residual) < 0) return -1;
    p->residual_rows = args->past + args->x->shape[0];
    return 0;
}

// Gathers the remaining rows: at the first stage from the stored h[K+1] if there is a cache,
// otherwise from x.
static int continue_with_kept(struct prune *p, struct graph *g, struct site_args *args, int stage)
{
    const bool all = stage == 0 && args->kv;
    const int64_t n = all ? site_sequence(args)->n : args->x->shape[0];
    int32_t *index = xreallocarray(NULL, (size_t)n, sizeof *index);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = all ? i : site_row(args, i);
        if (p->dropped[row]) continue;
        index[count] = (int32_t)i;
        p->alive[count++] = (int32_t)row;
    }
    args->x = op_gather_rows(g, all ? &p->residual : args->x, index, count); // [n', D]
    args->rows = p->alive;
    if (all && needs_embedded(p)) args->embedded = op_gather_rows(g, &p->embedded, index, count);
    free(index);
    return args->x && graph_ok(g) ? 0 : -1;
}

// --- without a query -----------------------------------------------------------------------------

// Detaches and returns the tape: in training, the choice of tokens has no gradient and is not
// repeated when a layer is recomputed.
static struct tape *stop_tape(struct graph *g)
{
    struct tape *tape = g->tape;
    g->tape = NULL;
    return tape;
}

// Stores the encoder's attention to each token of a picture.
static int prune_focus(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    const struct sequence *s = site_sequence(args);
    const int64_t count = args->x->shape[0];
    float *focus = xmalloc(tensor_bytes(args->x) + 1);
    g->backend->download(focus, args->x->data, tensor_bytes(args->x));
    sequence_reserve(p, s);
    for (int64_t i = 0; i < s->n; i++)
        if (s->picture[i] == args->picture && s->cell[i] < count)
            p->row_score[0][i] = focus[s->cell[i]];
    free(focus);
    return 0;
}

// Stores phi of the pass's rows. Keeps the sink dimensions of the sequence's first token for later
// passes, which do not compute its row.
static int prune_phi(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    const int stage = prune_stage_at(p, args->layer);
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    const double eps = p->model->decoder.config.eps;
    int *dims = p->dims[stage];
    if (tape_recomputing(g)) return 0;
    float *h = xreallocarray(NULL, (size_t)(n * width) + 1, sizeof *h);
    graph_download(g, h, args->x);
    sequence_reserve(p, site_sequence(args));
    if (p->sink_dims)
        for (int i = 0; i < 2; i++) dims[i] = (int)p->sink_dims[2 * args->layer + i];
    else if (site_row(args, 0) == 0)
        sinks_top(h, width, dims);
    for (int64_t i = 0; i < n; i++)
        p->row_score[stage][site_row(args, i)] =
            (float)sinks_phi(h + i * width, width, eps, dims, 2);
    free(h);
    return 0;
}

// Stores IRA's divergence of the pass's visual tokens, which pruning needs at the end of the layer.
static int prune_kl(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    float *kl = xmalloc(tensor_bytes(args->x) + 1);
    g->backend->download(kl, args->x->data, tensor_bytes(args->x)); // [S', Hkv]
    sequence_reserve(p, site_sequence(args));
    ira_divergence(args, kl, p->row_score[prune_stage_at(p, args->layer)]);
    free(kl);
    return 0;
}

static int prune_layer_out(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    const int stage = prune_stage_at(p, args->layer);
    if (stage == 0 && args->kv && keep_residual(p, g, args) < 0) return -1;
    if (!args->prefill) return 0;
    // Replaces the rows if any stage drops tokens, or if layers after the first stage lack cached
    // rows. Which rows the layers of other processes (decoder.part) lack is not known here.
    if (stage == 0)
        p->replacing = drops(p, p->visual) || p->model->decoder.part ||
                       (args->kv && !kv_whole(args->kv, p->layer[0] + 1, args->past));
    struct tape *tape = stop_tape(g);
    const bool rows = p->kind >= PRUNE_DIVERSITY || p->layer[0] == PRUNE_INPUT;
    const int status = rows ? prune_pick_rows(p, g, args, stage) : 0;
    g->tape = tape;
    if (status < 0) return -1;
    return p->replacing ? continue_with_kept(p, g, args, stage) : 0;
}

static int shared_pass(struct graph *g, const struct sequence *s)
{
    if (!s->start) return 0;
    graph_fail(g, "visual tokens cannot be pruned if samples share a pass");
    return -1;
}

// Prunes before the first layer, in the same way as after a layer, but first numbers the tokens; or
// stores h[0] for pruning after a layer.
static int prune_input(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    if (p->layer[0] != PRUNE_INPUT) return args->kv ? keep_rows(p, g, args, &p->embedded) : 0;
    if (shared_pass(g, site_sequence(args)) < 0) return -1;
    if (args->prefill) sequence_begin(p, site_sequence(args));
    return prune_layer_out(p, g, args);
}

// --- by a query ----------------------------------------------------------------------------------

// Copies the keys of list a that list b has, too; both are ascending. Returns their number.
static int64_t common(const int32_t *a, int64_t n, const int32_t *b, int64_t m, int32_t *to)
{
    int64_t count = 0;
    for (int64_t i = 0, j = 0; i < n; i++) {
        while (j < m && b[j] < a[i]) j++;
        if (j < m && b[j] == a[i]) to[count++] = a[i];
    }
    return count;
}

// Restricts rows to the chosen keys, without those that another method hides from them.
static void see_chosen(struct prune *p, struct site_args *args)
{
    const struct seen_keys chosen = { .from = p->seen.from,
                                      .keys = (const int32_t *const *)p->seen.keys,
                                      .count = p->seen.count };
    const struct seen_keys other = args->seen;
    args->seen = chosen;
    if (!other.keys) return;
    const int64_t n = args->q->shape[0], all = args->k->shape[0];
    const int64_t from = chosen.from < other.from ? chosen.from : other.from;
    struct both_lists *to = &p->both;
    to->keys = xreallocarray(to->keys, (size_t)(n - from) + 1, sizeof *to->keys);
    to->count = xreallocarray(to->count, (size_t)(n - from) + 1, sizeof *to->count);
    to->own = xreallocarray(to->own, (size_t)((n - chosen.from) * all) + 1, sizeof *to->own);
    for (int64_t i = from; i < n; i++) {
        const struct seen_keys *one = i < chosen.from ? &other : &chosen;
        to->keys[i - from] = one->keys[i - one->from];
        to->count[i - from] = one->count[i - one->from];
        if (i < chosen.from || i < other.from) continue;
        int32_t *list = to->own + (i - chosen.from) * all;
        to->count[i - from] = common(one->keys[i - one->from], one->count[i - one->from],
                                     other.keys[i - other.from], other.count[i - other.from], list);
        to->keys[i - from] = list;
    }
    args->seen = (struct seen_keys){ .from = from, .keys = to->keys, .count = to->count };
}

static int prune_values(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    const int stage = prune_stage_at(p, args->layer);
    if (shared_pass(g, site_sequence(args)) < 0) return -1;
    if (!p->dynamic) {
        if (!args->prefill) return 0;
        if (tape_recomputing(g)) return 0;
        if (stage == 0) sequence_begin(p, site_sequence(args));
        struct tape *tape = stop_tape(g);
        const int status = p->kind >= PRUNE_DIVERSITY ? 0 : prune_pick_for_all(p, g, args, stage);
        g->tape = tape;
        return status;
    }
    if (stage == 0) {
        sequence_begin(p, site_sequence(args));
        seen_lists_clear(&p->seen);
        seen_lists_clear(&p->next);
    }
    if (p->next.keys) {
        seen_lists_clear(&p->seen);
        p->seen = p->next;
        p->next = (struct seen_lists){ 0 };
    }
    if (p->seen.keys) see_chosen(p, args);
    if (stage < 0) return 0;
    // Discards outdated Gram matrices even if nothing is dropped, because the rows may have
    // changed.
    prune_grams_begin(p, stage, args->past);
    if (!prune_names_tokens(p->kind) && prune_stage_count(p, stage) == p->visual) return 0;
    return prune_pick_for_each(p, g, args, stage);
}

// --- layers in several processes -----------------------------------------------------------------

void seen_lists_clear(struct seen_lists *l)
{
    for (int64_t i = 0; i < l->rows; i++) free(l->keys[i]);
    free(l->keys);
    free(l->count);
    *l = (struct seen_lists){ 0 };
}

// prune_put writes bytes for the rank of the next layers (job.split layers); that rank reads them
// in the same order with prune_get, which returns false if they are missing.
static void prune_put(struct stage_note *note, const void *data, size_t size)
{
    if (size) buf_add(&note->bytes, data, size);
}

static bool prune_get(struct stage_note *note, void *data, size_t size)
{
    if (size > note->bytes.length - note->at) return false;
    if (size) memcpy(data, note->bytes.data + note->at, size);
    note->at += size;
    return true;
}

void seen_lists_put(struct stage_note *note, const struct seen_lists *l)
{
    const int64_t rows = l->keys ? l->rows : 0;
    prune_put(note, &l->from, sizeof l->from);
    prune_put(note, &rows, sizeof rows);
    for (int64_t i = 0; i < rows; i++) {
        prune_put(note, &l->count[i], sizeof *l->count);
        prune_put(note, l->keys[i], (size_t)l->count[i] * sizeof **l->keys);
    }
}

bool seen_lists_get(struct stage_note *note, int64_t most, struct seen_lists *l)
{
    int64_t rows;
    if (!prune_get(note, &l->from, sizeof l->from) || !prune_get(note, &rows, sizeof rows))
        return false;
    if (rows < 0 || rows > most) return false;
    if (!rows) return true;
    l->keys = xcalloc((size_t)rows, sizeof *l->keys);
    l->count = xcalloc((size_t)rows, sizeof *l->count);
    l->rows = rows;
    for (int64_t i = 0; i < rows; i++) {
        if (!prune_get(note, &l->count[i], sizeof *l->count)) return false;
        const size_t left = note->bytes.length - note->at;
        if (l->count[i] < 0 || (uint64_t)l->count[i] > left / sizeof **l->keys) return false;
        l->keys[i] = xreallocarray(NULL, (size_t)l->count[i] + 1, sizeof **l->keys);
        if (!prune_get(note, l->keys[i], (size_t)l->count[i] * sizeof **l->keys)) return false;
    }
    return true;
}

// True if a stage at `layer` or later needs the encoder's attention, which only the first process
// has.
static bool focus_from(const struct prune *p, int layer)
{
    return p->kind == PRUNE_CLS && p->layer[p->stages - 1] >= layer;
}

// Sends the state that layers `to` and later need: in dynamic mode the lists of selected keys;
// otherwise the dropped tokens and, for score cls, the encoder's attention to the visual tokens.
static int prune_send(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    const struct sequence *s = site_sequence(args);
    const int to = p->model->decoder.part->end_layer;
    const bool dropped = p->layer[0] < to;
    sequence_reserve(p, s); // in case no layer of this process prunes
    if (p->dynamic) {
        if (dropped) seen_lists_put(args->own, p->next.keys ? &p->next : &p->seen);
    } else if (args->prefill) {
        if (dropped) prune_put(args->own, &p->replacing, sizeof p->replacing);
        if (dropped) prune_put(args->own, p->dropped, (size_t)s->n * sizeof *p->dropped);
        for (int64_t i = 0; i < s->n && focus_from(p, to); i++)
            if (s->picture[i] >= 0) prune_put(args->own, &p->row_score[0][i], sizeof(float));
    }
    return graph_ok(g) ? 0 : -1;
}

static int prune_receive(void *state, struct graph *g, struct site_args *args)
{
    struct prune *p = state;
    const struct sequence *s = site_sequence(args);
    const int from = p->model->decoder.part->first_layer;
    const bool dropped = p->layer[0] < from;
    bool good = true;
    if (p->dynamic) {
        seen_lists_clear(&p->seen);
        seen_lists_clear(&p->next);
        if (dropped) sequence_begin(p, s);
        if (dropped) good = seen_lists_get(args->own, s->n, &p->next);
    } else if (args->prefill) {
        sequence_begin(p, s);
        if (dropped)
            good = prune_get(args->own, &p->replacing, sizeof p->replacing) &&
                   prune_get(args->own, p->dropped, (size_t)s->n * sizeof *p->dropped);
        for (int64_t i = 0; i < s->n && good && focus_from(p, from); i++)
            if (s->picture[i] >= 0) good = prune_get(args->own, &p->row_score[0][i], sizeof(float));
    }
    if (!good) graph_fail(g, "the previous rank did not send the list of remaining visual tokens");
    return good ? 0 : -1;
}

const struct method method_prune = {
    .name = "prune",
    .title = "pruning",
    .settings = prune_settings,
    .toggle = { "prune.score", "off", "contribution" },
    .press = "Alt-2",
    .replaces = true,
    .badge = prune_badge,
    .forecast = prune_forecast,
    .default_layer = prune_auto_layer,
    .possible = prune_possible,
    .check = prune_check,
    .agree = prune_agree,
    .without_effect = prune_without_effect,
    .training = { .by = "train.prune" },
    .keeps = prune_keeps,
    .reads = prune_reads,
    .start = prune_start,
    .release = prune_release,
    .trim = prune_trim,
    .bytes = prune_bytes,
    .reusable = prune_reusable,
    .wants = prune_wants,
    .at = { { SITE_FOCUS, prune_focus },
            { SITE_INPUT, prune_input },
            { SITE_LAYER_IN, prune_phi },
            { SITE_VALUES, prune_values },
            { SITE_KL, prune_kl },
            { SITE_LAYER_OUT, prune_layer_out },
            { SITE_SEND, prune_send },
            { SITE_RECEIVE, prune_receive } },
};
