// core/probes/kl.c -- the divergence of each visual token under IRA, mean over key/value heads
// (IRA's paper, Fig. 4b), as maps and by layer.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/methods/ira.h"
#include "core/probes/kit.h"

struct kl {
    const struct probe_env *env;
    bool *seen;    // [L] IRA is active in the layer
    float *values; // [L,S]
    double *gate;  // [L] mean weight
};

static void kl_release(void *state)
{
    struct kl *s = state;
    free(s->seen);
    free(s->values);
    free(s->gate);
    free(s);
}

static void *kl_start(const struct probe_env *env, struct err *err)
{
    const int layers = env->model->decoder.config.layers;
    if (!settings_flag(env->settings, "ira.on")) {
        err_set(err, "/kl measures IRA, which is off: /adapter load DIR with trained IRA "
                     "parameters, then /set ira.on on");
        return NULL;
    }
    struct kl *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->seen = xcalloc((size_t)layers, sizeof *s->seen);
    s->values = probe_values(env, layers);
    s->gate = xcalloc((size_t)layers, sizeof *s->gate);
    return s;
}

// Takes the gate [S',Hkv] of the tokens whose divergence arrives next.
static int kl_take_gate(void *state, const struct site *site, const struct site_args *args,
                        struct err *err)
{
    struct kl *s = state;
    const float *gate = args->x->data;
    struct tally weights = { 0 };
    for (int64_t i = 0; i < tensor_count(args->x); i++) tally_add(&weights, (double)gate[i]);
    s->gate[args->layer] = tally_mean(&weights);
    return 0;
}

static int kl_take(void *state, const struct site *site, const struct site_args *args,
                   struct err *err)
{
    const struct kl *s = state;
    float *values = s->values + args->layer * s->env->visual;
    const int64_t n = s->env->sequence->n;
    float *of_row = probe_nans(n);
    ira_divergence(args, args->x->data, of_row);
    for (int64_t i = 0; i < n; i++)
        if (s->env->number[i] >= 0) values[s->env->number[i]] = of_row[i];
    free(of_row);
    s->seen[args->layer] = true;
    return 0;
}

static int kl_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    struct kl *s = state;
    s->gate[args->layer] = NAN;
    if (args->v && readback(g, args->v, site, args, kl_take_gate, s) < 0) return -1;
    return readback(g, args->x, site, args, kl_take, s);
}

static int kl_finish(void *state, struct results *r, struct err *err)
{
    const struct kl *s = state;
    const int64_t visual = s->env->visual;
    struct result_table *t = results_table(r, "kl", "layer|mean|std|max|gate");
    t->curve = true;
    for (int l = s->env->from; l <= s->env->to; l++) {
        const float *values = s->values + l * visual;
        const struct tally all = values_tally(values, visual);
        double most = -INFINITY;
        if (!s->seen[l]) continue;
        for (int64_t i = 0; i < visual; i++)
            if (!isnan(values[i])) most = fmax(most, (double)values[i]);
        double *v = result_row(t, "%d", l);
        v[0] = tally_mean(&all), v[1] = tally_std(&all), v[2] = most, v[3] = s->gate[l];
        probe_maps(s->env, r, "kl", l, -1, -2, values);
    }
    if (t->row_count) return 0;
    return err_set(err, "IRA is not active in layer %d: ira.layers is %s", s->env->from,
                   settings_text(s->env->settings, "ira.layers"));
}

static bool has_ira(const struct settings *s, int layers, int layer)
{
    return settings_flag(s, "ira.on") && settings_has_layer(s, "ira.layers", layers, layer);
}

static const struct result_kind kl_results[] = {
    { "kl", "KL divergence (nats)", "mean|max", .map = true, .each = EACH_LAYER, .has = has_ira },
    { 0 },
};

const struct probe probe_kl = {
    .name = "kl",
    .also = "heatmap map divergence ira measure probe",
    .usage = "/kl [--layer K|all] [--picture I]" PROBE_USAGE,
    .help = "KL divergence of each visual token under IRA (information-regularized attention), as "
            "maps.",
    .details = "Needs ira.on and an adapter with IRA parameters." PROBE_DETAILS,
    .pictures = true,
    .results = kl_results,
    .start = kl_start,
    .release = kl_release,
    .sites = { SITE_KL },
    .run = kl_run,
    .finish = kl_finish,
};
