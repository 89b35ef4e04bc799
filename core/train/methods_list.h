// core/train/methods_list.h -- X(NAME, RATE, RULES): the values of train.method (the paper on
// LayerNorm tuning), their learning rate for train.lr auto, and their rules (core/train/select.h).
X("all", 2e-5, "@all")
X("full", 2e-5, "@decoder; @embedding; @head; @projector")
X("lora", 2e-4, "lora:*; @projector; @embedding; @head")
//
// If one weight fuses queries, keys and values, or gate and up projection, qv or mlp trains all of
// it. In latent attention, qv trains the projections from latents to each head's queries, keys and
// values.
X("qv", 2e-5,
  "@decoder:*.q_proj.*; @decoder:*.v_proj.*; @decoder:*.qkv_proj.*; @decoder:*.q_b_proj.*; "
  "@decoder:*.kv_b_proj.*; @projector; @embedding; @head")
X("mlp", 2e-5,
  "@decoder:*.gate_proj.*; @decoder:*.up_proj.*; @decoder:*.gate_up_proj.*; "
  "@decoder:*.down_proj.*; @projector; @embedding; @head")
X("layernorm", 2e-4,
  "@decoder:*.input_layernorm.weight; @decoder:*.post_attention_layernorm.weight; @projector; "
  "@embedding; @head")
X("layernorm-simple", 1e-3,
  "@decoder:*.input_layernorm.weight; @decoder:*.post_attention_layernorm.weight")
X("connector", 1e-3, "@projector")
