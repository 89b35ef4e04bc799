// core/model/families/qwen3_vl.h -- code that Qwen3-VL shares with Qwen3.5: all but the decoder and
// DeepStack.
#ifndef CORE_MODEL_FAMILIES_QWEN3_VL_H
#define CORE_MODEL_FAMILIES_QWEN3_VL_H

#include "core/model/families/family.h"

// Implements family->configure for the given decoder and encoder.
int qwen3_vl_configure_as(struct model *m, const struct checkpoint *c,
                          const struct decoder_kind *decoder, const struct vision_kind *encoder,
                          struct err *err);
// Implement family->bind and family->part.
int qwen3_vl_bind(struct model *m, const struct checkpoint *c, struct err *err);
enum model_part_kind qwen3_vl_part(const struct model *m, const char *tensor);

#endif
