// core/model/families/gemma4_text.c -- Gemma 4's language model.
//
// Most layers see only the last `sliding_window` rows. The others ("layer_types"; by default every
// sixth, and always the last) have wider heads, of which only some pairs rotate. Each layer has a
// factor for its output. Norms multiply by their gain, text embeddings are multiplied by sqrt(D),
// scores are not scaled, logits are soft-capped.
//
// Only E2B and E4B: the last `num_kv_shared_layers` layers attend to the keys and values of an
// earlier layer of their type (core/model/attention_shared.c), in E2B with FFNs of twice the width.
// Each layer has an input of its own for each token (core/model/layer_inputs.c).
//
// Only 31B and 26B-A4B: layers with wider heads make keys and values by one projection. Only
// 26B-A4B: experts beside the FFNs (core/model/ffn_experts.c).
#include "core/model/families/gemma4.h"
#include "core/model/families/text.h"

const struct attention_kind *gemma4_attention(const struct decoder_config *c, int layer)
{
    return decoder_shares(c, layer) ? &attention_sharing : &attention_valued;
}

static const struct decoder_kind decoder = {
    GEMMA4_DECODER,
    .max_positions = 131072,
    .window = 512,
    .ffn = &ffn_beside_experts,
    .keys = (const char *const[]){ GEMMA4_KEYS, "hidden_size_per_layer_input", "enable_moe_block",
                                   NULL },
};

const struct family family_gemma4_text = {
    .name = "gemma4_text",
    .architectures = (const char *const[]){ "Gemma4ForCausalLM", NULL },
    .model_types = (const char *const[]){ "gemma4_text", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
