#!/usr/bin/env python3
"""Writes a folder of tests/goldens as GGUF files, as llama.cpp's converters do; needs only Python's library.

    to_gguf.py FOLDER OUT.gguf [--mmproj OUT [--swap] [--drop TENSOR]] [--add TENSOR] [--type f32|f16|bf16|q8_0|q4_0]
               [--folder OUT] [--set KEY=VALUE] [--split N] [--split-heads]

Matrices keep their type, or get the one named if their rows are whole blocks of 32; vectors become F32. --folder
writes the numbers that the GGUF file holds as a model folder, for comparison. --swap exchanges the layers of the
encoder's FFNs, --add adds a tensor (to the encoder with --mmproj), --drop removes one of the encoder, --set KEY=null
removes a key, --split-heads stores kv_b_proj as newer converters do.
"""
import argparse, array, json, math, os, shutil, struct, sys

BYTES = {"F32": 4, "F16": 2, "BF16": 2}
TYPE = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "BF16": 30}


class Tensor:
    def __init__(self, shape, type, data):
        self.shape, self.type, self.data = list(shape), type, data

    def floats(self):
        if self.type == "F32":
            return array.array("f", self.data)
        if self.type == "F16":
            return array.array("f", struct.unpack(f"<{len(self.data) // 2}e", self.data))
        wide = bytearray(2 * len(self.data))
        wide[2::4], wide[3::4] = self.data[0::2], self.data[1::2]
        return array.array("f", bytes(wide))

    def to(self, type):
        if type == self.type:
            return self
        x = self.floats()
        if type == "F32":
            return Tensor(self.shape, type, x.tobytes())
        if type == "F16":
            return Tensor(self.shape, type, struct.pack(f"<{len(x)}e", *x))
        if type == "BF16":  # the tests' values fit bf16, so truncating loses nothing
            raw = x.tobytes()
            out = bytearray(len(raw) // 2)
            out[0::2], out[1::2] = raw[2::4], raw[3::4]
            return Tensor(self.shape, type, bytes(out))
        out = bytearray()
        for i in range(0, len(x), 32):
            block = x[i:i + 32]
            if type == "Q4_0":  # numbers i and i + 16 share a byte; the largest is -8 times the scale
                scale, = struct.unpack("<e", struct.pack("<e", max(block, key=abs) / -8))
                q = [max(0, min(15, round(v / scale) + 8)) if scale else 8 for v in block]
                out += struct.pack("<e16B", scale, *(q[k] | q[k + 16] << 4 for k in range(16)))
                continue
            scale, = struct.unpack("<e", struct.pack("<e", max(map(abs, block)) / 127))
            out += struct.pack("<e32b", scale, *(max(-127, min(127, round(v / scale))) if scale else 0 for v in block))
        return Tensor(self.shape, type, bytes(out))

    def back(self):
        """What a block holds, in F32."""
        if self.type not in ("Q8_0", "Q4_0"):
            return self
        x = array.array("f")
        for i in range(0, len(self.data) if self.type == "Q4_0" else 0, 18):
            scale, *q = struct.unpack_from("<e16B", self.data, i)
            x.extend(scale * ((b & 15) - 8) for b in q), x.extend(scale * ((b >> 4) - 8) for b in q)
        if self.type == "Q4_0":
            return Tensor(self.shape, "F32", x.tobytes())
        for i in range(0, len(self.data), 34):
            scale, *q = struct.unpack_from("<e32b", self.data, i)
            x.extend(scale * v for v in q)
        return Tensor(self.shape, "F32", x.tobytes())

    def rows(self, order):
        n = len(self.data) // self.shape[0]
        return Tensor(self.shape, self.type, b"".join(self.data[i * n:(i + 1) * n] for i in order))

    def part(self, index, count):
        n = len(self.data) // count
        return Tensor([self.shape[0] // count] + self.shape[1:], self.type, self.data[index * n:(index + 1) * n])


def read_folder(folder):
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if not name.startswith("model") or not name.endswith(".safetensors"):
            continue
        raw = open(f"{folder}/{name}", "rb").read()
        size, = struct.unpack_from("<Q", raw)
        for key, t in json.loads(raw[8:8 + size]).items():
            if key != "__metadata__":
                a, b = t["data_offsets"]
                tensors[key] = Tensor(t["shape"], t["dtype"], raw[8 + size + a:8 + size + b])
    return tensors


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": t.type, "shape": t.shape, "data_offsets": [at, at + len(t.data)]}
        at += len(t.data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t.data for t in tensors.values()))


def text_of(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def value_of(v):
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return 4, struct.pack("<I", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, (str, bytes)):
        return 8, text_of(v)
    kinds = [value_of(x) for x in v]
    kind = kinds[0][0] if kinds else 4
    return 9, struct.pack("<IQ", kind, len(v)) + b"".join(k[1] for k in kinds)


def write_gguf(path, pairs, tensors):
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs))
    for key, v in pairs.items():
        kind, raw = value_of(v)
        head += text_of(key) + struct.pack("<I", kind) + raw
    at, body = 0, []
    for name, t in tensors.items():
        head += text_of(name) + struct.pack("<I", len(t.shape))
        head += b"".join(struct.pack("<Q", n) for n in reversed(t.shape)) + struct.pack("<IQ", TYPE[t.type], at)
        body.append(t.data + bytes(-len(t.data) % 32))
        at += len(body[-1])
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + b"".join(body))


def write_splits(path, pairs, tensors, count):
    names = list(tensors)
    for i in range(count):
        own = {n: tensors[n] for n in names[i::count]}
        more = {"split.no": i, "split.count": count, "split.tensors.count": len(names)}
        write_gguf(f"{path[:-5]}-{i + 1:05}-of-{count:05}.gguf", {**(pairs if i == 0 else {}), **more}, own)


# --- the language model ------------------------------------------------------------------------------------

LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
LAYER.update({"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
              "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
              "self_attn.kv_b_proj": "attn_kv_b", "mlp.gate": "ffn_gate_inp", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
              "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp"})
GLM = dict(LAYER, **{"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
                     "mlp.gate_up_proj": "ffn_up"})
DELTA = dict(LAYER, **{"post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkv": "attn_qkv",
                       "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_a": "ssm_alpha",
                       "linear_attn.in_proj_b": "ssm_beta", "linear_attn.conv1d": "ssm_conv1d",
                       "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
                       "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
                       "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp"})
GLM_MOE = dict(LAYER, post_attention_layernorm="post_attention_norm")
GEMMA4 = dict(LAYER, post_attention_layernorm="post_attention_norm", pre_feedforward_layernorm="ffn_norm",
              post_feedforward_layernorm="post_ffw_norm", per_layer_input_gate="inp_gate", per_layer_projection="proj",
              post_per_layer_input_norm="post_norm", pre_feedforward_layernorm_2="pre_ffw_norm_2",
              post_feedforward_layernorm_1="post_ffw_norm_1", post_feedforward_layernorm_2="post_ffw_norm_2")
GEMMA4.update({"router.proj": "ffn_gate_inp"})
GEMMA4_OUTER = {"model.embed_tokens_per_layer": "per_layer_token_embd", "model.per_layer_model_projection": "per_layer_model_proj",
                "model.per_layer_projection_norm": "per_layer_proj_norm"}
GEMMA4_WHOLE = {"layer_scalar": "layer_output_scale.weight", "router.scale": "ffn_gate_inp.scale",  # names without ".weight"
                "router.per_expert_scale": "ffn_down_exps.scale", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
                "experts.down_proj": "ffn_down_exps.weight"}
ARCH = {"glm4v_text": "glm4", "glm4": "glm4", "glm4v_moe_text": "glm4moe", "glm4_moe": "glm4moe", "deepseek_v3": "deepseek2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen2_5_vl": "qwen2vl", "qwen2_vl": "qwen2vl", "qwen3": "qwen3",
        "qwen3_moe": "qwen3moe", "qwen3_vl_text": "qwen3vl", "qwen3_vl_moe_text": "qwen3vlmoe", "qwen3_5_text": "qwen35",
        "qwen3_5_moe_text": "qwen35moe", "gemma4_text": "gemma4", "gemma4_unified_text": "gemma4"}


def text_config(config):
    return config.get("text_config", config.get("llm_config", config))


def in_pairs(t, heads):
    """Rows of each head: numbers i and i + d/2, which RoPE rotates as a pair, become neighbours."""
    d = t.shape[0] // heads
    return t.rows([h * d + p * (d // 2) + i for h in range(heads) for i in range(d // 2) for p in range(2)])


def halved(t, heads, turned):
    """Of each head's first `turned` numbers, moves the even ones before the odd ones, their partners in RoPE (for M-RoPE)."""
    d = t.shape[0] // heads
    order = list(range(0, turned, 2)) + list(range(1, turned, 2)) + list(range(turned, d))
    return t.rows([h * d + i for h in range(heads) for i in order])


def apart(t, heads, nope):
    """kv_b_proj as each head's keys, transposed, and values."""
    rank = t.shape[1]
    size, wide = len(t.data) // (t.shape[0] * rank), t.shape[0] // heads - nope
    row = lambda h, i: t.data[(h * (nope + wide) + i) * rank * size:][:rank * size]
    keys = b"".join(row(h, i)[j * size:(j + 1) * size] for h in range(heads) for j in range(rank) for i in range(nope))
    values = b"".join(row(h, nope + i) for h in range(heads) for i in range(wide))
    return Tensor([heads, rank, nope], t.type, keys), Tensor([heads, wide, rank], t.type, values)


def experts_of(t, halves, turned):
    """Experts [E, in, halves * out] as `halves` tensors [E, out, in]; those not `turned`, and square ones, are
    [E, halves * out, in] already."""
    count, wide, rows = t.shape if turned else (t.shape[0], t.shape[2], t.shape[1])
    size, right, rows = len(t.data) // (count * wide * rows), wide == rows or not turned, rows // halves
    at = lambda e, half, r, k: (((e * halves + half) * rows + r) * wide + k if right
                                else ((e * wide + k) * halves + half) * rows + r) * size
    return [Tensor([count, rows, wide], t.type, b"".join(t.data[at(e, half, r, k):][:size] for e in range(count)
                                                         for r in range(rows) for k in range(wide))) for half in range(halves)]


def grouped(t, first, groups, each, rows):
    """Rows from `first` on, heads of `rows` rows in groups of `each`: puts the first head of each group first, then the
    second of each."""
    order = [first + (g * each + r) * rows + i for r in range(each) for g in range(groups) for i in range(rows)]
    return t.rows(list(range(first)) + order)


def turned(t):
    size = len(t.data) // (t.shape[0] * t.shape[1])
    return Tensor([t.shape[1], t.shape[0]], t.type, b"".join(t.data[(r * t.shape[1] + c) * size:][:size]
                                                             for c in range(t.shape[1]) for r in range(t.shape[0])))


def delta_tensor(config, name, t):
    """A tensor of Qwen3.5 as its converter stores it."""
    groups, wide = config["linear_num_key_heads"], config["linear_value_head_dim"]
    each = config["linear_num_value_heads"] // groups
    keys = 2 * groups * config["linear_key_head_dim"]
    if name == "ssm_conv1d":
        t = Tensor([t.shape[0], t.shape[2]], t.type, t.data).to("F32")
    if name in ("attn_qkv", "ssm_conv1d"):
        return grouped(t, keys, groups, each, wide)
    if name == "attn_gate":
        return grouped(t, 0, groups, each, wide)
    if name in ("ssm_alpha", "ssm_beta", "ssm_a", "ssm_dt"):
        t = grouped(t, 0, groups, each, 1)
    if name == "ffn_gate_inp_shexp":
        return Tensor([t.shape[1]], t.type, t.data).to("F32")
    if name == "ssm_out":
        return turned(grouped(turned(t), 0, groups, each, wide))
    if name == "ssm_a":
        return Tensor(t.shape, "F32", array.array("f", [-math.exp(x) for x in t.floats()]).tobytes())
    if name.endswith("_norm") and name != "ssm_norm":
        return Tensor(t.shape, "F32", array.array("f", [1 + x for x in t.floats()]).tobytes())
    return t


def text_tensors(config, arch, tensors, split_heads):
    heads = config["num_attention_heads"]
    experts = {}
    kv = config.get("num_key_value_heads", heads)
    for key, t in tensors.items():
        key = key.replace("language_model.", "")
        stem, _, end = key.rpartition(".")
        if key.startswith("mtp."):
            continue
        if "visual" in key or "vision" in key or "projector" in key or "mlp1." in key or key.endswith("image_newline"):
            continue
        if arch == "gemma4" and stem in GEMMA4_OUTER:
            stem = GEMMA4_OUTER[stem]
        elif stem in ("lm_head", "model.embed_tokens", "model.norm"):
            stem = {"lm_head": "output", "model.embed_tokens": "token_embd", "model.norm": "output_norm"}[stem]
            t = delta_tensor(config, stem, t) if arch.startswith("qwen35") else t
        elif stem.startswith("model.layers."):
            _, _, layer, *rest = stem.split(".", 3)
            rest = "".join(rest)
            if arch == "gemma4" and ".".join(filter(None, (rest, end))) in GEMMA4_WHOLE:
                yield f"blk.{layer}.{GEMMA4_WHOLE['.'.join(filter(None, (rest, end)))]}", t
                continue
            if rest.startswith("mlp.experts."):
                _, _, number, part = rest.split(".")
                experts.setdefault(f"blk.{layer}.ffn_{part[:-5]}_exps.weight", {})[int(number)] = t
                continue
            if rest == "mlp.experts":
                names = {"gate_up_proj": ("gate", "up"), "down_proj": ("down",)}[end]
                for name, part in zip(names, experts_of(t, len(names), arch == "qwen3vlmoe")):
                    yield f"blk.{layer}.ffn_{name}_exps.weight", part
                continue
            if end == "e_score_correction_bias":
                yield f"blk.{layer}.exp_probs_b.bias", t
                continue
            if arch.startswith("qwen35"):
                vector = {"A_log": ("ssm_a", ""), "dt_bias": ("ssm_dt", ".bias")}.get(end)
                ours, end = vector or (DELTA[rest], f".{end}")
                yield f"blk.{layer}.{ours}{end}", delta_tensor(config, ours, t)
                continue
            if split_heads and rest == "self_attn.kv_b_proj":
                keys, values = apart(t, heads, config["qk_nope_head_dim"])
                yield f"blk.{layer}.attn_k_b.weight", keys
                yield f"blk.{layer}.attn_v_b.weight", values
                continue
            ours = {"glm4": GLM, "glm4moe": GLM_MOE, "gemma4": GEMMA4}.get(arch, LAYER)[rest]
            stem, n = f"blk.{layer}.{ours}", heads if ours == "attn_q" else kv
            if arch in ("llama", "mistral3") and ours in ("attn_q", "attn_k"):
                t = in_pairs(t, n)
            if arch == "glm4" and "mrope_section" in (config.get("rope_scaling") or {}) and ours in ("attn_q", "attn_k"):
                t = halved(t, n, int(t.shape[0] // n * config["partial_rotary_factor"]))
        else:
            sys.exit(f"{key}: unknown")
        yield f"{stem}.{end}", t
    for name, parts in experts.items():
        t = parts[0]
        yield name, Tensor([len(parts)] + t.shape, t.type, b"".join(parts[i].data for i in range(len(parts))))


def rope_divisors(config, scaling):
    theta = config.get("rope_theta", scaling.get("rope_theta", 10000.0))
    d = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    original, low, high = (scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    out = []
    for i in range(d // 2):
        wave = 2 * 3.141592653589793 * theta ** (2 * i / d)
        smooth = (original / wave - low) / (high - low)
        out.append(1.0 if wave < original / high else scaling["factor"] if wave > original / low
                   else 1 / ((1 - smooth) / scaling["factor"] + smooth))
    return Tensor([d // 2], "F32", array.array("f", out).tobytes())


def text_pairs(config, arch, split_heads):
    heads = config["num_attention_heads"]
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    pairs = {"block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
             "context_length": config.get("max_position_embeddings", 4096), "attention.head_count": heads,
             "attention.head_count_kv": config.get("num_key_value_heads", heads),
             "attention.layer_norm_rms_epsilon": float(config.get("rms_norm_eps", 1e-6)),
             "rope.freq_base": float(config.get("rope_theta") or scaling.get("rope_theta") or 10000)}
    if "intermediate_size" in config:
        pairs["feed_forward_length"] = config["intermediate_size"]
    if "n_routed_experts" in config:
        pairs.update({"expert_count": config["n_routed_experts"],
                      "expert_used_count": config["num_experts_per_tok"], "expert_shared_count": config["n_shared_experts"],
                      "expert_feed_forward_length": config["moe_intermediate_size"], "expert_gating_func": 2,
                      "leading_dense_block_count": config["first_k_dense_replace"],
                      "expert_weights_scale": float(config["routed_scaling_factor"]),
                      "expert_weights_norm": config["norm_topk_prob"]})
    if arch == "deepseek2":
        nope, turned, wide = (config[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        pairs.update({"attention.key_length": nope + turned, "attention.value_length": wide, "rope.dimension_count": turned,
                      "attention.kv_lora_rank": config["kv_lora_rank"]})
        if config.get("q_lora_rank"):
            pairs["attention.q_lora_rank"] = config["q_lora_rank"]
        if split_heads:
            pairs.update({"attention.key_length": config["kv_lora_rank"] + turned, "attention.value_length": config["kv_lora_rank"],
                          "attention.key_length_mla": nope + turned, "attention.value_length_mla": wide,
                          "attention.head_count_kv": 1})
    elif arch == "glm4moe":  # converters count a layer that predicts further tokens, which the folder lacks
        pairs.update({"attention.key_length": config["head_dim"], "nextn_predict_layers": 1,
                      "rope.dimension_count": int(config["head_dim"] * config["partial_rotary_factor"]),
                      "block_count": config["num_hidden_layers"] + 1})
    elif arch == "glm4":
        pairs["rope.dimension_count"] = int(config["hidden_size"] // heads * config["partial_rotary_factor"])
    elif arch == "gemma4":
        slides = [kind == "sliding_attention" for kind in config["layer_types"]]
        sharing, wide, narrow = (config[k] for k in ("num_kv_shared_layers", "global_head_dim", "head_dim"))
        full, sliding = (config["rope_parameters"][k] for k in ("full_attention", "sliding_attention"))
        pairs.update({"attention.sliding_window": config["sliding_window"], "attention.sliding_window_pattern": slides,
                      "attention.shared_kv_layers": sharing, "rope.freq_base": full["rope_theta"],
                      "embedding_length_per_layer_input": config.get("hidden_size_per_layer_input", 0),
                      "attention.key_length": wide, "attention.value_length": wide, "rope.dimension_count": wide,
                      "attention.key_length_swa": narrow, "attention.value_length_swa": narrow,
                      "rope.dimension_count_swa": narrow, "rope.freq_base_swa": sliding["rope_theta"],
                      "final_logit_softcapping": config["final_logit_softcapping"]})
        if config["use_double_wide_mlp"]:
            own = config["num_hidden_layers"] - sharing
            pairs["feed_forward_length"] = [config["intermediate_size"] * (1 + (l >= own)) for l in range(len(slides))]
        if config.get("num_global_key_value_heads"):
            pairs["attention.head_count_kv"] = [config["num_key_value_heads" if s else "num_global_key_value_heads"] for s in slides]
    elif arch.startswith("qwen35"):
        full = config["rope_parameters"]["partial_rotary_factor"]
        pairs.update({"attention.key_length": config["head_dim"], "attention.value_length": config["head_dim"],
                      "rope.dimension_count": int(config["head_dim"] * full), "ssm.conv_kernel": config["linear_conv_kernel_dim"],
                      "ssm.state_size": config["linear_key_head_dim"], "ssm.group_count": config["linear_num_key_heads"],
                      "ssm.time_step_rank": config["linear_num_value_heads"],
                      "ssm.inner_size": config["linear_value_head_dim"] * config["linear_num_value_heads"],
                      "full_attention_interval": config["full_attention_interval"]})
    elif config.get("head_dim"):
        pairs["attention.key_length"] = config["head_dim"]
    if config.get("num_experts"):
        pairs.update({"expert_count": config["num_experts"],
                      "expert_used_count": config.get("num_experts_per_tok") or config["top_k_experts"],
                      "expert_feed_forward_length": config["moe_intermediate_size"]})
    if "shared_expert_intermediate_size" in config:
        pairs["expert_shared_feed_forward_length"] = config["shared_expert_intermediate_size"]
    if "mrope_section" in scaling:
        pairs["rope.dimension_sections"] = scaling["mrope_section"] + [0]
    return {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in pairs.items()}}


# --- the tokenizer -----------------------------------------------------------------------------------------

def pre_of(text):
    if "Han" in text:
        return "kimi-k2"
    if "individual_digits" in text:
        return "smollm"
    if r"\\p{Lu}" in text:
        return "tekken"
    if r"\\p{L}\\p{M}" in text:
        return "qwen35"
    return "llama-bpe" if r"\\p{N}{1,3}" in text else "qwen2" if r"\\p{N}|" in text else "gpt-2"


def tokenizer_pairs(folder, vocab_size, arch):
    text = open(f"{folder}/tokenizer.json").read()
    t = json.loads(text)
    model, config = t["model"], {}
    if os.path.exists(f"{folder}/tokenizer_config.json"):
        config = json.load(open(f"{folder}/tokenizer_config.json"))
    byte_level = "ByteLevel" in json.dumps(t.get("pre_tokenizer"))
    tokens, types = [f"[PAD{i}]" for i in range(vocab_size)], [5] * vocab_size
    for word, i in model["vocab"].items():
        byte = not byte_level and len(word) == 6 and word.startswith("<0x")
        tokens[i], types[i] = word, 6 if byte else 1
    for a in t.get("added_tokens", []):
        if a["id"] < vocab_size:
            tokens[a["id"]], types[a["id"]] = a["content"], 3 if a["special"] else 4
    pairs = {"model": "gpt2" if byte_level else "llama", "tokens": tokens, "token_type": types}
    if byte_level:
        pairs["pre"] = pre_of(text)
        pairs["merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
        pairs["add_bos_token"] = "SpecialToken" in json.dumps(t.get("post_processor"))
    elif arch == "gemma4":  # added tokens that are not special, such as newlines, are ordinary ones
        pairs["model"] = "gemma4"
        pairs["merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
        pairs["scores"] = [-1000.0] * vocab_size
        for word, i in model["vocab"].items():
            types[i] = 1 if types[i] == 4 else types[i]
        pairs.update({"add_space_prefix": False, "unknown_token_id": tokens.index(model["unk_token"])})
    else:  # a merge with a higher score of its result comes earlier
        rank = {}
        for i, m in enumerate(model["merges"]):
            rank.setdefault((m if isinstance(m, str) else " ".join(m)).replace(" ", ""), i)
        pairs["scores"] = [float(-rank.get(w, 0)) if types[i] == 1 else 0.0 for i, w in enumerate(tokens)]
        if model.get("unk_token") in tokens:
            types[tokens.index(model["unk_token"])] = 2
    for ours, theirs in (("bos", "bos_token"), ("eos", "eos_token")):
        token = config.get(theirs)
        token = token["content"] if isinstance(token, dict) else token
        if token in tokens:
            pairs[f"{ours}_token_id"] = tokens.index(token)
    pairs = {f"tokenizer.ggml.{k}": v for k, v in pairs.items()}
    for name in ("chat_template.jinja", "chat_template.json"):
        if os.path.exists(f"{folder}/{name}"):
            template = open(f"{folder}/{name}").read()
            pairs["tokenizer.chat_template"] = template if name.endswith("jinja") else json.loads(template)["chat_template"]
    if isinstance(config.get("chat_template"), str):
        pairs.setdefault("tokenizer.chat_template", config["chat_template"])
    return pairs


# --- the picture encoder -----------------------------------------------------------------------------------

GEMMA4V = {"input_layernorm": "ln1", "post_attention_layernorm": "attn_post_norm", "pre_feedforward_layernorm": "ln2",
           "post_feedforward_layernorm": "ffn_post_norm", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
           "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_out",
           "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
BLOCK = {"layer_norm1": "ln1", "layer_norm2": "ln2", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
         "norm1": "ln1", "norm2": "ln2", "attn.proj": "attn_out", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down", "layernorm_before": "ln1", "layernorm_after": "ln2", "lambda_1": "ls1",
         "lambda_2": "ls2", "attention.q_proj": "attn_q", "attention.k_proj": "attn_k", "attention.v_proj": "attn_v",
         "norm0": "ln1", "wo": "attn_out", "mlp.fc0": "ffn_up", "attention.projection_layer": "attn_out", "attention.q_norm": "attn_q_norm", "attention.k_norm": "attn_k_norm"}
OUTER = {"embeddings.class_embedding": "v.class_embd", "embeddings.patch_embedding": "v.patch_embd",
         "embeddings.position_embedding": "v.position_embd", "pre_layrnorm": "v.pre_ln", "merger.ln_q": "v.post_ln",
         "merger.mlp.0": "mm.0", "merger.mlp.2": "mm.2", "merger.norm": "v.post_ln", "merger.linear_fc1": "mm.0",
         "merger.linear_fc2": "mm.2", "pos_embed": "v.position_embd", "patch_embed.proj": "v.patch_embd",
         "embeddings.cls_token": "v.class_embd", "embeddings.patch_embeddings.projection": "v.patch_embd",
         "embeddings.position_embeddings": "v.position_embd", "patch_embed.pos_emb": "v.position_embd",
         "encoder.final_layernorm": "v.post_ln", "post_conv_layernorm": "v.norm_embd", "post_layernorm": "v.post_ln",
         "downsample": "mm.patch_merger", "merger.proj": "mm.model.fc", "merger.post_projection_norm": "mm.post_norm",
         "merger.gate_proj": "mm.gate", "merger.up_proj": "mm.up", "merger.down_proj": "mm.down",
         "patch_conv": "v.patch_embd", "ln_pre": "v.pre_ln"}
PIXTRAL = {"attention_norm": "ln1", "ffn_norm": "ln2", "attention.v_proj": "attn_v", "attention.q_proj": "attn_q",
           "attention.k_proj": "attn_k", "attention.o_proj": "attn_out", "feed_forward.gate_proj": "ffn_gate",
           "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down"}


def gemma4_encoder(tensors, patch):
    for key, t in tensors.items():
        start, _, name = key.partition(".vision_tower.")
        stem, _, end = name.replace(".linear.weight", ".weight").rpartition(".")
        if key.endswith("embedding_projection.weight"):
            yield "mm.input_projection.weight", t
        elif name == "patch_embedder.input_proj.weight":  # channels first
            size = len(t.data) // (t.shape[0] * t.shape[1])
            at = lambda n, c, i: ((n * patch * patch + i) * 3 + c) * size
            data = b"".join(t.data[at(n, c, i):][:size] for n in range(t.shape[0]) for c in range(3) for i in range(patch * patch))
            yield "v.patch_embd.weight", Tensor([t.shape[0], 3, patch, patch], t.type, data)
        elif name == "patch_embedder.position_embedding_table":
            yield "v.position_embd.weight", t.to("F32")
        elif name in ("std_bias", "std_scale"):
            yield f"v.{name}", t
        elif name.startswith("encoder.layers."):
            _, _, block, rest = stem.split(".", 3)
            yield f"v.blk.{block}.{GEMMA4V[rest]}.{end}", t if t.shape else Tensor([1], t.type, t.data)


def gemma4_unified_encoder(tensors, side):
    """Without blocks; the numbers of a patch become 3 planes, and all positions of columns come before those of rows."""
    names = {"patch_dense": "v.patch_embd", "patch_ln1": "v.patch_norm.1", "patch_ln2": "v.patch_norm.2", "pos_norm": "v.patch_norm.3"}
    for key, t in tensors.items():
        stem, _, end = key.partition(".vision_embedder.")[2].rpartition(".")
        if key.endswith("embed_vision.embedding_projection.weight"):
            yield "mm.input_projection.weight", t
        elif key.endswith("pos_embedding"):
            n = t.shape[0]
            yield "v.position_embd.weight", Tensor([2, n, t.shape[2]], t.type, Tensor([2 * n, t.shape[2]], t.type, t.data).rows(
                [2 * i + axis for axis in range(2) for i in range(n)]).data).to("F32")
        elif stem in names:
            if stem == "patch_ln1" or end == "weight" and stem == "patch_dense":
                size, area = len(t.data) // math.prod(t.shape), side * side
                rows = len(t.data) // (3 * area * size)
                t = Tensor(t.shape, t.type, b"".join(t.data[((r * area + i) * 3 + c) * size:][:size]
                                                      for r in range(rows) for c in range(3) for i in range(area)))
            yield f"{names[stem]}.{end}", t


def encoder_tensors(kind, tensors, keep, swap, deep, pixtral=None):
    """`keep`: blocks that count; `swap`: the layers of an FFN under each other's names, as for LLaVA; `deep`: blocks of
    DeepStack's mergers; `pixtral`: Pixtral's number of heads and the id of [IMG_BREAK]."""
    projector = {"layer_norm": "mm.model.mlp.0", "linear_1": "mm.model.mlp.1", "linear_2": "mm.model.mlp.3"}
    if kind in ("llava", "llava_next"):
        projector = {"linear_1": "mm.0", "linear_2": "mm.2"}
    if pixtral:
        projector = {"norm": "mm.input_norm", "patch_merger.merging_layer": "mm.patch_merger", "linear_1": "mm.1", "linear_2": "mm.2"}
    if kind == "kimi_vl":
        projector = {"pre_norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2"}
    names = dict(BLOCK, **({"mlp.fc1": "ffn_down", "mlp.fc2": "ffn_up"} if swap else {}))
    if kind == "kimi_vl":
        names.update({"norm1": "ln2", "mlp.fc1": "ffn_down"})
    names.update(PIXTRAL if pixtral else {})
    if pixtral:  # the row of [IMG_BREAK]
        table = next(t for n, t in tensors.items() if n.endswith("embed_tokens.weight"))
        yield "v.token_embd.img_break", Tensor([table.shape[1]], table.type, table.rows([pixtral["break"]]).data[:len(table.data) // table.shape[0]])
    for key, t in tensors.items():
        if key.endswith("image_newline"):
            yield "model.image_newline", t
            continue
        if "multi_modal_projector." in key:
            stem, _, end = key.split("multi_modal_projector.")[1].rpartition(".")
            yield f"{projector[stem]}.{end}", t
            continue
        for prefix in ("vision_tower.vision_model.", "vision_tower.", "visual."):
            if prefix in key:
                key = key.split(prefix)[1]
                break
        else:
            continue
        stem, _, end = key.rpartition(".")
        if end not in ("weight", "bias"):
            stem, end = key, "weight"
        parts = stem.split(".")
        if parts[0] == "deepstack_merger_list":
            yield f"v.deepstack.{deep[int(parts[1])]}.{parts[2].removeprefix('linear_')}.{end}", t
            continue
        number = next((i for i, p in enumerate(parts) if p.isdigit() and parts[0] in ("blocks", "encoder", "transformer")), None)
        if number is None:
            if stem in OUTER and OUTER[stem] == "v.patch_embd" and len(t.shape) == 5:  # a convolution over two pictures
                size = len(t.data) // (t.shape[0] * t.shape[1] * 2)
                for k in range(2):
                    data = b"".join(t.data[i * size:(i + 1) * size] for i in range(k, 2 * t.shape[0] * t.shape[1], 2))
                    yield f"v.patch_embd.weight{'.1' if k else ''}", Tensor(t.shape[:2] + t.shape[3:], t.type, data)
            elif stem in OUTER:
                if stem == "patch_embed.pos_emb":
                    t = Tensor([t.shape[0] * t.shape[1], t.shape[2]], t.type, t.data)
                elif OUTER[stem] in ("v.class_embd", "v.position_embd"):
                    t = Tensor([n for i, n in enumerate(t.shape) if n != 1 or i == len(t.shape) - 1], t.type, t.data)
                yield OUTER[stem] + ("" if OUTER[stem] == "v.class_embd" else f".{end}"), t
            continue
        if int(parts[number]) >= keep:
            continue
        rest, start = ".".join(parts[number + 1:]), f"v.blk.{parts[number]}."
        if rest == "attn.qkv" and kind in ("glm4v", "glm4v_moe", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"):
            yield f"{start}attn_qkv.{end}", t
        elif rest in ("attn.qkv", "wqkv"):
            for i, q in enumerate("qkv"):
                yield f"{start}attn_{q}.{end}", t.part(i, 3)
        else:
            if pixtral and names[rest] in ("attn_q", "attn_k"):
                t = in_pairs(t, pixtral["heads"])
            yield f"{start}{names[rest]}.{end}", t


def encoder_pairs(kind, whole, blocks, preprocessor):
    v = whole["vision_config"]
    side = lambda x: x[0] if isinstance(x, list) else x
    if kind == "gemma4_unified":
        v = {"hidden_size": v["mm_embed_dim"], "intermediate_size": 0, "num_attention_heads": 0, "num_heads": 0, **v}
    width = v.get("embed_dim", v["hidden_size"])
    ffn = whole["intermediate_size"] if kind == "qwen2_vl" else v["intermediate_size"]  # wrong for qwen2_vl, but as the converter writes it
    pairs = {"embedding_length": width, "feed_forward_length": ffn, "block_count": blocks,
             "attention.head_count": v.get("num_attention_heads") or v["num_heads"], "patch_size": side(v["patch_size"])}
    more = {"clip.has_vision_encoder": True}
    if "image_size" in v:
        pairs["image_size"] = side(v["image_size"])
    for key in ("image_mean", "image_std"):
        if key in preprocessor:
            pairs[key] = [float(x) for x in preprocessor[key]]
    if v.get("model_type") == "pixtral":
        more.update({"clip.projector_type": "pixtral", "clip.use_silu": True})
        pairs["attention.layer_norm_epsilon"] = 1e-5
        if "spatial_merge_size" in whole:
            pairs["spatial_merge_size"] = whole["spatial_merge_size"]
    elif kind in ("gemma4", "gemma4_unified"):
        pairs.update({"projector_type": "gemma4v" if kind == "gemma4" else "gemma4uv", "attention.layer_norm_epsilon": v["rms_norm_eps"], "image_size": 224})
    elif kind in ("llava", "llava_next"):
        more["clip.projector_type"] = "mlp"
        clip = v["model_type"] == "clip_vision_model"
        pairs["attention.layer_norm_epsilon"] = v.get("layer_norm_eps", 1e-5 if clip else 1e-6)
        more["clip.use_gelu"] = not clip
        if kind == "llava_next":  # width before height
            pairs["image_grid_pinpoints"] = [n for height, width in whole["image_grid_pinpoints"] for n in (width, height)]
            pairs["mm_patch_merge_type"] = "spatial_unpad"
    elif kind == "qwen2_vl":
        more["clip.projector_type"], pairs["projection_dim"] = "qwen2vl_merger", v["hidden_size"]
        pairs["image_size"], pairs["attention.layer_norm_epsilon"] = 560, whole["rms_norm_eps"]
        pairs["image_min_pixels"], pairs["image_max_pixels"] = (preprocessor["size"][k] for k in ("shortest_edge", "longest_edge"))
    elif kind == "qwen2_5_vl":
        more.update({"clip.projector_type": "qwen2.5vl_merger", "clip.use_silu": True})
        pairs["projection_dim"] = v["out_hidden_size"]
        pairs["n_wa_pattern"] = v["fullatt_block_indexes"][0] + 1
        pairs["attention.layer_norm_epsilon"] = 1e-6
        pairs["window_size"] = v["window_size"]
        pairs["image_min_pixels"], pairs["image_max_pixels"] = preprocessor["min_pixels"], preprocessor["max_pixels"]
    elif kind in ("glm4v", "glm4v_moe"):
        more.update({"clip.projector_type": "glm4v", "clip.use_silu": True})
        pairs["attention.layer_norm_epsilon"] = v["rms_norm_eps"]
        pairs["image_min_pixels"], pairs["image_max_pixels"] = (preprocessor["size"][k] for k in ("shortest_edge", "longest_edge"))
    elif kind in ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"):
        more.update({"clip.projector_type": "qwen3vl_merger", "clip.use_gelu": True})
        pairs["projection_dim"], pairs["spatial_merge_size"] = v["out_hidden_size"], v["spatial_merge_size"]
        pairs["image_size"] = round(v["num_position_embeddings"] ** 0.5) * v["patch_size"]
        pairs["attention.layer_norm_epsilon"] = whole["text_config"]["rms_norm_eps"]
        pairs["is_deepstack_layers"] = [i in v.get("deepstack_visual_indexes", []) for i in range(blocks)]
        pairs["image_min_pixels"], pairs["image_max_pixels"] = (preprocessor["size"][k] for k in ("shortest_edge", "longest_edge"))
    elif kind == "kimi_vl":
        more.update({"clip.projector_type": "kimivl", "clip.use_gelu": True})
        pairs["projector.scale_factor"], pairs["attention.layer_norm_epsilon"] = v["merge_kernel_size"][0], 1e-5
        pairs["image_max_pixels"] = preprocessor["in_token_limit"] * v["patch_size"] ** 2
    else:
        more.update({"clip.projector_type": "internvl", "clip.use_gelu": True})
        pairs["attention.layer_norm_epsilon"] = v["layer_norm_eps"]
        pairs["projector.scale_factor"] = int(1 / whole["downsample_ratio"])
        pairs["preproc_min_tiles"], pairs["preproc_max_tiles"] = preprocessor["min_patches"], preprocessor["max_patches"]
    return {"general.architecture": "clip", **more, **{f"clip.vision.{k}": x for k, x in pairs.items()}}


def edits(o, encoder):
    """The pairs of --set: keys of "clip." are the encoder's."""
    pairs = (item.partition("=") for item in o.set)
    return {key: json.loads(value) for key, _, value in pairs if key.startswith("clip.") == encoder}


def write_encoder(path, source, whole, tensors, o):
    kind = whole["model_type"]
    apart = os.path.exists(f"{source}/preprocessor_config.json")
    preprocessor = json.load(open(f"{source}/{'pre' if apart else ''}processor_config.json"))
    preprocessor = preprocessor.get("image_processor", preprocessor)
    blocks = whole["vision_config"].get("num_hidden_layers") or whole["vision_config"].get("depth", 0)
    if whole.get("vision_feature_layer", -1) < 0:
        blocks += 1 + whole.get("vision_feature_layer", -2 if kind in ("llava", "llava_next") else -1)
    deep = whole["vision_config"].get("deepstack_visual_indexes")
    pixtral = None
    if whole["vision_config"].get("model_type") == "pixtral":
        added = json.load(open(f"{source}/tokenizer.json"))["added_tokens"]
        pixtral = {"heads": whole["vision_config"]["num_attention_heads"],
                   "break": next(a["id"] for a in added if a["content"] == "[IMG_BREAK]")}
    all = encoder_tensors(kind, tensors, blocks, o.swap, deep, pixtral)
    if kind == "gemma4":
        all = gemma4_encoder(tensors, whole["vision_config"]["patch_size"])
    if kind == "gemma4_unified":
        all = gemma4_unified_encoder(tensors, whole["vision_config"]["model_patch_size"])
    out = {n: t.to("F32") if len(t.shape) == 1 else t for n, t in all}
    out.update({name: Tensor([4], "F32", bytes(16)) for name in o.add})
    out = {name: t for name, t in out.items() if name not in o.drop}
    pairs = {**encoder_pairs(kind, whole, blocks, preprocessor), **edits(o, encoder=True)}
    write_gguf(path, {key: value for key, value in pairs.items() if value is not None}, out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("source"), p.add_argument("out"), p.add_argument("--mmproj"), p.add_argument("--type")
    p.add_argument("--swap", action="store_true"), p.add_argument("--split-heads", action="store_true")
    p.add_argument("--folder"), p.add_argument("--split", type=int), p.add_argument("--set", action="append", default=[])
    p.add_argument("--add", action="append", default=[]), p.add_argument("--drop", action="append", default=[])
    o = p.parse_args()
    whole = json.load(open(f"{o.source}/config.json"))
    config, tensors = text_config(whole), read_folder(o.source)
    arch = ARCH[config.get("model_type") or whole["model_type"]]
    if whole["model_type"] == "mistral3":
        arch = "mistral3"
    wanted = {name: t if len(t.shape) < 2 else t.to(o.type.upper()) if o.type and t.shape[-1] % 32 == 0 else t
              for name, t in tensors.items()}
    if o.folder:
        shutil.copytree(o.source, o.folder, ignore=shutil.ignore_patterns("*.safetensors*", "adapters"))
        write_safetensors(f"{o.folder}/model.safetensors", {n: t.back() for n, t in wanted.items()})
    out = {name: t.to("F32") if len(t.shape) == 1 else t for name, t in text_tensors(config, arch, wanted, o.split_heads)}
    vocab = out["token_embd.weight"].shape[0]
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if scaling.get("rope_type", scaling.get("type")) == "llama3":
        out["rope_freqs.weight"] = rope_divisors(config, scaling)
    if arch == "gemma4":  # 1e30: the pair does not rotate
        full = config["rope_parameters"]["full_attention"]["partial_rotary_factor"]
        count, turns = config["global_head_dim"] // 2, int(config["global_head_dim"] * full / 2)
        out["rope_freqs.weight"] = Tensor([count], "F32", array.array("f", [1] * turns + [1e30] * (count - turns)).tobytes())
    pairs = {**text_pairs(config, arch, o.split_heads), **tokenizer_pairs(o.source, vocab, arch)}
    if arch.startswith("qwen3vl"):
        pairs[f"{arch}.n_deepstack_layers"] = len(whole["vision_config"]["deepstack_visual_indexes"])
    pairs.update(edits(o, encoder=False))
    pairs = {key: value for key, value in pairs.items() if value is not None}
    if o.mmproj:
        write_encoder(o.mmproj, o.source, whole, wanted, o)
    else:
        out.update({name: Tensor([4], "F32", struct.pack("<4f", 1, 1, 1, 1)) for name in o.add})
    write_splits(o.out, pairs, out, o.split) if o.split else write_gguf(o.out, pairs, out)


if __name__ == "__main__":
    main()
