#!/usr/bin/env python3
"""Writes this folder: a tiny SmolVLM in the hub's layout, and reference results of transformers.

    python tests/goldens/smolvlm/make.py      # torch, transformers, safetensors, Pillow of ../README.md

The tiles (20 pixels) are smaller than the pictures of the table of positions (30), so that patches take the positions
of their places. ../internvl3.5/make.py has the functions that this file does not define.
"""
import importlib.util
import json
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoTokenizer, Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("base", HERE.parent / "internvl3.5" / "make.py")
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)

MERGES = 40  # of the tokenizer of ../internvl3
BEFORE = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
AFTER = (["<global-img>"] + [f"<row_{r}_col_{c}>" for r in (1, 2) for c in (1, 2)] +
         ["<fake_token_around_image>", "<image>", "<end_of_utterance>"])
VOCAB, TILE = 312, 20
PICTURES = base.PICTURES

base.HERE = HERE
base.ZERO = [2, *range(len(BEFORE) + 256 + MERGES + len(AFTER), VOCAB)]
base.TEXT, base.HEAD = "model.text_model.", "model.text_model.embed_tokens.weight"
base.EPS, base.THETA = 1e-5, 1e5
base.hub_name = lambda name: name
base.pixel_input = lambda pixels: torch.cat(pixels)[None]
base.CHATS["second_picture"] = [base.user("wide", "Describe the image.")]
base.CHATS["two_images"] = [base.user("wide", "tall", "How do these two differ?")]


def write_tokenizer():
    whole = json.loads((HERE.parent / "internvl3" / "tokenizer.json").read_text())
    merges = whole["model"]["merges"][:MERGES]
    words = [w for w, i in sorted(whole["model"]["vocab"].items(), key=lambda item: item[1])][: 256 + MERGES]
    vocab = {w: i for i, w in enumerate(BEFORE + words)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": i, "content": w, **flags} for i, w in enumerate(BEFORE)]
    added += [{"id": len(vocab) + i, "content": w, **flags} for i, w in enumerate(AFTER)]
    (HERE / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<|endoftext|>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": merges}}, ensure_ascii=False, separators=(",", ":")) + "\n")
    base.write_json("tokenizer_config.json", {
        "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added},
        "additional_special_tokens": ["<fake_token_around_image>", "<image>", "<end_of_utterance>"],
        "bos_token": "<|im_start|>", "eos_token": "<end_of_utterance>", "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>", "clean_up_tokenization_spaces": False, "model_max_length": 8192,
        "processor_class": "Idefics3Processor", "tokenizer_class": "GPT2Tokenizer"})
    return {t["content"]: t["id"] for t in added}


TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")


def write_configs(ids):
    config = {
        "architectures": ["Idefics3ForConditionalGeneration"], "model_type": "idefics3", "scale_factor": 2,
        "image_token_id": ids["<image>"], "pad_token_id": 2, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "text_config": {
            "architectures": ["VLlama3ForCausalLM"], "model_type": "llama", "attention_bias": False,
            "bos_token_id": 1, "eos_token_id": 2, "head_dim": 8, "hidden_act": "silu", "hidden_size": 32,
            "intermediate_size": 56, "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False,
            "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": 2,
            "qk_layer_norms": False, "rms_norm_eps": 1e-05, "rope_interleaved": False, "rope_scaling": None,
            "rope_theta": 100000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_resampler": False,
            "vocab_size": VOCAB},
        "vision_config": {
            "model_type": "idefics3", "hidden_act": "gelu_pytorch_tanh", "hidden_size": 24, "image_size": 30,
            "intermediate_size": 40, "layer_norm_eps": 1e-06, "max_image_size": {"longest_edge": TILE},
            "num_attention_heads": 2, "num_channels": 3, "num_hidden_layers": 2, "patch_size": 5,
            "size": {"longest_edge": 2 * TILE}, "use_base_siglip": True}}
    base.write_json("config.json", config)
    base.write_json("generation_config.json", {"bos_token_id": 1, "eos_token_id": ids["<end_of_utterance>"],
                                               "pad_token_id": 2})
    preprocessor = {
        "do_convert_rgb": True, "do_image_splitting": True, "do_normalize": True, "do_pad": True, "do_rescale": True,
        "do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "image_processor_type": "Idefics3ImageProcessor", "max_image_size": {"longest_edge": TILE},
        "processor_class": "Idefics3Processor", "resample": 1, "rescale_factor": 1 / 255,
        "size": {"longest_edge": 2 * TILE}}
    base.write_json("preprocessor_config.json", preprocessor)
    base.write_json("processor_config.json", {"image_seq_len": 4, "processor_class": "Idefics3Processor"})
    base.write_json("chat_template.json", {"chat_template": TEMPLATE})
    return config, preprocessor


def build(config):
    model = Idefics3ForConditionalGeneration(Idefics3Config(**json.loads(json.dumps(config)))).float().eval()
    model.set_attn_implementation("eager")
    return model


def vision_stream(model, pixels):
    """As in ../internvl3.5/make.py."""
    seen, last, inner, hooks = [], [], [], []
    layers, keep = model.model.vision_model.encoder.layers, lambda x: x[0] if isinstance(x, tuple) else x
    for block in layers:
        hooks.append(block.register_forward_pre_hook(
            lambda m, a, k: seen.append(a[0] if a else k["hidden_states"]), with_kwargs=True))
    hooks.append(layers[-1].register_forward_hook(lambda m, a, o: last.append(keep(o))))
    hooks.append(model.model.connector.modality_projection.register_forward_pre_hook(lambda m, a: inner.append(a[0])))
    features = model.model.get_image_features(pixels[None])
    for h in hooks:
        h.remove()
    features = getattr(features, "pooler_output", features)
    features = features if torch.is_tensor(features) else torch.cat(list(features))
    return seen + last, inner[0].flatten(0, 1), features.reshape(-1, features.shape[-1])


class Reference(base.Reference):
    def __init__(self, config, preprocessor, seed):
        self.config = config
        self.model = build(config)
        base.draw(self.model, seed)
        self.tokenizer = AutoTokenizer.from_pretrained(HERE)
        picture = Idefics3ImageProcessorPil(**{k: v for k, v in preprocessor.items() if k != "image_processor_type"})
        self.processor = Idefics3Processor(picture, self.tokenizer, image_seq_len=4)
        self.weights = {k: v for k, v in self.model.state_dict().items() if k != "lm_head.weight"}
        self.plain = {t: base.Decoder(self.weights, config, t) for t in (torch.float32, torch.float64)}

    def picture(self, name):
        return Image.open(PICTURES / (name + (".jpg" if name == "tall" else ".png"))).convert("RGB")

    def pixels(self, picture):
        return self.processor.image_processor(images=[self.picture(picture)], return_tensors="pt")["pixel_values"][0]

    def prompt(self, name, generation=True):
        messages = base.CHATS[name]
        text = self.tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, add_generation_prompt=generation,
                                                  tokenize=False)
        names = [p["picture"] for m in messages for p in m["content"] if "picture" in p]
        shown = {"images": [[self.picture(n) for n in names]]} if names else {}
        ids = self.processor(text=text, add_special_tokens=False, return_tensors="pt", **shown)["input_ids"][0]
        return text, ids, [self.pixels(n) for n in names]


base.build, base.vision_stream = build, vision_stream

if __name__ == "__main__":
    base.search(write_configs(write_tokenizer()), family="smolvlm", kind=Reference)
