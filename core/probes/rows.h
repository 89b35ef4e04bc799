// core/probes/rows.h -- helpers of probes: rows on the host, attention of single query rows,
// positions of visual tokens, angles, ranks.
#ifndef CORE_PROBES_ROWS_H
#define CORE_PROBES_ROWS_H

#include "core/base/tally.h"
#include "core/graph/look.h"
#include "core/probes/probe.h"

// A tensor's numbers on the host until the next read, which waits for them; release it at the end.
struct rows {
    float *data;
    int64_t room;
};

const float *rows_read(struct rows *r, struct graph *g, const struct tensor *x);
void rows_release(struct rows *r);

double rows_dot(const float *a, const float *b, int64_t n);
double rows_norm(const float *a, int64_t n);
// 0 when either is zero.
double rows_cosine(const float *a, const float *b, int64_t n);

// Spearman's rank correlation (ties get their mean rank); NaN for fewer than three points or
// without any variation.
double rank_correlation(const double *x, const double *y, size_t n);
// The threshold that separates x into two classes with the largest between-class variance (Otsu
// 1979); NaN for fewer than two distinct values.
double otsu_split(const double *x, size_t n);

// Rows of the sequence that the options select as queries, ascending; `otherwise` replaces
// PROBE_TOKEN_DEFAULT. The caller frees them; NULL with a message when there are none.
int32_t *probe_queries(const struct probe_env *env, enum probe_token otherwise, int64_t *count,
                       struct err *err);
// Token number shown with a map of these queries: that of the answer's token or of the row, -1:
// mean. Of PROBE_TOKEN_EACH: of the first map; the others follow.
int probe_token_number(const struct probe_env *env, enum probe_token otherwise);
// The layer that the options select; `otherwise` replaces PROBE_LAYER_DEFAULT. -2 with a message.
int probe_layer(const struct probe_env *env, int otherwise, struct err *err);
// Does the model have the head that the options select?
int probe_check_head(const struct probe_env *env, struct err *err);
int probe_middle(const struct model *m); // round(L/2), half to even

// Looks (core/graph/look.h) at the attention of those rows of q (SITE_VALUES) whose sequence rows
// are in query[0..count), one by one. `take` gets x [H,1,P']: probabilities of row 0 of its args
// over the P' keys that it sees, the first ones of its args.
int probe_look_queries(struct graph *g, const struct site_args *args, const int32_t *query,
                       int64_t count, look_fn take, void *self);

// Called with the probabilities [H,P] of a query row over the keys at this layer (0 for those it
// does not see).
typedef int (*probe_row_fn)(void *self, struct graph *g, const struct site_args *args, int64_t row,
                            const float *probs);
// The same rows for callers that compute with them on the device: waits for each.
int probe_each_query(struct graph *g, const struct site_args *args, const int32_t *query,
                     int64_t count, probe_row_fn run, void *self);

// Indices of the visual tokens, counted through the sequence: [N], -1 for text; the caller frees
// them. *visual = S.
int32_t *probe_visual_numbers(const struct sequence *s, int64_t *visual);

// Adds maps of values[S] over the selected pictures, tile by tile.
void probe_maps(const struct probe_env *env, struct results *r, const char *name, int layer,
                int head, int token, const float *values);
// The same with words[S] written over the values; NULL in it: none.
void probe_word_maps(const struct probe_env *env, struct results *r, const char *name, int layer,
                     int head, int token, const float *values, const char *const *words);
// Tiles of a picture; the caller frees them.
struct picture_tile *probe_tiles(const struct probe_env *env, int picture, int *count);

#endif
