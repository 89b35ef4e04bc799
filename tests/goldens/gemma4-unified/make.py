#!/usr/bin/env python3
"""Writes this folder: a tiny Gemma 4 of the 12B model's shape ("unified"), and reference results of transformers.

    python tests/goldens/gemma4-unified/make.py      # torch, transformers, safetensors, Pillow of ../README.md

There is no encoder: each patch becomes a visual token by one linear layer. The tokens of a picture see each other in
all layers, whatever the window, which is shorter than a picture here. Layers without a window use one projection for
keys and values; there are no experts. ../gemma4-moe/make.py has the functions that this file does not define.
"""
import importlib.util
import json
import shutil
from pathlib import Path

import torch
from transformers import Gemma4UnifiedConfig, Gemma4UnifiedForConditionalGeneration

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("large", HERE.parent / "gemma4-moe" / "make.py")
large = importlib.util.module_from_spec(spec)
spec.loader.exec_module(large)
small, base, rms = large.small, large.base, large.rms
PATCH, POOL, WIDTH, TABLE = 2, 3, 12, 14
small.ENCODER = (".patch_", ".pos_")


def write_configs(ids):
    small.HERE = base.HERE = HERE
    config, processor = large.write_small(ids)
    config.update({"architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified"})
    text = config["text_config"]
    for key in ("enable_moe_block", "hidden_size_per_layer_input", "vocab_size_per_layer_input"):
        del text[key]
    text.update({
        "model_type": "gemma4_unified_text", "attention_k_eq_v": True, "layer_types": large.TYPES,
        "num_attention_heads": 4, "num_global_key_value_heads": 1, "num_hidden_layers": len(large.TYPES),
        "num_key_value_heads": 2, "num_kv_shared_layers": 0, "sliding_window": 8,
        "use_bidirectional_attention": "vision", "use_double_wide_mlp": False})
    config["vision_config"] = {
        "model_type": "gemma4_unified_vision", "mm_embed_dim": WIDTH, "mm_posemb_size": TABLE,
        "model_patch_size": PATCH * POOL, "output_proj_dims": WIDTH, "patch_size": PATCH, "pooling_kernel_size": POOL,
        "rms_norm_eps": 1e-06}
    processor["image_processor_type"] = "Gemma4UnifiedImageProcessor"
    base.write_json("config.json", config)
    base.write_json("processor_config.json", {"image_processor": processor,
                                              "processor_class": "Gemma4UnifiedProcessor"})
    return config, processor


def build(config):
    model = Gemma4UnifiedForConditionalGeneration(Gemma4UnifiedConfig(**json.loads(json.dumps(config)))).float().eval()
    model.set_attn_implementation("eager")
    return model


def draw(model, seed):
    large.draw_small(model, seed)
    g = torch.Generator().manual_seed(seed + 2000)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if name.endswith("pos_embedding"):
                p.copy_((0.6 * noise).to(torch.bfloat16).float())
            elif ".patch_ln" in name and name.endswith("weight"):
                p.copy_((1 + 0.2 * noise).to(torch.bfloat16).float())


class Decoder(large.Decoder):
    def hidden(self, far, same, full):
        far = far if full else far.masked_fill(far >= self.c["sliding_window"], -1)
        return (far < 0) & ~same

    def after_ffn(self, x, y, at):
        return rms(y, self.weight(at + "post_feedforward_layernorm"))


class Reference(small.Reference):
    CELL = 1

    def pixels(self, picture):
        """Joins the patches of POOL x POOL to one: [n, side*side*3], and their columns and rows."""
        patches, at = super().pixels(picture)
        side, (cols, rows) = PATCH * POOL, (at.max(0).values + 1).tolist()
        x = patches.view(rows // POOL, POOL, cols // POOL, POOL, PATCH, PATCH, 3).permute(0, 2, 1, 4, 3, 5, 6)
        place = torch.stack(torch.meshgrid(torch.arange(cols // POOL), torch.arange(rows // POOL), indexing="xy"), -1)
        return x.reshape(-1, side * side * 3), place.reshape(-1, 2)


def vision_stream(model, pixels):
    """As in ../internvl3.5/make.py, without blocks."""
    inner, embedder = [], model.model.embed_vision.multimodal_embedder
    hook = embedder.register_forward_pre_hook(lambda m, a: inner.append(a[0]))
    features = model.model.get_image_features(*small.padded([pixels], next(model.parameters()).dtype).values())
    hook.remove()
    features = torch.cat(list(features.pooler_output))
    return [inner[0][0]] * 3, inner[0][0], features


def file_name(name):
    """The name in files of the hub of a weight of transformers' class."""
    name = name.replace("multimodal_embedder.", "")
    return name.replace("embed_vision.p", "vision_embedder.p")


def write_golden(ref, golden, weights, *rest):
    for name in ("fwd.vision.h2", "pix.tall"):  # the projector's input; ../gemma4 proves the resizing
        del golden.tensors[name], golden.facts[name]
    large.written(ref, golden, {file_name(n): w for n, w in weights.items()}, *rest)


small.file_name, small.vision_stream, small.Decoder, base.write_golden = file_name, vision_stream, Decoder, write_golden
for where in (small, base):
    where.build, where.draw, where.add_training = build, draw, large.train_small

if __name__ == "__main__":
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(HERE.parent / "gemma4" / name, HERE / name)
    small.HERE = base.HERE = HERE
    ids = small.write_tokenizer()
    base.search(write_configs(ids), family="gemma4_unified", kind=Reference)
