// core/model/families/qwen3_vl.h -- code that Qwen3-VL shares with Qwen3.5: all but the decoder and
// DeepStack.
#ifndef CORE_MODEL_FAMILIES_QWEN3_VL_H
#define CORE_MODEL_FAMILIES_QWEN3_VL_H

#include "core/model/families/family.h"

struct encoder_config;
struct gguf_name;

// Implements family->configure for the given decoder and encoder.
int qwen3_vl_configure_as(struct model *m, const struct checkpoint *c,
                          const struct decoder_kind *decoder, const struct vision_kind *encoder,
                          struct err *err);
// Implement family->bind and family->part.
int qwen3_vl_bind(struct model *m, const struct checkpoint *c, struct err *err);
enum model_part_kind qwen3_vl_part(const struct model *m, const char *tensor);

// The encoder in GGUF files: the names of its tensors; `read` of a gguf_encoder; `check` and `put`
// of a family_mmproj.
extern const struct gguf_name qwen3_vl_outer[], qwen3_vl_block[];
void qwen3_vl_read_gguf(struct encoder_config *e);
int qwen3_vl_check_mmproj(const struct model *m, struct err *err);
void qwen3_vl_put_mmproj(const struct model *m, struct gguf_writer *out);

// The members of gguf_encoder and of family_mmproj that both families share.
#define QWEN3_VL_ENCODER                                                                \
    .type = "qwen3vl_merger", .prefixes = { "model.language_model.", "" },              \
    .outer = qwen3_vl_outer, .blocks = "model.visual.blocks.", .block = qwen3_vl_block, \
    .last = "mm.2.weight", .patches = "model.visual.patch_embed.proj.weight",           \
    .read = qwen3_vl_read_gguf
#define QWEN3_VL_MMPROJ                                               \
    .type = "qwen3vl_merger", .whole_qkv = true, .norm = "v.post_ln", \
    .linear = { "mm.0", "mm.2" }, .check = qwen3_vl_check_mmproj, .put = qwen3_vl_put_mmproj

#endif
