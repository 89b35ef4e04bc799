// core/model/families/qwen3_5.c -- Qwen3.5: Qwen3-VL's encoder and merger, without DeepStack, and
// the decoder of qwen3_5_text.c.
#include "core/model/families/native.h"
#include "core/model/families/qwen3_vl.h"

static int qwen3_5_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct decoder_kind *decoder = family_named("qwen3_5_text")->decoder;
    return qwen3_vl_configure_as(m, c, decoder, &vision_qwen3_5, err);
}

const struct family family_qwen3_5 = {
    .name = "qwen3_5",
    .architectures = (const char *const[]){ "Qwen3_5ForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "qwen3_5", NULL },
    .relatives = (const char *const[]){ "Qwen3_5MoeForConditionalGeneration", NULL },
    .configure = qwen3_5_configure,
    .bind = qwen3_vl_bind,
    .part = qwen3_vl_part,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_before = "<|vision_start|>",
    .picture_after = "<|vision_end|>",
    .templates_write_marks = true,
    .pictures = &native_pictures,
    .boxes = "qwen3-vl",
    .picture_processors = (const char *const[]){ "Qwen2VL", "Qwen3VL", NULL },
    .picture_keys = native_picture_keys,
    .positions = native_positions,
};
