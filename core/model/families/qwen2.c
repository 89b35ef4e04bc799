// core/model/families/qwen2.c -- Qwen2, Qwen2.5: text only; q, k and v have biases.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .ffn_size = 22016,
    .vocab = 151936,
    .max_positions = 32768,
    .qkv_bias = true,
    .attention = &attention_grouped,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_plain,
    .gguf = "qwen2",
};

const struct family family_qwen2 = {
    .name = "qwen2",
    .architectures = (const char *const[]){ "Qwen2ForCausalLM", NULL },
    .model_types = (const char *const[]){ "qwen2", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
