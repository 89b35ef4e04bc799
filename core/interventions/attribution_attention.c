// core/interventions/attribution_attention.c -- attributions that follow attention from the rows
// that predict the answer's tokens.
//
//   attention:     probabilities, mean over these rows, heads and layers
//   contribution:  norm of a key's contribution to the residual stream of these rows (CAPA), mean
//                  over rows and layers
//   rollout:       r <- (r + r A) / 2 from the last layer to the first, where A [N,N] is the mean
//                  over heads and r begins with 1 / rows at the predicting rows (Abnar and
//                  Zuidema 2020, arXiv 2005.00928)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/interventions/attribution.h"
#include "core/interventions/effect.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"

struct following {
    struct attributing *w;
    int kind;       // ATTRIBUTION_*
    int from, to;   // layers
    int32_t *query; // [queries] rows whose attention is followed
    int64_t queries;
    double *sum;    // [N] sum over query rows and layers; rollout: r after layers L-1 .. to
    double *former; // [N] rollout: r before this layer
    int layers;     // number of layers read
    struct rows rows;
};

// Distributes half of the query's r over the keys, in proportion to the attention averaged over
// heads.
static void roll_row(struct following *f, const struct site_args *args, int64_t query,
                     const float *probs)
{
    const int64_t keys = args->k->shape[0], heads = args->q->shape[1];
    const double half = f->former[query] / 2;
    f->sum[query] -= half;
    for (int64_t k = 0; k < heads * keys; k++)
        f->sum[site_key(args, k % keys)] += half * (double)probs[k] / (double)heads;
}

static int take_row(void *self, struct graph *g, const struct site_args *args, int64_t row,
                    const float *probs)
{
    struct following *f = self;
    const int64_t keys = args->k->shape[0], heads = args->q->shape[1];
    if (f->kind == ATTRIBUTION_rollout) return roll_row(f, args, site_row(args, row), probs), 0;
    if (f->kind == ATTRIBUTION_attention) {
        for (int64_t k = 0; k < heads * keys; k++)
            f->sum[site_key(args, k % keys)] += (double)probs[k] / (double)heads;
        return 0;
    }
    int32_t *index = xcalloc((size_t)keys + 1, sizeof *index);
    for (int64_t j = 0; j < keys; j++) index[j] = (int32_t)j;
    const float *c =
        probe_contributions(g, f->w->env->model, args, row, probs, index, keys, &f->rows); // [P]
    for (int64_t j = 0; c && j < keys; j++) f->sum[site_key(args, j)] += (double)c[j];
    free(index);
    return c ? 0 : -1;
}

static bool follow_wants(void *self, const struct site *site, int layer)
{
    const struct following *f = self;
    return site == SITE_VALUES && (layer < 0 || (layer >= f->from && layer <= f->to));
}

static int follow_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct following *f = self;
    f->layers++;
    f->w->attends[args->layer] = true;
    return probe_each_query(g, args, f->query, f->queries, take_row, f);
}

static int follow_pass(struct following *f, struct passing *p, struct err *err)
{
    const struct sequence *s = f->w->env->sequence;
    const struct hook hook = { .wants = follow_wants, .run = follow_run, .self = f };
    double *logp = xcalloc((size_t)(s->n - s->prompt) + 1, sizeof *logp);
    attribution_progress(f->w, p);
    const int status = passes_run(p, &hook, 0, logp, err);
    free(logp);
    return status;
}

// Runs a pass for each layer, the last one first, so that no matrix is stored. Layers without
// attention, and rows that a method dropped, keep r.
static int roll(struct following *f, struct passing *p, int layers, struct err *err)
{
    const int64_t n = f->w->env->sequence->n;
    int status = 0;
    for (int64_t k = 0; k < f->queries; k++) f->sum[f->query[k]] = 1 / (double)f->queries;
    for (int l = layers; l-- > 0 && status == 0;) {
        memcpy(f->former, f->sum, (size_t)n * sizeof *f->sum);
        f->queries = 0;
        for (int64_t i = 0; i < n; i++)
            if (f->sum[i] > 0) f->query[f->queries++] = (int32_t)i;
        f->from = f->to = l;
        status = follow_pass(f, p, err);
    }
    return status;
}

static int follow(struct attributing *w, struct passing *p, int kind, struct attribution *to,
                  struct err *err)
{
    const struct sequence *s = w->env->sequence;
    const int layers = w->env->model->decoder.config.layers, layer = attribution_layer(w, -1);
    const bool rollout = kind == ATTRIBUTION_rollout;
    struct following f = { .w = w, .kind = kind, .to = layers - 1, .queries = w->end - w->first };
    const double queries = (double)f.queries;
    if (layer >= 0) f.from = f.to = layer;
    f.query = xcalloc((size_t)s->n + 1, sizeof *f.query);
    f.sum = xcalloc((size_t)s->n + 1, sizeof *f.sum);
    f.former = xcalloc((size_t)s->n + 1, sizeof *f.former);
    for (int64_t t = 0; t < f.queries; t++) f.query[t] = (int32_t)(s->prompt - 1 + w->first + t);
    int status = rollout ? roll(&f, p, layers, err) : follow_pass(&f, p, err);
    if (status == 0 && !f.layers)
        status = err_set(err, "none of the chosen layers has attention: they are recurrent");
    const double count = rollout ? 1 : queries * f.layers;
    for (int64_t i = 0; i < s->n && status == 0; i++)
        if (w->at[i]) to->rows[i] = f.sum[i] / count;
    free(f.former);
    free(f.sum);
    free(f.query);
    rows_release(&f.rows);
    return status;
}

int attribute_attention(struct attributing *w, struct passing *p, struct attribution *to,
                        struct err *err)
{
    return follow(w, p, ATTRIBUTION_attention, to, err);
}

int attribute_contribution(struct attributing *w, struct passing *p, struct attribution *to,
                           struct err *err)
{
    return follow(w, p, ATTRIBUTION_contribution, to, err);
}

int attribute_rollout(struct attributing *w, struct passing *p, struct attribution *to,
                      struct err *err)
{
    return follow(w, p, ATTRIBUTION_rollout, to, err);
}
