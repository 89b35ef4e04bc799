// core/probes/sinks.h -- what makes a token a sink (methods page, section 3), for /sinks and its
// calibration.
#ifndef CORE_PROBES_SINKS_H
#define CORE_PROBES_SINKS_H

#include "core/probes/rows.h"

// sinks.tau: its number, or 20 for D >= 1024 and 20 sqrt(D/4096) below (phi cannot exceed sqrt(D)).
double sinks_tau(const struct settings *s, int64_t width);
// |rmsnorm(h)_k| without gain, h [D].
double sinks_value(const float *h, int64_t width, double eps, int k);
// The two dimensions with the largest |h_k|, ascending.
void sinks_top(const float *h, int64_t width, int dims[2]);
// The two dimensions of each layer [L,2] in the file that sinks.calibration names; belong to the
// caller (free). *dims NULL: none is named. -1 when the file is none of this model.
int sinks_calibrated(const struct settings *settings, const struct model *m, float **dims,
                     struct err *err);

#endif
