// core/probes/pruned.c -- the tokens that pruning drops: how many layers compute each visual token,
// as a map, and how many tokens each layer computes.
#include <stdlib.h>

#include "core/probes/kit.h"

struct pruned {
    const struct probe_env *env;
    float *layers;  // [S] number of layers that compute the token
    int64_t *alive; // [L] number of visual tokens that the layer computes
};

static void pruned_release(void *state)
{
    struct pruned *s = state;
    free(s->layers);
    free(s->alive);
    free(s);
}

static void *pruned_start(const struct probe_env *env, struct err *err)
{
    if (settings_is(env->settings, "prune.score", "off")) {
        err_set(err, "/pruned needs pruning, which is off: /set prune.score contribution");
        return NULL;
    }
    struct pruned *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->layers = xcalloc((size_t)env->visual + 1, sizeof *s->layers);
    s->alive = xcalloc((size_t)env->model->decoder.config.layers, sizeof *s->alive);
    return s;
}

static int pruned_take(void *state, const struct site *site, const struct site_args *args,
                       struct err *err)
{
    struct pruned *s = state;
    for (int64_t i = 0; i < args->x->shape[0]; i++) {
        const int32_t at = s->env->number[site_row(args, i)];
        if (at < 0) continue;
        s->layers[at] += 1;
        s->alive[args->layer]++;
    }
    return 0;
}

static int pruned_finish(void *state, struct results *r, struct err *err)
{
    const struct pruned *s = state;
    struct result_table *t = results_table(r, "pruned", "layer|visual tokens|share");
    t->curve = true;
    for (int l = 0; l < s->env->model->decoder.config.layers; l++) {
        double *v = result_row(t, "%d", l);
        v[0] = (double)s->alive[l];
        v[1] = (double)s->alive[l] / (double)s->env->visual;
    }
    probe_maps(s->env, r, "pruned.layers", -1, -2, -2, s->layers);
    return 0;
}

static bool is_pruned(const struct settings *s, int layers, int layer)
{
    return !settings_is(s, "prune.score", "off");
}

static const struct result_kind pruned_results[] = {
    { "pruned", "visual tokens", .columns = "visual tokens" },
    { "pruned.layers", "layers that compute the token", .map = true, .has = is_pruned },
    { 0 },
};

const struct probe probe_pruned = {
    .name = "pruned",
    .also = "map pruning dropped kept capa measure probe",
    .usage = "/pruned [--picture I]" PROBE_USAGE,
    .help = "Map of pruning: the number of layers that compute each visual token.",
    .details = "Needs pruning (prune.score). The table counts the visual tokens that each layer\n"
               "computes." PROBE_DETAILS,
    .pictures = true,
    .results = pruned_results,
    .start = pruned_start,
    .release = pruned_release,
    .sites = { SITE_LAYER_IN },
    .take = pruned_take,
    .finish = pruned_finish,
};
