// core/new/outline.h -- a model without weight values, for counting parameters and memory.
//
//   struct model *o = outline_shape("llava-1.5-7b", &err);   // of a shape: no files, no weights
//   struct model *o = outline_model(loaded, &err);           // of a loaded model
//   ... params_open, passes on backend_dry() ...
//   outline_free(o);
//
// An outline owns its tensors: training can replace the outline's parameters while the original
// model answers.
#ifndef CORE_NEW_OUTLINE_H
#define CORE_NEW_OUTLINE_H

#include "core/base/err.h"

// Outlines a shape of core/new/shapes.h. The outline has no tokenizer; its weights read as zeros.
struct model *outline_shape(const char *shape, struct err *err);
// Outlines a loaded model. The outline shares checkpoint and tokenizer with `m`, which must outlive
// the outline.
struct model *outline_model(const struct model *m, struct err *err);
void outline_free(struct model *o);

#endif
