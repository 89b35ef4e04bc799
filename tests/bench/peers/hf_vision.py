#!/usr/bin/env python3
"""Times the vision encoder of transformers in the shape of a folder's config, with random weights.

The input is a picture of WIDTHxHEIGHT at native resolution, or --tiles tiles. Qwen2.5-VL's and GLM-4.1V's
classes include the merger, the others have no projector (1 to 2% of the work)."""
import argparse, json, time, torch
import transformers as hf

ap = argparse.ArgumentParser()
ap.add_argument("folder"); ap.add_argument("picture"); ap.add_argument("--tiles", type=int, default=0)
ap.add_argument("--dtype", default="f32", choices=["f32", "bf16"]); ap.add_argument("--threads", type=int, default=2); ap.add_argument("--rounds", type=int, default=2)
a = ap.parse_args()
torch.set_num_threads(a.threads)
config = json.load(open(f"{a.folder}/config.json")); v = config["vision_config"]; kind = config["model_type"]
dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[a.dtype]


def build():
    if kind == "kimi_vl":  # not in transformers; Kimi-K2.5's encoder is the same for pictures
        keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "patch_size")
        c = hf.models.kimi_k25.configuration_kimi_k25.Kimi_K25VisionConfig(**{k: v[k] for k in keys})
        return hf.models.kimi_k25.modeling_kimi_k25.Kimi_K25VisionModel, c
    c = hf.AutoConfig.from_pretrained(a.folder).vision_config
    return {"qwen2_5_vl": hf.models.qwen2_5_vl.modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel,
            "glm4v": hf.models.glm4v.modeling_glm4v.Glm4vVisionModel, "internvl": hf.InternVLVisionModel,
            "llava_onevision": hf.SiglipVisionModel}[kind], c


def inputs(c):
    if a.tiles:
        side = c.image_size if isinstance(c.image_size, int) else c.image_size[0]
        return {"pixel_values": torch.randn(a.tiles, 3, side, side, dtype=dtype)}
    patch = v.get("patch_size", 14)
    cols, rows = (2 * round(int(n) / (2 * patch)) for n in a.picture.split("x"))
    grid = torch.tensor([[1, rows, cols]])
    if kind == "kimi_vl":
        return {"pixel_values": torch.randn(rows * cols, 3, patch, patch, dtype=dtype), "grid_thw": grid}
    return {"hidden_states": torch.randn(rows * cols, 3 * 2 * patch * patch, dtype=dtype), "grid_thw": grid}


kind_class, c = build()
c._attn_implementation = "sdpa"
torch.set_default_dtype(dtype)
model = kind_class(c).eval()
x = inputs(c)
best = float("inf")
with torch.inference_mode():
    for _ in range(a.rounds):
        start = time.perf_counter(); model(**x); best = min(best, time.perf_counter() - start)
print(f"picture-{a.dtype} {best:.4g}")
