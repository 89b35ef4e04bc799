// core/graph/dry.h -- a device that computes nothing, for counting what a pass would need.
//
//   const struct backend *dry = backend_dry();
//   struct arena step = { .backend = dry };
//   ... the forward pass, back, and the optimizer, as on any device ...
//   step.peak, tape.peak                     // bytes that it would have taken
//
// Its memory is address space that nobody touches, so passes of models far larger than this machine
// can be counted. Nothing is uploaded, what is downloaded is zeros.
#ifndef CORE_GRAPH_DRY_H
#define CORE_GRAPH_DRY_H

#include "kernels/backend.h"

const struct backend *backend_dry(void);
// dry->scratch() counts from zero again (on this thread): what a GPU's ops would take, or the
// CPU's.
void backend_dry_reset(bool gpu);

#endif
