"""Writes small GGUF files with which fuzzing begins: models of one or two layers, encoders of one block, and a control
vector. gguf_seeds.py FOLDER"""
import math, os, struct, sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../goldens"))
from to_gguf import Tensor, write_gguf


def write(name, pairs, tensors):
    out = {key: Tensor(shape, "F32", struct.pack("<f", 1) * math.prod(shape)) for key, shape in tensors.items()}
    write_gguf(os.path.join(sys.argv[1], name), pairs, out)


tokenizer = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": ["a", "b", "ab", "<s>"],
             "tokenizer.ggml.token_type": [1, 1, 1, 3], "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.bos_token_id": 3,
             "tokenizer.ggml.add_bos_token": True, "tokenizer.chat_template": "{{ messages }}"}
pieces = dict(tokenizer, **{"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.0, -1.0, -2.0, 0.0]})
sizes = {"block_count": 1, "embedding_length": 4, "feed_forward_length": 4, "context_length": 8, "attention.head_count": 2,
         "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e4, "rope.dimension_count": 2,
         "rope.dimension_sections": [1, 0, 0, 0]}
square, vector = (4, 4), (4,)
for arch, words in (("llama", pieces), ("qwen2vl", tokenizer), ("glm4", tokenizer)):
    tensors = {"token_embd.weight": square, "output_norm.weight": vector, "blk.0.attn_q.weight": square,
               "blk.0.attn_q.bias": vector, "rope_freqs.weight": (1,), "blk.0.attn_norm.weight": vector}
    write(arch, {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in sizes.items()}, **words}, tensors)
latent = {"attention.key_length": 4, "attention.value_length": 2, "attention.kv_lora_rank": 2, "expert_count": 2,
          "expert_used_count": 1, "expert_feed_forward_length": 4, "expert_gating_func": 2}
write("deepseek2", {"general.architecture": "deepseek2", **{f"deepseek2.{k}": v for k, v in {**sizes, **latent}.items()}},
      {"token_embd.weight": square, "blk.0.attn_k_b.weight": (2, 2, 2), "blk.0.attn_v_b.weight": (2, 2, 2),
       "blk.0.ffn_up_exps.weight": (2, 4, 4)})
delta = {"attention.key_length": 4, "ssm.conv_kernel": 2, "ssm.state_size": 1, "ssm.group_count": 1, "ssm.time_step_rank": 2,
         "ssm.inner_size": 2, "full_attention_interval": 2, "nextn_predict_layers": 1}
write("qwen35", {"general.architecture": "qwen35", **{f"qwen35.{k}": v for k, v in {**sizes, **delta, "block_count": 2}.items()}},
      {"token_embd.weight": square, "blk.0.ssm_conv1d.weight": (4, 2), "blk.0.ssm_dt.bias": (2,), "blk.0.attn_norm.weight": vector,
       "blk.1.attn_norm.weight": vector})
mixed = {"expert_count": 2, "expert_used_count": 1, "expert_feed_forward_length": 4, "expert_shared_feed_forward_length": 4}
write("qwen35moe", {"general.architecture": "qwen35moe",
                    **{f"qwen35moe.{k}": v for k, v in {**sizes, **delta, **mixed, "block_count": 2}.items()}},
      {"token_embd.weight": square, "blk.0.ffn_gate_inp_shexp.weight": vector, "blk.0.ffn_up_exps.weight": (2, 4, 4)})
vision = {"embedding_length": 4, "feed_forward_length": 8, "block_count": 1, "attention.head_count": 1, "patch_size": 2,
          "image_size": 4, "projection_dim": 4, "n_wa_pattern": 1, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
          "attention.layer_norm_epsilon": 1e-5}
block = {"v.blk.0.ln1.weight": vector, "v.blk.0.ffn_down.weight": (8, 4), "v.blk.0.attn_q.weight": square}
both = {"v.patch_embd.weight": (1, 3, 2, 2), "v.patch_embd.weight.1": (1, 3, 2, 2)}
one = {"v.patch_embd.weight": (1, 3, 2, 2), "v.class_embd": vector, "v.position_embd.weight": square}
kinds = {"mlp": {**one, "mm.2.weight": square}, "next": {**one, "mm.2.weight": square, "model.image_newline": vector},
         "qwen2.5vl_merger": {**both, "v.blk.0.ffn_gate.weight": square, "mm.2.weight": square},
         "internvl": {**one, "v.blk.0.ls1": vector, "mm.model.mlp.3.weight": square},
         "kimivl": {"v.patch_embd.weight": (1, 3, 2, 2), "v.position_embd.weight": square, "mm.2.weight": square},
         "glm4v": {**both, "v.patch_embd.bias": vector, "mm.down.weight": square}}
for kind, tensors in kinds.items():
    pairs = {"clip.projector_type": kind, **{f"clip.vision.{k}": v for k, v in vision.items()}}
    if kind == "next":
        pairs.update({"clip.projector_type": "mlp", "clip.vision.image_grid_pinpoints": [4, 8, 8, 4]})
    arch, more = {"kimivl": ("deepseek2", latent), "glm4v": ("glm4", {})}.get(kind, ("qwen2vl", {}))
    pairs.update({f"{arch}.{k}": v for k, v in {**sizes, **more}.items()})
    write(kind, {"general.architecture": arch, **tokenizer, **pairs}, {"token_embd.weight": square, **tensors, **block})
# The encoders that families read, each with its language model: family_find accepts the two together.
gemma = {"attention.key_length": 2, "attention.value_length": 2}
gemma4 = {**gemma, "attention.key_length_swa": 2, "attention.value_length_swa": 2, "rope.dimension_count_swa": 2,
          "attention.sliding_window": 4, "attention.sliding_window_pattern": [False], "attention.head_count_kv": 1,
          "rope.freq_base_swa": 1e4, "final_logit_softcapping": 30.0}
deep = {"attention.key_length": 2, "n_deepstack_layers": 1}
bare = {"v.patch_embd.weight": (4, 3, 2, 2), "v.blk.0.ffn_up.weight": (8, 4)}
plain = {**bare, "v.position_embd.weight": square}
axes = {"v.position_embd.weight": (2, 4, 4), "mm.input_projection.weight": square}
ours = {"gemma3": ("gemma3", pieces, gemma, {**plain, "mm.input_projection.weight": square, "mm.soft_emb_norm.weight": vector}),
        "gemma4v": ("gemma4", dict(tokenizer, **{"tokenizer.ggml.model": "gemma4"}), gemma4,
                    {**axes, **bare, "v.blk.0.attn_q_norm.weight": vector}),
        "gemma4uv": ("gemma4", dict(tokenizer, **{"tokenizer.ggml.model": "gemma4"}), gemma4,
                     {**axes, "v.patch_embd.weight": (4, 12), "v.patch_norm.1.weight": (12,)}),
        "minicpmv4_6": ("qwen35", tokenizer, {**delta, "nextn_predict_layers": 0}, {**plain, "v.vit_merger.ln1.weight": vector, "mm.down.weight": square}),
        "qwen2vl_merger": ("qwen2vl", tokenizer, {}, {**bare, **both, "mm.2.weight": square}),
        "idefics3": ("llama", pieces, {}, {**plain, "mm.model.fc.weight": (4, 16)}),
        "pixtral": ("llama", pieces, {}, {**bare, "mm.patch_merger.weight": (4, 16), "mm.2.weight": square}),
        "qwen3vl_merger": ("qwen3vl", tokenizer, deep,
                           {**plain, **both, "v.deepstack.0.norm.weight": (16,), "mm.2.weight": square})}
options = {"gemma4uv": {"block_count": 0}, "minicpmv4_6": {"wa_layer_indexes": [0]}, "pixtral": {"spatial_merge_size": 2},
           "gemma3": {"projector.scale_factor": 1}, "gemma4v": {"projector.scale_factor": 1},
           "qwen3vl_merger": {"is_deepstack_layers": [True]}, "idefics3": {"preproc_image_size": 8}}
for kind, (arch, words, more, tensors) in ours.items():
    text = {f"{arch}.{k}": v for k, v in {**sizes, **more}.items()}
    encoder = {f"clip.vision.{k}": v for k, v in {**vision, **options.get(kind, {})}.items()}
    write(kind, {"general.architecture": arch, **text, **words, "clip.projector_type": kind, "clip.use_silu": kind == "pixtral", **encoder},
          {"token_embd.weight": square, **tensors, **({} if kind == "gemma4uv" else block)})
write("controlvector", {"general.architecture": "controlvector", "controlvector.model_hint": "llama",
                        "controlvector.layer_count": 2}, {"direction.1": (3,), "direction.2": (3,)})
# Two parts of one file, which the target `folder` reads together.
for i in range(2):
    write(f"split-{i}", {"split.no": i, "split.count": 2, "split.tensors.count": 2,
                         **({} if i else {"general.architecture": "llama"})}, {f"t{i}": (1,)})
