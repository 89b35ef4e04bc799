// core/model/families/internlm2.c -- InternLM2: text only; one weight holds queries, keys and
// values; most tensors have the names of Meta's Llama 1.
//
// The models' folders on the Hugging Face hub contain their own code; its
// configuration_internlm2.py gives the defaults below.
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct tensor_name names[] = {
    { "embed_tokens", "tok_embeddings" },
    { "self_attn.qkv_proj", "attention.wqkv" },
    { "self_attn.o_proj", "attention.wo" },
    { "mlp.gate_proj", "feed_forward.w1" },
    { "mlp.up_proj", "feed_forward.w3" },
    { "mlp.down_proj", "feed_forward.w2" },
    { "input_layernorm", "attention_norm" },
    { "post_attention_layernorm", "ffn_norm" },
    { "lm_head", "output" },
    { 0 },
};

static const struct decoder_kind decoder = {
    .ffn_size = 11008,
    .vocab = 103168,
    .max_positions = 2048,
    .attention = &attention_packed,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_plain,
    .names = names,
    .gguf = "internlm2",
};

const struct family family_internlm2 = {
    .name = "internlm2",
    .architectures = (const char *const[]){ "InternLM2ForCausalLM", NULL },
    .model_types = (const char *const[]){ "internlm2", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
