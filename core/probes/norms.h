// core/probes/norms.h -- the norms of a data set beside those of a conversation: what
// norms.calibration names.
#ifndef CORE_PROBES_NORMS_H
#define CORE_PROBES_NORMS_H

#include "core/model/model.h"
#include "core/settings/settings.h"

enum { NORMS_VISUAL, NORMS_VISUAL_STD, NORMS_TEXT, NORMS_TEXT_STD, NORMS_CALIBRATED };

// [NORMS_CALIBRATED][L+1] of that file; belong to the caller (free). *norms NULL: none is named.
// -1 when the file is none of this model.
int norms_calibrated(const struct settings *settings, const struct model *m, float **norms,
                     struct err *err);

#endif
