// core/interventions/ablate.c -- /ablate: the answer's log-probability without one part of the
// model at a time.
//
//   heads:  the output of a head, before the output projection
//   ffn:    the output of a layer's FFN (what it adds to the residual stream)
//   layers: what a whole layer adds to the residual stream
//   tokens: a position that no later one attends to, in any layer
//
// The output is replaced at the named positions by zeros, by its mean over the positions of the
// pass without a change, or by the output of another of these positions. Visual and text positions
// are separate: their outputs differ too much for a common mean.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/interventions/effect.h"
#include "core/ops/ops.h"
#include "core/positions/positions.h"
#include "core/probes/kit.h"

enum part { HEADS, FFN, LAYERS, TOKENS };
static const char *const part_names[] = { "heads", "ffn", "layers", "tokens", NULL };
static const char *const ablate_complete[] = { "heads",  "ffn",    "layers",   "tokens", "picture",
                                               "object", "system", "question", "last",   "answer",
                                               "text",   "sinks",  "all",      NULL };

// Outputs of a layer's part.
struct outputs {
    float *output;   // [N,width]; NULL: not read
    bool *there;     // [N] the layer computed the position
    double *mean[2]; // [width] of text and of visual positions
    int64_t count[2];
};

struct ablate {
    const struct probe_env *env;
    enum part part;
    bool *at;     // [N] positions whose outputs are replaced; of tokens: those hidden in turn
    bool *layers; // [L]
    struct effect effect;
    double *change;          // [L] or [L,H] or [N]; NaN: not measured
    struct outputs *outputs; // [L] of the pass without a change, for --mean and --resample
    bool collecting;
    float *before; // [N,D] of the current layer: the residual stream before the part
    struct rows rows;

    // The change of the current pass.
    int layer, head;       // -1: none
    int64_t token;         // -1: none
    bool *all_rows, *keys; // flags for the site: [N], [P]
    int32_t *only;         // rows of the FFN that remain
    bool *reached;         // [L] layers with heads
};

static void ablate_release(void *state)
{
    struct ablate *s = state;
    for (int l = 0; s->outputs && l < s->env->model->decoder.config.layers; l++) {
        free(s->outputs[l].output);
        free(s->outputs[l].there);
        for (int k = 0; k < 2; k++) free(s->outputs[l].mean[k]);
    }
    free(s->outputs);
    free(s->at);
    free(s->layers);
    free(s->change);
    free(s->before);
    free(s->all_rows);
    free(s->keys);
    free(s->only);
    free(s->reached);
    rows_release(&s->rows);
    effect_close(&s->effect);
    free(s);
}

// Splits "heads POSITIONS"; *positions is "" without any.
static int read_part(const char *words, enum part *part, const char **positions, struct err *err)
{
    const size_t n = strcspn(words, " \t");
    int i = 0;
    while (part_names[i] && (strlen(part_names[i]) != n || strncmp(part_names[i], words, n) != 0))
        i++;
    *positions = words + n + strspn(words + n, " \t");
    *part = (enum part)i;
    return part_names[i] ? 0
                         : err_set(err,
                                   "/ablate takes heads, ffn, layers or tokens, then names of "
                                   "positions, not '%s'",
                                   words);
}

static int ablate_words(const char *words, struct err *err)
{
    enum part part;
    const char *text;
    struct positions p = { 0 };
    if (read_part(words, &part, &text, err) < 0) return -1;
    const int status = *text ? positions_parse(&p, text, err) : 0;
    positions_release(&p);
    return status;
}

static int choose(struct ablate *s, struct err *err)
{
    const struct probe_options *o = s->env->options;
    const int layers = s->env->model->decoder.config.layers;
    const char *text;
    if (read_part(o->words, &s->part, &text, err) < 0) return -1;
    if (s->part == TOKENS && (o->mean || o->resample))
        return err_set(err,
                       "--mean and --resample replace outputs; /ablate tokens hides tokens from "
                       "all later attention instead");
    if (!*text) text = s->part != TOKENS ? "all" : s->env->visual ? "picture" : "question";
    if (probe_positions(s->env, text, s->at, err) < 0) return -1;
    return positions_layers(o->layers, "--layers", layers, s->layers, err) < 0 ? -1 : 0;
}

static void *ablate_start(const struct probe_env *env, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    const int64_t n = env->sequence->n, cells = c->layers * c->heads > n ? c->layers * c->heads : n;
    struct ablate *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->at = xcalloc((size_t)n + 1, sizeof *s->at);
    s->layers = xcalloc((size_t)c->layers, sizeof *s->layers);
    s->all_rows = xcalloc((size_t)n + 1, sizeof *s->all_rows);
    s->reached = xcalloc((size_t)c->layers, sizeof *s->reached);
    s->keys = xcalloc((size_t)n + 1, sizeof *s->keys);
    s->before = xcalloc((size_t)(n * c->hidden) + 1, sizeof *s->before);
    s->change = xcalloc((size_t)cells, sizeof *s->change);
    s->outputs = xcalloc((size_t)c->layers, sizeof *s->outputs);
    for (int64_t i = 0; i < cells; i++) s->change[i] = NAN;
    if (choose(s, err) == 0) return s;
    ablate_release(s);
    return NULL;
}

// --- outputs of the pass without a change --------------------------------------------------------

static int class_of(const struct ablate *s, int64_t row)
{
    return s->env->sequence->picture[row] >= 0;
}

static int64_t width_of(const struct tensor *x)
{
    return tensor_count(x) / x->shape[0];
}

// Keeps the outputs x of a layer, or x minus the residual stream before it.
static void collect(struct ablate *s, const struct site_args *args, const float *x, bool minus)
{
    const int64_t n = s->env->sequence->n, width = width_of(args->x);
    struct outputs *o = &s->outputs[args->layer];
    if (!o->output) {
        o->output = xcalloc((size_t)(n * width) + 1, sizeof *o->output);
        o->there = xcalloc((size_t)n + 1, sizeof *o->there);
        for (int k = 0; k < 2; k++) o->mean[k] = xcalloc((size_t)width, sizeof *o->mean[k]);
    }
    for (int64_t i = 0; i < args->x->shape[0]; i++) {
        const int64_t row = site_row(args, i);
        const int kind = class_of(s, row);
        o->there[row] = true;
        o->count[kind]++;
        for (int64_t k = 0; k < width; k++) {
            const float y = x[i * width + k] - (minus ? s->before[i * width + k] : 0);
            o->output[row * width + k] = y;
            o->mean[kind][k] += ((double)y - o->mean[kind][k]) / (double)o->count[kind];
        }
    }
}

// Returns another position of the class of `row`, drawn with a fixed seed; -1: none exists.
static int64_t other_row(const struct ablate *s, const struct outputs *o, int64_t row)
{
    const int kind = class_of(s, row);
    if (o->count[kind] < 2) return -1;
    int64_t steps =
        1 + (int64_t)(random_unit(42, RANDOM_SAMPLE, (uint64_t)row) * (double)(o->count[kind] - 1));
    int64_t at = row;
    while (steps) {
        at = (at + 1) % s->env->sequence->n;
        steps -= o->there[at] && class_of(s, at) == kind;
    }
    return at;
}

// Sets to[width], which is 0, to what replaces the output at a position.
static void replacement(const struct ablate *s, int layer, int64_t row, int64_t width, float *to)
{
    const struct outputs *o = &s->outputs[layer];
    const int64_t other = s->env->options->resample ? other_row(s, o, row) : -1;
    for (int64_t k = 0; k < width && s->env->options->mean; k++)
        to[k] = (float)o->mean[class_of(s, row)][k];
    if (other >= 0) memcpy(to, o->output + other * width, (size_t)width * sizeof *to);
}

// --- the change ----------------------------------------------------------------------------------

static bool ablate_wants(void *self, const struct site *site, int layer)
{
    const struct ablate *s = self;
    const bool here = s->part == HEADS ? site == SITE_HEADS
                      : s->part == FFN ? site == SITE_FFN || (s->collecting && site == SITE_FFN_OUT)
                      : s->part == LAYERS ? site == SITE_LAYER_IN || site == SITE_LAYER_OUT
                                          : site == SITE_VALUES;
    return here && (layer < 0 || s->layers[layer]);
}

// Lists the rows of x at the chosen positions (`chosen`), or the others.
static int32_t *rows_at(const struct ablate *s, const struct site_args *args, bool chosen,
                        int64_t *count)
{
    int32_t *list = xreallocarray(NULL, (size_t)args->x->shape[0] + 1, sizeof *list);
    *count = 0;
    for (int32_t i = 0; i < args->x->shape[0]; i++)
        if (s->at[site_row(args, i)] == chosen) list[(*count)++] = i;
    return list;
}

// Replaces rows list[m] of args->x: their columns first.. by those of the replacement, or, with
// columns 0, the whole rows; `add` adds the residual stream before the part.
static int put(struct ablate *s, struct graph *g, struct site_args *args, const int32_t *list,
               int64_t m, int64_t first, int64_t columns, bool add)
{
    const int64_t width = width_of(args->x);
    if (!columns) columns = width;
    float *host = xcalloc((size_t)(m * width) + 1, sizeof *host);
    for (int64_t i = 0; i < m; i++) {
        replacement(s, args->layer, site_row(args, list[i]), width, host + i * width);
        for (int64_t k = 0; k < width && add; k++)
            host[i * width + k] += s->before[list[i] * width + k];
    }
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *values = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ m, width }, host);
    struct tensor *x = graph_view(g, args->x, 2, (int64_t[]){ args->x->shape[0], width });
    struct tensor *rows = columns == width ? values : op_gather_rows(g, x, list, m);
    const struct columns part = { first, 1, columns };
    if (rows && values && rows != values && g->backend->put_columns(rows, first, values, part) < 0)
        graph_fail(g, "ablation: %s", g->backend->failure());
    op_scatter_rows(g, x, rows, list);
    graph_scratch_end(g, scratch);
    free(host);
    return graph_ok(g) ? 0 : -1;
}

static int ablate_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct ablate *s = self;
    const bool now = args->layer == s->layer;
    s->reached[args->layer] = true;
    if (site == SITE_VALUES) {
        if (s->token < 0) return 0;
        for (int64_t i = 0; i < args->q->shape[0]; i++) s->all_rows[i] = true;
        for (int64_t j = 0; j < args->k->shape[0]; j++) s->keys[j] = site_key(args, j) == s->token;
        args->seen.hidden = (struct hidden_keys){ .rows = s->all_rows, .keys = s->keys };
        return 0;
    }
    if (s->collecting && (site == SITE_HEADS || site == SITE_FFN_OUT || site == SITE_LAYER_OUT))
        collect(s, args, rows_read(&s->rows, g, args->x), site != SITE_HEADS);
    if ((site == SITE_FFN || site == SITE_LAYER_IN) && (now || s->collecting))
        graph_download(g, s->before, args->x);
    if (!now || site == SITE_LAYER_IN || site == SITE_FFN_OUT) return graph_ok(g) ? 0 : -1;
    int64_t m, others;
    int32_t *list = rows_at(s, args, true, &m);
    int status = 0;
    if (m && site == SITE_HEADS) {
        const int64_t dv = args->x->shape[2];
        status = put(s, g, args, list, m, s->head * dv, dv, false);
    } else if (m) {
        status = put(s, g, args, list, m, 0, 0, true);
    }
    free(list);
    if (site != SITE_FFN) return status;
    free(s->only);
    s->only = rows_at(s, args, false, &others);
    args->only = s->only;
    args->only_count = others;
    return status;
}

static int change(struct ablate *s, int layer, int head, int64_t token, double *to, struct err *err)
{
    const struct hook hook = {
        .wants = ablate_wants, .run = ablate_run, .self = s, .changes = true
    };
    s->layer = layer, s->head = head, s->token = token;
    return effect_of(&s->effect, &hook, to, err);
}

// --- the passes ----------------------------------------------------------------------------------

static int ablate_passes(void *state, struct passing *p, struct err *err)
{
    struct ablate *s = state;
    const struct decoder_config *c = &s->env->model->decoder.config;
    const int heads = s->part == HEADS ? (int)c->heads : 1;
    const struct hook hook = {
        .wants = ablate_wants, .run = ablate_run, .self = s, .changes = true
    };
    int64_t first = 0, parts = 0;
    while (!s->at[first]) first++;
    for (int64_t i = 0; i < s->env->sequence->n; i++) parts += s->part == TOKENS && s->at[i];
    for (int l = 0; l < c->layers; l++) parts += s->part != TOKENS && s->layers[l] ? heads : 0;
    s->layer = s->head = -1;
    s->token = -1;
    s->collecting = s->env->options->mean || s->env->options->resample;
    // Outputs of all positions are needed, so no prefix is shared.
    if (s->collecting) first = 0;
    int status = effect_open(&s->effect, s->env, p, first, parts, &hook, err);
    s->collecting = false;
    for (int64_t i = 0; i < s->env->sequence->n && status == 0; i++)
        if (s->part == TOKENS && s->at[i]) status = change(s, -1, -1, i, &s->change[i], err);
    for (int k = 0; k < c->layers * heads && status == 0; k++)
        if (s->part != TOKENS && s->layers[k / heads])
            status =
                change(s, k / heads, s->part == HEADS ? k % heads : -1, -1, &s->change[k], err);
    return status;
}

// --- results -------------------------------------------------------------------------------------

static void put_tokens(const struct ablate *s, struct results *r, struct result_table *t)
{
    const struct sequence *q = s->env->sequence;
    float *map = probe_values(s->env, 1);
    bool any = false;
    for (int64_t i = 0; i < q->n; i++) {
        if (isnan(s->change[i])) continue;
        const int32_t token = s->env->number[i];
        if (token >= 0) map[token] = (float)-s->change[i], any = true;
        if (token >= 0)
            result_row(t, "%lld (picture %d, token %d)", (long long)i, q->picture[i],
                       q->cell[i])[0] = s->change[i];
        else
            result_row(t, "%lld", (long long)i)[0] = s->change[i];
    }
    if (any) probe_maps(s->env, r, "ablate.picture", -1, -2, -2, map);
    free(map);
}

static int ablate_finish(void *state, struct results *r, struct err *err)
{
    const struct ablate *s = state;
    const struct decoder_config *c = &s->env->model->decoder.config;
    const struct effect *e = &s->effect;
    double before = 0;
    for (int64_t t = e->first; t < e->end; t++) before += e->before[t];
    result_row(results_table(r, "ablate", "what|log-probability"), "the answer")[0] = before;
    char *name = xasprintf("ablate.%s", part_names[s->part]);
    static const char *const columns[] = { "head|change", "layer|change", "layer|change",
                                           "position|change" };
    struct result_table *t = results_table(r, name, columns[s->part]);
    free(name);
    t->ranked = true;
    t->own = s->part == TOKENS;
    if (s->part == HEADS || s->part == TOKENS) effect_note_layers(e, r, s->layers, s->reached);
    if (s->part == TOKENS) {
        put_tokens(s, r, t);
        return 0;
    }
    const int heads = s->part == HEADS ? (int)c->heads : 1;
    for (int k = 0; k < c->layers * heads; k++) {
        if (isnan(s->change[k])) continue;
        if (s->part == HEADS)
            result_row(t, "%d.%d", k / heads, k % heads)[0] = s->change[k];
        else
            result_row(t, "%d", k)[0] = s->change[k];
    }
    if (s->part != HEADS) return 0;
    struct result_map *m = results_map(r, "ablate.map", c->layers, heads);
    for (int k = 0; k < c->layers * heads; k++) m->values[k] = (float)-s->change[k];
    return 0;
}

static const struct result_kind ablate_results[] = {
    { "ablate", .unit = "log-probability (nats)", .columns = "log-probability" },
    { "ablate", .unit = "change of log-probability (nats)", .columns = "change" },
    { "ablate.map", "loss of log-probability (nats)", .map = true, .rows = MAP_LAYERS,
      .cols = MAP_HEADS, .on_request = true },
    { "ablate.picture", "loss of log-probability (nats)", .map = true, .on_request = true },
    { 0 },
};

const struct probe probe_ablate = {
    .name = "ablate",
    .also = "ablation heads ffn mlp layers tokens remove causal intervention importance measure",
    .usage =
        "/ablate heads|ffn|layers|tokens [POSITIONS] [--zero | --mean | --resample] [--layers A-B] "
        "[--token answer|N] [--picture I] [--objects FILE [--boxes]]" PROBE_USAGE,
    .help = "Change of the answer's log-probability without each head, FFN, layer or token.",
    .details =
        "Runs the answer once for each part and ranks the parts, the most important first. Maps\n"
        "show the loss of log-probability.\n"
        "Outputs are replaced at POSITIONS (/help positions; default: all). A token is hidden\n"
        "from the attention of all later positions (default: the tokens of the picture, as a\n"
        "map)." PROBE_DETAILS,
    .results = ablate_results,
    .words = ablate_words,
    .complete = ablate_complete,
    .answer = true,
    .start = ablate_start,
    .release = ablate_release,
    .passes = ablate_passes,
    .finish = ablate_finish,
};
