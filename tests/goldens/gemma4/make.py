#!/usr/bin/env python3
"""Writes this folder: a tiny Gemma 4 in the hub's layout (E2B's shape), and reference results of transformers.

    python tests/goldens/gemma4/make.py      # torch, transformers, safetensors, Pillow of ../README.md

Half of the layers attend to keys and values of earlier ones, with wider FFNs; each layer has inputs of its own; the
encoder's linear layers limit inputs and outputs. Pictures have a budget of BUDGET visual tokens, fewer than the hub's
processor allows. ../internvl3.5/make.py has the functions that this file does not define.
"""
import importlib.util
import json
import math
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoTokenizer, Gemma4Config, Gemma4ForConditionalGeneration
from transformers.models.gemma4 import image_processing_pil_gemma4 as processing

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("base", HERE.parent / "internvl3.5" / "make.py")
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)

BUDGET, LAYER, MERGES, VOCAB = 12, 2, 20, 168
BEFORE = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>"]
AFTER = ["<|image>", "<|image|>", "<image|>"]
BYTES = sorted(set("你好".encode()))
TYPES = ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
         "full_attention"]
PICTURES, TEXT = base.PICTURES, "model.language_model."
base.HERE, base.LAYER, base.EPS = HERE, 1, 1e-6
ENCODER = ("vision_tower",)  # names of its weights contain one of these
base.CHATS["two_images"] = [base.user("scene", "tall", "How do these two differ?")]


def write_tokenizer():
    whole = json.loads((HERE.parent / "gemma3" / "tokenizer.json").read_text())
    model = whole["model"]
    pairs = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]][:MERGES]
    plain = [chr(c) for c in range(33, 127) if chr(c) in model["vocab"]] + ["▁", "é"]
    words = BEFORE + ["\n", "\n\n", "▁▁"] + [f"<0x{b:02X}>" for b in BYTES] + plain
    words += [a + b for a, b in pairs if a + b not in words]
    model["merges"], model["vocab"] = pairs, {w: i for i, w in enumerate(words)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [(model["vocab"][w], w, w in BEFORE) for w in BEFORE + ["\n", "\n\n", "▁▁"]]
    added += [(len(words) + i, w, True) for i, w in enumerate(AFTER)]
    assert len(words) + len(AFTER) <= VOCAB, len(words)
    whole["added_tokens"] = [{"id": i, "content": w, **flags, "special": s} for i, w, s in added]
    (HERE / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    base.write_json("tokenizer_config.json", {
        "added_tokens_decoder": {str(i): {"content": w, **flags, "special": s} for i, w, s in added},
        "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False, "model_max_length": 131072, "processor_class": "Gemma4Processor",
        "boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>",
        "tokenizer_class": "GemmaTokenizer"})
    ids = {w: i for i, w, _ in added}
    base.ZERO = [0, *range(len(words) + len(AFTER), VOCAB)]
    return ids


TEMPLATE = """{{ bos_token }}
{%- for message in messages -%}
    {{ '<|turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}
    {%- for item in message['content'] -%}
        {%- if item['type'] == 'text' -%}
            {{ item['text'] | trim }}
        {%- elif item['type'] == 'image' -%}
            {{ '\\n\\n<|image|>\\n\\n' }}
        {%- endif -%}
    {%- endfor -%}
    {{ '<turn|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<|turn>model\\n' }}
{%- endif -%}
"""


def write_configs(ids):
    config = {
        "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "audio_config": None,
        "boi_token_id": ids["<|image>"], "eoi_token_id": ids["<image|>"], "image_token_id": ids["<|image|>"],
        "audio_token_id": VOCAB - 1, "video_token_id": VOCAB - 2,
        "eos_token_id": [1, ids["<turn|>"]], "tie_word_embeddings": True, "dtype": "bfloat16",
        "vision_soft_tokens_per_image": BUDGET,
        "text_config": {
            "model_type": "gemma4_text", "attention_bias": False, "attention_k_eq_v": False, "bos_token_id": 2,
            "enable_moe_block": False, "eos_token_id": 1, "final_logit_softcapping": 8.0, "global_head_dim": 16,
            "head_dim": 8, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 16,
            "hidden_size_per_layer_input": 6, "intermediate_size": 12, "layer_types": TYPES,
            "max_position_embeddings": 131072, "num_attention_heads": 2, "num_global_key_value_heads": None,
            "num_hidden_layers": len(TYPES), "num_key_value_heads": 1, "num_kv_shared_layers": 3, "pad_token_id": 0,
            "rms_norm_eps": 1e-06,
            "rope_parameters": {
                "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}},
            "sliding_window": 18, "tie_word_embeddings": True, "use_bidirectional_attention": None,
            "use_double_wide_mlp": True, "vocab_size": VOCAB, "vocab_size_per_layer_input": VOCAB},
        "vision_config": {
            "model_type": "gemma4_vision", "attention_bias": False, "head_dim": 8,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 12, "intermediate_size": 16,
            "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "patch_size": 2,
            "pooling_kernel_size": 3, "position_embedding_size": 40, "rms_norm_eps": 1e-06,
            "rope_parameters": {"rope_theta": 100.0, "rope_type": "axial"}, "standardize": True,
            "use_clipped_linears": True}}
    base.write_json("config.json", config)
    base.write_json("generation_config.json", {"bos_token_id": 2, "eos_token_id": [1, ids["<turn|>"]],
                                               "pad_token_id": 0})
    processor = {
        "do_convert_rgb": True, "do_normalize": False, "do_rescale": True, "do_resize": True,
        "image_mean": [0.0, 0.0, 0.0], "image_processor_type": "Gemma4ImageProcessor", "image_std": [1.0, 1.0, 1.0],
        "max_soft_tokens": BUDGET, "patch_size": 2, "pooling_kernel_size": 3, "resample": 3,
        "rescale_factor": 1 / 255}
    base.write_json("processor_config.json", {"image_processor": processor, "processor_class": "Gemma4Processor"})
    (HERE / "chat_template.jinja").write_text(TEMPLATE)
    return config, processor


def build(config):
    model = Gemma4ForConditionalGeneration(Gemma4Config(**json.loads(json.dumps(config)))).float().eval()
    model.set_attn_implementation("eager")
    return model


def draw(model, seed):
    base_draw(model, seed)
    g = torch.Generator().manual_seed(seed + 1000)
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + list(model.named_buffers()):
            noise = torch.randn(p.shape, generator=g)
            if name.endswith("position_embedding_table"):
                value = 0.3 * noise
            elif name.endswith("embed_tokens.weight") or name.endswith("embed_tokens_per_layer.weight"):
                value = 0.3 * noise
                if "per_layer" not in name:
                    value[base.ZERO] = 0
            elif name.endswith(("q_norm.weight", "k_norm.weight")):  # scores are not scaled
                value = 0.4 + 0.05 * noise
            elif name.endswith("layer_scalar"):
                value = 0.8 + 0.1 * noise
            elif name.endswith("std_bias"):
                value = noise
            elif name.endswith("std_scale"):
                value = 0.5 + 0.1 * noise
            elif name.endswith(("_min", "_max")):
                value = (1.5 + 0.2 * noise.abs()) * (-1 if name.endswith("_min") else 1)
            else:
                continue
            p.copy_(value.to(torch.bfloat16).float())


base_draw = base.draw


# --- the decoder again -------------------------------------------------------------------------------------------


def rms(x, gain=None):
    x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + base.EPS)
    return x if gain is None else x * gain


def rotate(x, positions, full):
    half = x.shape[-1] // 2
    f = 1.0 / (1e6 if full else 1e4) ** (torch.arange(half, dtype=torch.float64) / half)
    if full:
        f[int(0.25 * half):] = 0
    angle = (positions.double()[:, None] * f).to(x.dtype)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


class Decoder:
    """Computes the language model from its weights alone. A prompt is a pair: ids (0 for pictures), and h[0]."""

    def __init__(self, weights, config, dtype):
        self.w = {k: v.to(dtype) for k, v in weights.items()}
        self.c = config["text_config"]
        self.layers = self.c["num_hidden_layers"]
        self.own = self.layers - self.c["num_kv_shared_layers"]

    def weight(self, name):
        return self.w[TEXT + name + ".weight"]

    def attention(self, h, layer, positions, kept, seen):
        at, full = f"layers.{layer}.self_attn.", TYPES[layer] == "full_attention"
        x = rms(h, self.weight(f"layers.{layer}.input_layernorm"))
        d, H = self.c["global_head_dim" if full else "head_dim"], self.c["num_attention_heads"]
        q = rms((x @ self.weight(at + "q_proj").T).view(len(x), H, d), self.weight(at + "q_norm"))
        if layer < self.own:
            k = (x @ self.weight(at + "k_proj").T).view(len(x), 1, d)
            v = rms((x @ self.weight(at + "v_proj").T).view(len(x), 1, d))
            k = rms(k, self.weight(at + "k_norm"))
            seen["plain_q"], seen["plain_k"] = q, k
            kept[full] = rotate(k, positions, full), v, positions
        k, v, rows = kept[full]
        alive = torch.tensor([i for i, r in enumerate(rows.tolist()) if r in set(positions.tolist())])
        k, v = k[alive], v[alive]
        far = positions[:, None] - positions[None, :]
        hidden = far < 0 if full else (far < 0) | (far >= self.c["sliding_window"])
        k, v = k.repeat_interleave(H, 1), v.repeat_interleave(H, 1)
        p = torch.einsum("qhd,khd->hqk", rotate(q, positions, full), k).masked_fill(hidden, -math.inf).softmax(-1)
        seen["probs"], seen["v"] = p, v
        return torch.einsum("hqk,khd->qhd", p, v).reshape(len(h), H * d) @ self.weight(at + "o_proj").T

    def run(self, prompt, prune=None, kept=None):
        ids, h = prompt
        D, P = h.shape[1], self.c["hidden_size_per_layer_input"]
        own = (h @ self.weight("per_layer_model_projection").T * D**-0.5).view(len(h), self.layers, P)
        own = rms(own, self.weight("per_layer_projection_norm"))
        ple = (own + self.weight("embed_tokens_per_layer")[ids].view(own.shape) * P**0.5) * 2**-0.5
        positions, stream, info, keys = torch.arange(len(h)), [h], {}, {}
        for l in range(self.layers):
            at, seen = f"layers.{l}.", {}
            x = self.attention(h, l, positions, keys, seen)
            x = h + rms(x, self.weight(at + "post_attention_layernorm"))
            y = rms(x, self.weight(at + "pre_feedforward_layernorm"))
            y = gelu(y @ self.weight(at + "mlp.gate_proj").T) * (y @ self.weight(at + "mlp.up_proj").T)
            y = x + rms(y @ self.weight(at + "mlp.down_proj").T, self.weight(at + "post_feedforward_layernorm"))
            if l == base.LAYER:
                info["ffn_in"], info["ffn_out"] = x, y
            z = gelu(y @ self.weight(at + "per_layer_input_gate").T) * ple[:, l]
            y = y + rms(z @ self.weight(at + "per_layer_projection").T, self.weight(at + "post_per_layer_input_norm"))
            h = y * self.w[TEXT + at + "layer_scalar"]
            stream.append(h)
            if prune and l == base.LAYER:
                visual, kind = prune
                if kept is None:
                    info["score"] = self.score(kind, seen, l)[visual]
                    kept = base.best(info["score"], kind)
                dropped = set(visual.tolist()) - {int(visual[i]) for i in kept}
                rows = torch.tensor([i for i in range(len(h)) if i not in dropped])
                h, positions, ple = h[rows], positions[rows], ple[rows]
                info["kept"], info["rows"] = kept, rows
        info["h"] = stream if not prune else [h]
        cap = self.c["final_logit_softcapping"]
        return torch.tanh(rms(h, self.weight("norm")) @ self.weight("embed_tokens").T / cap) * cap, info

    def score(self, kind, seen, layer):
        p = seen["probs"][:, -1]
        if kind == "attention":
            return p.mean(0)
        if kind == "norope":
            k = seen["plain_k"].repeat_interleave(p.shape[0], 1)
            return torch.einsum("hd,khd->hk", seen["plain_q"][-1], k).softmax(-1).mean(0)
        if kind == "uniform":
            return torch.zeros(p.shape[1])
        o = self.weight(f"layers.{layer}.self_attn.o_proj")
        return ((p.T[:, :, None] * seen["v"]).reshape(p.shape[1], -1) @ o.T).norm(dim=-1)


# --- prompts -----------------------------------------------------------------------------------------------------


class Reference(base.Reference):
    CELL = 9  # patches of a visual token

    def __init__(self, config, processor, seed):
        self.config = config
        self.model = build(config)
        draw(self.model, seed)
        self.tokenizer = AutoTokenizer.from_pretrained(HERE)
        processing._SUPPORTED_SOFT_TOKENS = (BUDGET,)
        kinds = {k: v for k, v in processor.items() if k != "image_processor_type"}
        self.processor = processing.Gemma4ImageProcessorPil(**kinds)
        self.weights = {k: v for k, v in self.model.state_dict().items() if k != "lm_head.weight"}
        self.plain = {t: Decoder(self.weights, config, t) for t in (torch.float32, torch.float64)}

    def pixels(self, picture):
        """Patches [n, p*p*3] without padding, and their columns and rows [n, 2]."""
        file = PICTURES / (picture + (".jpg" if picture == "tall" else ".png"))
        out = self.processor(images=[Image.open(file).convert("RGB")], return_tensors="pt")
        at = out["image_position_ids"][0]
        real = (at >= 0).all(-1)
        return out["pixel_values"][0][real], at[real]

    def prompt(self, name, generation=True):
        messages = base.CHATS[name]
        text = self.tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, add_generation_prompt=generation,
                                                  tokenize=False)
        pixels = [self.pixels(p["picture"]) for m in messages for p in m["content"] if "picture" in p]
        parts, full = text.split("<|image|>"), ""
        for i, part in enumerate(parts):
            full += part
            if i < len(pixels):
                full += "<|image>" + "<|image|>" * (len(pixels[i][0]) // self.CELL) + "<image|>"
        return text, self.tokenizer(full, add_special_tokens=False, return_tensors="pt")["input_ids"][0], pixels

    def forward(self, ids, pixels, model=None, **more):
        if pixels:
            more |= padded(pixels, next((model or self.model).parameters()).dtype)
        more["mm_token_type_ids"] = (ids == self.config["image_token_id"]).long()[None]
        return (model or self.model)(input_ids=ids[None], **more)


def padded(pixels, dtype):
    most = max(len(p) for p, _ in pixels)
    grow = lambda x, value: torch.nn.functional.pad(x, (0, 0, 0, most - len(x)), value=value)
    return {"pixel_values": torch.stack([grow(p, 0) for p, _ in pixels]).to(dtype),
            "image_position_ids": torch.stack([grow(at, -1) for _, at in pixels])}


def vision_stream(model, pixels):
    """Of one picture, as in ../internvl3.5/make.py."""
    seen, last, inner, hooks = [], [], [], []
    layers, keep = model.model.vision_tower.encoder.layers, lambda x: x[0] if isinstance(x, tuple) else x
    for block in layers:
        hooks.append(block.register_forward_pre_hook(
            lambda m, a, k: seen.append(a[0] if a else k["hidden_states"]), with_kwargs=True))
    hooks.append(layers[-1].register_forward_hook(lambda m, a, o: last.append(keep(o))))
    hooks.append(model.model.embed_vision.register_forward_pre_hook(
        lambda m, a, k: inner.append(a[0] if a else k["inputs_embeds"]), with_kwargs=True))
    features = model.model.get_image_features(*padded([pixels], next(model.parameters()).dtype).values())
    for h in hooks:
        h.remove()
    features = torch.cat(list(features.pooler_output))
    return [x[0] for x in seen + last], inner[0].reshape(-1, inner[0].shape[-1]), features


def embed(ref, ids, visual, dtype):
    table = ref.plain[dtype].weight("embed_tokens")
    h = table[ids] * ref.config["text_config"]["hidden_size"] ** 0.5
    picture = ids == ref.config["image_token_id"]
    h[picture] = visual.to(dtype)
    return torch.where(picture, 0, ids), h


def longer(ref, prompt, tokens, dtype):
    more = embed(ref, torch.as_tensor(tokens, dtype=torch.int64), torch.zeros(0, prompt[1].shape[1]), dtype)
    return torch.cat([prompt[0], more[0]]), torch.cat([prompt[1], more[1]])


def add_vision(golden, ref, exact):
    for name in ("scene", "tall"):
        golden.add(f"pix.{name}", ref.pixels(name)[0], allowed=1e-5)
    stream, inner, visual = vision_stream(ref.model, ref.pixels("scene"))
    stream64, inner64, visual64 = vision_stream(exact, ref.pixels("scene"))
    golden.add("fwd.vision.h2", stream[2], stream64[2])
    golden.add("fwd.projector_in", inner, inner64)
    golden.add("fwd.visual_tokens", visual, visual64)
    return visual, visual64


def add_forward(golden, ref, visual, visual64):
    _, ids, pixels = ref.prompt("single")
    p, p64 = embed(ref, ids, visual, torch.float32), embed(ref, ids, visual64, torch.float64)
    out = ref.forward(ids, pixels)
    logits, info = ref.plain[torch.float32].run(p)
    logits64, info64 = ref.plain[torch.float64].run(p64)
    far = (logits - out.logits[0]).abs().max()
    assert far < 2e-4, far
    golden.add("fwd.input_ids", ids)
    golden.add("fwd.position_ids", torch.arange(len(ids))[None])
    golden.add("fwd.h", torch.stack(info["h"]), torch.stack(info64["h"]))
    if golden.facts["fwd.h"]["tol"] > 6e-4:
        raise base.Close(f"norms of nearly nothing: {golden.facts['fwd.h']['tol']:g}")
    golden.add("fwd.ffn_in", info["ffn_in"], info64["ffn_in"])
    golden.add("fwd.ffn_out", info["ffn_out"], info64["ffn_out"])
    golden.add("fwd.logits", out.logits[0], logits64)
    tokens, rows = ref.greedy(ids, pixels, base.STEPS)
    golden.add("gen.ids", tokens)
    all64 = ref.plain[torch.float64].run(longer(ref, p64, tokens[:-1], torch.float64))[0]
    golden.add("gen.logits", rows, all64[len(ids) - 1:])
    return ids, p, p64


def add_norm_align(golden, ref, ids, p, p64):
    norms = (ref.plain[torch.float64].weight("embed_tokens") * p[1].shape[1] ** 0.5).norm(dim=-1)
    target = norms[norms > 1e-6].mean()
    golden.add("norm_align.T", target[None].float(), target[None])
    at = ids == ref.config["image_token_id"]
    for init, gain in (("text", target / math.sqrt(p[1].shape[1])), ("default", torch.tensor(1.0, dtype=torch.float64))):
        both = []
        for (rows, start), dtype in ((p, torch.float32), (p64, torch.float64)):
            x = start.clone()
            v = x[at]
            v = (v - v.mean(-1, keepdim=True)) / torch.sqrt(v.var(-1, unbiased=False, keepdim=True) + 1e-5)
            x[at] = v * gain.to(dtype)
            logits, info = ref.plain[dtype].run((rows, x))
            both.append((x[at], info["h"][-1], logits[-1]))
        for k, what in enumerate(("visual_tokens", "h_last", "logits_last")):
            golden.add(f"norm_align.{init}.{what}", both[0][k], both[1][k])


def add_pruning(golden, ref, ids, p, p64):
    visual = (ids == ref.config["image_token_id"]).nonzero()[:, 0]
    sets = []
    for kind in ("contribution", "attention", "norope", "uniform"):
        logits, info = ref.plain[torch.float32].run(p, (visual, kind))
        logits64, info64 = ref.plain[torch.float64].run(p64, (visual, kind))
        name = f"capa.{kind}."
        assert info["kept"] == info64["kept"]
        sets.append(info["kept"])
        if kind != "uniform":
            golden.add(name + "score", info["score"], info64["score"])
        golden.add(name + "kept", torch.tensor(info["kept"]))
        golden.add(name + "rows", info["rows"])
        golden.add(name + "h_last", info["h"][-1], info64["h"][-1])
        golden.add(name + "logits_last", logits[-1], logits64[-1])
        more = []
        for _ in range(8):
            two = logits64[-1].topk(2).values
            if two[0] - two[1] < 5e-3:
                raise base.Close("a greedy choice of a pruned run is close")
            more.append(int(logits64[-1].argmax()))
            logits64, _ = ref.plain[torch.float64].run(longer(ref, p64, more, torch.float64), (visual, kind),
                                                       info["kept"])
        golden.add(name + "gen_ids", torch.tensor(more))
    if len(set(map(tuple, sets))) < 3:
        raise base.Close("scores keep the same tokens")


def add_chats(golden, ref, exact):
    for name in ("second_picture", "two_images", "two_turn", "text_only"):
        _, ids, pixels = ref.prompt(name)
        parts = [vision_stream(exact, p)[2] for p in pixels]
        visual = torch.cat(parts) if parts else torch.zeros(0, ref.config["text_config"]["hidden_size"])
        logits64, _ = ref.plain[torch.float64].run(embed(ref, ids, visual, torch.float64))
        golden.add(f"fwd_{name}.input_ids", ids)
        golden.add(f"fwd_{name}.position_ids", torch.arange(len(ids))[None])
        golden.add(f"fwd_{name}.logits_last", ref.forward(ids, pixels).logits[0, -1], logits64[-1])
        golden.add(f"fwd_{name}.gen_ids", ref.greedy(ids, pixels, 8)[0])


def sample_loss(model, ref, name):
    _, ids, pixels = ref.prompt(name, False)
    base.CHATS["_prompt"] = base.CHATS[name][:-1]
    start = len(ref.prompt("_prompt")[1])
    del base.CHATS["_prompt"]
    labels = ids.clone()
    labels[:start] = -100
    logits = ref.forward(ids, pixels, model).logits[0]
    return torch.nn.functional.cross_entropy(logits[:-1], labels[1:]), ids, labels, start


def file_name(name):
    return name


def add_training(golden, ref, exact):
    named = [(file_name(n), p, q) for (n, p), q in zip(ref.model.named_parameters(), exact.parameters())
             if not any(part in n for part in ENCODER)]
    norms = [n for n, _, _ in named if n.endswith(("input_layernorm.weight", "post_attention_layernorm.weight"))]
    apart = norms + [n for n, _, _ in named if "embed_vision" in n or n.endswith("embed_tokens.weight")]
    full, full64, labelled = 0, 0, {}
    for which in "ab":
        losses = []
        for model in (ref.model, exact):
            model.zero_grad()
            loss, ids, labels, start = sample_loss(model, ref, f"train_{which}")
            loss.backward()
            losses.append(loss)
        labelled[which] = start
        golden.add(f"train.{which}.input_ids", ids)
        golden.add(f"train.{which}.labels", labels)
        golden.add(f"train.{which}.loss", losses[0][None], losses[1][None])
        for n, p, q in named:
            if n in norms or "embed_vision" in n or "per_layer_projection_norm" in n:
                golden.add(f"train.{which}.grad.{n}", p.grad, q.grad)
        full = [p.grad / 2 + (full[i] if which == "b" else 0) for i, (_, p, _) in enumerate(named)]
        full64 = [q.grad / 2 + (full64[i] if which == "b" else 0) for i, (_, _, q) in enumerate(named)]
    golden.add("train.full.grad_norms", torch.stack([t.norm() for t in full]), torch.stack([t.norm() for t in full64]))
    return labelled, {"samples": ["train_a", "train_b"], "full_grad_norm_names": [n for n, _, _ in named],
                      "layernorm-simple_trainable": norms, "layernorm_trainable": apart}


for part in (build, add_vision, add_forward, add_norm_align, add_pruning, add_chats, add_training):
    setattr(base, part.__name__, part)

if __name__ == "__main__":
    base.search(write_configs(write_tokenizer()), family="gemma4", kind=Reference)
