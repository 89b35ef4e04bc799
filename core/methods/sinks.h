// core/methods/sinks.h -- attention sinks and their kinds (CAPA's paper, Fig. 2), for
// pruning, /sinks and the calibration of sinks.
//
//   phi_i = max over sink dimensions k of |rmsnorm(h_i)_k|, h entering the layer; a token with
//   phi > sinks.tau is a sink. Visual sinks that contribute little to the prompt's last row are
//   Probability Dumps, the others Structural Anchors; Otsu's threshold on log C over the sinks of a
//   picture separates them.
#ifndef CORE_METHODS_SINKS_H
#define CORE_METHODS_SINKS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct model;
struct settings;

// Returns the value of sinks.tau (settings NULL: auto); auto is 20 for D >= 1024 and 20
// sqrt(D/4096) below (phi cannot exceed sqrt(D)).
double sinks_tau(const struct settings *s, int64_t width);
// Returns phi of h [D]: the largest |rmsnorm(h)_k|, without gain, over `count` dimensions.
double sinks_phi(const float *h, int64_t width, double eps, const int *dims, int count);
// Sets the two dimensions with the largest |h_k|, ascending.
void sinks_top(const float *h, int64_t width, int dims[2]);
// Reads the two dimensions of each layer [L,2] from the file that sinks.calibration names; the
// caller frees them. *dims NULL: no file is set. Returns -1 if the file does not fit this model.
int sinks_calibrated(const struct settings *settings, const struct model *m, float **dims,
                     struct err *err);

// A token that may be a sink. picture -1: text, which has no kind.
struct sink_token {
    double phi, contribution; // phi NaN: not a candidate
    int picture;
};
enum sink_kind { SINK_UNTYPED, SINK_DUMP, SINK_ANCHOR };

// Returns the contribution that separates the kinds among the sinks of a picture; NaN: they are not
// separable.
double sinks_split(const struct sink_token *tokens, size_t count, int picture, double tau);
// Returns the kind of a token for the split of its picture.
enum sink_kind sinks_kind(const struct sink_token *t, double split, double tau);

// Returns the threshold that separates x into two classes with the largest between-class variance
// (Otsu 1979); NaN for fewer than two distinct values.
double otsu_split(const double *x, size_t n);

#endif
