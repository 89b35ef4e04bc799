#!/usr/bin/env python3
"""Writes blocks of weights of each type and the numbers that the package gguf reads from them.

    pip install gguf==0.19.0
    python3 tests/goldens/blocks/make.py        # from the root; writes blocks.bin
    python3 tests/goldens/blocks/make.py 1000 /tmp/many.bin     # 1000 times 256 numbers of each type

For each type in the order of kernels/tensor.h: the bytes of 256 numbers, then the numbers in f32.
All bits are random except those of the scales d and m, of which some are 0, subnormal, negative or large.
"""
import os
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

HERE = os.path.dirname(os.path.abspath(__file__))
# The offsets of f16 values in a block.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}
ODD = [0.0, 3e-7, -0.0123, 0.0371, 6e-5, -2e-6, 0.5, 1000.0]


def blocks_of(name, n, random):
    numbers, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = random.integers(0, 256, (n * 256 // numbers, size), dtype=np.uint8)
    for i, at in enumerate(HALVES[name]):
        scales = random.permutation(np.resize(ODD[::-1] if i else ODD[2:] + ODD[:2], len(blocks))).astype(np.float16)
        blocks[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks


random = np.random.default_rng(17)
count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
with open(sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "blocks.bin"), "wb") as out:
    for name in HALVES:
        blocks = blocks_of(name, count, random)
        out.write(blocks.tobytes())
        out.write(dequantize(blocks.reshape(-1), GGMLQuantizationType[name]).tobytes())
