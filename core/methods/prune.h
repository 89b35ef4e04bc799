// core/methods/prune.h -- what pruning does where its settings leave it to the model.
#ifndef CORE_METHODS_PRUNE_H
#define CORE_METHODS_PRUNE_H

#include "core/model/model.h"

// The layer of prune.layer auto: the transition layer of a checkpoint that is known, else the one
// at 3/8 of the depth.
int prune_auto_layer(const struct model *m);

#endif
