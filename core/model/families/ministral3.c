// core/model/families/ministral3.c -- Ministral 3's language model: text only, or the decoder of
// `mistral3`. Its layers are Mistral's; beyond the original context (yarn), queries grow with the
// logarithm of their position.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .ffn_size = 14336,
    .vocab = 131072,
    .max_positions = 262144,
    .head_size = 128,
    .kv_heads = 8,
    .eps = 1e-5,
    .theta = 1e6,
    .slides_if_given = true,
    .attention = &attention_grouped,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_scaled_queries,
    .gguf = "mistral3",
    .keys = (const char *const[]){ "llama_4_scaling_beta", NULL },
};

const struct family family_ministral3 = {
    .name = "ministral3",
    .architectures = (const char *const[]){ "Ministral3ForCausalLM", NULL },
    .model_types = (const char *const[]){ "ministral3", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
