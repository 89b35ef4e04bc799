"""Small GGUF files to begin fuzzing with: models of one layer and encoders of one block. gguf_seeds.py FOLDER"""
import os, struct, sys


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def value(v):
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return 4, struct.pack("<I", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, str):
        return 8, text(v)
    items = [value(x) for x in v]
    return 9, struct.pack("<IQ", items[0][0], len(v)) + b"".join(x for _, x in items)


def write(name, pairs, tensors):
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs))
    for key, v in pairs.items():
        kind, raw = value(v)
        head += text(key) + struct.pack("<I", kind) + raw
    data = b""
    for key, (kind, size, *shape) in tensors.items():
        head += text(key) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += bytes(size) + bytes(-size % 32)
    open(os.path.join(sys.argv[1], name), "wb").write(head + bytes(-len(head) % 32) + data)


tokenizer = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": ["a", "b", "ab", "<s>"],
             "tokenizer.ggml.token_type": [1, 1, 1, 3], "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.bos_token_id": 3,
             "tokenizer.ggml.add_bos_token": True, "tokenizer.chat_template": "{{ messages }}"}
pieces = dict(tokenizer, **{"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.0, -1.0, -2.0, 0.0]})
sizes = {"block_count": 1, "embedding_length": 4, "feed_forward_length": 4, "context_length": 8, "attention.head_count": 2,
         "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e4, "rope.dimension_count": 2,
         "rope.dimension_sections": [1, 0, 0, 0]}
square, vector = (0, 64, 4, 4), (0, 16, 4)
for arch, words in (("llama", pieces), ("qwen2vl", tokenizer), ("glm4", tokenizer)):
    tensors = {"token_embd.weight": square, "output_norm.weight": vector, "blk.0.attn_q.weight": square,
               "blk.0.attn_q.bias": vector, "rope_freqs.weight": (0, 4, 1), "blk.0.attn_norm.weight": vector}
    write(arch, {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in sizes.items()}, **words}, tensors)
latent = {"attention.key_length": 4, "attention.value_length": 2, "attention.kv_lora_rank": 2, "expert_count": 2,
          "expert_used_count": 1, "expert_feed_forward_length": 4, "expert_gating_func": 2}
write("deepseek2", {"general.architecture": "deepseek2", **{f"deepseek2.{k}": v for k, v in {**sizes, **latent}.items()}},
      {"token_embd.weight": square, "blk.0.attn_k_b.weight": (0, 32, 2, 2, 2), "blk.0.attn_v_b.weight": (0, 32, 2, 2, 2),
       "blk.0.ffn_up_exps.weight": (0, 128, 4, 4, 2)})
vision = {"embedding_length": 4, "feed_forward_length": 8, "block_count": 1, "attention.head_count": 2, "patch_size": 2,
          "image_size": 4, "projection_dim": 4, "n_wa_pattern": 1, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
          "attention.layer_norm_epsilon": 1e-5}
for kind in ("mlp", "qwen2.5vl_merger", "internvl", "kimivl", "glm4v"):
    write(kind, {"general.architecture": "qwen2vl", "qwen2vl.rope.dimension_sections": [1, 1, 0, 0], "clip.projector_type": kind,
                 **{f"clip.vision.{k}": v for k, v in vision.items()}},
          {"v.patch_embd.weight": (0, 48, 2, 2, 3, 1), "v.patch_embd.weight.1": (0, 48, 2, 2, 3, 1), "v.class_embd": vector,
           "v.position_embd.weight": (0, 64, 4, 4), "v.blk.0.ffn_gate.weight": square, "v.blk.0.ln1.weight": vector,
           "v.blk.0.ffn_down.weight": (0, 128, 4, 8), "v.blk.0.ls1.weight": vector, "mm.0.weight": square})
