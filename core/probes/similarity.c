// core/probes/similarity.c -- similarity of the residual stream between layers (the paper on
// LayerNorm tuning): sim[a,b] = mean over tokens of cos(h[a], h[b]), a, b = 0..L.
#include <math.h>
#include <stdlib.h>

#include "core/probes/kit.h"

struct similarity {
    int layers;
    int64_t rows, width;
    float *unit; // [L+1, N, D] unit vectors
    bool *there; // [L+1, N] the row is alive
};

static void similarity_release(void *state)
{
    struct similarity *s = state;
    free(s->unit);
    free(s->there);
    free(s);
}

static void *similarity_start(const struct probe_env *env, struct err *err)
{
    struct similarity *s = xcalloc(1, sizeof *s);
    s->layers = env->model->decoder.config.layers;
    s->width = env->model->decoder.config.hidden;
    s->rows = env->sequence->n;
    const size_t rows = (size_t)(s->layers + 1) * (size_t)s->rows;
    s->there = xcalloc(rows, sizeof *s->there);
    s->unit = calloc(rows, (size_t)s->width * sizeof *s->unit);
    if (s->unit) return s;
    err_set(err, "out of memory for the residual stream of all layers: shorten the prompt");
    similarity_release(s);
    return NULL;
}

static int similarity_take(void *state, const struct site *site, const struct site_args *args,
                           struct err *err)
{
    struct similarity *s = state;
    const int l = site == SITE_FINAL ? s->layers : args->layer;
    const float *h = args->x->data; // [N,D]
    for (int64_t i = 0; i < args->x->shape[0]; i++) {
        const int64_t row = l * s->rows + site_row(args, i);
        const double norm = rows_norm(h + i * s->width, s->width);
        float *to = s->unit + row * s->width;
        for (int64_t k = 0; k < s->width && norm > 0; k++)
            to[k] = (float)((double)h[i * s->width + k] / norm);
        s->there[row] = true;
    }
    return 0;
}

// Averages over the tokens alive in both layers.
static double between(const struct similarity *s, int a, int b)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        const int64_t x = a * s->rows + i, y = b * s->rows + i;
        if (!s->there[x] || !s->there[y]) continue;
        sum += rows_dot(s->unit + x * s->width, s->unit + y * s->width, s->width);
        count++;
    }
    return count ? sum / (double)count : NAN;
}

static int similarity_finish(void *state, struct results *r, struct err *err)
{
    struct similarity *s = state;
    struct buf columns = { 0 };
    struct tally others = { 0 };
    buf_puts(&columns, "layer");
    for (int l = 0; l <= s->layers; l++) buf_printf(&columns, "|%d", l);
    struct result_table *t = results_table(r, "similarity", columns.data);
    buf_release(&columns);
    for (int a = 0; a <= s->layers; a++) {
        double *v = result_row(t, "%d", a);
        for (int b = 0; b <= s->layers; b++) {
            v[b] = b < a ? t->rows[b].value[a] : between(s, a, b);
            if (b < a && b > 0) tally_add(&others, v[b]);
        }
    }
    struct result_map *m = results_map(r, "similarity", s->layers + 1, s->layers + 1);
    for (int i = 0; i < m->rows * m->cols; i++)
        m->values[i] = (float)t->rows[i / m->cols].value[i % m->cols];
    t = results_table(r, "similarity.mean", "what|value");
    result_row(t, "mean over layers a != b in 1..%d", s->layers)[0] = tally_mean(&others);
    return 0;
}

static const struct result_kind similarity_results[] = {
    // On request only, because it stores all rows of all layers.
    { "similarity", "cosine", .map = true, .rows = MAP_LAYERS, .cols = MAP_LAYERS,
      .on_request = true },
    { 0 },
};

const struct probe probe_similarity = {
    .name = "similarity",
    .also = "cosine layers residual measure probe",
    .usage = "/similarity" PROBE_USAGE,
    .help = "Similarity of the residual stream between layers.",
    .details =
        "Shows a matrix: the cosine of the residual stream at layers a and b, averaged over\n"
        "tokens. Also shows the mean of this matrix over pairs of different layers, without\n"
        "layer 0." PROBE_DETAILS,
    .results = similarity_results,
    .start = similarity_start,
    .release = similarity_release,
    .sites = { SITE_LAYER_IN, SITE_FINAL },
    .take = similarity_take,
    .finish = similarity_finish,
};
