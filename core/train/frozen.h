// core/train/frozen.h -- frozen matrices of the decoder during training on a GPU: f16 is rounded to
// bf16 once, in place, instead of in each product of the backward pass.
//
//   if (frozen_round(model, base, &err) < 0) ...   // after params_open
//   frozen_restore(model);                         // restores the model bit for bit
//
// The mapped file is not changed; a model saved meanwhile gets these weights from the file
// (core/adapter/model_write.c).
#ifndef CORE_TRAIN_FROZEN_H
#define CORE_TRAIN_FROZEN_H

#include "core/adapter/adapter.h"

// Skips weights that the adapter `base` (may be NULL) replaces. On failure some matrices may
// already be rounded.
int frozen_round(struct model *m, const struct adapter *base, struct err *err);
void frozen_restore(struct model *m);

#endif
