#!/usr/bin/env python3
"""GFLOP/s of PyTorch's bf16 products alone: what widths and numbers of rows cost without a model.

  products.py llama=576x2048x8192:32,576x8192x2048:16 kimi=...     ROWSxINNERxCOLUMNS:TIMES

Repetitions of a product use different weights, as many as fit into --memory MB, so that they come from
memory as a model's do. Prints the best of --rounds."""
import argparse, time, torch

ap = argparse.ArgumentParser()
ap.add_argument("lists", nargs="+"); ap.add_argument("--threads", type=int, default=2); ap.add_argument("--rounds", type=int, default=3); ap.add_argument("--memory", type=int, default=1000)
a = ap.parse_args()
torch.set_num_threads(a.threads)


def seconds(rows, inner, columns, times):
    copies = max(1, min(times, a.memory * 500000 // (inner * columns)))
    x = torch.randn(rows, inner, dtype=torch.bfloat16)
    weights = [torch.randn(columns, inner, dtype=torch.bfloat16) for _ in range(copies)]
    best = float("inf")
    for _ in range(a.rounds):
        start = time.perf_counter()
        for i in range(times):
            torch.nn.functional.linear(x, weights[i % copies])
        best = min(best, time.perf_counter() - start)
    return best


with torch.inference_mode():
    for named in a.lists:
        name, products = named.split("=")
        took = flops = 0
        for product in products.split(","):
            shape, times = product.split(":")
            rows, inner, columns = (int(n) for n in shape.split("x"))
            took += seconds(rows, inner, columns, int(times)); flops += 2 * rows * inner * columns * int(times)
        print(f"{name}: {flops / took / 1e9:.0f} GFLOP/s", flush=True)
