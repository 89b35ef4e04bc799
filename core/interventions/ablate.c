// core/interventions/ablate.c -- /ablate: the answer's log-probability with one part of the model
// removed at a time.
//
//   heads:  the output of a head, before the output projection
//   ffn:    the output of a layer's FFN (what it adds to the residual stream)
//   layers: what a whole layer adds to the residual stream
//   tokens: a position that no other one attends to, in the chosen layers
//
// At the named positions, the output of a head, FFN or layer is replaced with zeros, with its mean
// over all positions of the same modality in the unchanged pass, or with the output at another
// position of the same modality. Outputs of visual and text positions differ too much for a common
// mean.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/interventions/effect.h"
#include "core/interventions/parts.h"
#include "core/model/layer.h"
#include "core/model/pass.h"
#include "core/positions/positions.h"
#include "core/probes/passes.h"

enum ablated { HEADS, FFN, LAYERS, TOKENS };
static const char *const part_names[] = { "heads", "ffn", "layers", "tokens", NULL };
static const char *const ablate_complete[] = { "heads",  "ffn",    "layers",   "tokens", "picture",
                                               "object", "system", "question", "last",   "answer",
                                               "text",   "sinks",  "all",      NULL };

struct ablate {
    const struct probe_env *env;
    enum ablated part;
    struct parts parts; // its `at`: positions to replace, or tokens to hide one at a time
    struct effect effect;
    double *change; // [L] or [L,H] or [N]; NaN: not measured
    double **mean;  // [2*L][width] per layer, of text and of visual positions; NULL: not computed
    int64_t token;  // hidden in this pass; -1: none
    bool *all_rows, *keys; // [N], [P] for struct hidden_keys
    int32_t *only;         // [N] for SITE_STATE
};

static void ablate_release(void *state)
{
    struct ablate *s = state;
    for (int i = 0; i < 2 * s->env->model->decoder.config.layers; i++) free(s->mean[i]);
    free(s->mean);
    free(s->change);
    free(s->all_rows);
    free(s->only);
    free(s->keys);
    parts_close(&s->parts);
    effect_close(&s->effect);
    free(s);
}

// Splits "heads POSITIONS"; *positions is "" if none are named.
static int read_part(const char *words, enum ablated *part, const char **positions, struct err *err)
{
    const size_t n = strcspn(words, " \t");
    int i = 0;
    while (part_names[i] && (strlen(part_names[i]) != n || strncmp(part_names[i], words, n) != 0))
        i++;
    *positions = words + n + strspn(words + n, " \t");
    *part = (enum ablated)i;
    return part_names[i] ? 0
                         : err_set(err,
                                   "/ablate takes heads, ffn, layers or tokens, then names of "
                                   "positions, not '%s'",
                                   words);
}

static int ablate_words(const char *words, struct err *err)
{
    enum ablated part;
    const char *text;
    if (read_part(words, &part, &text, err) < 0) return -1;
    return *text ? positions_check(text, err) : 0;
}

static int choose(struct ablate *s, struct err *err)
{
    const struct probe_options *o = s->env->options;
    const int layers = s->env->model->decoder.config.layers;
    const char *text;
    if (read_part(o->words, &s->part, &text, err) < 0) return -1;
    if (s->part == TOKENS && (o->zero || o->mean || o->resample))
        return err_set(err,
                       "--zero, --mean and --resample replace outputs; /ablate tokens hides tokens "
                       "from all other positions instead");
    if (!*text) text = s->part != TOKENS ? "all" : s->env->visual ? "picture" : "question";
    if (probe_positions(s->env, text, s->parts.at, err) < 0) return -1;
    return positions_layers(o->layers, "--layers", layers, s->parts.layers, err) < 0 ? -1 : 0;
}

static void *ablate_start(const struct probe_env *env, struct err *err)
{
    static const enum part parts[] = { OUTPUT_HEAD, OUTPUT_FFN, OUTPUT_LAYER, OUTPUT_LAYER };
    const struct decoder_config *c = &env->model->decoder.config;
    const int64_t n = env->sequence->n, cells = c->layers * c->heads > n ? c->layers * c->heads : n;
    struct ablate *s = xcalloc(1, sizeof *s);
    s->env = env;
    parts_open(&s->parts, env, OUTPUT_LAYER);
    s->all_rows = xcalloc((size_t)n + 1, sizeof *s->all_rows);
    s->only = xcalloc((size_t)n + 1, sizeof *s->only);
    s->keys = xcalloc((size_t)n + 1, sizeof *s->keys);
    s->change = xcalloc((size_t)cells, sizeof *s->change);
    s->mean = xcalloc(2 * (size_t)c->layers, sizeof *s->mean);
    for (int64_t i = 0; i < cells; i++) s->change[i] = NAN;
    if (choose(s, err) == 0) {
        s->parts.part = parts[s->part];
        return s;
    }
    ablate_release(s);
    return NULL;
}

// --- replacements --------------------------------------------------------------------------------

static bool alike(const struct ablate *s, const struct outputs *o, int64_t a, int64_t b)
{
    const int32_t *picture = s->env->sequence->picture;
    return o->there[b] && (picture[a] >= 0) == (picture[b] >= 0);
}

static const double *mean_of(struct ablate *s, int layer, int64_t row)
{
    const struct outputs *o = &s->parts.outputs[layer];
    const int kind = 2 * layer + (s->env->sequence->picture[row] >= 0);
    double *mean = s->mean[kind];
    int64_t count = 0;
    if (mean) return mean;
    s->mean[kind] = mean = xcalloc((size_t)o->width + 1, sizeof *mean);
    for (int64_t i = 0; i < s->env->sequence->n; i++) {
        if (!alike(s, o, row, i)) continue;
        count++;
        for (int64_t k = 0; k < o->width; k++)
            mean[k] += ((double)o->output[i * o->width + k] - mean[k]) / (double)count;
    }
    return mean;
}

// Returns another position of the same modality as `row`, drawn with a fixed seed; `row` if there
// is no other.
static int64_t other_row(const struct ablate *s, const struct outputs *o, int64_t row)
{
    const int64_t n = s->env->sequence->n;
    int64_t count = 0, at = row;
    for (int64_t i = 0; i < n; i++) count += alike(s, o, row, i);
    if (count < 2) return row;
    int64_t steps =
        1 + (int64_t)(random_unit(42, RANDOM_SAMPLE, (uint64_t)row) * (double)(count - 1));
    while (steps) {
        at = (at + 1) % n;
        steps -= alike(s, o, row, at);
    }
    return at;
}

static void replacement(void *self, int layer, int64_t row, int64_t width, float *to)
{
    struct ablate *s = self;
    const struct outputs *o = &s->parts.outputs[layer];
    const double *mean = s->env->options->mean ? mean_of(s, layer, row) : NULL;
    const int64_t other = s->env->options->resample ? other_row(s, o, row) : -1;
    for (int64_t k = 0; k < width && mean; k++) to[k] = (float)mean[k];
    if (other >= 0) memcpy(to, o->output + other * width, (size_t)width * sizeof *to);
}

// --- a hidden token ------------------------------------------------------------------------------

static bool token_wants(void *self, const struct site *site, int layer)
{
    const struct ablate *s = self;
    return (site == SITE_VALUES || site == SITE_STATE) && (layer < 0 || s->parts.layers[layer]);
}

static int token_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct ablate *s = self;
    s->parts.reached[args->layer] = true;
    if (s->token < 0) return 0;
    if (site == SITE_STATE) {
        args->only = s->only, args->only_count = 0;
        for (int64_t i = 0; i < args->x->shape[0]; i++)
            if (site_row(args, i) != s->token) s->only[args->only_count++] = (int32_t)i;
        return 0;
    }
    for (int64_t i = 0; i < args->q->shape[0]; i++) s->all_rows[i] = true;
    for (int64_t j = 0; j < args->k->shape[0]; j++) s->keys[j] = site_key(args, j) == s->token;
    args->seen.hidden = (struct hidden_keys){ .rows = s->all_rows, .keys = s->keys };
    return 0;
}

static struct hook hook_of(struct ablate *s)
{
    if (s->part != TOKENS) return parts_hook(&s->parts);
    return (struct hook){ .wants = token_wants, .run = token_run, .self = s, .changes = true };
}

static int change(struct ablate *s, int layer, int head, int64_t token, double *to, struct err *err)
{
    const struct hook hook = hook_of(s);
    s->parts.layer = layer, s->parts.head = head, s->token = token;
    s->effect.layer = layer;
    return effect_of(&s->effect, &hook, to, err);
}

// --- the passes ----------------------------------------------------------------------------------

static int ablate_passes(void *state, struct passing *p, struct err *err)
{
    struct ablate *s = state;
    const struct decoder_config *c = &s->env->model->decoder.config;
    const int heads = s->part == HEADS ? (int)c->heads : 1;
    const struct hook hook = hook_of(s);
    int64_t first = 0, parts = 0;
    int layer = 0;
    while (!s->parts.at[first]) first++;
    while (!s->parts.layers[layer]) layer++;
    for (int64_t i = 0; i < s->env->sequence->n; i++) parts += s->part == TOKENS && s->parts.at[i];
    for (int l = 0; l < c->layers; l++)
        parts += s->part != TOKENS && s->parts.layers[l] ? heads : 0;
    s->token = -1;
    s->parts.replacement = replacement;
    s->parts.self = s;
    s->parts.collecting = s->env->options->mean || s->env->options->resample;
    // The outputs of all positions are needed, so no rows may come from the cache.
    int status =
        effect_open(&s->effect, s->env, p, s->parts.collecting ? 0 : first, parts, &hook, err);
    s->parts.collecting = false;
    s->effect.from = first;
    for (int64_t i = s->env->sequence->n; i-- > 0 && status == 0;) {
        if (s->part != TOKENS || !s->parts.at[i]) continue;
        // The token's own row changes only if it also sees other rows, which change.
        s->effect.from = pass_start(c, s->env->sequence, i) < i ? i : i + 1;
        status = change(s, layer, -1, i, &s->change[i], err);
    }
    for (int k = 0; k < c->layers * heads && status == 0; k++)
        if (s->part != TOKENS && s->parts.layers[k / heads] && s->parts.reached[k / heads])
            status =
                change(s, k / heads, s->part == HEADS ? k % heads : -1, -1, &s->change[k], err);
    passes_progress(p, s->effect.all, s->effect.all);
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
    t->ranked = 1;
    t->own = s->part == TOKENS;
    if (s->part == HEADS || s->part == TOKENS)
        effect_note_layers(e, r, s->parts.layers, s->parts.reached);
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
    { "ablate", .unit = "change in log-probability (nats)", .columns = "change" },
    { "ablate.ffn", .unit = "change in log-probability (nats)", .bars = true },
    { "ablate.layers", .unit = "change in log-probability (nats)", .bars = true },
    { "ablate.map", "drop in log-probability (nats)", .map = true, .rows = MAP_LAYERS,
      .cols = MAP_HEADS, .on_request = true },
    { "ablate.picture", "drop in log-probability (nats)", .map = true, .on_request = true },
    { 0 },
};

const struct probe probe_ablate = {
    .name = "ablate",
    .also = "ablation heads ffn mlp layers tokens remove causal intervention importance measure",
    .usage =
        "/ablate heads|ffn|layers|tokens [POSITIONS] [--zero | --mean | --resample] [--layers A-B] "
        "[--token answer|N] [--picture I] [--objects FILE [--boxes]]" PROBE_USAGE,
    .help = "Change in the answer's log-probability without each head, FFN, layer or token.",
    .details =
        "Runs the answer once without each part and ranks the parts, most important first. Maps\n"
        "show the drop in log-probability.\n"
        "Outputs are replaced at POSITIONS (/help positions; default: all). `tokens` hides each\n"
        "token (default: those of the picture, shown as a map; without a picture, those of the\n"
        "question) in --layers: no other position attends to it, and recurrent layers leave it\n"
        "out of their state." PROBE_DETAILS,
    .results = ablate_results,
    .words = ablate_words,
    .complete = ablate_complete,
    .answer = true,
    .start = ablate_start,
    .release = ablate_release,
    .passes = ablate_passes,
    .finish = ablate_finish,
};
