// core/probes/norms.h -- the norms of norms.calibration, shown beside those of a conversation.
#ifndef CORE_PROBES_NORMS_H
#define CORE_PROBES_NORMS_H

#include "core/model/model.h"
#include "core/settings/settings.h"

enum { NORMS_VISUAL, NORMS_VISUAL_STD, NORMS_TEXT, NORMS_TEXT_STD, NORMS_CALIBRATED };

// [NORMS_CALIBRATED][L+1] of that file; the caller frees them. *norms NULL: none set. -1 if the
// file does not fit this model.
int norms_calibrated(const struct settings *settings, const struct model *m, float **norms,
                     struct err *err);

#endif
