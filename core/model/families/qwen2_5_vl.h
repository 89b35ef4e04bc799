// core/model/families/qwen2_5_vl.h -- code that Qwen2-VL shares with Qwen2.5-VL: all but the
// encoder and the merger.
#ifndef CORE_MODEL_FAMILIES_QWEN2_5_VL_H
#define CORE_MODEL_FAMILIES_QWEN2_5_VL_H

#include "core/model/families/family.h"

// Implements family->configure for the given encoder and merger.
int qwen2_vl_configure_as(struct model *m, const struct checkpoint *c,
                          const struct vision_kind *kind, const struct projector_kind *merger_kind,
                          struct err *err);
// Implement family->bind and family->part.
int qwen2_vl_bind(struct model *m, const struct checkpoint *c, struct err *err);
enum model_part_kind qwen2_vl_part(const struct model *m, const char *tensor);

#endif
