// core/model/families/gemma3_text.c -- Gemma 3's language model (Gemma team 2025, arXiv
// 2503.19786).
//
// By default, five of six layers see only the last `sliding_window` rows, and rotate by a base of
// their own, unscaled. Norms multiply by 1 + gain; text embeddings are multiplied by sqrt(D); each
// sublayer has a norm before it and one after it; heads of queries and keys are normed before the
// rotation.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .ffn_size = 9216,
    .vocab = 262208,
    .max_positions = 131072,
    .head_size = 256,
    .heads = 8,
    .kv_heads = 4,
    .theta = 1e6,
    .tied = true,
    .slides_by_default = true,
    .sliding_pattern = 6,
    .gelu = true,
    .gains_from_1 = true,
    .embed_scaled = true,
    .attention = &attention_normed,
    .ffn = &ffn_gated,
    .norms = &norms_gemma,
    .rotary = &rotary_plain,
    .gguf = "gemma3",
    .keys = (const char *const[]){ "query_pre_attn_scalar", "rope_local_base_freq",
                                   "full_attention", "sliding_attention", NULL },
};

const struct family family_gemma3_text = {
    .name = "gemma3_text",
    .architectures = (const char *const[]){ "Gemma3ForCausalLM", NULL },
    .relatives = (const char *const[]){ "GemmaForCausalLM", "Gemma2ForCausalLM",
                                        "Gemma3nForCausalLM", NULL },
    .model_types = (const char *const[]){ "gemma3_text", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
