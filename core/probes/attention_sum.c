// core/probes/attention_sum.c -- attention of chosen query rows to visual tokens.
#include "core/probes/attention_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/model.h"
#include "core/probes/results.h"
#include "kernels/tensor.h"

void *attention_sum_start(const struct probe_env *env, struct err *err)
{
    struct attention_sum *a = xcalloc(1, sizeof *a);
    a->env = env;
    a->heads = env->model->decoder.config.heads;
    a->visual = env->visual;
    a->parts = env->options->token == PROBE_TOKEN_EACH ? env->queries : 1;
    a->picture = xreallocarray(NULL, (size_t)a->visual + 1, sizeof *a->picture);
    for (int64_t i = 0; i < env->sequence->n; i++)
        if (env->number[i] >= 0) a->picture[env->number[i]] = env->sequence->picture[i];
    a->sum = xcalloc((size_t)env->model->decoder.config.layers, sizeof *a->sum);
    a->map = xcalloc((size_t)a->visual + 1, sizeof *a->map);
    return a;
}

void attention_sum_release(void *state)
{
    struct attention_sum *a = state;
    for (int l = 0; l < a->env->model->decoder.config.layers; l++) free(a->sum[l]);
    free(a->sum);
    free(a->picture);
    free(a->map);
    free(a);
}

static bool is_each(const struct attention_sum *a)
{
    return a->env->options->token == PROBE_TOKEN_EACH;
}

static void choose_heads(const struct attention_sum *a, int head, int64_t *from, int64_t *to)
{
    *from = head < 0 ? 0 : head;
    *to = head < 0 ? a->heads : head + 1;
}

static int add_row(void *self, const struct site *site, const struct site_args *args,
                   struct err *err)
{
    const struct attention_sum *a = self;
    const float *probs = args->x->data; // [H,1,P]
    const int64_t keys = args->x->shape[2], step = is_each(a) ? 0 : a->visual;
    double *sum = a->sum[args->layer];
    int64_t from, to;
    choose_heads(a, is_each(a) ? a->env->options->head : -1, &from, &to);
    if (is_each(a)) sum += (site_row(args, 0) - a->env->query[0]) * a->visual;
    for (int64_t j = 0; j < keys; j++) {
        const int32_t at = a->env->number[site_key(args, j)];
        for (int64_t h = from; at >= 0 && h < to; h++)
            sum[h * step + at] += (double)probs[h * keys + j];
    }
    return 0;
}

int attention_sum_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    struct attention_sum *a = state;
    double **sum = &a->sum[args->layer];
    const int64_t rows = is_each(a) ? a->parts : a->heads;
    if (!*sum) *sum = xcalloc((size_t)(rows * a->visual) + 1, sizeof **sum);
    return probe_read_queries(g, args, a->env->query, a->env->queries, add_row, a);
}

const float *attention_sum_map(struct attention_sum *a, int layer, int head, int64_t part)
{
    int64_t from, to;
    choose_heads(a, head, &from, &to);
    const int64_t first = is_each(a) ? part : from, after = is_each(a) ? part + 1 : to;
    const int64_t queries = a->env->queries / a->parts;
    for (int64_t i = 0; i < a->visual; i++) {
        double sum = 0;
        for (int64_t row = first; row < after; row++) sum += a->sum[layer][row * a->visual + i];
        a->map[i] = (float)(sum / (double)(to - from) / (double)queries);
    }
    return a->map;
}

// True if the token is in a picture that the options choose.
static bool chosen(const struct attention_sum *a, int64_t i)
{
    const int only = a->env->options->picture;
    return only < 0 || a->picture[i] == only;
}

double attention_sum_share(const struct attention_sum *a, const float *map)
{
    double sum = 0;
    for (int64_t i = 0; i < a->visual; i++)
        if (chosen(a, i)) sum += (double)map[i];
    return sum;
}

int64_t attention_sum_most(const struct attention_sum *a, const float *map)
{
    int64_t most = -1;
    for (int64_t i = 0; i < a->visual; i++)
        if (chosen(a, i) && (most < 0 || map[i] > map[most])) most = i;
    return most < 0 ? 0 : most;
}

// --- the profile ---------------------------------------------------------------------------------

// Sets top and bottom of the area that the tiles of the map's picture cover; both 0 if unknown.
static void extent(const struct result_map *maps, size_t count, const struct result_map *m,
                   double *top, double *bottom)
{
    *top = m->area[1], *bottom = m->area[3];
    for (size_t i = 0; i < count; i++) {
        if (maps[i].picture != m->picture) continue;
        *top = fmin(*top, maps[i].area[1]);
        *bottom = fmax(*bottom, maps[i].area[3]);
    }
    if (!(*bottom > *top)) *top = 0, *bottom = 0;
}

// Returns the start of row y of the map, as a share of the picture's height. Assumes that a map
// without a known area covers the whole picture.
static double row_start(const struct result_map *m, int y, double top, double bottom)
{
    const double share = (double)y / m->rows;
    if (!(bottom > top)) return share;
    return (m->area[1] + share * (m->area[3] - m->area[1]) - top) / (bottom - top);
}

double *attention_profile(const struct result_map *maps, size_t count, int *rows)
{
    double top, bottom;
    *rows = 0;
    for (size_t i = 0; i < count; i++) {
        extent(maps, count, &maps[i], &top, &bottom);
        const double high =
            row_start(&maps[i], maps[i].rows, top, bottom) - row_start(&maps[i], 0, top, bottom);
        const int fine = (int)lround(maps[i].rows / high);
        if (fine > *rows) *rows = fine;
    }
    double *sum = xcalloc((size_t)*rows + 1, sizeof *sum);
    for (size_t i = 0; i < count; i++) {
        const struct result_map *m = &maps[i];
        extent(maps, count, m, &top, &bottom);
        for (int y = 0; y < m->rows; y++) {
            const double from = row_start(m, y, top, bottom) * *rows;
            const double to = row_start(m, y + 1, top, bottom) * *rows;
            double all = 0;
            for (int x = 0; x < m->cols; x++)
                if (isfinite(m->values[y * m->cols + x])) all += (double)m->values[y * m->cols + x];
            for (int k = 0; k < *rows; k++)
                sum[k] += all * fmax(0, fmin(to, k + 1) - fmax(from, k)) / (to - from);
        }
    }
    return sum;
}
