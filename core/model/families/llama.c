// core/model/families/llama.c -- Llama 2, 3, 3.2: text only.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .ffn_size = 11008,
    .vocab = 32000,
    .max_positions = 2048,
    .attention = &attention_grouped,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_plain,
    .gguf = "llama",
    .llava_layout = "vicuna", // LLaVA-1.5's first folders had no chat template
};

const struct family family_llama = {
    .name = "llama",
    .architectures = (const char *const[]){ "LlamaForCausalLM", NULL },
    .model_types = (const char *const[]){ "llama", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
