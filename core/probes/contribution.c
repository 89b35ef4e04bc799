// core/probes/contribution.c -- attention contribution (CAPA's paper): the norm of each token's
// addition to the residual stream of a query, as a map, and its mean by layer and modality (Fig.
// 9).
//
//   C_{q,i} = || sum over heads n of A[n,q,i] (v_{i,kv(n)} W_O[n]) ||
//
// The means over pairs use a Gram matrix per token (core/model/gram.h), so a pair costs H^2
// operations. With gates of the heads' outputs (Qwen3.5), sigmoid(gate of q) multiplies A v, and
// each pair is computed separately.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/attend.h"
#include "core/model/gram.h"
#include "core/probes/kit.h"

enum { TEXT_VISUAL, TEXT_TEXT, VISUAL_VISUAL, PAIRS };

struct contribution {
    const struct probe_env *env;
    bool means;                   // the table of means covers all layers
    int64_t heads, parts;         // parts: 1, or the queries of PROBE_TOKEN_EACH
    double *map;                  // [parts, S]
    struct tally (*pairs)[PAIRS]; // [L]
    struct grams grams;           // of the current layer
    double *weights;              // [H] probabilities of a pair
    struct rows rows;
};

static void contribution_release(void *state)
{
    struct contribution *s = state;
    free(s->map);
    free(s->pairs);
    free(s->weights);
    grams_release(&s->grams);
    rows_release(&s->rows);
    free(s);
}

static void *contribution_start(const struct probe_env *env, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    if (env->options->layer == PROBE_LAYER_ALL) {
        err_set(err, "/contribution maps one layer: --layer K; without --layer, its table covers "
                     "all layers");
        return NULL;
    }
    struct contribution *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->means = env->options->layer == PROBE_LAYER_DEFAULT;
    s->parts = env->options->token == PROBE_TOKEN_EACH ? env->queries : 1;
    s->heads = c->heads;
    s->weights = xcalloc((size_t)c->heads, sizeof *s->weights);
    s->map = xcalloc((size_t)(s->parts * env->visual) + 1, sizeof *s->map);
    s->pairs = xcalloc((size_t)c->layers, sizeof *s->pairs);
    return s;
}

static bool contribution_wants(void *state, const struct site *site, int layer)
{
    const struct contribution *s = state;
    return site == SITE_VALUES && (layer < 0 || s->means || layer == s->env->from);
}

// --- the map -------------------------------------------------------------------------------------

static int add_map(void *self, struct graph *g, const struct site_args *a, int64_t row,
                   const float *probs)
{
    struct contribution *s = self;
    const int64_t keys = a->k->shape[0], queries = s->env->queries / s->parts;
    const int64_t part = s->parts > 1 ? site_row(a, row) - s->env->query[0] : 0;
    int32_t *index = xreallocarray(NULL, (size_t)keys, sizeof *index);
    int64_t count = 0;
    for (int64_t j = 0; j < keys; j++)
        if (s->env->number[site_key(a, j)] >= 0) index[count++] = (int32_t)j;
    const float *c = probe_contributions(g, s->env->model, a, row, probs, index, count, &s->rows);
    for (int64_t j = 0; c && j < count; j++)
        s->map[part * s->env->visual + s->env->number[site_key(a, index[j])]] +=
            (double)c[j] / (double)queries;
    free(index);
    return graph_ok(g) ? 0 : -1;
}

// --- means over pairs ----------------------------------------------------------------------------

// Returns the kind of the pair of a query row and key j; -1: not counted.
static int pair_kind(const struct contribution *s, const struct site_args *a, int64_t query,
                     int64_t j)
{
    const int64_t key = site_key(a, j);
    const bool from_visual = s->env->number[query] >= 0, to_visual = s->env->number[key] >= 0;
    if (key == 0 || key >= query || (from_visual && !to_visual)) return -1;
    return from_visual ? VISUAL_VISUAL : to_visual ? TEXT_VISUAL : TEXT_TEXT;
}

static int add_pairs(void *self, struct graph *g, const struct site_args *a, int64_t row,
                     const float *probs)
{
    struct contribution *s = self;
    const int64_t keys = a->k->shape[0], query = site_row(a, row);
    for (int64_t j = 0; j < keys; j++) {
        const int what = pair_kind(s, a, query, j);
        if (what < 0) continue;
        for (int64_t h = 0; h < s->heads; h++) s->weights[h] = (double)probs[h * keys + j];
        tally_add(&s->pairs[a->layer][what], grams_contribution(&s->grams, j, s->weights));
    }
    return 0;
}

static int add_gated_pairs(void *self, struct graph *g, const struct site_args *a, int64_t row,
                           const float *probs)
{
    struct contribution *s = self;
    const int64_t keys = a->k->shape[0], query = site_row(a, row);
    int32_t *index = xreallocarray(NULL, (size_t)keys, sizeof *index);
    int64_t count = 0;
    for (int64_t j = 0; j < keys; j++)
        if (pair_kind(s, a, query, j) >= 0) index[count++] = (int32_t)j;
    const float *c = probe_contributions(g, s->env->model, a, row, probs, index, count, &s->rows);
    for (int64_t i = 0; c && i < count; i++)
        tally_add(&s->pairs[a->layer][pair_kind(s, a, query, index[i])], (double)c[i]);
    free(index);
    return graph_ok(g) ? 0 : -1;
}

static int contribution_run(void *state, struct graph *g, const struct site *site,
                            struct site_args *args)
{
    struct contribution *s = state;
    if (args->layer == s->env->from &&
        probe_each_query(g, args, s->env->query, s->env->queries, add_map, s) < 0)
        return -1;
    if (args->gate) return probe_each_query(g, args, NULL, s->env->sequence->n, add_gated_pairs, s);
    const struct linear *o = attention_output(&s->env->model->decoder.layer[args->layer]);
    grams_trim(&s->grams, 0);
    if (grams_add(&s->grams, g, o, args->v, s->heads) < 0) return -1;
    return probe_each_query(g, args, NULL, s->env->sequence->n, add_pairs, s);
}

static int contribution_finish(void *state, struct results *r, struct err *err)
{
    const struct contribution *s = state;
    struct result_table *t =
        results_table(r, "contribution", "layer|text to visual|text to text|visual to visual");
    t->curve = true;
    for (int l = 0; l < s->env->model->decoder.config.layers; l++) {
        if (!s->means && l != s->env->from) continue;
        double *v = result_row(t, "%d", l);
        for (int i = 0; i < PAIRS; i++) v[i] = tally_mean(&s->pairs[l][i]);
    }
    const int64_t visual = s->env->visual;
    float *map = probe_values(s->env, 1);
    for (int64_t part = 0; part < s->parts; part++) {
        for (int64_t i = 0; i < visual; i++) map[i] = (float)s->map[part * visual + i];
        probe_maps(s->env, r, "contribution", s->env->from, -1, s->env->token + (int)part, map);
    }
    free(map);
    return 0;
}

static const struct result_kind contribution_results[] = {
    { "contribution", "attention contribution", .map = true,
      .each = EACH_LAYER | EACH_TOKEN | EACH_ALONE },
    { 0 },
};

const struct probe probe_contribution = {
    .name = "contribution",
    .also = "heatmap map capa relevance measure probe",
    .usage = "/contribution [--layer K] [--token answer|each|last|N|row:N] [--picture I] "
             "[--film FILE.gif]" PROBE_USAGE,
    .help = "Contribution of each visual token to a query (CAPA), and means by layer and modality.",
    .details =
        "The map shows the contribution in one layer (default: the middle one) to one query\n"
        "(default: the prompt's last row). The table shows means over pairs of tokens in prompt\n"
        "and answer: text to visual, text to text, visual to visual. The table has all layers, "
        "or only the one named by --layer." PROBE_DETAILS,
    .answered = true,
    .layers = MIDDLE_LAYER,
    .attends = true,
    .token = PROBE_TOKEN_LAST,
    .results = contribution_results,
    .start = contribution_start,
    .release = contribution_release,
    .wants = contribution_wants,
    .run = contribution_run,
    .finish = contribution_finish,
};
