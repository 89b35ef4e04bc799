"""Writes variants.json and variants.safetensors: small matrices in the formats of quantised folders, in shapes, types and
options that the libraries' own files (extracts.*) do not show, with hashes of the numbers that numpy decodes from them.

    python3 make.py OUT_FOLDER

A case CASE has the tensors "CASE/NAME" and, in the JSON file, config.json ("config"), the dtype that its matrices have
in memory ("kept"), and by matrix the SHA-256 of its f32 numbers, negative zeros made positive ("hash"), and its shape
("shape"). Each decoding below is written from the layout's description and shares no code with core/files/quantised/.
"""
import hashlib, json, struct, sys
import numpy as np

rng = np.random.default_rng(58)
tensors, cases = {}, {}
F32 = np.float32


def bf16(x):
    bits = np.asarray(x, F32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def put(case, name, type, array, shape=None):
    """Stores floats as F32, F16 or BF16 and returns them as stored; other types keep their bytes."""
    array = np.asarray(array)
    stored = {"F32": lambda a: a.astype(F32), "F16": lambda a: a.astype(np.float16), "BF16": bf16}.get(type, lambda a: a)(array)
    tensors[case + "/" + name] = (type, list(array.shape if shape is None else shape), stored.tobytes())
    if type == "BF16":
        return (stored.astype(np.uint32) << 16).view(F32)
    return stored.astype(F32) if type in ("F32", "F16") else array


def expect(case, config, kept, **weights):
    def digest(w):
        return hashlib.sha256((np.asarray(w, F32) + F32(0)).tobytes()).hexdigest()
    cases[case] = {"config": config, "kept": kept, "hash": {n.replace("__", ".") + ".weight": digest(w) for n, w in weights.items()},
                   "shape": {n.replace("__", ".") + ".weight": list(w.shape) for n, w in weights.items()}}


def fp8(byte):
    s, e, m = byte >> 7, byte >> 3 & 15, byte & 7
    if byte & 127 == 127:
        return F32("nan")
    return F32((-1) ** s * (m * 2.0 ** -9 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7)))


FP8 = np.array([fp8(b) for b in range(256)], F32)
FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], F32)


def words(fields, bits):
    """Packs the last axis, low bits first, 32 / bits to a word."""
    per = 32 // bits
    fields = np.concatenate([fields, np.zeros(fields.shape[:-1] + (-fields.shape[-1] % per,), np.int64)], -1)
    fields = fields.reshape(fields.shape[:-1] + (-1, per)).astype(np.uint64)
    return (fields << (np.arange(per, dtype=np.uint64) * np.uint64(bits))).sum(-1, dtype=np.uint64).astype(np.uint32)


# --- FP8 --------------------------------------------------------------------------------------------------------

def fp8_case(case, out, width, scale_name, scale, type, config, of, extra=()):
    codes = rng.integers(0, 256, (out, width)).astype(np.uint8)
    codes[codes & 127 == 127] = 0
    put(case, "m.weight", "F8_E4M3", codes)
    s = put(case, "m." + scale_name, type, scale)
    if type in ("U8", "F8_E8M0"):
        s = (2.0 ** (s.astype(np.int64) - 127)).astype(F32)
    for name in extra:
        put(case, name, "F32", [1.5])
    w = np.empty((out, width), F32)
    for r in range(out):
        for c in range(width):
            w[r, c] = FP8[codes[r, c]] * (s.reshape(-1)[0] if s.size == 1 else s[of(r, c)])
    expect(case, {"quantization_config": config, "torch_dtype": "bfloat16"}, "bf16", m=w)


scales = lambda *shape: rng.uniform(.001, .02, shape)
blocks = {"quant_method": "fp8", "weight_block_size": [128, 128]}
fp8_case("fp8 edges", 130, 140, "weight_scale_inv", scales(2, 2), "F32", blocks, lambda r, c: (r // 128, c // 128), ["m.input_scale"])
fp8_case("fp8 small blocks", 50, 70, "weight_scale_inv", scales(4, 3), "BF16", {"quant_method": "fp8", "weight_block_size": [16, 32]},
         lambda r, c: (r // 16, c // 32))
fp8_case("fp8 exponents", 40, 36, "weight_scale_inv", rng.integers(110, 130, (3, 3)).astype(np.uint8), "U8",
         {"quant_method": "fp8", "weight_block_size": [16, 16], "scale_fmt": "ue8m0"}, lambda r, c: (r // 16, c // 16))
fp8_case("fp8 exponents of their own type", 20, 36, "weight_scale_inv", rng.integers(110, 130, (2, 3)).astype(np.uint8), "F8_E8M0",
         {"quant_method": "fp8", "weight_block_size": [16, 16]}, lambda r, c: (r // 16, c // 16))
fp8_case("fp8 exponents of groups", 20, 64, "weight_scale", rng.integers(110, 130, (20, 2)).astype(np.uint8), "U8", {"quant_method": "fp8"},
         lambda r, c: (r, c // 32))
fp8_case("fp8 one of one", 24, 20, "weight_scale", scales(1), "F16", {"quant_method": "fp8", "ignored_layers": ["lm_head"]}, None)
ct = lambda weights, **more: {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}, **more}
fp8_case("fp8 rows", 24, 20, "weight_scale", scales(24), "F16", ct({"num_bits": 8, "type": "float"}), lambda r, c: r)
fp8_case("fp8 columns of rows", 24, 20, "weight_scale", scales(24, 1), "F32", ct({"num_bits": 8, "type": "float"}), lambda r, c: (r, 0))
fp8_case("fp8 blocks of groups", 40, 20, "weight_scale", scales(3, 2), "BF16", ct({"type": "float", "block_structure": [16, 16]}),
         lambda r, c: (r // 16, c // 16))


# --- compressed-tensors -----------------------------------------------------------------------------------------

def packed(case, out, width, bits, group, scale_type, zeros, kept, order=None, dtype="bfloat16", scale=None):
    groups = -(-width // group)
    q = rng.integers(0, 1 << bits, (out, width))
    z = rng.integers(0, 1 << bits, (out, groups)) if zeros == "packed" else np.full((out, groups), 1 << (bits - 1))
    put(case, "m.weight_packed", "I32", words(q, bits))
    put(case, "m.weight_shape", "I64", np.array([out, width], np.int64))
    s = put(case, "m.weight_scale", scale_type, scales(out, groups) if scale is None else scale)
    if zeros == "packed":  # a word holds the zero points of several rows
        put(case, "m.weight_zero_point", "I32", words(z.T, bits).T.copy())
    if zeros == "plain":
        own = rng.integers(-8, 8, (out, groups)).astype(np.int8)
        put(case, "m.weight_zero_point", "I8", own)
        z = z + own
    of = [c // group for c in range(width)]
    if order is not None:
        put(case, "m.weight_g_idx", "I32", np.array(order, np.int32))
        of = order if min(order) >= 0 else of
    w = np.empty((out, width), F32)
    for r in range(out):
        for c in range(width):
            w[r, c] = F32(q[r, c] - z[r, of[c]]) * s[r, of[c]]
    expect(case, {"quantization_config": ct({"num_bits": bits, "type": "int", "group_size": group}, format="pack-quantized"),
                  "torch_dtype": dtype}, kept, m=w)


packed("packed rows", 20, 96, 4, 96, "BF16", None, "q4_0")
packed("packed 8 bits", 20, 96, 8, 32, "BF16", None, "q8_0")
packed("packed 8 bits, zero points", 20, 64, 8, 32, "F16", "packed", "f16", dtype="float16")
packed("packed odd sizes", 21, 100, 4, 50, "BF16", "packed", "bf16")
packed("packed f32 scales", 20, 64, 4, 32, "F32", None, "bf16")
packed("packed zero points", 21, 64, 4, 32, "BF16", "packed", "q5_0")
packed("packed plain zero points", 21, 64, 4, 32, "BF16", "plain", "q5_0")
packed("packed no order", 20, 64, 4, 32, "BF16", None, "q4_0", order=[-1] * 64)
packed("packed in order", 20, 64, 4, 32, "BF16", None, "q4_0", order=[c // 32 for c in range(64)])
packed("packed any order", 20, 64, 4, 16, "F32", "packed", "f32", order=list(rng.permutation(np.repeat(np.arange(4), 16))), dtype="float32")
packed("packed tiny scales", 20, 64, 4, 32, "BF16", None, "bf16", scale=np.full((20, 2), 3e-8))

q = rng.integers(-128, 128, (20, 64)).astype(np.int8)
q[0, :2] = -128, 127
put("int8", "m.weight", "I8", q)
s = put("int8", "m.weight_scale", "BF16", scales(20, 1))
expect("int8", {"quantization_config": ct({"num_bits": 8, "type": "int"}, format="int-quantized")}, "q8_0", m=q.astype(F32) * s)
z = rng.integers(-128, 128, (20, 1)).astype(np.int8)
put("int8 zero points", "m.weight", "I8", q)
s = put("int8 zero points", "m.weight_scale", "F16", scales(20, 1))
put("int8 zero points", "m.weight_zero_point", "I8", z)
expect("int8 zero points", {"quantization_config": ct({"num_bits": 8, "type": "int"}), "dtype": "float16"}, "f16",
       m=(q.astype(F32) - z.astype(F32)) * s)

z = rng.integers(-128, 128, 1).astype(np.int8)
put("int8 one scale", "m.weight", "I8", q)
s = put("int8 one scale", "m.weight_scale", "BF16", scales(1))
put("int8 one scale", "m.weight_zero_point", "I8", z)
expect("int8 one scale", {"quantization_config": ct({"num_bits": 8, "type": "int", "strategy": "tensor"})}, "bf16",
       m=(q.astype(F32) - F32(z[0])) * s[0])

for case, width, group in (("nvfp4", 48, 16), ("mxfp4", 96, 32)):
    q = rng.integers(0, 16, (20, width))
    put(case, "m.weight_packed", "U8", (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8))
    if case == "nvfp4":
        raw = rng.integers(40, 120, (20, width // group)).astype(np.uint8)
        put(case, "m.weight_scale", "F8_E4M3", raw)
        s = FP8[raw] / put(case, "m.weight_global_scale", "F32", [1234.5])[0]
    else:
        raw = rng.integers(110, 130, (20, width // group)).astype(np.uint8)
        put(case, "m.weight_scale", "U8", raw)
        s = (2.0 ** (raw.astype(np.int64) - 127)).astype(F32)
    expect(case, {"quantization_config": ct({"num_bits": 4, "type": "float", "group_size": group}, format=case + "-pack-quantized"),
                  "torch_dtype": "bfloat16"}, "bf16" if case == "nvfp4" else "q5_0",
           m=np.array([[FP4[q[r, c]] * s[r, c // group] for c in range(width)] for r in range(20)], F32))


# --- AWQ and GPTQ -----------------------------------------------------------------------------------------------

def awq(case, out, width, group, kept, named, scale_type="F16"):
    groups = -(-width // group)
    q, z = rng.integers(0, 16, (out, width)), rng.integers(0, 16, (out, groups))
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # field i of a word holds output 8 w + order[i]
    interleave = lambda a: words(a.T.reshape(a.shape[1], -1, 8)[:, :, order].reshape(a.shape[1], -1), 4)
    put(case, "m.qweight", "I32", interleave(q))
    put(case, "m.qzeros", "I32", interleave(z))
    s = put(case, "m.scales", scale_type, scales(groups, out))
    w = np.array([[F32(q[r, c] - z[r, c // group]) * s[c // group, r] for c in range(width)] for r in range(out)], F32)
    expect(case, {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": named, "version": "GEMM"}, "torch_dtype": "float16"},
           kept, m=w)


awq("awq rows", 24, 64, 64, "q5_0", -1)
awq("awq groups", 40, 96, 32, "q5_0", 32)
awq("awq odd widths", 16, 100, 20, "f16", 20)
awq("awq bf16", 16, 64, 32, "q5_0", 32, "BF16")


def gptq(case, out, width, bits, group, kept, config, version=1, zeros="any", order="rising"):
    groups = -(-width // group)
    top = 1 << bits
    q = rng.integers(0, top, (out, width))
    z = rng.integers(0, top, (out, groups)) if zeros == "any" else np.full((out, groups), top // 2)
    put(case, "m.qweight", "I32", words(q, bits).T.copy())
    stored = words(z.T, bits)
    if version == 1:  # minus 1 in each field, subtracted from the whole word
        stored = stored - np.uint32({4: 0x11111111, 8: 0x01010101}[bits])
    put(case, "m.qzeros", "I32", stored)
    s = put(case, "m.scales", "F16", scales(groups, out))
    of = np.array([c // group for c in range(width)], np.int32)
    if order == "any":
        of = rng.permutation(of)
    if order != "none":
        put(case, "m.g_idx", "I32", of)
    w = np.array([[F32(q[r, c] - z[r, of[c]]) * s[of[c], r] for c in range(width)] for r in range(out)], F32)
    expect(case, {"quantization_config": {"quant_method": "gptq", "bits": bits, **config}, "torch_dtype": "float16"}, kept, m=w)


gptq("gptq rows", 24, 64, 4, 64, "q4_0", {"group_size": -1, "sym": True}, zeros="middle")
gptq("gptq zero points", 24, 96, 4, 32, "q5_0", {"group_size": 32})
gptq("gptq without g_idx", 24, 72, 4, 32, "f16", {"group_size": 32}, order="none")
gptq("gptq 8 bits", 24, 64, 8, 32, "q8_0", {"group_size": 32, "checkpoint_format": "gptq"}, zeros="middle")
gptq("gptq 8 bits, zero points", 24, 64, 8, 32, "f16", {"group_size": 32})
gptq("gptq second version", 24, 64, 4, 32, "q5_0", {"group_size": 32, "checkpoint_format": "gptq_v2"}, version=2)
gptq("gptq second version, 8 bits", 24, 64, 8, 16, "f16", {"group_size": 16, "checkpoint_format": "gptq_v2"}, version=2)
gptq("gptq any order", 24, 64, 4, 16, "f16", {"group_size": 16, "desc_act": True}, order="any")


# --- bitsandbytes -----------------------------------------------------------------------------------------------

def bnb(case, out, width, block, kind, storage="U8", nested=0, dtype="bfloat16", kept="bf16"):
    n = out * width
    q = rng.integers(0, 16, n)
    raw = (q[0::2] << 4 | q[1::2]).astype(np.uint8)  # the upper half first
    size = {"U8": 1, "BF16": 2, "F32": 4}[storage]
    raw = np.concatenate([raw, np.zeros(-len(raw) % size, np.uint8)])
    tensors[case + "/m.weight"] = (storage, [len(raw) // size, 1], raw.tobytes())
    levels = put(case, "m.weight.quant_map", "F32", np.sort(rng.uniform(-1, 1, 16)) if kind == "nf4" else FP4 / 6)
    count = -(-n // block)
    state = {"quant_type": kind, "blocksize": block, "dtype": dtype, "shape": [out, width]}
    if nested:
        a8 = rng.integers(0, 256, count).astype(np.uint8)
        put(case, "m.weight.absmax", "U8", a8)
        map8 = put(case, "m.weight.nested_quant_map", "F32", rng.uniform(-1, 1, 256))
        outer = put(case, "m.weight.nested_absmax", "F32", rng.uniform(.01, .02, -(-count // nested)))
        state |= {"nested_blocksize": nested, "nested_dtype": "float32", "nested_offset": 0.05}
        scale = [map8[a8[b]] * outer[b // nested] + F32(0.05) for b in range(count)]
    else:
        scale = put(case, "m.weight.absmax", "F32", rng.uniform(.01, .1, count))
    text = json.dumps(state).encode()
    tensors[case + "/m.weight.quant_state.bitsandbytes__" + kind] = ("U8", [len(text)], text)
    w = np.array([levels[q[k]] * scale[k // block] for k in range(n)], F32).reshape(out, width)
    expect(case, {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind},
                  "torch_dtype": dtype}, kept, m=w)


bnb("nf4 across rows", 22, 40, 64, "nf4")
bnb("nf4 larger blocks", 22, 40, 128, "nf4", dtype="float16", kept="f16")
bnb("nf4 nested, in f32", 22, 41, 64, "nf4", storage="F32", nested=4)
bnb("fp4", 16, 64, 64, "fp4")
q = rng.integers(-127, 128, (20, 50)).astype(np.int8)
put("llm.int8", "m.weight", "I8", q)
s = put("llm.int8", "m.SCB", "F32", rng.uniform(.1, 1, 20))
put("llm.int8", "m.weight_format", "U8", np.array(0, np.uint8))
expect("llm.int8", {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "bf16",
       m=q.astype(F32) * s[:, None] * F32(7.874015718698502e-3))


# --- MLX --------------------------------------------------------------------------------------------------------

def mlx(case, out, width, bits, group, type, kept, config, dtype, flat=False):
    groups = width // group
    q = rng.integers(0, 1 << bits, (out, width))
    s, b = scales(out, groups), rng.uniform(-.1, .1, (out, groups))
    if flat:  # an unused row, as MLX writes it
        q[1], s[1], b[1] = 0, 1e-7, 0
    put(case, "m.weight", "U32", words(q, bits))
    s, b = put(case, "m.scales", type, s), put(case, "m.biases", type, b)
    # The product of a scale of 16 bits is exact in float32, so that one rounding or two do not matter.
    w = np.array([[F32(np.float64(q[r, c]) * np.float64(s[r, c // group]) + np.float64(b[r, c // group])) for c in range(width)]
                  for r in range(out)], F32)
    expect(case, {"quantization": config, "quantization_config": config, "torch_dtype": dtype}, kept, m=w)


mlx("mlx", 20, 128, 4, 64, "BF16", "q4_1", {"group_size": 64, "bits": 4}, "bfloat16", flat=True)
mlx("mlx f16", 20, 96, 4, 32, "F16", "q4_1", {"group_size": 32, "bits": 4, "mode": "affine"}, "float16")
mlx("mlx 8 bits", 20, 128, 8, 64, "F16", "f16", {"group_size": 64, "bits": 8}, "float16")
mlx("mlx of its own", 20, 128, 8, 32, "BF16", "bf16", {"group_size": 64, "bits": 4, "m": {"group_size": 32, "bits": 8}}, "bfloat16")

header, data = {}, b""
for name, (type, shape, raw) in tensors.items():
    header[name] = {"dtype": type, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
with open(sys.argv[1] + "/variants.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
with open(sys.argv[1] + "/variants.json", "w") as f:
    json.dump(cases, f, indent=1)
