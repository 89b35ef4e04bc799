#!/usr/bin/env python3
"""Writes this folder: a tiny Mistral Small 3.1 in the hub's layout, and reference results of transformers.

    python tests/goldens/mistral3/make.py      # torch, transformers, safetensors, Pillow of ../README.md

The decoder has no norms of queries and keys. Pictures of any size are not tiled; each visual token joins 2 x 2 patches,
and a row of visual tokens ends in [IMG_BREAK]. `ministral` is the first prompt with Ministral 3's decoder.
../internvl3.5/make.py has the functions that this file does not define.
"""
import copy
import importlib.util
import json
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoTokenizer, Mistral3Config, Mistral3ForConditionalGeneration
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("base", HERE.parent / "internvl3.5" / "make.py")
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)

SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
           "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
           "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
MERGES, VOCAB = 32, 312  # merges of the tokenizer of ../internvl3
PATCH, IMAGE, LONGEST, MERGE = 4, 48, 24, 2
SPLIT = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
         "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"
         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]

base.HERE = HERE
base.ZERO = [11, *range(len(SPECIAL) + 256 + MERGES, VOCAB)]
base.EPS, base.THETA = 1e-5, 1e9
base.CHATS["wide"] = [base.user("wide", "Describe the image.")]


def write_tokenizer():
    whole = json.loads((HERE.parent / "internvl3" / "tokenizer.json").read_text())
    words = [w for w, i in sorted(whole["model"]["vocab"].items(), key=lambda item: item[1])][: 256 + MERGES]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": i, "content": w, **flags} for i, w in enumerate(SPECIAL)]
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    (base.HERE / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": {"type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {w: i for i, w in enumerate(SPECIAL + words)}, "merges": whole["model"]["merges"][:MERGES]}},
        ensure_ascii=False, separators=(",", ":")) + "\n")
    base.write_json("tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
        "unk_token": "<unk>", "clean_up_tokenization_spaces": False, "model_max_length": 131072,
        "processor_class": "PixtralProcessor", "tokenizer_class": "PreTrainedTokenizerFast"})


TEMPLATE = (
    "{%- macro words(content) -%}{%- if content is string %}{{- content }}{%- else -%}{%- for item in content -%}"
    "{%- if item['type'] == 'text' %}{{- item['text'] }}{%- elif item['type'] in ['image', 'image_url'] %}"
    "{{- '[IMG]' }}{%- endif -%}{%- endfor -%}{%- endif -%}{%- endmacro -%}{{- bos_token }}"
    "{%- set ns = namespace(start=0) -%}{%- if messages[0]['role'] == 'system' -%}"
    "{{- '[SYSTEM_PROMPT]' + words(messages[0]['content']) + '[/SYSTEM_PROMPT]' }}{% set ns.start = 1 -%}"
    "{%- else -%}{{- '[SYSTEM_PROMPT]Help.[/SYSTEM_PROMPT]' }}{%- endif -%}"
    "{%- for message in messages[ns.start:] -%}{%- if message['role'] == 'user' -%}"
    "{{- '[INST]' + words(message['content']) + '[/INST]' }}{%- elif message['role'] == 'system' -%}"
    "{{- '[SYSTEM_PROMPT]' + words(message['content']) + '[/SYSTEM_PROMPT]' }}"
    "{%- elif message['role'] == 'assistant' -%}{{- words(message['content']) + eos_token }}"
    "{%- else -%}{{- raise_exception('Only user, system and assistant roles are supported!') }}{%- endif -%}"
    "{%- endfor -%}")


def text_config():
    return {"attention_dropout": 0.0, "head_dim": 12, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02,
            "intermediate_size": 24, "max_position_embeddings": 131072, "model_type": "mistral",
            "num_attention_heads": 2, "num_hidden_layers": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-05,
            "rope_theta": 1000000000.0, "sliding_window": None, "use_cache": True, "vocab_size": VOCAB}


def vision_config():
    return {"attention_dropout": 0.0, "head_dim": 8, "hidden_act": "silu", "hidden_size": 16, "image_size": IMAGE,
            "initializer_range": 0.02, "intermediate_size": 20, "model_type": "pixtral", "num_attention_heads": 2,
            "num_channels": 3, "num_hidden_layers": 2, "patch_size": PATCH, "rope_theta": 10000.0}


def write_others(config):
    base.write_json("config.json", config)
    base.write_json("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})
    preprocessor = {
        "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": MEAN,
        "image_processor_type": "PixtralImageProcessorFast", "image_std": STD,
        "patch_size": {"height": PATCH, "width": PATCH}, "processor_class": "PixtralProcessor", "resample": 3,
        "rescale_factor": 1 / 255, "size": {"longest_edge": LONGEST}}
    base.write_json("preprocessor_config.json", preprocessor)
    processor = {"image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]", "image_token": "[IMG]",
                 "patch_size": PATCH, "processor_class": "PixtralProcessor"}
    if "spatial_merge_size" in config:
        processor["spatial_merge_size"] = config["spatial_merge_size"]
    base.write_json("processor_config.json", processor)
    base.write_json("chat_template.json", {"chat_template": TEMPLATE})
    return config, preprocessor


def write_configs():
    return write_others({
        "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10, "model_type": "mistral3",
        "multimodal_projector_bias": False, "projector_hidden_act": "gelu", "spatial_merge_size": MERGE,
        "text_config": text_config(), "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vision_config": vision_config(), "vision_feature_layer": -1})


def build(config):
    config = {k: v for k, v in copy.deepcopy(config).items() if k != "image_token_id"}
    model = Mistral3ForConditionalGeneration(Mistral3Config(**config)).float().eval()
    model.set_attn_implementation("eager")
    return model


def vision_stream(model, pixels):
    """As in ../internvl3.5/make.py, of one picture [1, 3, H, W]."""
    seen, last, inner, hooks = [], [], [], []
    layers = model.model.vision_tower.transformer.layers
    for block in layers:
        hooks.append(block.register_forward_pre_hook(
            lambda m, a, k: seen.append(a[0] if a else k["hidden_states"]), with_kwargs=True))
    hooks.append(layers[-1].register_forward_hook(lambda m, a, o: last.append(o[0] if isinstance(o, tuple) else o)))
    hooks.append(model.model.multi_modal_projector.register_forward_pre_hook(
        lambda m, a, k: inner.append(a[0] if a else k["image_features"]), with_kwargs=True))
    features = model.model.get_image_features(pixels, image_sizes=torch.tensor([pixels.shape[-2:]]))
    for h in hooks:
        h.remove()
    features = getattr(features, "pooler_output", features)
    features = features if torch.is_tensor(features) else torch.cat(list(features))
    width = model.config.vision_config.hidden_size
    return seen + last, inner[0].reshape(-1, width), features.reshape(-1, features.shape[-1])


def batch(pixels):
    """Pictures [1, 3, H, W] of several sizes, padded with zeros, and their sizes."""
    sizes = torch.tensor([list(p.shape[-2:]) for p in pixels])
    whole = torch.zeros(len(pixels), 3, *sizes.max(0).values.tolist(), dtype=pixels[0].dtype)
    for i, p in enumerate(pixels):
        whole[i, :, : p.shape[-2], : p.shape[-1]] = p[0]
    return {"pixel_values": whole, "image_sizes": sizes}


class Reference(base.Reference):
    build = staticmethod(build)
    unit = PATCH * MERGE  # pixels along a side of a visual token
    more = staticmethod(lambda golden, ref, exact: add_ministral(golden, ref, exact))

    def __init__(self, config, preprocessor, seed):
        self.config = {**config, "image_token_id": 10}
        self.model = self.build(config)
        base.draw(self.model, seed)
        self.tokenizer = AutoTokenizer.from_pretrained(base.HERE)
        self.processor = PixtralImageProcessorPil(**{k: v for k, v in preprocessor.items() if k != "image_processor_type"})
        self.weights = {base.hub_name(k): v for k, v in self.model.state_dict().items()}
        self.plain = {t: base.Decoder(self.weights, config, t) for t in (torch.float32, torch.float64)}

    def picture(self, name):
        return Image.open(base.PICTURES / (name + (".jpg" if name == "tall" else ".png"))).convert("RGB")

    def pixels(self, picture):
        return self.processor(images=[self.picture(picture)], patch_size={"height": self.unit, "width": self.unit},
                              return_tensors="pt")["pixel_values"]

    def prompt(self, name, generation=True):
        messages = base.CHATS[name]
        text = self.tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, add_generation_prompt=generation,
                                                  tokenize=False)
        pixels = [self.pixels(p["picture"]) for m in messages for p in m["content"] if "picture" in p]
        parts, full = text.split("[IMG]"), ""
        for i, part in enumerate(parts):  # as PixtralProcessor.replace_image_token, which needs torchvision
            full += part
            if i < len(pixels):
                rows, cols = (n // self.unit for n in pixels[i].shape[-2:])
                full += "[IMG_BREAK]".join(["[IMG]" * cols] * rows) + "[IMG_END]"
        return text, self.tokenizer(full, add_special_tokens=False, return_tensors="pt")["input_ids"][0], pixels

    def forward(self, ids, pixels, **more):
        return self.model(input_ids=ids[None], **(batch(pixels) if pixels else {}), **more)


def add_chats(golden, ref, exact):
    for name in ("second_picture", "two_images", "two_turn", "text_only", "wide"):
        _, ids, pixels = ref.prompt(name)
        visual = torch.zeros(0, ref.config["text_config"]["hidden_size"])
        if pixels:
            visual = torch.cat([vision_stream(exact, p.double())[2] for p in pixels])
        logits64, _ = ref.plain[torch.float64].run(base.embed(ref, ids, visual, torch.float64))
        golden.add(f"fwd_{name}.input_ids", ids)
        golden.add(f"fwd_{name}.position_ids", torch.arange(len(ids))[None])
        golden.add(f"fwd_{name}.logits_last", ref.forward(ids, pixels).logits[0, -1], logits64[-1])
        golden.add(f"fwd_{name}.gen_ids", ref.greedy(ids, pixels, 8)[0])
    ref.more(golden, ref, exact)


MINISTRAL = {"model_type": "ministral3", "rope_parameters": {
    "beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "llama_4_scaling_beta": 0.1, "mscale": 1.0,
    "mscale_all_dim": 1.0, "original_max_position_embeddings": 16, "rope_theta": 1000000.0, "rope_type": "yarn"}}


def add_ministral(golden, ref, exact):
    """The same weights with Ministral 3's decoder, whose queries grow after position 16."""
    text = {k: v for k, v in ref.config["text_config"].items() if k != "rope_theta"}
    both, kept = [], ref.model
    _, ids, pixels = ref.prompt("single")
    for of in (ref.model, exact):
        ref.model = ref.build({**ref.config, "text_config": {**text, **MINISTRAL}}).to(next(of.parameters()).dtype)
        ref.model.load_state_dict(of.state_dict())
        both.append(ref.forward(ids, [p.to(ref.model.dtype) for p in pixels]).logits[0])
        if of is kept:
            tokens = ref.greedy(ids, pixels, 8)[0]
    ref.model = kept
    golden.add("ministral.logits_last", both[0][-1], both[1][-1])
    golden.add("ministral.gen_ids", tokens)


def sample_loss(model, ref, name):
    """As in ../internvl3.5/make.py."""
    text, ids, pixels = ref.prompt(name, False)
    messages = base.CHATS[name]
    base.CHATS["_prompt"] = messages[:-1]
    start = len(ref.prompt("_prompt")[1])
    del base.CHATS["_prompt"]
    labels = ids.clone()
    labels[:start] = -100
    dtype = next(model.parameters()).dtype
    logits = model(input_ids=ids[None], **batch([p.to(dtype) for p in pixels])).logits[0]
    return torch.nn.functional.cross_entropy(logits[:-1], labels[1:]), ids, labels, start


base.build, base.vision_stream, base.add_chats, base.sample_loss = build, vision_stream, add_chats, sample_loss

if __name__ == "__main__":
    write_tokenizer()
    base.search(write_configs(), family="mistral3", kind=Reference)
