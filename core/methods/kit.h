// core/methods/kit.h -- what a method's file includes: models, sites, ops, settings; and its
// learned tensors.
#ifndef CORE_METHODS_KIT_H
#define CORE_METHODS_KIT_H

#include "core/base/mem.h"
#include "core/graph/hooks.h"
#include "core/methods/method.h"
#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/ops/ops.h"
#include "core/settings/settings.h"
#include "core/template/sequence.h"

// The trained tensor of that name; *found NULL: there is none. -1: it is not as `want`, f32 of this
// shape, but of another model.
int method_trained(const struct method_env *env, const char *name, const struct tensor *want,
                   const struct tensor **found, struct err *err);
// Fills a learned tensor, whose shape is set, with the trained one of that name, else with `fresh`,
// as many numbers. Its memory is allocated where it has none; the method releases it.
int method_fill(const struct method_env *env, const char *name, struct tensor *t,
                const float *fresh, struct err *err);

#endif
