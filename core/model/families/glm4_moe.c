// core/model/families/glm4_moe.c -- GLM-4.5-Air without pictures: a mixture of experts with shared
// experts and sigmoid scores, two norms per layer, rotary positions on the first half of each head.
// glm4v.c has the same decoder with three positions per token.
//
// Models with norms of query and key heads ("use_qk_norm": GLM-4.5, GLM-4.6) are refused.
#include "core/model/families/glm4_moe.h"

#include "core/model/families/text.h"
#include "core/model/layer.h"

const struct experts_config glm4_moe_experts = { .count = 128,
                                                 .per_token = 8,
                                                 .shared = 1,
                                                 .width = 1408,
                                                 .dense = 1,
                                                 .groups = 1,
                                                 .groups_per_token = 1,
                                                 .normalise = true,
                                                 .scale = 1 };

static const struct decoder_kind decoder = {
    GLM4_MOE_DECODER,
    .vocab = 151552,
    .max_positions = 131072,
    .rotary = &rotary_half,
};

const struct family family_glm4_moe = {
    .name = "glm4_moe",
    .architectures = (const char *const[]){ "Glm4MoeForCausalLM", NULL },
    .relatives = (const char *const[]){ "Glm4MoeLiteForCausalLM", NULL },
    .model_types = (const char *const[]){ "glm4_moe", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
