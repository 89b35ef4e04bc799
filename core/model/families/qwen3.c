// core/model/families/qwen3.c -- Qwen3: text only; norms on query and key heads, and a head size
// independent of the hidden size.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .ffn_size = 22016,
    .vocab = 151936,
    .max_positions = 32768,
    .head_size = 128,
    .attention = &attention_normed,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_plain,
    .gguf = "qwen3",
};

const struct family family_qwen3 = {
    .name = "qwen3",
    .architectures = (const char *const[]){ "Qwen3ForCausalLM", NULL },
    .relatives = (const char *const[]){ "Qwen3NextForCausalLM", NULL },
    .model_types = (const char *const[]){ "qwen3", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
