// core/train/order.h -- in which order an epoch shows its samples.
//
// Keyed by seed and epoch alone, so that a resumed run goes on in the same order.
#ifndef CORE_TRAIN_ORDER_H
#define CORE_TRAIN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

// order[n] = the numbers 0..n-1, to be cut into batches of `batch` (the last may be shorter).
// Shuffled, then samples of similar length[] (rows) are put together within a window of batches,
// and the batches of a window shuffled again: what is computed at once has little to pad, and no
// length has its own time in the epoch.
void order_epoch(int64_t *order, int64_t n, const int32_t *length, int64_t batch, bool shuffle,
                 uint64_t seed, int64_t epoch);

// Which of n samples are kept apart for validation: `count` of them, chosen[n] is set.
void order_split(bool *chosen, int64_t n, int64_t count, uint64_t seed);

#endif
