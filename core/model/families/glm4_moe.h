// core/model/families/glm4_moe.h -- shared by GLM-4.5's decoders with experts, with and without
// pictures.
#ifndef CORE_MODEL_FAMILIES_GLM4_MOE_H
#define CORE_MODEL_FAMILIES_GLM4_MOE_H

#include "core/model/decoder.h"

extern const struct experts_config glm4_moe_experts; // class defaults

// The members of decoder_kind that both share.
#define GLM4_MOE_DECODER                                                                         \
    .ffn_size = 10944, .heads = 96, .kv_heads = 8, .eps = 1e-5, .attention = &attention_grouped, \
    .out_unbiased = true, .ffn = &ffn_experts, .experts = &glm4_moe_experts,                     \
    .norms = &norms_before, .gguf = "glm4moe"

#endif
