// core/model/families/text.h -- shared by the text-only families, whose models consist of a decoder
// only. Families with pictures use text_part for the tensors of their decoders.
#ifndef CORE_MODEL_FAMILIES_TEXT_H
#define CORE_MODEL_FAMILIES_TEXT_H

#include "core/model/families/family.h"

int text_configure(struct model *m, const struct checkpoint *c, struct err *err);
int text_bind(struct model *m, const struct checkpoint *c, struct err *err);
enum model_part_kind text_part(const struct model *m, const char *tensor);

// The functions and names that text-only families share.
#define TEXT_FAMILY                                                    \
    .configure = text_configure, .bind = text_bind, .part = text_part, \
    .module_prefix = { [PART_EMBEDDING] = "model.", [PART_DECODER] = "model.", [PART_HEAD] = "" }

#endif
