#!/usr/bin/env python3
"""Writes this folder: a tiny Qwen3-VL with experts in the hub's layout, and reference results of transformers.

    python tests/goldens/qwen3-vl-moe/make.py      # torch, transformers, safetensors, Pillow of ../README.md

The experts' down_proj is transposed, as on the hub. Their gate_up_proj is not: it is square, and transformers reads
square ones as they are. Tolerances follow from a second pass in float64. Weights are drawn again until no greedy choice
is a close one. ../internvl3.5/make.py has the functions that this file does not define.
"""
import copy
import importlib.util
import json
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoTokenizer, Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("base", HERE.parent / "internvl3.5" / "make.py")
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)

MERGES, WORDS, VOCAB, PATCH = 40, 256 + 40, 312, 7
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
           "<|video_pad|>"]
base.HERE, base.ZERO = HERE, [WORDS, *range(WORDS + len(SPECIAL), VOCAB)]
CHATS = base.CHATS


def write_tokenizer():
    whole = json.loads((HERE.parent / "qwen3-vl" / "tokenizer.json").read_text())
    model = whole["model"]
    words = [w for w, i in sorted(model["vocab"].items(), key=lambda item: item[1])][:WORDS]
    model["vocab"], model["merges"] = {w: i for i, w in enumerate(words)}, model["merges"][:MERGES]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    whole["added_tokens"] = [{"id": WORDS + i, "content": w, **flags} for i, w in enumerate(SPECIAL)]
    (HERE / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    base.write_json("tokenizer_config.json", {
        "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in whole["added_tokens"]},
        "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
        "clean_up_tokenization_spaces": False, "model_max_length": 262144, "tokenizer_class": "Qwen2Tokenizer"})
    return {t["content"]: t["id"] for t in whole["added_tokens"]}


def ids_of(ids):
    return {"image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"],
            "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"]}


def write_others(config, ids, mean, std):
    base.write_json("config.json", config)
    base.write_json("generation_config.json", {"bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"]})
    preprocessor = {"size": {"longest_edge": 3136, "shortest_edge": 784}, "patch_size": PATCH, "temporal_patch_size": 2,
                    "merge_size": 2, "image_mean": mean, "image_std": std,
                    "image_processor_type": "Qwen2VLImageProcessorFast"}
    base.write_json("preprocessor_config.json", preprocessor)
    template = (HERE.parent / "qwen3-vl" / "chat_template.json").read_text()
    (HERE / "chat_template.json").write_text(template)
    return config, preprocessor


def write_configs(ids):
    config = {
        "architectures": ["Qwen3VLMoeForConditionalGeneration"], "model_type": "qwen3_vl_moe", **ids_of(ids),
        "text_config": {
            "attention_bias": False, "bos_token_id": ids["<|endoftext|>"], "decoder_sparse_step": 1, "dtype": "bfloat16",
            "eos_token_id": ids["<|im_end|>"], "head_dim": 8, "hidden_act": "silu", "hidden_size": 32,
            "intermediate_size": 40, "max_position_embeddings": 262144, "mlp_only_layers": [],
            "model_type": "qwen3_vl_moe_text", "moe_intermediate_size": 16, "norm_topk_prob": True,
            "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3,
            "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": [2, 1, 1], "rope_type": "default"},
            "rope_theta": 5000000, "vocab_size": VOCAB},
        "tie_word_embeddings": False,
        "vision_config": {
            "deepstack_visual_indexes": [0, 1], "depth": 3, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 24,
            "in_channels": 3, "intermediate_size": 28, "model_type": "qwen3_vl_moe", "num_heads": 2,
            "num_position_embeddings": 16, "out_hidden_size": 32, "patch_size": PATCH, "spatial_merge_size": 2,
            "temporal_patch_size": 2}}
    return write_others(config, ids, [0.5] * 3, [0.5] * 3)


def build(config):
    model = Qwen3VLMoeForConditionalGeneration(Qwen3VLMoeConfig(**copy.deepcopy(config))).float().eval()
    model.set_experts_implementation("eager")  # computes in float64 too
    model.set_attn_implementation("eager")
    return model


def hub_name(name):
    return name


def stored(name, value):
    return value.transpose(1, 2).contiguous() if name.endswith("experts.down_proj") else value


class Reference:
    merger = "merger.linear_fc1", "visual.merger.norm"  # the projector's first layer, its norm
    word, processing = "<|image_pad|>", Qwen2VLImageProcessorPil
    frozen = ()  # endings of the names of weights that are never trained

    def __init__(self, config, preprocessor, seed):
        self.config, self.model = config, self.build(config)
        base.draw(self.model, seed)
        self.exact = self.build(config)
        self.exact.load_state_dict(self.model.state_dict())
        self.exact = self.exact.double()
        self.tokenizer = AutoTokenizer.from_pretrained(HERE)
        self.processor = self.processing(**{k: v for k, v in preprocessor.items() if k != "image_processor_type"})

    build = staticmethod(build)

    def template(self):
        return json.loads((HERE / "chat_template.json").read_text())["chat_template"]

    def pixels(self, name):
        file = base.PICTURES / (name + (".jpg" if name == "tall" else ".png"))
        return self.processor(images=[Image.open(file).convert("RGB")], return_tensors="pt")

    def prompt(self, messages, generation=True):
        text = self.tokenizer.apply_chat_template(messages, chat_template=self.template(),
                                                  add_generation_prompt=generation, tokenize=False)
        seen = [self.pixels(p["picture"]) for m in messages for p in m["content"] if "picture" in p]
        pieces, full = text.split(self.word), ""
        for i, piece in enumerate(pieces):
            full += piece
            if i < len(seen):
                full += self.word * (int(seen[i]["image_grid_thw"].prod()) // 4)
        ids = self.tokenizer(full, add_special_tokens=False, return_tensors="pt")["input_ids"][0]
        more = {}
        if seen:
            more = {"pixel_values": torch.cat([s["pixel_values"] for s in seen]),
                    "image_grid_thw": torch.cat([s["image_grid_thw"] for s in seen])}
        return text, ids, more

    def kinds(self, ids):
        return (ids == self.config["image_token_id"]).int()[None]

    def forward(self, ids, more, exact=False, **other):
        model = self.exact if exact else self.model
        if "pixel_values" in more:
            more = dict(more, pixel_values=more["pixel_values"].to(next(model.parameters()).dtype))
        return model(input_ids=ids[None], mm_token_type_ids=self.kinds(ids), **more, **other)

    def positions(self, ids, more):
        if not more:
            return torch.arange(len(ids))[None]
        return self.model.model.get_rope_index(ids[None], mm_token_type_ids=self.kinds(ids),
                                               image_grid_thw=more["image_grid_thw"])[0][:, 0]

    def greedy(self, ids, more, count):
        out, rows, exact = [], [], []
        for _ in range(count):
            longer = torch.cat([ids, torch.tensor(out, dtype=ids.dtype)])
            last = self.forward(longer, more).logits[0, -1]
            two = last.topk(2).values
            if two[0] - two[1] < 5e-3 or int(last.argmax()) >= WORDS + 3:
                raise base.Close("a greedy choice is close, or is a vision token")
            rows.append(last)
            exact.append(self.forward(longer, more, True).logits[0, -1])
            out.append(int(last.argmax()))
        return torch.tensor(out), torch.stack(rows), torch.stack(exact)

    def stages(self, ids, more, exact):
        """Every stage of a forward pass, by its golden's name."""
        model, at, hooks = self.exact if exact else self.model, {}, []
        tower, text = model.model.visual, model.model.language_model
        keep = lambda name: lambda m, a, k: at.update({name: a[0] if a else k["hidden_states"]})
        after = lambda name: lambda m, a, o: at.update({name: o[0] if isinstance(o, tuple) else o})
        for i, block in enumerate(tower.blocks):
            hooks.append(block.register_forward_pre_hook(keep(f"vision.h{i}"), with_kwargs=True))
        hooks.append(tower.blocks[-1].register_forward_hook(after(f"vision.h{len(tower.blocks)}")))
        hooks.append(tower.merger.register_forward_pre_hook(keep("projector_in"), with_kwargs=True))
        hooks.append(tower.merger.register_forward_hook(after("visual_tokens")))
        for i, layer in enumerate(text.layers):
            hooks.append(layer.register_forward_pre_hook(keep(f"h{i}"), with_kwargs=True))
            if hasattr(layer, "self_attn"):
                hooks.append(layer.self_attn.v_proj.register_forward_hook(after(f"v{i}")))
        hooks.append(text.norm.register_forward_pre_hook(keep(f"h{len(text.layers)}"), with_kwargs=True))
        hooks.append(text.layers[1].post_attention_layernorm.register_forward_pre_hook(keep("ffn_in"), with_kwargs=True))
        hooks.append(text.layers[1].register_forward_hook(after("ffn_out")))
        out = self.forward(ids, more, exact, output_attentions=True)
        for h in hooks:
            h.remove()
        c = self.config.get("text_config", self.config)
        heads, layers = c["num_key_value_heads"], range(len(text.layers))
        value = torch.stack([at[f"v{i}"][0].view(len(ids), heads, -1).transpose(0, 1) for i in layers if f"v{i}" in at])
        stages = {k: v for k, v in at.items() if k.startswith(("vision", "projector", "visual"))}
        return {**stages, "h": torch.stack([at[f"h{i}"][0] for i in range(len(layers) + 1)]), "value": value,
                "attn": torch.cat(out.attentions), "ffn_in": at["ffn_in"][0], "ffn_out": at["ffn_out"][0],
                "logits": out.logits[0]}


def add_training(golden, ref):
    named = [(n, p, q) for (n, p), q in zip(ref.model.named_parameters(), ref.exact.parameters())
             if (not n.startswith("model.visual.") or "merger" in n) and not n.endswith(ref.frozen)]
    norms = [n for n, _, _ in named if n.endswith(("input_layernorm.weight", "post_attention_layernorm.weight"))]
    apart = [n for n, _, _ in named if n in norms or "merger" in n or "embed_tokens" in n or "lm_head" in n]
    whole, whole64, labelled = {}, {}, {}
    for which in "ab":
        messages, losses = CHATS[f"train_{which}"], []
        _, ids, more = ref.prompt(messages, False)
        labelled[which] = start = len(ref.prompt(messages[:-1])[1])
        labels = ids.clone()
        labels[:start] = -100
        for model in (ref.model, ref.exact):
            model.zero_grad()
            logits = ref.forward(ids, more, model is ref.exact).logits[0]
            loss = torch.nn.functional.cross_entropy(logits[:-1], labels[1:])
            loss.backward()
            losses.append(loss)
        golden.add(f"train.{which}.input_ids", ids)
        golden.add(f"train.{which}.labels", labels)
        golden.add(f"train.{which}.loss", losses[0][None], losses[1][None])
        for n, p, q in named:
            small = p.grad.numel() <= 32 * 96
            if n in norms or which == "a" and small and ("merger" in n or ".mlp.gate." in n):
                golden.add(f"train.{which}.grad.{n}", p.grad, q.grad)
            for into, grad in ((whole, p.grad), (whole64, q.grad)):
                for name, part in base.parts(n, grad):
                    into[name] = into.get(name, 0) + part / 2
    golden.add("train.full.grad_norms", torch.stack([t.norm() for t in whole.values()]),
               torch.stack([t.norm() for t in whole64.values()]))
    if min(t.norm() for t in whole.values()) < 1e-4:
        raise base.Close("a weight has nearly no gradient")
    return labelled, {"samples": ["train_a", "train_b"], "full_grad_norm_names": list(whole),
                      "layernorm-simple_trainable": norms, "layernorm_trainable": apart}


def make(config, preprocessor, seed, family="qwen3-vl-moe", kind=Reference):
    ref, golden = kind(config, preprocessor, seed), base.Golden()
    with torch.no_grad():
        golden.add("pix.scene", ref.pixels("scene")["pixel_values"], allowed=1e-5)
        _, ids, more = ref.prompt(CHATS["single"])
        exact = ref.stages(ids, more, True)
        golden.add("fwd.input_ids", ids)
        golden.add("fwd.position_ids", ref.positions(ids, more))
        for name, value in ref.stages(ids, more, False).items():
            golden.add(f"fwd.{name}", value, exact[name])
        tokens, rows, rows64 = ref.greedy(ids, more, 24)
        golden.add("gen.ids", tokens)
        golden.add("gen.logits", rows, rows64)
        for name in ("second_picture", "two_images", "two_turn", "text_only"):
            _, ids, more = ref.prompt(CHATS[name])
            golden.add(f"fwd_{name}.input_ids", ids)
            golden.add(f"fwd_{name}.position_ids", ref.positions(ids, more))
            golden.add(f"fwd_{name}.logits_last", ref.forward(ids, more).logits[0, -1],
                       ref.forward(ids, more, True).logits[0, -1])
            golden.add(f"fwd_{name}.gen_ids", ref.greedy(ids, more, 8)[0])
    labelled, training = add_training(golden, ref)
    weights = {hub_name(k): stored(k, v) for k, v in ref.model.state_dict().items()}
    base.write_golden(ref, golden, weights, family, seed, lambda _, messages: messages, labelled, training, {})


base.make = make

if __name__ == "__main__":
    base.search(write_configs(write_tokenizer()))
