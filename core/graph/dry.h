// core/graph/dry.h -- a device that computes nothing, for counting the memory of a pass.
//
//   const struct backend *dry = backend_dry();
//   struct arena step = { .backend = dry };
//   ... forward pass, backward pass and optimizer, as on any device ...
//   step.peak, tape.peak                     // bytes that the pass would need
//
// Most of its memory is address space that is never touched, so the device can count the passes of
// models far larger than this machine's memory. Only small uploads are copied; downloads return
// zeros.
#ifndef CORE_GRAPH_DRY_H
#define CORE_GRAPH_DRY_H

#include <stdbool.h>

const struct backend *backend_dry(void);
// Resets this thread's dry->scratch(). From then on, it counts the scratch memory of a GPU's ops if
// `gpu` is set, else that of the CPU's ops.
void backend_dry_reset(bool gpu);

#endif
