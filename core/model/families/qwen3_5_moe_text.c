// core/model/families/qwen3_5_moe_text.c -- Qwen3.5's language model with experts (35B-A3B,
// 122B-A10B, 397B-A17B): the layers of qwen3_5_text.c with a mixture of experts in each, and a
// shared expert whose output has a gate.
#include "core/model/families/qwen3_5.h"
#include "core/model/families/text.h"

static const struct experts_config experts = { .count = 256,
                                               .per_token = 8,
                                               .width = 512,
                                               .shared = 1,
                                               .shared_width = 512,
                                               .shared_gated = true,
                                               .normalise = true };

static const struct decoder_kind decoder = {
    QWEN3_5_DECODER,
    .model_types = (const char *const[]){ "qwen3_5_moe_text", "qwen3_5_moe", NULL },
    .ffn_size = 512, // of no layer
    .kv_heads = 2,
    .ffn = &ffn_softmax_experts,
    .experts = &experts,
    .gguf = "qwen35moe",
};

const struct family family_qwen3_5_moe_text = {
    .name = "qwen3_5_moe_text",
    .architectures = (const char *const[]){ "Qwen3_5MoeForCausalLM", NULL },
    .model_types = (const char *const[]){ "qwen3_5_moe_text", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
