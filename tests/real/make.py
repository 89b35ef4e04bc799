#!/usr/bin/env python3
"""Prints the answers of transformers with the dequantised weights of a GGUF file: make.py FILE.gguf >answers.json

Written with transformers 5.23.0, torch 2.15.0 and gguf 0.19.0, in float32, greedy.
"""
import json, os, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer

QUESTIONS = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "List three colours.",
    "How many legs does a spider have? Answer with a number: 1234 is not it.",
    "Translate \"good morning\" into German — naïve façade, 你好.",
    "Repeat this word by word: the quick brown fox jumps over the lazy dog.",
]
folder, name = os.path.split(os.path.abspath(sys.argv[1]))
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
answers = []
for question in QUESTIONS:
    ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True,
                                        return_tensors="pt", return_dict=True)["input_ids"]
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False)[0, ids.shape[1]:].tolist()
    if out[-1] == tokenizer.eos_token_id:
        out.pop()
    answers.append({"question": question, "prompt": ids[0].tolist(), "answer": out})
print("[" + ",\n ".join(json.dumps(a, ensure_ascii=False) for a in answers) + "]")
