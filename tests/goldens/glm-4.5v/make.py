#!/usr/bin/env python3
"""Writes this folder: a tiny GLM-4.5V in the hub's layout, and reference results of transformers.

    python tests/goldens/glm-4.5v/make.py      # torch, transformers, safetensors, Pillow of ../README.md

One dense layer, two with experts; the routers' biases decide some choices. chat_template.jinja is kept.
../qwen3-vl-moe/make.py has the functions that this file does not define.
"""
import copy
import importlib.util
import json
from pathlib import Path

import torch
from transformers import Glm4vMoeConfig, Glm4vMoeForConditionalGeneration
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("native", HERE.parent / "qwen3-vl-moe" / "make.py")
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
base = native.base
native.HERE = base.HERE = HERE

MERGES, VOCAB, PATCH = 4, 272, 7
SPECIAL = ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|begin_of_image|>",
           "<|end_of_image|>", "<|image|>"]
PLAIN = ["<think>", "</think>"]
native.WORDS = 256 + MERGES
base.ZERO = [native.WORDS, *range(native.WORDS + len(SPECIAL + PLAIN), VOCAB)]


def write_tokenizer():
    whole = json.loads((HERE.parent / "glm-4.1v" / "tokenizer.json").read_text())
    model = whole["model"]
    words = [w for w, i in sorted(model["vocab"].items(), key=lambda item: item[1])][:native.WORDS]
    model["vocab"], model["merges"] = {w: i for i, w in enumerate(words)}, model["merges"][:MERGES]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    whole["added_tokens"] = [{"id": len(words) + i, "content": w, **flags, "special": w in SPECIAL}
                             for i, w in enumerate(SPECIAL + PLAIN)]
    (HERE / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    base.write_json("tokenizer_config.json", {
        "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in whole["added_tokens"]},
        "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "clean_up_tokenization_spaces": False,
        "model_max_length": 65536, "processor_class": "Glm4vProcessor", "tokenizer_class": "PreTrainedTokenizerFast"})
    return {t["content"]: t["id"] for t in whole["added_tokens"]}


def write_configs(ids):
    ends = [ids["<|endoftext|>"], ids["<|user|>"]]
    config = {
        "architectures": ["Glm4vMoeForConditionalGeneration"], "model_type": "glm4v_moe", "eos_token_id": ends,
        "image_token_id": ids["<|image|>"], "image_start_token_id": ids["<|begin_of_image|>"],
        "image_end_token_id": ids["<|end_of_image|>"], "tie_word_embeddings": False, "dtype": "bfloat16",
        "text_config": {
            "attention_bias": True, "first_k_dense_replace": 1, "head_dim": 12, "hidden_act": "silu", "hidden_size": 24,
            "intermediate_size": 20, "max_position_embeddings": 65536, "model_type": "glm4v_moe_text",
            "moe_intermediate_size": 8, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 1,
            "norm_topk_prob": True, "num_attention_heads": 2, "num_experts_per_tok": 2, "num_hidden_layers": 3,
            "num_key_value_heads": 1, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05,
            "rope_scaling": {"mrope_section": [1, 1, 1], "rope_type": "default"}, "rope_theta": 10000.0,
            "routed_scaling_factor": 1.5, "topk_group": 1, "use_qk_norm": False, "vocab_size": VOCAB},
        "vision_config": {
            "attention_bias": False, "depth": 2, "hidden_act": "silu", "hidden_size": 16, "image_size": 28,
            "in_channels": 3, "intermediate_size": 20, "model_type": "glm4v_moe_vision", "num_heads": 2,
            "out_hidden_size": 24, "patch_size": PATCH, "rms_norm_eps": 1e-05, "spatial_merge_size": 2,
            "temporal_patch_size": 2}}
    preprocessor = {
        "size": {"shortest_edge": 784, "longest_edge": 3920}, "do_rescale": True, "patch_size": PATCH,
        "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711], "processor_class": "Glm4vProcessor",
        "image_processor_type": "Glm4vImageProcessor"}
    base.write_json("config.json", config)
    base.write_json("generation_config.json", {"eos_token_id": ends})
    base.write_json("preprocessor_config.json", preprocessor)
    return config, {k: v for k, v in preprocessor.items() if k != "processor_class"}


def build(config):
    model = Glm4vMoeForConditionalGeneration(Glm4vMoeConfig(**copy.deepcopy(config))).float().eval()
    model.set_experts_implementation("eager")  # computes in float64 too
    model.set_attn_implementation("eager")
    g = torch.Generator().manual_seed(1)
    for name, bias in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            bias.copy_((0.2 * torch.randn(bias.shape, generator=g)).to(torch.bfloat16).float())
    return model


class Reference(native.Reference):
    build, word, processing = staticmethod(build), "<|image|>", Glm4vImageProcessorPil

    def template(self):
        return (HERE / "chat_template.jinja").read_text()

    def stages(self, ids, more, exact):
        stages = super().stages(ids, more, exact)
        del stages["attn"]
        return stages


# Refuses weights whose logits differ much between the precisions: these then chose different
# experts. Writes a matrix for each expert, as the hub does.
def write_golden(ref, golden, weights, *rest):
    if max(f["tol"] for n, f in golden.facts.items() if "logits" in n) > 1e-3:
        raise base.Close("an expert's choice is close")
    whole = {}
    for name, value in weights.items():
        for one, part in base.parts(name, value):
            whole[one] = part
    written(ref, golden, whole, *rest)


native.stored = lambda name, value: value
written, base.write_golden = base.write_golden, write_golden

if __name__ == "__main__":
    base.search(write_configs(write_tokenizer()), family="glm-4.5v", kind=Reference)
