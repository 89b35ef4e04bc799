// core/probes/kl.c -- the divergence of each visual token under IRA, mean over key/value heads
// (methods page, section 4; Fig. 4b), as maps and by layer.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/list.h"
#include "core/probes/rows.h"

struct kl {
    const struct probe_env *env;
    int only, layers;
    int32_t *number;
    int64_t visual;
    float **values; // [L][S]; NULL: no IRA there
    double *gate;   // [L] mean weight
    struct rows rows, gates;
};

static void kl_release(void *state)
{
    struct kl *s = state;
    for (int l = 0; l < s->layers; l++) free(s->values[l]);
    free(s->values);
    free(s->gate);
    free(s->number);
    rows_release(&s->rows);
    rows_release(&s->gates);
    free(s);
}

static void *kl_start(const struct probe_env *env, struct err *err)
{
    const int only = probe_layer(env, PROBE_LAYER_ALL, err);
    if (only < PROBE_LAYER_ALL) return NULL;
    if (!settings_flag(env->settings, "ira.on")) {
        err_set(err,
                "/kl looks at IRA, which is off: /set adapter DIR with trained ira parameters, "
                "then /set ira.on on");
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

static bool kl_wants(void *state, enum site site, int layer)
{
    const struct kl *s = state;
    return site == SITE_KL && (layer < 0 || s->only < 0 || layer == s->only);
}

static int kl_run(void *state, struct graph *g, enum site site, struct site_args *args)
{
    struct kl *s = state;
    const int64_t heads = args->x->shape[1], n = args->q->shape[0];
    const float *kl = rows_read(&s->rows, g, args->x); // [S', Hkv]
    const float *gate = args->v ? rows_read(&s->gates, g, args->v) : NULL;
    float *values = s->values[args->layer] =
        xreallocarray(s->values[args->layer], (size_t)s->visual + 1, sizeof *values);
    struct tally weights = { 0 };
    for (int64_t i = 0; i < s->visual; i++) values[i] = NAN;
    for (int64_t i = 0, at = 0; i < n && at < args->x->shape[0]; i++) {
        if (!site_visual(args, i)) continue;
        double sum = 0;
        for (int64_t h = 0; h < heads; h++) {
            sum += (double)kl[at * heads + h];
            if (gate) tally_add(&weights, (double)gate[at * heads + h]);
        }
        values[s->number[site_row(args, i)]] = (float)(sum / (double)heads);
        at++;
    }
    s->gate[args->layer] = gate ? tally_mean(&weights) : NAN;
    return 0;
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
    return err_set(err, "IRA does not act in layer %d: ira.layers is %s", s->only,
                   settings_text(s->env->settings, "ira.layers"));
}

const struct probe probe_kl = {
    .name = "kl",
    .usage = "/kl [--layer K] [--picture I]" PROBE_USAGE,
    .help = "Divergence of each visual token under information-regularized attention, as maps.",
    .details = "Needs ira.on and an adapter with its parameters." PROBE_DETAILS,
    .pictures = true,
    .start = kl_start,
    .release = kl_release,
    .wants = kl_wants,
    .run = kl_run,
    .finish = kl_finish,
};
