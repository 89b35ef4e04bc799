// core/probes/sinks.h -- attention sink detection (methods page, section 3), for /sinks and its
// calibration.
#ifndef CORE_PROBES_SINKS_H
#define CORE_PROBES_SINKS_H

#include "core/probes/kit.h"

// Returns the value of sinks.tau; auto is 20 for D >= 1024 and 20 sqrt(D/4096) below (phi cannot
// exceed sqrt(D)).
double sinks_tau(const struct settings *s, int64_t width);
// Returns |rmsnorm(h)_k| without gain, for h [D].
double sinks_value(const float *h, int64_t width, double eps, int k);
// Sets the two dimensions with the largest |h_k|, ascending.
void sinks_top(const float *h, int64_t width, int dims[2]);
// Reads the two dimensions of each layer [L,2] from the file of sinks.calibration; the caller frees
// them. *dims NULL: no file is set. Returns -1 if the file does not fit this model.
int sinks_calibrated(const struct settings *settings, const struct model *m, float **dims,
                     struct err *err);

#endif
