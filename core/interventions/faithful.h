// core/interventions/faithful.h -- scores of a map over visual tokens against the place of an
// object, for /faithful.
//
//   struct map_score s = map_score(map, mask, tokens);
//
// `mask` may be any truth: an object's mask, or the box of a watermark that a model was trained to
// answer from.
#ifndef CORE_INTERVENTIONS_FAITHFUL_H
#define CORE_INTERVENTIONS_FAITHFUL_H

#include <stdint.h>

struct map_score {
    // Pointing game: the share of the largest cell that the object covers, the chance that a random
    // point of it hits the object; the mean over cells of equal value.
    double pointing;
    double dice; // soft Dice of the positive part (core/probes/dice.h)
    // The chance that a random point of the object has a larger value than a point beside it; equal
    // values count half.
    double auc;
};

// Scores map[n] against mask[n], the share of each cell that the object covers. Skips cells whose
// value is NaN. A score is NaN if it is undefined (auc: the object covers nothing, or everything).
struct map_score map_score(const float *map, const float *mask, int64_t n);

#endif
