// core/data/order.h -- the order of samples in an epoch.
//
// Depends only on seed and epoch, so that a resumed run continues in the same order.
#ifndef CORE_DATA_ORDER_H
#define CORE_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

// Sets order[n] to 0..n-1, shuffled or not. Ignores lengths: a pass joins its samples without
// padding (loss_batch), and batches of similar lengths would have similar content and train worse.
void order_epoch(int64_t *order, int64_t n, bool shuffle, uint64_t seed, int64_t epoch);

// Chooses about `count` of n samples to hold out for validation and sets chosen[n]. Samples of one
// group (numbered from 0) stay together. Returns the number of chosen samples; 0: all samples are
// in one group.
int64_t order_split(bool *chosen, const int64_t *group, int64_t n, int64_t count, uint64_t seed);

#endif
