// core/probes/curvature.h -- curvature of the visual token trajectory in a layer.
//
//   struct curvature *c = curvature_new(env, &err);
//   curvature_add(c, g, site, args);           // at SITE_LAYER_IN and SITE_FINAL (layer L)
//   curvature_angle(c, layer, false); curvature_total(c, false);
#ifndef CORE_PROBES_CURVATURE_H
#define CORE_PROBES_CURVATURE_H

#include "core/probes/kit.h"

struct curvature;

void *curvature_new(const struct probe_env *env, struct err *err); // never NULL
void curvature_free(void *curvature);
// Adds the angles of one pass at SITE_LAYER_IN or SITE_FINAL.
int curvature_add(struct curvature *c, struct graph *g, const struct site *site,
                  const struct site_args *args);
// Returns the mean angle in degrees along the pictures' token trajectories. With `split`, a
// trajectory ends with each tile, and with each row that an extra token or text follows. NaN if no
// three consecutive tokens remain.
double curvature_angle(const struct curvature *c, int layer, bool split);
// Returns V, the sum over layers l of |angle(l + 1) - angle(l)|.
double curvature_total(const struct curvature *c, bool split);

#endif
