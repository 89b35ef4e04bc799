// core/probes/kl.c -- the divergence of each visual token under IRA, mean over key/value heads
// (methods page, section 4; Fig. 4b), as maps and by layer.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/methods/ira.h"
#include "core/probes/probe.h"
#include "core/probes/rows.h"

struct kl {
    const struct probe_env *env;
    int only, layers;
    int32_t *number;
    int64_t visual;
    float **values; // [L][S]; NULL: no IRA there
    double *gate;   // [L] mean weight
};

static void kl_release(void *state)
{
    struct kl *s = state;
    for (int l = 0; l < s->layers; l++) free(s->values[l]);
    free(s->values);
    free(s->gate);
    free(s->number);
    free(s);
}

static void *kl_start(const struct probe_env *env, struct err *err)
{
    const int only = probe_layer(env, PROBE_LAYER_ALL, err);
    if (only < PROBE_LAYER_ALL) return NULL;
    if (!settings_flag(env->settings, "ira.on")) {
        err_set(err, "/kl measures IRA, which is off: /adapter load DIR with trained IRA "
                     "parameters, then /set ira.on on");
        return NULL;
    }
    struct kl *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->only = only;
    s->layers = env->model->decoder.config.layers;
    s->values = xcalloc((size_t)s->layers, sizeof *s->values);
    s->gate = xcalloc((size_t)s->layers, sizeof *s->gate);
    s->number = probe_visual_numbers(env->sequence, &s->visual);
    return s;
}

static bool kl_wants(void *state, const struct site *site, int layer)
{
    const struct kl *s = state;
    return site == SITE_KL && (layer < 0 || s->only < 0 || layer == s->only);
}

// The gate [S',Hkv] of the tokens whose divergence comes next.
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
    struct kl *s = state;
    const int64_t heads = args->x->shape[1], n = args->x->shape[0];
    const float *kl = args->x->data; // [S',Hkv]
    float *values = s->values[args->layer] =
        xreallocarray(s->values[args->layer], (size_t)s->visual + 1, sizeof *values);
    for (int64_t i = 0; i < s->visual; i++) values[i] = NAN;
    for (int64_t i = 0, at = 0; at < n; i++) {
        if (!site_visual(args, i)) continue;
        double sum = 0;
        for (int64_t h = 0; h < heads; h++) sum += (double)kl[at * heads + h];
        values[s->number[site_row(args, i)]] = (float)(sum / (double)heads);
        at++;
    }
    return 0;
}

static int kl_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    struct kl *s = state;
    s->gate[args->layer] = NAN;
    if (args->v && look(g, args->v, site, args, kl_take_gate, s) < 0) return -1;
    return look(g, args->x, site, args, kl_take, s);
}

static int kl_finish(void *state, struct results *r, struct err *err)
{
    const struct kl *s = state;
    struct result_table *t = results_table(r, "kl", "layer|mean|std|max|gate");
    t->curve = true;
    for (int l = 0; l < s->layers; l++) {
        struct tally all = { 0 };
        double most = -INFINITY;
        if (!s->values[l]) continue;
        for (int64_t i = 0; i < s->visual; i++) {
            if (isnan(s->values[l][i])) continue;
            tally_add(&all, (double)s->values[l][i]);
            most = fmax(most, (double)s->values[l][i]);
        }
        double *v = result_row(t, "%d", l);
        v[0] = tally_mean(&all), v[1] = tally_std(&all), v[2] = most, v[3] = s->gate[l];
        probe_maps(s->env, r, "kl", l, -1, -2, s->values[l]);
    }
    if (t->row_count) return 0;
    return err_set(err, "IRA is not active in layer %d: ira.layers is %s", s->only,
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
    .usage = "/kl [--layer K] [--picture I]" PROBE_USAGE,
    .help = "KL divergence of each visual token under IRA (information-regularized attention), as "
            "maps.",
    .details = "Needs ira.on and an adapter with IRA parameters." PROBE_DETAILS,
    .pictures = true,
    .results = kl_results,
    .start = kl_start,
    .release = kl_release,
    .wants = kl_wants,
    .run = kl_run,
    .finish = kl_finish,
};
