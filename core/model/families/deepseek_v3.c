// core/model/families/deepseek_v3.c -- DeepSeek-V3, Moonlight and the text models of Kimi: latent
// attention and mixtures of experts. Layers that only predict further tokens are not read.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct experts_config experts = { .count = 256,
                                               .per_token = 8,
                                               .shared = 1,
                                               .width = 2048,
                                               .dense = 3,
                                               .groups = 8,
                                               .groups_per_token = 4,
                                               .normalise = true,
                                               .scale = 2.5 };

static const struct decoder_kind decoder = {
    .ffn_size = 18432,
    .vocab = 129280,
    .max_positions = 4096,
    .attention = &attention_latent,
    .ffn = &ffn_experts,
    .experts = &experts,
    .norms = &norms_before,
    .rotary = &rotary_plain,
    .gguf = "deepseek2",
};

const struct family family_deepseek_v3 = {
    .name = "deepseek_v3",
    .architectures = (const char *const[]){ "DeepseekV3ForCausalLM", NULL },
    .model_types = (const char *const[]){ "deepseek_v3", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
