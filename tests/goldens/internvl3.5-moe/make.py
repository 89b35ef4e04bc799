#!/usr/bin/env python3
"""Writes this folder: a tiny InternVL3.5 with experts in the layout of transformers, and its reference results.

    python tests/goldens/internvl3.5-moe/make.py      # torch, transformers, safetensors, Pillow of ../README.md

The decoder is Qwen3's with a mixture of experts. ../internvl3.5/make.py has the functions that this file does not
define.
"""
import importlib.util
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("base", HERE.parent / "internvl3.5" / "make.py")
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)

base.HERE, base.MERGES, base.VOCAB = HERE, 8, 280
WORDS = 256 + base.MERGES
base.ZERO = [WORDS, *range(WORDS + len(base.SPECIAL + base.PLAIN), base.VOCAB)]
EXPERTS, CHOSEN = 4, 2


def write_configs(ids):
    config, preprocessor = write_dense(ids)
    config["text_config"].update({
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "head_dim": 8, "hidden_size": 24,
        "intermediate_size": 40, "num_attention_heads": 4, "moe_intermediate_size": 8, "num_experts": EXPERTS,
        "num_experts_per_tok": CHOSEN, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []})
    config["vision_config"].update({"hidden_size": 16, "intermediate_size": 24})
    base.write_json("config.json", config)
    return config, preprocessor


class Decoder(base.Decoder):
    def ffn(self, y, at):
        p = (y @ self.w[at + "gate.weight"].T).softmax(-1)
        best = p.topk(CHOSEN + 1)
        if (best.values[:, CHOSEN - 1] - best.values[:, CHOSEN]).min() < 1e-4:
            raise base.Close("an expert's choice is close")
        share = torch.zeros_like(p).scatter(1, best.indices[:, :CHOSEN], best.values[:, :CHOSEN])
        share = share / share.sum(-1, keepdim=True)
        out = torch.zeros_like(y)
        for e in range(EXPERTS):
            gate, up = (y @ self.w[at + "experts.gate_up_proj"][e].T).chunk(2, -1)
            out += share[:, e:e + 1] * ((torch.nn.functional.silu(gate) * up) @ self.w[at + "experts.down_proj"][e].T)
        return out


def build(config):
    model = build_dense(config)
    model.set_experts_implementation("eager")  # computes in float64 too
    return model


# Leaves out what ../internvl3.5 proves, and writes a matrix for each expert, as the hub does.
def write_golden(ref, golden, weights, *rest):
    for name in ("pix.tall", "fwd.value"):
        del golden.tensors[name], golden.facts[name]
    written(ref, golden, {one: part for name, value in weights.items() for one, part in base.parts(name, value)}, *rest)


write_dense, build_dense, written = base.write_configs, base.build, base.write_golden
base.Decoder, base.build, base.write_golden = Decoder, build, write_golden

if __name__ == "__main__":
    base.search(write_configs(base.write_tokenizer()), family="internvl3.5-moe")
