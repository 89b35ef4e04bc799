// core/methods/phases.h -- the phases of a model's layers (CAPA, section 5): where it begins to
// read pictures, where their role changes, and where they stop mattering, found by /calibrate
// phases.
#ifndef CORE_METHODS_PHASES_H
#define CORE_METHODS_PHASES_H

#include <stdbool.h>

#include "core/base/err.h"

struct model;
struct settings;

enum { PHASE_EARLY, PHASE_TRANSITION, PHASE_LATE, PHASES };

// Finds them in the curves [layers] of the visual tokens' contribution and of the Hellinger
// distance of each layer's reading from the output:
//   early       the largest contribution in the first half of the layers
//   transition  after it, the layer with the largest drop of the contribution to the next one
//   late        after that, the first layer whose reading has come half of the way to the output
void phases_find(const float *contribution, const float *hellinger, int layers, int phase[PHASES]);
// Reads them from the file of phases.calibration; false in *known: no file is set. -1 if the file
// does not fit the model.
int phases_calibrated(const struct settings *s, const struct model *m, int phase[PHASES],
                      bool *known, struct err *err);

// Finds the phases in use: of phases.calibration, else those that the paper gives for the model,
// else by depth. *source says which.
int phases_of(const struct settings *s, const struct model *m, int phase[PHASES],
              const char **source, struct err *err);

#endif
