// core/train/parts.h -- trained parameters as parts of an adapter, for writing them.
//
//   size_t count;
//   struct adapter_part *parts = params_parts(&p, &count);   // while the masters are in the model
//   status = p.whole ? model_write_into(m, parts, count, out, &err)
//                    : adapter_write_into(m, parts, count, out, &err);
//   free(parts);
#ifndef CORE_TRAIN_PARTS_H
#define CORE_TRAIN_PARTS_H

#include "core/adapter.h"
#include "core/train/params.h"

// Borrowed from p; the list belongs to the caller (free).
struct adapter_part *params_parts(const struct params *p, size_t *count);

#endif
