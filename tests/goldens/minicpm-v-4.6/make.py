#!/usr/bin/env python3
"""Writes this folder: a tiny MiniCPM-V 4.6 in the hub's layout, and reference results of transformers.

    python tests/goldens/minicpm-v-4.6/make.py      # torch, transformers, safetensors, Pillow of ../README.md

Pictures have an overview and up to two slices; windows are joined after the encoder's first block. `four` is the first
prompt with four patches per visual token instead of sixteen. chat_template.jinja is kept. ../qwen3.5/make.py has the
functions that this file does not define.
"""
import importlib.util
import json
from pathlib import Path

import torch
from transformers import MiniCPMV4_6Config, MiniCPMV4_6ForConditionalGeneration
from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import MiniCPMV4_6ImageProcessorPil
from transformers.models.minicpmv4_6.processing_minicpmv4_6 import MiniCPMV4_6Processor
from transformers.models.qwen3_5 import modeling_qwen3_5

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("dense", HERE.parent / "qwen3.5" / "make.py")
dense = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dense)
native, base = dense.native, dense.base

MARKS = {"image_start": "<image>", "image_end": "</image>", "slice_start": "<slice>", "slice_end": "</slice>",
         "image_id_start": "<image_id>", "image_id_end": "</image_id>"}
native.SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>", *MARKS.values()]
native.ids_of = lambda ids: {"image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"]}
dense.VOCAB = 280
base.CHATS["single"] = [base.user("scene", "What is it?")]
PATCH = 3


def write_tokenizer():
    ids = dense.write_tokenizer(HERE)
    config = json.loads((HERE / "tokenizer_config.json").read_text())
    config.update({f"{k}_token": v for k, v in MARKS.items()})
    base.write_json("tokenizer_config.json", {
        **config, "image_token": "<|image_pad|>", "video_token": "<|video_pad|>",
        "processor_class": "MiniCPMV4_6Processor"})
    return ids


def write_configs(ids):
    config, _ = dense.write_configs(ids, num_hidden_layers=2, full_attention_interval=2, intermediate_size=12)
    config.update({
        "architectures": ["MiniCPMV4_6ForConditionalGeneration"], "model_type": "minicpmv4_6", "drop_vision_last_layer": False,
        "image_size": 48, "insert_layer_id": 0, "vision_config": {
            "attention_dropout": 0.0, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 12, "image_size": 18,
            "intermediate_size": 10, "layer_norm_eps": 1e-06, "model_type": "minicpmv4_6_vision", "num_attention_heads": 2,
            "num_channels": 3, "num_hidden_layers": 2, "patch_size": PATCH}})
    preprocessor = {"image_processor_type": "MiniCPMV4_6ImageProcessor", "max_slice_nums": 2, "scale_resolution": 24,
                    "patch_size": PATCH, "use_image_id": True, "slice_mode": True, "image_mean": [0.5] * 3,
                    "image_std": [0.5] * 3}
    base.write_json("config.json", config)
    base.write_json("preprocessor_config.json", {**preprocessor, "processor_class": "MiniCPMV4_6Processor"})
    return config, preprocessor


# Gains of the encoder and the connector are not 1 + w.
def draw(model, seed):
    drawn(model, seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("post_layernorm.weight", "pre_norm.weight")):
                p.copy_((p + 1).to(torch.bfloat16).float())


class Reference(dense.Reference):
    word, processing, most = "<|image_pad|>", MiniCPMV4_6ImageProcessorPil, 2e-3

    @staticmethod
    def build(config):
        return dense.build(MiniCPMV4_6ForConditionalGeneration, MiniCPMV4_6Config, modeling_qwen3_5, config)

    def __init__(self, *arguments):
        self.mode = "16x"
        super().__init__(*arguments)
        self.frozen += tuple(n for n, _ in self.model.named_parameters() if ".vision_tower." in n)
        self.text = object.__new__(MiniCPMV4_6Processor)  # its constructor needs a processor of videos
        self.text.slice_mode, self.text.image_token = True, self.word
        for name, mark in MARKS.items():
            setattr(self.text, f"{name}_token", mark)

    def template(self):
        return (HERE / "chat_template.jinja").read_text()

    def pixels(self, name):
        """The processor's output; a patch is a row of "pixel_values"."""
        file = base.PICTURES / (name + (".jpg" if name == "tall" else ".png"))
        seen = self.processor(images=[native.Image.open(file).convert("RGB")], return_tensors="pt", downsample_mode=self.mode)
        rows = seen["pixel_values"][0].unflatten(-1, (-1, PATCH)).permute(2, 0, 1, 3).flatten(1)
        return {**seen, "stored": seen["pixel_values"], "pixel_values": rows}

    def prompt(self, messages, generation=True):
        text = self.tokenizer.apply_chat_template(messages, chat_template=self.template(), add_generation_prompt=generation,
                                                  tokenize=False)
        seen = [self.pixels(p["picture"]) for m in messages for p in m["content"] if "picture" in p]
        full = [self.text.replace_image_token(s, 0, image_token_divisor=4 if self.mode == "4x" else 16) for s in seen]
        pieces, full = text.split(self.word), self.text._prepend_local_ids([text], full, self.word)
        whole = "".join(a + b for a, b in zip(pieces, full + [""]))
        ids = self.tokenizer(whole, add_special_tokens=False, return_tensors="pt")["input_ids"][0]
        more = {}
        if seen:
            more = {"pixel_values": torch.cat([s["stored"] for s in seen], -1),
                    "target_sizes": torch.cat([s["target_sizes"] for s in seen])}
        return text, ids, more

    def forward(self, ids, more, exact=False, **other):
        model = self.exact if exact else self.model
        if more:
            more = dict(more, pixel_values=more["pixel_values"].to(next(model.parameters()).dtype))
        return model(input_ids=ids[None], downsample_mode=self.mode, **more, **other)

    def positions(self, ids, more):
        return torch.arange(len(ids))[None]

    def stages(self, ids, more, exact):
        model, rows, out, hooks = self.exact if exact else self.model, [], [], []
        model.model.visual = tower = model.model.vision_tower
        tower.blocks, tower.merger = tower.encoder.layers, torch.nn.Identity()
        hooks.append(model.model.merger.mlp[0].register_forward_pre_hook(lambda m, a: rows.append(a[0])))
        hooks.append(model.model.merger.mlp[0].register_forward_hook(lambda m, a, o: out.append(o)))
        stages = super().stages(ids, more, exact)
        for h in hooks:
            h.remove()
        del model.model.visual, tower.blocks, tower.merger
        for large in ("attn", "vision.h0"):
            del stages[large]
        return {**stages, "projector_in": torch.cat(rows), "visual_tokens": torch.cat(out)}


def write_golden(ref, golden, *rest):
    ref.mode = "4x"
    with torch.no_grad():
        _, ids, more = ref.prompt(base.CHATS["single"])
        golden.add("four.input_ids", ids)
        golden.add("four.logits_last", ref.forward(ids, more).logits[0, -1], ref.forward(ids, more, True).logits[0, -1])
        golden.add("four.gen_ids", ref.greedy(ids, more, 8)[0])
    ref.mode = "16x"
    for facts in (golden.tensors, golden.facts):
        del facts["train.a.grad.model.merger.mlp.0.linear_1.weight"]
    written(ref, golden, *rest)


drawn, base.draw = base.draw, draw
written, base.write_golden = base.write_golden, write_golden

if __name__ == "__main__":
    base.search(write_configs(write_tokenizer()), family="minicpmv4_6", kind=Reference)
