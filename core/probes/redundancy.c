// core/probes/redundancy.c -- how little each layer's FFN changes its tokens (CAPA's paper): mean
// of cos(x, y), y = x + FFN(norm(x)), over visual and over text tokens.
//
// For an approximated FFN, y is the output of the approximation.
#include <stdlib.h>
#include <string.h>

#include "core/probes/kit.h"

struct redundancy {
    const struct probe_env *env;
    struct layer_cosines {
        double sum[2];    // of visual tokens, of text tokens
        int64_t count[2]; // tokens that pruning left
    } * layer;            // [L]
    float *x;             // [N,D] of the current layer
};

static void redundancy_release(void *state)
{
    struct redundancy *s = state;
    free(s->layer);
    free(s->x);
    free(s);
}

static void *redundancy_start(const struct probe_env *env, struct err *err)
{
    struct redundancy *s = xcalloc(1, sizeof *s);
    const struct decoder_config *c = &env->model->decoder.config;
    s->env = env;
    s->layer = xcalloc((size_t)c->layers, sizeof *s->layer);
    s->x = xreallocarray(NULL, (size_t)(env->sequence->n * c->hidden) + 1, sizeof *s->x);
    return s;
}

// Stores x until y arrives, which has the same rows.
static int redundancy_take(void *state, const struct site *site, const struct site_args *args,
                           struct err *err)
{
    struct redundancy *s = state;
    const int64_t width = args->x->shape[1];
    const float *y = args->x->data;
    struct layer_cosines *at = &s->layer[args->layer];
    if (site == SITE_FFN_IN) memcpy(s->x, y, tensor_bytes(args->x));
    for (int64_t i = 0; site == SITE_FFN_OUT && i < args->x->shape[0]; i++) {
        const bool text = !site_visual(args, i);
        at->sum[text] += rows_cosine(s->x + i * width, y + i * width, width);
        at->count[text]++;
    }
    return 0;
}

static int redundancy_finish(void *state, struct results *r, struct err *err)
{
    const struct redundancy *s = state;
    struct result_table *t = results_table(r, "redundancy", "layer|visual|text");
    t->curve = true;
    for (int l = s->env->from; l <= s->env->to; l++) {
        double *v = result_row(t, "%d", l);
        for (int k = 0; k < 2; k++)
            v[k] = s->layer[l].sum[k] / (double)s->layer[l].count[k]; // NaN without tokens
    }
    return 0;
}

static const struct result_kind redundancy_results[] = {
    { "redundancy", .unit = "cosine of FFN input and output" },
    { 0 },
};

const struct probe probe_redundancy = {
    .name = "redundancy",
    .also = "skip ffn measure probe",
    .usage = "/redundancy" PROBE_USAGE,
    .help = "FFN redundancy by layer: how little an FFN changes visual and text tokens.",
    .details =
        "Redundancy is the mean of cos(x, x + FFN(x)) over tokens. In layers where it is near\n"
        "1, ffn.approx loses little." PROBE_DETAILS,
    .results = redundancy_results,
    .start = redundancy_start,
    .release = redundancy_release,
    .sites = { SITE_FFN_IN, SITE_FFN_OUT },
    .take = redundancy_take,
    .finish = redundancy_finish,
};
