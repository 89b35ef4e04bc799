// core/methods/phases.h -- the phases of a model's layers (CAPA, section 5): where the model
// begins to read pictures, where their role changes, and where they stop mattering. /calibrate
// phases finds them.
#ifndef CORE_METHODS_PHASES_H
#define CORE_METHODS_PHASES_H

#include <stdbool.h>

#include "core/base/err.h"

struct model;
struct settings;

enum { PHASE_EARLY, PHASE_TRANSITION, PHASE_LATE, PHASES };
extern const char *const phase_names[PHASES];

// Finds the phases in two curves [layers]: the visual tokens' contribution, and the Hellinger
// distance of each layer's prediction of the next token from the model's:
//   early       the largest contribution in the first half of the layers
//   transition  after it, the layer after which the contribution drops most
//   late        after that, the first layer whose distance is at most half of that at `transition`;
//               at the latest the last but one
void phases_find(const float *contribution, const float *hellinger, int layers, int phase[PHASES]);
// Reads the phases from the file that phases.calibration names; *known false: no file is set.
// Returns -1 if the file does not fit the model.
int phases_calibrated(const struct settings *s, const struct model *m, int phase[PHASES],
                      bool *known, struct err *err);

// Finds the phases in use: from phases.calibration, else from the paper if it gives them for the
// model, else by depth. *source names the source.
int phases_of(const struct settings *s, const struct model *m, int phase[PHASES],
              const char **source, struct err *err);

#endif
