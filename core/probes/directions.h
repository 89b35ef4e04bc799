// core/probes/directions.h -- steering vectors from two files of samples: the difference of hidden
// states.
//
//   struct directions_request r = { "polite.txt", "rude.txt", .method = DIRECTION_MEAN, ... };
//   struct directions d = { 0 };
//   if (directions_make(&measuring, &r, &d, &err) < 0) ...
//   steer_write(path, d.vectors, d.there, d.layers, d.width, &source, &err);
//   directions_release(&d);
//
// The state of a sample is the output of a layer at the last position of its prompt, which predicts
// the first token of the answer.
#ifndef CORE_PROBES_DIRECTIONS_H
#define CORE_PROBES_DIRECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct measuring;

enum direction_method {
    // The mean state of `plus` minus that of `minus`.
    DIRECTION_MEAN,
    // The first principal component of the states, each pair (sample i of both files) centred at
    // its middle; its length is the root mean square of the pairs' differences along it.
    DIRECTION_PCA
};

struct directions_request {
    // Each: a data set, or a text with one question per line.
    const char *plus, *minus, *images; // images: base folder of relative paths of pictures; or NULL
    const char *layers;                // list for positions_layers; NULL: the middle layer
    enum direction_method method;
    int64_t limit; // samples of each file
};

struct directions {
    int64_t layers, width;
    bool *there;    // [L]
    float *vectors; // [L,D]
    double *norm;   // [L] of the vectors
    double *state;  // [L] mean norm of the states
    // [L] share of the samples whose projection on the vector lies on their own file's side of the
    // midpoint of the means
    double *separated;
    int64_t plus, minus; // samples
};

// Runs one pass for each sample and fills *d; emits progress. Releases *d on failure.
int directions_make(const struct measuring *m, const struct directions_request *request,
                    struct directions *d, struct err *err);
void directions_release(struct directions *d);
// Computes the vector [D] of one layer from the states [plus,D] and [minus,D] in double precision.
// DIRECTION_PCA needs plus_count == minus_count. Returns -1 if the states do not differ, or if
// DIRECTION_PCA does not converge or lacks memory.
int direction_compute(enum direction_method method, const float *plus, int64_t plus_count,
                      const float *minus, int64_t minus_count, int64_t width, float *vector,
                      struct err *err);

#endif
