// core/probes/finite.h -- fails a pass that computes NaN or Inf, so that nothing is measured of it.
//
//   struct hook hook = finite_hook();
//   hooks_add(&hooks, &hook);          // after the methods; the pass fails and names the layer
#ifndef CORE_PROBES_FINITE_H
#define CORE_PROBES_FINITE_H

struct hook finite_hook(void);

#endif
