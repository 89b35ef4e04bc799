// core/probes/stream.c -- the residual stream of each visual token at a layer, as maps: its norm at
// the layer's input, and the cosine of the layer's input and output (how little the layer changes
// the stream's direction).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/kit.h"

struct stream {
    const struct probe_env *env;
    float *norm, *cosine; // [L,S]; NaN: the token is not computed there
    float *before;        // [S,D] residual stream of each token at the previous layer's input
};

static void stream_release(void *state)
{
    struct stream *s = state;
    free(s->norm);
    free(s->cosine);
    free(s->before);
    free(s);
}

static void *stream_start(const struct probe_env *env, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    struct stream *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->norm = probe_values(env, c->layers);
    s->cosine = probe_values(env, c->layers);
    s->before = calloc((size_t)env->visual + 1, (size_t)c->hidden * sizeof *s->before);
    if (s->before) return s;
    err_set(err, "out of memory for the visual tokens of a layer");
    stream_release(s);
    return NULL;
}

static bool stream_wants(void *state, const struct site *site, int layer)
{
    const struct stream *s = state;
    if (site == SITE_FINAL) return s->env->to + 1 == s->env->model->decoder.config.layers;
    return site == SITE_LAYER_IN &&
           (layer < 0 || (layer >= s->env->from && layer <= s->env->to + 1));
}

static int stream_take(void *state, const struct site *site, const struct site_args *args,
                       struct err *err)
{
    struct stream *s = state;
    const struct decoder_config *c = &s->env->model->decoder.config;
    const int l = site == SITE_FINAL ? c->layers : args->layer;
    const int64_t visual = s->env->visual;
    for (int64_t i = 0; i < args->x->shape[0]; i++) {
        const float *h = (const float *)args->x->data + i * c->hidden; // [D]
        const int32_t at = s->env->number[site_row(args, i)];
        if (at < 0) continue;
        float *before = s->before + at * c->hidden;
        if (l > s->env->from)
            s->cosine[(l - 1) * visual + at] = (float)rows_cosine(before, h, c->hidden);
        if (l <= s->env->to) s->norm[l * visual + at] = (float)rows_norm(h, c->hidden);
        memcpy(before, h, (size_t)c->hidden * sizeof *h);
    }
    return 0;
}

static int stream_finish(void *state, struct results *r, struct err *err)
{
    const struct stream *s = state;
    const int64_t visual = s->env->visual;
    struct result_table *t =
        results_table(r, "stream", "layer|norm|norm std|similarity|similarity std");
    t->curve = true;
    for (int l = s->env->from; l <= s->env->to; l++) {
        const float *norm = s->norm + l * visual, *cosine = s->cosine + l * visual;
        const struct tally norms = values_tally(norm, visual), turns = values_tally(cosine, visual);
        double *v = result_row(t, "%d", l);
        v[0] = tally_mean(&norms), v[1] = tally_std(&norms);
        v[2] = tally_mean(&turns), v[3] = tally_std(&turns);
        probe_maps(s->env, r, "stream.norms", l, -2, -2, norm);
        probe_maps(s->env, r, "stream.similarity", l, -2, -2, cosine);
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
    .help = "Maps of the residual stream at a layer: norm and similarity of each visual token.",
    .details =
        "The map stream.norms shows the norm at the input of the layer (default: the middle one),\n"
        "stream.similarity the cosine of the layer's input and output. --layer all measures\n"
        "every layer. /norms also measures text tokens; /similarity compares any two\n"
        "layers." PROBE_DETAILS,
    .pictures = true,
    .results = stream_results,
    .layers = MIDDLE_LAYER,
    .start = stream_start,
    .release = stream_release,
    .wants = stream_wants,
    .take = stream_take,
    .finish = stream_finish,
};
