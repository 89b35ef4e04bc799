#!/usr/bin/env python3
"""Writes this folder: a tiny Pixtral-12B in the hub's layout, and reference results of transformers.

    python tests/goldens/pixtral/make.py      # torch, transformers, safetensors, Pillow of ../README.md

Each patch is a visual token. Tensors of the blocks, of methods and of training are left out, because ../mistral3 has
them. ../mistral3/make.py has the functions that this file does not define.
"""
import copy
import importlib.util
from pathlib import Path

from transformers import LlavaConfig, LlavaForConditionalGeneration

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("mistral3", HERE.parent / "mistral3" / "make.py")
mistral3 = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mistral3)
base = mistral3.base
base.HERE = HERE


def write_configs():
    return mistral3.write_others({
        "architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100, "image_seq_length": 1,
        "image_token_index": 10, "model_type": "llava", "projector_hidden_act": "gelu",
        "text_config": {**mistral3.text_config(), "num_hidden_layers": 2, "is_composition": True},
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vision_config": {**mistral3.vision_config(), "is_composition": True}, "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full"})


def build(config):
    config = {k: v for k, v in copy.deepcopy(config).items() if k != "image_token_id"}
    model = LlavaForConditionalGeneration(LlavaConfig(**config)).float().eval()
    model.set_attn_implementation("eager")
    return model


class Reference(mistral3.Reference):
    build = staticmethod(build)
    unit = mistral3.PATCH
    more = staticmethod(lambda *a: None)


class Golden(base.Golden):
    def add(self, name, *more, **options):
        if not name.startswith(("fwd.vision.h", "fwd.h", "fwd.value", "fwd.ffn_in")):
            super().add(name, *more, **options)


base.build, base.Golden = build, Golden
base.LAYER = 0
base.add_norm_align = base.add_pruning = lambda *a: None
base.add_training = lambda *a: ({}, {})
mistral3.LONGEST = 16

if __name__ == "__main__":
    mistral3.write_tokenizer()
    base.search(write_configs(), family="llava", kind=Reference)
