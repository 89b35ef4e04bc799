// core/probes/redundancy.c -- how little each layer's FFN changes its tokens (methods page, section
// 3): mean of cos(x, y), y = x + FFN(norm(x)), over visual and over text tokens.
//
// FFNs that are approximated are seen as the settings make them.
#include <math.h>
#include <stdlib.h>

#include "core/probes/ffn_sums.h"
#include "core/probes/kit.h"

struct redundancy {
    struct ffn_sums *sums;
    struct stats {
        int64_t visual, text;
    } * count; // [L] tokens of each layer: pruning leaves fewer
};

static void redundancy_release(void *state)
{
    struct redundancy *s = state;
    ffn_sums_free(s->sums);
    free(s->count);
    free(s);
}

static void *redundancy_start(const struct probe_env *env, struct err *err)
{
    struct redundancy *s = xcalloc(1, sizeof *s);
    const struct decoder_config *c = &env->model->decoder.config;
    s->sums = ffn_sums_new(c->layers, c->hidden);
    s->count = xcalloc((size_t)c->layers, sizeof *s->count);
    return s;
}

static int redundancy_take(void *state, const struct site *site, const struct site_args *args,
                           struct err *err)
{
    struct redundancy *s = state;
    for (int64_t i = 0; site == SITE_FFN_OUT && i < args->x->shape[0]; i++)
        (*(site_visual(args, i) ? &s->count[args->layer].visual : &s->count[args->layer].text))++;
    return ffn_sums_take(s->sums, site, args, err);
}

static int redundancy_finish(void *state, struct results *r, struct err *err)
{
    const struct redundancy *s = state;
    struct result_table *t = results_table(r, "redundancy", "layer|visual|text");
    t->curve = true;
    for (int64_t l = 0; l < s->sums->layers; l++) {
        double *v = result_row(t, "%d", (int)l);
        v[0] = s->sums->visual[l] / (double)s->count[l].visual; // NaN without any
        v[1] = s->sums->text[l] / (double)s->count[l].text;
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
    .details = "Mean of cos(x, x + FFN(x)). Near 1, ffn.approx loses little." PROBE_DETAILS,
    .results = redundancy_results,
    .start = redundancy_start,
    .release = redundancy_release,
    .sites = { SITE_FFN_IN, SITE_FFN_OUT },
    .take = redundancy_take,
    .finish = redundancy_finish,
};
