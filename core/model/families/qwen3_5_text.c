// core/model/families/qwen3_5_text.c -- Qwen3.5's language model: by default, of four layers, three
// have Gated DeltaNet's recurrence (core/model/attention_delta.c) and one has attention, with gated
// outputs and a rotated first quarter of each head.
//
// Norms multiply by 1 + gain, except that of the recurrence's outputs. Layers that predict further
// tokens (mtp.*) are not read.
#include "core/model/families/qwen3_5.h"
#include "core/model/families/text.h"

const struct attention_kind *qwen3_5_attention(const struct decoder_config *c, int layer)
{
    return c->recurs[layer] ? &attention_delta : &attention_gated;
}

const char *const qwen3_5_keys[] = { "attn_output_gate", "layer_types", "mrope_interleaved", NULL };

static const struct decoder_kind decoder = {
    QWEN3_5_DECODER,   .model_types = (const char *const[]){ "qwen3_5_text", "qwen3_5", NULL },
    .ffn_size = 12288, .kv_heads = 4,
    .ffn = &ffn_gated, .gguf = "qwen35",
};

const struct family family_qwen3_5_text = {
    .name = "qwen3_5_text",
    .architectures = (const char *const[]){ "Qwen3_5ForCausalLM", NULL },
    .model_types = (const char *const[]){ "qwen3_5_text", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
