#!/usr/bin/env python3
"""Writes this folder: a tiny Qwen2-VL in the hub's layout, and reference results of transformers.

    python tests/goldens/qwen2-vl/make.py      # torch, transformers, safetensors, Pillow of ../README.md

The decoder is dense, without norms of queries and keys; the encoder has quick_gelu and no DeepStack; tensors have the
hub's older names. ../qwen3-vl-moe/make.py has the functions that this file does not define.
"""
import copy
import importlib.util
from pathlib import Path

from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("native", HERE.parent / "qwen3-vl-moe" / "make.py")
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
native.HERE = native.base.HERE = HERE


def write_configs(ids):
    config = {
        "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", **native.ids_of(ids),
        "attention_dropout": 0.0, "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"],
        "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 40, "max_position_embeddings": 32768,
        "max_window_layers": 3, "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06, "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}, "rope_theta": 1000000.0,
        "sliding_window": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_sliding_window": False,
        "vocab_size": native.VOCAB,
        "vision_config": {
            "depth": 3, "embed_dim": 24, "hidden_act": "quick_gelu", "hidden_size": 32, "in_channels": 3,
            "in_chans": 3, "mlp_ratio": 2, "model_type": "qwen2_vl", "num_heads": 2, "patch_size": native.PATCH,
            "spatial_merge_size": 2, "spatial_patch_size": native.PATCH, "temporal_patch_size": 2}}
    written = native.write_others(config, ids, [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
    (HERE / "chat_template.json").write_text((HERE.parent / "qwen2.5-vl" / "chat_template.json").read_text())
    return written


def build(config):
    model = Qwen2VLForConditionalGeneration(Qwen2VLConfig(**copy.deepcopy(config))).float().eval()
    model.set_attn_implementation("eager")
    return model


class Reference(native.Reference):
    build = staticmethod(build)


native.hub_name = lambda name: name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")

if __name__ == "__main__":
    native.base.search(write_configs(native.write_tokenizer()), family="qwen2-vl", kind=Reference)
