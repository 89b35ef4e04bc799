// core/probes/attention_sum.c -- attention of chosen query rows to visual tokens.
#include "core/probes/attention_sum.h"

#include <stdlib.h>
#include <string.h>

struct attention_sum {
    const struct probe_env *env;
    int64_t heads, visual, queries;
    int32_t *query, *number; // rows asked; which visual token a row is
    int32_t *picture;        // [S] of each visual token
    double **sum;            // [L][H, S] over the queries; NULL: not seen
    float *map;              // [S]
};

struct attention_sum *attention_sum_new(const struct probe_env *env, enum probe_token otherwise,
                                        struct err *err)
{
    int64_t queries;
    if (probe_check_head(env, err) < 0) return NULL;
    int32_t *query = probe_queries(env, otherwise, &queries, err);
    if (!query) return NULL;
    struct attention_sum *a = xcalloc(1, sizeof *a);
    a->env = env;
    a->query = query;
    a->queries = queries;
    a->heads = env->model->decoder.config.heads;
    a->number = probe_visual_numbers(env->sequence, &a->visual);
    a->picture = xreallocarray(NULL, (size_t)a->visual + 1, sizeof *a->picture);
    for (int64_t i = 0; i < env->sequence->n; i++)
        if (a->number[i] >= 0) a->picture[a->number[i]] = env->sequence->picture[i];
    a->sum = xcalloc((size_t)env->model->decoder.config.layers, sizeof *a->sum);
    a->map = xcalloc((size_t)a->visual + 1, sizeof *a->map);
    return a;
}

void attention_sum_free(struct attention_sum *a)
{
    for (int l = 0; l < a->env->model->decoder.config.layers; l++) free(a->sum[l]);
    free(a->sum);
    free(a->query);
    free(a->number);
    free(a->picture);
    free(a->map);
    free(a);
}

static int add_row(void *self, struct graph *g, const struct site_args *args, int64_t row,
                   const float *probs)
{
    const struct attention_sum *a = self;
    const int64_t keys = args->k->shape[0];
    double *sum = a->sum[args->layer];
    for (int64_t j = 0; j < keys; j++) {
        const int32_t at = a->number[site_key(args, j)];
        for (int64_t h = 0; at >= 0 && h < a->heads; h++)
            sum[h * a->visual + at] += (double)probs[h * keys + j];
    }
    return 0;
}

int attention_sum_add(struct attention_sum *a, struct graph *g, const struct site_args *args)
{
    double **sum = &a->sum[args->layer];
    if (!*sum) *sum = xcalloc((size_t)(a->heads * a->visual) + 1, sizeof **sum);
    return probe_each_query(g, args, a->query, a->queries, add_row, a);
}

const float *attention_sum_map(struct attention_sum *a, int layer, int head)
{
    const int64_t from = head < 0 ? 0 : head, to = head < 0 ? a->heads : head + 1;
    for (int64_t i = 0; i < a->visual; i++) {
        double sum = 0;
        for (int64_t h = from; h < to; h++) sum += a->sum[layer][h * a->visual + i];
        a->map[i] = (float)(sum / (double)(to - from) / (double)a->queries);
    }
    return a->map;
}

// Is the token of a picture that the options choose?
static bool chosen(const struct attention_sum *a, int64_t i)
{
    const int only = a->env->options->picture;
    return only < 0 || a->picture[i] == only;
}

double attention_sum_share(struct attention_sum *a, int layer, int head)
{
    const float *map = attention_sum_map(a, layer, head);
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
