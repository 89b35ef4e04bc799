// core/model/families/glm4.c -- GLM-4-0414 and its relatives without pictures: four norms per
// layer, gate and up in one matrix, rotary positions that pair adjacent elements in the first half
// of each head. glm4v.c has the same decoder with three positions per token.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .ffn_size = 13696,
    .vocab = 151552,
    .max_positions = 131072,
    .head_size = 128,
    .eps = 1.5625e-7,
    .qkv_bias_default = true,
    .out_unbiased = true,
    .attention = &attention_grouped,
    .ffn = &ffn_packed,
    .norms = &norms_sandwich,
    .rotary = &rotary_interleaved,
    .gguf = "glm4",
};

const struct family family_glm4 = {
    .name = "glm4",
    .architectures = (const char *const[]){ "Glm4ForCausalLM", NULL },
    .relatives = (const char *const[]){ "GlmForCausalLM", NULL },
    .model_types = (const char *const[]){ "glm4", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
