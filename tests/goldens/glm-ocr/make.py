#!/usr/bin/env python3
"""Writes this folder: a tiny GLM-OCR in the hub's layout, and reference results of transformers.

    python tests/goldens/glm-ocr/make.py      # torch, transformers, safetensors, Pillow of ../README.md

A dense decoder, without experts; heads are wider than hidden_size / num_attention_heads, as on the hub, and rotary covers whole
heads; the encoder has biases. Tokenizer, preprocessor and stages come from ../glm-4.5v/make.py.
"""
import copy
import importlib.util
from pathlib import Path

import torch
from transformers import GlmOcrConfig, GlmOcrForConditionalGeneration

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("glm", HERE.parent / "glm-4.5v" / "make.py")
glm = importlib.util.module_from_spec(spec)
spec.loader.exec_module(glm)
native, base = glm.native, glm.base
native.HERE = base.HERE = glm.HERE = HERE


def write_configs(ids):
    config, preprocessor = glm.write_configs(ids)
    vision = config["vision_config"]
    del vision["image_size"]
    vision.update({"attention_bias": True, "model_type": "glm_ocr_vision", "intermediate_size": 28, "out_hidden_size": 24})
    config.update({
        "architectures": ["GlmOcrForConditionalGeneration"], "model_type": "glm_ocr", "text_config": {
            "dtype": "bfloat16", "head_dim": 16, "hidden_act": "silu", "hidden_size": 24, "intermediate_size": 20,
            "max_position_embeddings": 131072, "model_type": "glm_ocr_text", "num_attention_heads": 2,
            "num_hidden_layers": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-05,
            "rope_parameters": {"mrope_section": [2, 3, 3], "partial_rotary_factor": 1.0, "rope_theta": 10000,
                                "rope_type": "default"},
            "vocab_size": glm.VOCAB}})
    base.write_json("config.json", config)
    return config, preprocessor


def build(config):
    model = GlmOcrForConditionalGeneration(GlmOcrConfig(**copy.deepcopy(config))).float().eval()
    model.set_attn_implementation("eager")
    return model


class Reference(glm.Reference):
    build = staticmethod(build)


if __name__ == "__main__":
    base.search(write_configs(glm.write_tokenizer()), family="glm-ocr", kind=Reference)
