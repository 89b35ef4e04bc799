#!/usr/bin/env python3
"""Compares adapters of a small model and of its original, in PEFT and in vlmsh:
adapters.py VLMSH ORIGINAL.gguf SMALL.gguf FOLDER

One adapter is trained by vlmsh on SMALL, one by PEFT on ORIGINAL's weights; each is used on both files, in
vlmsh and in PEFT on the dequantised weights, and the logits of one prompt are compared. FOLDER gets the files.
Written with transformers 5.23.0, torch 2.15.0, peft 0.21 and gguf 0.19.0.
"""
import json, os, subprocess, sys
import numpy as np, torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

vlmsh, original, small, folder = sys.argv[1], *map(os.path.abspath, sys.argv[2:5])
os.makedirs(folder, exist_ok=True)
SAMPLES = [("What does the lamp do?", "It turns slowly above the sea."), ("Who lives here?", "A keeper with two cats.")]


def read(path, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path), dtype=dtype)


def run(model, *lines):
    args = sum((["-c", l] for l in ("/set compute.matmul f32", "/set kv.dtype f32") + lines), [])
    done = subprocess.run([vlmsh, model, "--db", f"{folder}/vlmsh.db"] + args, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{model}: {done.stdout[-300:]}{done.stderr[-300:]}")


tokenizer = AutoTokenizer.from_pretrained(os.path.dirname(original), gguf_file=os.path.basename(original))
ids = tokenizer("The lamp turned slowly above the sea, and the keeper wrote in his book.")["input_ids"]


def ours(model, adapter):
    run(model, *([f"/adapter load {adapter}"] if adapter else []), f"/dump logits {folder}/logits.safetensors", "/set sample.max_tokens 1",
        "/raw " + " ".join(map(str, ids)))
    return load_file(f"{folder}/logits.safetensors")["logits"]


def theirs(path, adapter):
    model = PeftModel.from_pretrained(read(path), adapter).eval()
    with torch.no_grad():
        return model(torch.tensor(ids)[None]).logits[0].numpy()


def train_ours(to):
    with open(f"{folder}/data.json", "w") as f:
        json.dump([{"id": i, "question": q, "answer": a} for i, (q, a) in enumerate(SAMPLES)], f)
    run(small, "/set train.params lora:*:8", "/set train.steps 4", "/set train.lr 2e-3", f"/train {folder}/data.json {to}", "/wait")


def train_theirs(to):
    torch.manual_seed(1)
    model = get_peft_model(read(original), LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM", target_modules=[
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    for _ in range(2):
        for q, a in SAMPLES:
            text = torch.tensor(tokenizer(q + " " + a)["input_ids"])[None]
            model(text, labels=text).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(to)


train_ours(f"{folder}/ours")
train_theirs(f"{folder}/theirs")
failed = False
for name, path in (("original", original), ("small", small)):
    plain = ours(path, None)
    for adapter in "ours", "theirs":
        a, b = ours(path, f"{folder}/{adapter}"), theirs(path, f"{folder}/{adapter}")
        a = a[-len(b):]
        b = b[-len(a):]
        off, moved = (float(np.abs(x).max() / np.abs(b).max()) for x in (a - b, a - plain[-len(a):]))
        print(f"adapter trained by {'vlmsh on the small file' if adapter == 'ours' else 'PEFT on the original'}, used on the {name}: "
              f"{off:.1e} of the largest logit between vlmsh and PEFT; the adapter moves {moved:.1e}", flush=True)
        failed |= off > 2e-4 or moved < 10 * off
sys.exit(failed)
