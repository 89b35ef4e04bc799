"""Writes the variants of tests/goldens/quantised as seeds: one file per case, with config.json in its metadata."""
import json, lzma, pathlib, struct, sys

goldens = pathlib.Path("tests/goldens/quantised")
cases = json.loads(lzma.open(goldens / "variants.json.xz").read())
raw = lzma.open(goldens / "variants.safetensors.xz").read()
size, = struct.unpack_from("<Q", raw)
tensors = json.loads(raw[8:8 + size])
for case, about in cases.items():
    header, data = {"__metadata__": {"config": json.dumps(about["config"])}}, b""
    if "quantization" in about["config"]:
        header["__metadata__"]["format"] = "mlx"
    for name, t in tensors.items():
        if name.startswith(case + "/"):
            from_, to = (8 + size + at for at in t["data_offsets"])
            header[name[len(case) + 1:]] = {**t, "data_offsets": [len(data), len(data) + to - from_]}
            data += raw[from_:to]
    text = json.dumps(header).encode()
    (pathlib.Path(sys.argv[1]) / case.replace(" ", "_")).write_bytes(struct.pack("<Q", len(text)) + text + data)
