// core/methods/kit.h -- the header that a method includes: models, sites, ops, settings, learned
// tensors.
#ifndef CORE_METHODS_KIT_H
#define CORE_METHODS_KIT_H

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/graph/hooks.h"
#include "core/methods/method.h"
#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/ops/ops.h"
#include "core/settings/settings.h"
#include "core/template/sequence.h"

// Finds the trained tensor of that name; *found NULL: none. Returns -1 if its shape is not that
// of `want`: it belongs to a different model.
int method_trained(const struct method_env *env, const char *name, const struct tensor *want,
                   const struct tensor **found, struct err *err);
// Fills a learned tensor, whose shape is set, from the trained tensor of that name; without one,
// sets its last element to `last` and all others to `fresh`. Allocates its memory if it has none;
// the method releases it.
int method_fill(const struct method_env *env, const char *name, struct tensor *t, double fresh,
                double last, struct err *err);
// Updates `hash` ("": nothing was read yet) to the hash of these bytes, which a method read from a
// file. Returns true if the hash changed: the file was replaced under the same name, so the KV
// cache must not be reused.
bool method_content_changed(const void *bytes, size_t size, char hash[HASH_HEX]);
// Returns the root mean square of x [D], by which an RMSNorm divides.
double method_rms(const float *x, int64_t width, double eps);

#endif
