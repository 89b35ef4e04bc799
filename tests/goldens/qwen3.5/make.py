#!/usr/bin/env python3
"""Writes this folder: a tiny Qwen3.5 in the hub's layout, and reference results of transformers.

    python tests/goldens/qwen3.5/make.py      # torch, transformers, safetensors, Pillow of ../README.md

Two of every three layers have a recurrence; two value heads share a key head. The decoder is dense; the encoder has no
DeepStack. The embedding is the output head, as in the models of up to 4B. chat_template.jinja is kept.
../qwen3-vl-moe/make.py has the functions that this file does not define.
"""
import copy
import importlib.util
import json
from pathlib import Path

import torch
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5 import modeling_qwen3_5

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("native", HERE.parent / "qwen3-vl-moe" / "make.py")
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
base = native.base

MERGES, VOCAB = 4, 272
PLAIN = ["<think>", "</think>"]
F32 = ("A_log", "linear_attn.norm.weight")  # the hub's files keep these in float32


def write_tokenizer(here):
    whole = json.loads((HERE / "tokenizer.json").read_text())
    model = whole["model"]
    words = [w for w, i in sorted(model["vocab"].items(), key=lambda item: item[1])][:256 + MERGES]
    model["vocab"], model["merges"] = {w: i for i, w in enumerate(words)}, model["merges"][:MERGES]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    whole["added_tokens"] = [{"id": len(words) + i, "content": w, **flags, "special": w in native.SPECIAL}
                             for i, w in enumerate(native.SPECIAL + PLAIN)]
    native.WORDS, native.HERE, base.HERE = len(words), here, here
    base.ZERO = [len(words), *range(len(words) + len(whole["added_tokens"]), VOCAB)]
    (here / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    base.write_json("tokenizer_config.json", {
        "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in whole["added_tokens"]},
        "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
        "clean_up_tokenization_spaces": False, "model_max_length": 262144, "processor_class": "Qwen3VLProcessor",
        "tokenizer_class": "Qwen2Tokenizer"})
    return {t["content"]: t["id"] for t in whole["added_tokens"]}


def write_configs(ids, name="Qwen3_5", kind="qwen3_5", tied=True, pixels=3136, **text):
    ends = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    config = {
        "architectures": [f"{name}ForConditionalGeneration"], "model_type": kind, **native.ids_of(ids),
        "text_config": {
            "attention_bias": False, "attn_output_gate": True, "dtype": "bfloat16", "eos_token_id": ends[0], "head_dim": 8,
            "hidden_act": "silu", "hidden_size": 16, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 4,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 5, "mamba_ssm_dtype": "float32",
            "max_position_embeddings": 262144, "mlp_only_layers": [], "model_type": f"{kind}_text",
            "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "num_attention_heads": 2,
            "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
            "rope_parameters": {"mrope_interleaved": True, "mrope_section": [1, 1, 1], "partial_rotary_factor": 0.75,
                                "rope_theta": 10000000, "rope_type": "default"},
            "tie_word_embeddings": tied, "vocab_size": VOCAB, **text},
        "tie_word_embeddings": tied,
        "vision_config": {
            "deepstack_visual_indexes": [], "depth": 2, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 16,
            "in_channels": 3, "intermediate_size": 20, "model_type": kind, "num_heads": 2, "num_position_embeddings": 16,
            "out_hidden_size": 16, "patch_size": 7, "spatial_merge_size": 2, "temporal_patch_size": 2}}
    config["text_config"]["layer_types"] = [
        "full_attention" if (i + 1) % text["full_attention_interval"] == 0 else "linear_attention"
        for i in range(text["num_hidden_layers"])]
    preprocessor = {"size": {"longest_edge": pixels, "shortest_edge": 784}, "patch_size": 7, "temporal_patch_size": 2,
                    "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "processor_class": "Qwen3VLProcessor",
                    "image_processor_type": "Qwen2VLImageProcessorFast"}
    base.write_json("config.json", config)
    base.write_json("generation_config.json", {"bos_token_id": ends[1], "eos_token_id": ends})
    base.write_json("preprocessor_config.json", preprocessor)
    return config, {k: v for k, v in preprocessor.items() if k != "processor_class"}


def in_float64(theirs):
    """The delta rule, token by token if its arguments are float64; `theirs` rounds them to float32."""
    def rule(q, k, v, g, beta, **more):
        if q.dtype != torch.float64:
            return theirs(q, k, v, g=g, beta=beta, **more)
        each = v.shape[2] // k.shape[2]
        unit = lambda x: (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(each, 2)
        q, k, state, out = unit(q) / q.shape[-1] ** 0.5, unit(k), 0, []
        for i in range(q.shape[1]):
            state = state * g[:, i, :, None, None].exp()
            seen = (state * k[:, i, :, :, None]).sum(2) if i else 0
            state = state + k[:, i, :, :, None] * ((v[:, i] - seen) * beta[:, i, :, None])[:, :, None]
            out.append((state * q[:, i, :, :, None]).sum(2))
        return torch.stack(out, 1), state
    return rule


def build(kind, configuration, modeling, config):
    if modeling.torch_chunk_gated_delta_rule.__name__ != "rule":
        modeling.torch_chunk_gated_delta_rule = in_float64(modeling.torch_chunk_gated_delta_rule)
    model = kind(configuration(**copy.deepcopy(config))).float().eval()
    model.set_attn_implementation("eager")
    return model


# Norms multiply by 1 + w, except those of the encoder and of the recurrence's outputs.
def draw(model, seed):
    drawn(model, seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm.weight" in name.replace("layernorm", "norm") and "visual" not in name and "linear_attn" not in name:
                p.copy_((p - 1).to(torch.bfloat16).float())


class Reference(native.Reference):
    frozen, most = ("A_log", "dt_bias"), 4e-3  # most: largest tolerance of logits

    @staticmethod
    def build(config):
        return build(Qwen3_5ForConditionalGeneration, Qwen3_5Config, modeling_qwen3_5, config)

    def template(self):
        return (HERE / "chat_template.jinja").read_text()


def write_weights(tensors, path, **more):
    for name, value in tensors.items():
        if name.endswith(F32):
            tensors[name] = value.float()
    saved(tensors, path, **more)


def write_golden(ref, golden, weights, *rest):
    if max(f["tol"] for n, f in golden.facts.items() if "logits" in n) > ref.most:
        raise base.Close("rounding errors grow, or an expert's choice is close")
    if ref.config["tie_word_embeddings"]:
        del weights["lm_head.weight"]
    written(ref, golden, weights, *rest)


native.stored = lambda name, value: value
drawn, base.draw = base.draw, draw
saved, base.save_file = base.save_file, write_weights
written, base.write_golden = base.write_golden, write_golden

if __name__ == "__main__":
    base.search(write_configs(write_tokenizer(HERE), intermediate_size=20, num_hidden_layers=6, full_attention_interval=3,
                              linear_key_head_dim=8, linear_value_head_dim=8),
                family="qwen3.5", kind=Reference)
