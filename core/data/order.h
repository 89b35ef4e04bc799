// core/data/order.h -- in which order an epoch shows its samples.
//
// Keyed by seed and epoch alone, so that a resumed run goes on in the same order.
#ifndef CORE_DATA_ORDER_H
#define CORE_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

// order[n] = the numbers 0..n-1, shuffled or not. Samples of one pass are joined (loss_batch) and
// nothing is padded, so lengths need not be alike: batches of similar lengths would be batches of
// similar contents, which learn worse.
void order_epoch(int64_t *order, int64_t n, bool shuffle, uint64_t seed, int64_t epoch);

// Which of n samples are kept apart for validation: about `count` of them, chosen[n] is set.
// Samples of one group (numbers from 0 on) stay together. Returns how many; 0: all are of one
// group.
int64_t order_split(bool *chosen, const int64_t *group, int64_t n, int64_t count, uint64_t seed);

#endif
