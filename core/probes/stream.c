// core/probes/stream.c -- the residual stream of each visual token at a layer, as maps: its norm at
// the layer's input, and its cosine with what leaves the layer (how little the layer turns it).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/probe.h"
#include "core/probes/rows.h"

struct stream {
    const struct probe_env *env;
    int from, to; // layers of the maps
    int32_t *number;
    int64_t visual;
    float **norm, **cosine; // [L][S]; NULL outside [from, to]; NaN: the token is not computed there
    float *before;          // [S,D] inputs of the layer that came last
};

static void stream_release(void *state)
{
    struct stream *s = state;
    for (int l = s->from; l <= s->to; l++) {
        free(s->norm[l]);
        free(s->cosine[l]);
    }
    free(s->norm);
    free(s->cosine);
    free(s->before);
    free(s->number);
    free(s);
}

static float *no_values(int64_t count)
{
    float *values = xreallocarray(NULL, (size_t)count + 1, sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = NAN;
    return values;
}

static void *stream_start(const struct probe_env *env, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    const int layer = probe_layer(env, probe_middle(env->model), err);
    if (layer < PROBE_LAYER_ALL) return NULL;
    struct stream *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->from = layer < 0 ? 0 : layer;
    s->to = layer < 0 ? c->layers - 1 : layer;
    s->number = probe_visual_numbers(env->sequence, &s->visual);
    s->norm = xcalloc((size_t)c->layers, sizeof *s->norm);
    s->cosine = xcalloc((size_t)c->layers, sizeof *s->cosine);
    for (int l = s->from; l <= s->to; l++) {
        s->norm[l] = no_values(s->visual);
        s->cosine[l] = no_values(s->visual);
    }
    s->before = calloc((size_t)s->visual + 1, (size_t)c->hidden * sizeof *s->before);
    if (s->before) return s;
    err_set(err, "out of memory for the visual tokens of a layer");
    stream_release(s);
    return NULL;
}

static bool stream_wants(void *state, const struct site *site, int layer)
{
    const struct stream *s = state;
    if (site == SITE_FINAL) return s->to + 1 == s->env->model->decoder.config.layers;
    return site == SITE_LAYER_IN && (layer < 0 || (layer >= s->from && layer <= s->to + 1));
}

static int stream_take(void *state, const struct site *site, const struct site_args *args,
                       struct err *err)
{
    struct stream *s = state;
    const struct decoder_config *c = &s->env->model->decoder.config;
    const int l = site == SITE_FINAL ? c->layers : args->layer;
    for (int64_t i = 0; i < args->x->shape[0]; i++) {
        const float *h = (const float *)args->x->data + i * c->hidden; // [D]
        const int32_t at = s->number[site_row(args, i)];
        if (at < 0) continue;
        float *before = s->before + at * c->hidden;
        if (l > s->from) s->cosine[l - 1][at] = (float)rows_cosine(before, h, c->hidden);
        if (l <= s->to) s->norm[l][at] = (float)rows_norm(h, c->hidden);
        memcpy(before, h, (size_t)c->hidden * sizeof *h);
    }
    return 0;
}

static int stream_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    return look(g, args->x, site, args, stream_take, state);
}

static void put_mean(double *mean, const float *values, int64_t count)
{
    struct tally all = { 0 };
    for (int64_t i = 0; i < count; i++)
        if (!isnan(values[i])) tally_add(&all, (double)values[i]);
    mean[0] = tally_mean(&all), mean[1] = tally_std(&all);
}

static int stream_finish(void *state, struct results *r, struct err *err)
{
    const struct stream *s = state;
    struct result_table *t =
        results_table(r, "stream", "layer|norm|norm std|similarity|similarity std");
    t->curve = true;
    for (int l = s->from; l <= s->to; l++) {
        double *v = result_row(t, "%d", l);
        put_mean(v, s->norm[l], s->visual);
        put_mean(v + 2, s->cosine[l], s->visual);
        probe_maps(s->env, r, "stream.norms", l, -2, -2, s->norm[l]);
        probe_maps(s->env, r, "stream.similarity", l, -2, -2, s->cosine[l]);
    }
    return 0;
}

static const struct result_kind stream_results[] = {
    { "stream", "L2 norm", .columns = "norm|norm std" },
    { "stream", "cosine", .columns = "similarity|similarity std" },
    { "stream.norms", "L2 norm", .map = true, .each = EACH_LAYER },
    { "stream.similarity", "cosine", .map = true, .each = EACH_LAYER },
    { 0 },
};

const struct probe probe_stream = {
    .name = "stream",
    .also = "map norms length similarity cosine residual measure probe",
    .usage = "/stream [--layer K|all] [--picture I]" PROBE_USAGE,
    .help =
        "Residual stream of each visual token at a layer, as maps: its norm and its similarity.",
    .details =
        "stream.norms is the norm at the input of the layer (default: the middle one),\n"
        "stream.similarity the cosine of the layer's input and output. Over text tokens too, and\n"
        "between any two layers: /norms and /similarity." PROBE_DETAILS,
    .pictures = true,
    .results = stream_results,
    .start = stream_start,
    .release = stream_release,
    .wants = stream_wants,
    .run = stream_run,
    .finish = stream_finish,
};
