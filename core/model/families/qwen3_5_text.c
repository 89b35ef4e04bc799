// core/model/families/qwen3_5_text.c -- Qwen3.5's language model: of four layers, three have Gated
// DeltaNet's recurrence (core/model/attention_delta.c) and one has attention, with gated outputs
// and a rotated first quarter of each head.
//
// Norms multiply by 1 + gain, except that of the recurrence's outputs. Layers that predict further
// tokens (mtp.*) are not read.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct attention_kind *attention_of(const struct decoder_config *c, int layer)
{
    return c->recurs[layer] ? &attention_delta : &attention_gated;
}

static const struct decoder_kind decoder = {
    .model_types = (const char *const[]){ "qwen3_5_text", "qwen3_5", NULL },
    .ffn_size = 12288,
    .vocab = 248320,
    .max_positions = 32768,
    .heads = 16,
    .kv_heads = 4,
    .head_size = 256,
    .gains_from_1 = true,
    .attention = &attention_gated,
    .attention_of = attention_of,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_multimodal_part,
    .gguf = "qwen35",
    .keys = (const char *const[]){ "attn_output_gate", "layer_types", "mrope_interleaved", NULL },
};

const struct family family_qwen3_5_text = {
    .name = "qwen3_5_text",
    .architectures = (const char *const[]){ "Qwen3_5ForCausalLM", NULL },
    .relatives = (const char *const[]){ "Qwen3_5MoeForCausalLM", NULL },
    .model_types = (const char *const[]){ "qwen3_5_text", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
