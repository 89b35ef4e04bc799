// tests/toys/probe.c -- a probe: the norm of each row of the residual stream, as a map of layers by
// positions; words over the picture; the number of rows that the layers compute.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/kit.h"
#include "tests/toys/toys.h"

struct toy {
    const struct probe_env *env;
    float *norm; // [L,N]
    double rows;
};

static void *toy_start(const struct probe_env *env, struct err *err)
{
    struct toy *t = xcalloc(1, sizeof *t);
    const int64_t count = env->model->decoder.config.layers * env->sequence->n;
    t->env = env;
    t->norm = probe_nans(count); // a row that pruning drops stays NaN
    return t;
}

static void toy_release(void *state)
{
    struct toy *t = state;
    free(t->norm);
    free(t);
}

static int toy_take(void *state, const struct site *site, const struct site_args *args,
                    struct err *err)
{
    struct toy *t = state;
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    const float *h = args->x->data; // [n,D]
    for (int64_t i = 0; i < n; i++)
        t->norm[args->layer * t->env->sequence->n + site_row(args, i)] =
            (float)rows_norm(h + i * width, width);
    t->rows += (double)n;
    return 0;
}

static int toy_finish(void *state, struct results *r, struct err *err)
{
    const struct toy *t = state;
    result_row(results_table(r, "toy", "what|rows"), "all layers")[0] = t->rows;

    const int layers = t->env->model->decoder.config.layers, n = (int)t->env->sequence->n;
    struct result_map *m = results_map(r, "toy.norms", layers, n);
    memcpy(m->values, t->norm, (size_t)(layers * n) * sizeof *t->norm);

    float *values = probe_values(t->env, 1);
    const char **words = xcalloc((size_t)t->env->visual + 1, sizeof *words);
    for (int64_t i = 0; i < t->env->visual; i++) {
        values[i] = (float)i;
        words[i] = i % 2 ? "odd" : NULL;
    }
    probe_word_maps(t->env, r, "toy.words", -1, -2, -2, values, words);
    free(values);
    free(words);
    return 0;
}

static const struct result_kind toy_results[] = {
    { "toy", .unit = "rows" },
    { "toy.norms", "L2 norm", .map = true, .rows = MAP_LAYERS, .cols = MAP_POSITIONS },
    { "toy.words", "number", .map = true, .low = -1, .high = 100 },
    { 0 },
};

const struct probe probe_toy = {
    .name = "toyprobe",
    .usage = "/toyprobe [--picture I]" PROBE_USAGE,
    .help = "Norms of all rows by layer and position.",
    .details = "A toy." PROBE_DETAILS,
    .results = toy_results,
    .start = toy_start,
    .release = toy_release,
    .sites = { SITE_LAYER_IN },
    .take = toy_take,
    .finish = toy_finish,
};
