#!/usr/bin/env python3
"""Measures the loss that a quantised file's weights cause, and llama.cpp's additional loss from rounding activations.

    rounding.py ids ORIGINAL.gguf TEXT IDS.npy             tokens of a text
    rounding.py llama FILE.gguf IDS.npy OUT.npy            logits of llama.cpp (llama-cpp-python)
    rounding.py compare ORIGINAL.gguf FILE.gguf IDS.npy [LLAMA.npy]

`compare` computes the logits of both files in transformers on dequantised weights (float32), and those of FILE
again with the inputs of each product rounded as llama.cpp rounds them. For weights in blocks of 32 (Q8_0), it rounds to
1/127 of the largest of 32 numbers, a unit stored in f16; for weights in blocks of 256 (Q4_K, Q6_K), to 1/127 of the
largest of 256, with the opposite sign. Written with transformers 5.23.0, torch 2.15.0, gguf 0.19.0 and llama-cpp-python 0.3.36.
"""
import os, re, sys
import numpy as np

PARTS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def read(path):
    from transformers import AutoModelForCausalLM
    import torch
    folder, name = os.path.split(os.path.abspath(path))
    return AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()


def round_32(x):
    import torch
    b = x.reshape(-1, 32)
    unit = b.abs().amax(1, keepdim=True) / 127
    q = torch.where(unit > 0, b / unit, 0)
    return (q.sign() * (q.abs() + 0.5).floor() * unit.half().float()).reshape(x.shape)  # ties are rounded away from zero


def round_256(x):
    import torch
    b = x.reshape(-1, 256)
    most = b.gather(1, b.abs().argmax(1, keepdim=True))
    inverse = torch.where(most != 0, -127 / most, 0)
    return torch.where(most != 0, (b * inverse).round().clamp(max=127) / inverse, 0).reshape(x.shape)


def weight_type(types, module):
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", module)
    if found:
        return types[f"blk.{found[1]}.{PARTS[found[2]]}.weight"]
    return types.get("output.weight", types["token_embd.weight"])


def round_activations(model, path):
    """Returns how many products are rounded in blocks of 32 and of 256."""
    import gguf, torch
    types = {t.name: t.tensor_type.name for t in gguf.GGUFReader(path).tensors}
    counts = [0, 0]
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear):
            continue
        kind = weight_type(types, name)
        if kind in ("F32", "F16", "BF16"):
            continue
        of_256 = kind.endswith("_K") or kind == "IQ4_XS"
        counts[of_256] += 1
        module.register_forward_pre_hook(lambda m, args, f=round_256 if of_256 else round_32: (f(args[0]),))
    return counts


def logits(model, ids):
    import torch
    with torch.no_grad():
        return model(torch.tensor(ids)[None]).logits[0].double().numpy()


def compare(name, a, b):
    """Prints KL(a || b) and the share of equal likeliest tokens, of all and of those where a's first two are at least 0.02
    apart; where they differ, how far apart the two are in a at most."""
    log = lambda x: x - x.max(1, keepdims=True) - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))
    la, lb = log(a), log(b)
    kl = (np.exp(la) * (la - lb)).sum(1)
    rows, other = np.arange(len(a)), lb.argmax(1)
    same = la.argmax(1) == other
    gap = np.exp(la.max(1)) - np.exp(la[rows, other])
    sure = np.exp(la.max(1)) - np.exp(np.partition(la, -2, 1)[:, -2]) >= 0.02
    print(f"{name}: {len(a)} positions, KL {kl.mean():.6f}, same likeliest token {same.mean():.1%}; "
          f"where they differ, {gap.max():.3f} of probability at most lie between the two; "
          f"where the first two are 0.02 apart ({sure.sum()}) {same[sure].mean():.1%}", flush=True)


def main(what, *args):
    if what == "ids":
        from transformers import AutoTokenizer
        folder, name = os.path.split(os.path.abspath(args[0]))
        np.save(args[2], AutoTokenizer.from_pretrained(folder, gguf_file=name)(open(args[1]).read())["input_ids"])
    elif what == "llama":
        from llama_cpp import Llama
        ids = np.load(args[1]).tolist()
        m = Llama(args[0], n_ctx=len(ids) + 8, n_batch=len(ids), n_ubatch=len(ids), logits_all=True, verbose=False)
        m.eval(ids)
        np.save(args[2], np.array(m.scores[:len(ids)], dtype=np.float32))
    elif what == "compare":
        ids = np.load(args[2])
        original = logits(read(args[0]), ids)
        small = read(args[1])
        exact = logits(small, ids)
        print("products rounded in blocks of 32 and of 256:", round_activations(small, args[1]))
        rounded = logits(small, ids)
        compare("original, file", original, exact)
        compare("original, file with rounded activations", original, rounded)
        compare("file, file with rounded activations", exact, rounded)
        if len(args) > 3:
            llama = np.load(args[3]).astype(np.float64)
            compare("original, file in llama.cpp", original, llama)
            compare("file, file in llama.cpp", exact, llama)
            compare("file with rounded activations, file in llama.cpp", rounded, llama)


main(*sys.argv[1:])
