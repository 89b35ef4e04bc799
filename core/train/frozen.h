// core/train/frozen.h -- matrices of the decoder that are not trained, while a GPU trains beside
// them: f16 is rounded to bf16 once, in place, instead of in each product of the way back.
//
//   if (frozen_round(model, base, &err) < 0) ...   // after params_open
//   frozen_restore(model);                         // the model is as it was, to the bit
//
// The mapped file is not touched; a model that is written meanwhile takes these weights from there
// (core/adapter/model_write.c).
#ifndef CORE_TRAIN_FROZEN_H
#define CORE_TRAIN_FROZEN_H

#include "core/adapter/adapter.h"

// `base`, which may be NULL, keeps matrices of its own in some weights' places: these are left. On
// failure some are rounded.
int frozen_round(struct model *m, const struct adapter *base, struct err *err);
void frozen_restore(struct model *m);

#endif
