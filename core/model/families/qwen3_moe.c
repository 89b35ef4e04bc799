// core/model/families/qwen3_moe.c -- Qwen3 with experts: text only.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct experts_config experts = { .count = 128, .per_token = 8, .width = 768 };

static const struct decoder_kind decoder = {
    .ffn_size = 6144,
    .vocab = 151936,
    .max_positions = 32768,
    .head_size = 128,
    .slides_in_all = true,
    .attention = &attention_normed,
    .ffn = &ffn_softmax_experts,
    .experts = &experts,
    .norms = &norms_before,
    .rotary = &rotary_plain,
    .gguf = "qwen3moe",
};

const struct family family_qwen3_moe = {
    .name = "qwen3_moe",
    .architectures = (const char *const[]){ "Qwen3MoeForCausalLM", NULL },
    .model_types = (const char *const[]){ "qwen3_moe", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
