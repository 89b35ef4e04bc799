// core/methods/prune.h -- sites at which CAPA pruning reports to probes.
#ifndef CORE_METHODS_PRUNE_H
#define CORE_METHODS_PRUNE_H

#include "core/graph/hooks.h"

// [S] f32 scores of the visual tokens that remain in `layer`; layer -1: before the first layer.
extern const struct site SITE_SCORE[1];
// [k] i32 visual tokens kept after `layer`, counted among all visual tokens.
extern const struct site SITE_KEPT[1];

#endif
