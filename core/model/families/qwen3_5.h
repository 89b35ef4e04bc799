// core/model/families/qwen3_5.h -- shared by Qwen3.5's decoders, dense and with experts.
#ifndef CORE_MODEL_FAMILIES_QWEN3_5_H
#define CORE_MODEL_FAMILIES_QWEN3_5_H

#include "core/model/layer.h"

// Attention or Gated DeltaNet, by layer.
const struct attention_kind *qwen3_5_attention(const struct decoder_config *c, int layer);
extern const char *const qwen3_5_keys[];

// The members of decoder_kind that both share.
#define QWEN3_5_DECODER                                                                           \
    .vocab = 248320, .max_positions = 32768, .heads = 16, .head_size = 256, .gains_from_1 = true, \
    .attention = &attention_gated, .attention_of = qwen3_5_attention, .norms = &norms_before,     \
    .rotary = &rotary_multimodal_part, .keys = qwen3_5_keys

#endif
