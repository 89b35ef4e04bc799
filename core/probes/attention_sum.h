// core/probes/attention_sum.h -- attention of chosen query rows to visual tokens, layer by layer.
//
//   .start = attention_sum_start, .release = attention_sum_release,   // in a probe
//   .sites = { SITE_VALUES }, .run = attention_sum_run,
//   const float *map = attention_sum_map(state, layer, -1, 0);        // [S] mean over heads
//
// Sums over the query rows env->query. With PROBE_TOKEN_EACH each query is a separate part,
// 0..parts-1, for one head only (the head of the options, or the mean).
//
// A pruned token has no key in the layers after it was dropped: its value there is 0.
#ifndef CORE_PROBES_ATTENTION_SUM_H
#define CORE_PROBES_ATTENTION_SUM_H

#include "core/probes/kit.h"

struct attention_sum {
    const struct probe_env *env;
    int64_t heads, visual, parts; // parts: 1, except for PROBE_TOKEN_EACH
    int32_t *picture;             // [S] index of each visual token's picture
    double **sum; // [L][H, S] summed over the queries, or [L][parts, S]; NULL: layer not read
    float *map;   // [S]
};

void *attention_sum_start(const struct probe_env *env, struct err *err); // never NULL
void attention_sum_release(void *state);
int attention_sum_run(void *state, struct graph *g, const struct site *site,
                      struct site_args *args);
// Returns a map [S], valid until the next call. head -1: the mean.
const float *attention_sum_map(struct attention_sum *a, int layer, int head, int64_t part);
// Returns the share of the queries' attention that goes to the selected pictures: the sum of the
// map over them.
double attention_sum_share(const struct attention_sum *a, const float *map);
// Returns the token of the selected pictures with the largest value in map[S]; 0 if they have none.
int64_t attention_sum_most(const struct attention_sum *a, const float *map);

// Returns the sums [rows] of these maps by row of the picture; the caller frees them. The finest
// tile, extended to the whole picture, determines the number of rows; a row of a coarser tile is
// spread over the rows that it covers. If the maps are of several pictures, their profiles are
// added up.
double *attention_profile(const struct result_map *maps, size_t count, int *rows);

#endif
