// core/probes/kit.h -- the header that a probe includes: rows on the host, attention and
// contributions of single query rows, maps over the visual tokens, cosines, ranks.
#ifndef CORE_PROBES_KIT_H
#define CORE_PROBES_KIT_H

#include "core/base/mem.h"
#include "core/base/tally.h"
#include "core/graph/readback.h"
#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/probes/probe.h"
#include "core/probes/results.h"
#include "core/settings/settings.h"
#include "core/template/sequence.h"
#include "kernels/tensor.h"

// A tensor's elements on the host, valid until the next read. A read waits until the device has
// computed them.
struct rows {
    float *data;
    int64_t capacity;
};

const float *rows_read(struct rows *r, struct graph *g, const struct tensor *x);
void rows_release(struct rows *r);

double rows_dot(const float *a, const float *b, int64_t n);
double rows_norm(const float *a, int64_t n);
// Returns the cosine of two rows; 0 if either row is zero.
double rows_cosine(const float *a, const float *b, int64_t n);

struct point {
    double x, y;
};

// Returns Spearman's rank correlation of x and y; ties get their mean rank. Skips points with
// infinities or NaNs. NaN for fewer than three points or without variation.
double rank_correlation(const struct point *points, size_t n);
// Like rank_correlation, with the p-value of Student's t approximation (t = r sqrt((n - 2) / (1 -
// r^2))) and a 95% interval from 2000 bootstrap samples of the points with a fixed seed. The
// p-value and the interval assume independent points. NaN where undefined.
struct correlation {
    double r, p, low, high;
    size_t points;
};
struct correlation rank_correlate(const struct point *points, size_t n);
// Adds rows "NAME", "NAME, p", "NAME, 95% low" and "NAME, 95% high".
void put_correlation(struct result_table *t, const char *name, const struct correlation *c);

// Returns the tally (for mean and deviation) of the numbers that are not NaN.
struct tally values_tally(const float *x, int64_t n);

// Sets from, to, query, queries, token, number and visual; the caller has set the other fields. -1
// if the options choose a layer, head or token that does not exist or that the probe does not
// accept; probe_env_close is needed even then.
int probe_env_open(struct probe_env *env, const struct probe *probe, struct err *err);
void probe_env_close(struct probe_env *env);
// Returns true if the probe listens at this site and layer.
bool probe_listens(const struct probe *probe, void *state, const struct probe_env *env,
                   const struct site *site, int layer);
int probe_middle(const struct model *m); // round(L/2), half to even
// Returns [count] NaNs, which maps and means skip; the caller frees it.
float *probe_nans(int64_t count);
// Returns [layers, S] NaNs, one for each visual token and layer.
float *probe_values(const struct probe_env *env, int layers);

// Reads (core/graph/readback.h) the attention of the rows of q (SITE_VALUES) whose sequence rows
// are in query[0..count), one by one; query NULL: of the rows of q whose sequence rows are below
// `count`. `take` gets x [H,1,P'], the probabilities of row 0 of its args over the P' keys that the
// row attends to; site_key(args, j) is the sequence row of key j.
int probe_read_queries(struct graph *g, const struct site_args *args, const int32_t *query,
                       int64_t count, readback_fn take, void *self);

// Receives a query row's probabilities [H,P] over the layer's keys (0 for keys that it does not
// see).
typedef int (*probe_row_fn)(void *self, struct graph *g, const struct site_args *args, int64_t row,
                            const float *probs);
// Like probe_read_queries, but waits for each row and passes it to `run`, which may use the device.
int probe_each_query(struct graph *g, const struct site_args *args, const int32_t *query,
                     int64_t count, probe_row_fn run, void *self);

// Returns the contributions [count] (C in CAPA's paper) of keys index[0..count) to the residual
// stream of the query in row `row` of q; probs [H,P] are its probabilities. They are valid until
// the next read of `host`. NULL: no keys, or the graph has failed.
const float *probe_contributions(struct graph *g, const struct model *m,
                                 const struct site_args *args, int64_t row, const float *probs,
                                 const int32_t *index, int64_t count, struct rows *host);

// Returns a token's text without surrounding spaces; a symbol for a token of spaces; for a token
// without text its name or, without a name, <ID>. The caller frees it.
char *probe_word(const struct tokenizer *t, int32_t id);

// Sets the flags rows[N] of the positions that `text` names (core/positions/positions.h); returns
// their number, or -1.
int64_t probe_positions(const struct probe_env *env, const char *text, bool *rows, struct err *err);

// Adds maps of values[S] over the selected pictures, tile by tile.
void probe_maps(const struct probe_env *env, struct results *r, const char *name, int layer,
                int head, int token, const float *values);
// Like probe_maps, but also stores words[S] to be written over the values (NULL: no word).
void probe_word_maps(const struct probe_env *env, struct results *r, const char *name, int layer,
                     int head, int token, const float *values, const char *const *words);
// Returns the tiles of a picture, or all its tokens as one row if their places are unknown; the
// caller frees them.
struct picture_tile *probe_tiles(const struct probe_env *env, int picture, int *count);

#endif
