#!/usr/bin/env python3
"""Compresses a golden's large files for the repository: pack.py tests/goldens/NAME...

Rounds the numbers of golden.safetensors to multiples of the largest power of two that is at most an eighth of the
tensor's `tol`: no number moves by more than a sixteenth of `tol`, and the file shrinks by a quarter. Tensors of at most
EXACT numbers keep theirs, as does IRA's noise, which is an input. Weights also stay beside their .xz file, where git
ignores them."""

import array, glob, json, lzma, math, os, struct, sys

EXACT = 256


def read(path):
    if os.path.exists(path):
        with open(path, "rb") as f:
            return f.read()
    with lzma.open(path + ".xz") as f:
        return f.read()


def rounded(tensors, facts):
    n = struct.unpack("<Q", tensors[:8])[0]
    header = json.loads(tensors[8 : 8 + n])
    data = bytearray(tensors[8 + n :])
    for name, t in header.items():
        begin, end = t.get("data_offsets", (0, 0))
        tol = facts.get(name, {}).get("tol", 0)
        if t.get("dtype") != "F32" or end - begin <= 4 * EXACT or not tol or name.endswith(".eps"):
            continue
        step = 2.0 ** math.floor(math.log2(tol / 8))
        values = array.array("f", data[begin:end])
        data[begin:end] = array.array("f", (round(v / step) * step if math.isfinite(v) else v for v in values)).tobytes()
    return tensors[: 8 + n] + bytes(data)


def pack(path, data):
    """Keeps the shortest result of a few LZMA settings: the best ones differ for numbers of two and four bytes."""
    tried = [
        lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6 | lzma.PRESET_EXTREME, "lc": lc, "lp": lp, "pb": pb}])
        for lc, lp, pb in ((3, 0, 2), (0, 2, 2), (2, 2, 2), (0, 1, 1), (3, 1, 1))
    ]
    with open(path + ".xz", "wb") as f:
        f.write(min(tried, key=len))


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        facts = read(folder + "/golden.json")
        tensors = rounded(read(folder + "/golden.safetensors"), json.loads(facts)["tensors"])
        pack(folder + "/golden.json", facts)
        pack(folder + "/golden.safetensors", tensors)
        for weights in glob.glob(folder + "/model*.safetensors"):
            pack(weights, read(weights))
        for plain in glob.glob(folder + "/golden.*[!z]"):
            os.remove(plain)
