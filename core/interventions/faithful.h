// core/interventions/faithful.h -- scores a map over visual tokens against the location of an
// object, for /faithful.
//
//   struct map_score s = map_score(map, mask, tokens);
//
// `mask` may be any ground truth: an object's mask, or the box of a watermark that a model was
// trained to answer from.
#ifndef CORE_INTERVENTIONS_FAITHFUL_H
#define CORE_INTERVENTIONS_FAITHFUL_H

#include <stdint.h>

struct map_score {
    // Pointing game: how much of the cell with the largest value the object covers, which is the
    // probability that a random point in the cell hits the object. Ties: the mean over their cells.
    double pointing;
    double dice; // soft Dice of the positive part (core/probes/dice.h)
    // The probability that a random point on the object has a larger value than one outside it;
    // equal values count half.
    double auc;
};

// Scores map[n] against mask[n], the share of each cell that the object covers. Skips cells whose
// value is NaN. A score is NaN if it is undefined (auc: the object covers nothing, or everything).
struct map_score map_score(const float *map, const float *mask, int64_t n);

#endif
