#!/usr/bin/env python3
"""Writes this folder: a tiny Qwen3.5 with experts in the hub's layout, and reference results of transformers.

    python tests/goldens/qwen3.5-moe/make.py      # torch, transformers, safetensors, Pillow of ../README.md

Each layer has experts and a shared one with a gate; the experts of a layer are stored together. Every second layer has a
recurrence, whose output product has rows that fit q8_0's blocks. ../qwen3.5/make.py has the functions that this file
does not define.
"""
import importlib.util
from pathlib import Path

from transformers import Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("dense", HERE.parent / "qwen3.5" / "make.py")
dense = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dense)


class Reference(dense.Reference):
    most = 1e-3

    @staticmethod
    def build(config):
        model = dense.build(Qwen3_5MoeForConditionalGeneration, Qwen3_5MoeConfig, modeling_qwen3_5_moe, config)
        model.set_experts_implementation("eager")  # computes in float64 too
        return model

    def stages(self, ids, more, exact):
        stages = super().stages(ids, more, exact)
        del stages["attn"]
        return stages


if __name__ == "__main__":
    ids = dense.write_tokenizer(HERE)
    (HERE / "chat_template.jinja").write_text((dense.HERE / "chat_template.jinja").read_text())
    configs = dense.write_configs(
        ids, "Qwen3_5Moe", "qwen3_5_moe", False, 1568, num_hidden_layers=4, full_attention_interval=2, moe_intermediate_size=6,
        linear_value_head_dim=8, num_experts=6, num_experts_per_tok=2, shared_expert_intermediate_size=10,
        router_aux_loss_coef=0.001)
    dense.base.search(configs, family="qwen3.5-moe", kind=Reference)
