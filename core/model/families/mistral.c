// core/model/families/mistral.c -- Mistral 7B: text only, or a decoder of other families. Its
// layers are Llama's. The first version has a sliding window of 4096 tokens; later ones have none.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .ffn_size = 14336,
    .vocab = 32000,
    .max_positions = 131072,
    .slides_by_default = true,
    .attention = &attention_grouped,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_plain,
    .gguf = "llama",
};

const struct family family_mistral = {
    .name = "mistral",
    .architectures = (const char *const[]){ "MistralForCausalLM", NULL },
    .model_types = (const char *const[]){ "mistral", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
