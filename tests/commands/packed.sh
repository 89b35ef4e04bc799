# tests/commands/packed.sh -- methods with queries, keys and values in one weight (InternLM2 in
# InternVL): with IRA or pruning, logits equal those of the same numbers in three weights (Llama).
. tests/commands/common.bash
packed=tests/goldens/internvl2-internlm2
apart=$work/apart
mkdir "$apart" "$work/ira"
cp $packed/*.json "$apart"

python3 - $packed "$apart" "$work/ira" <<'P'
import json, math, struct, sys
source, target, ira = sys.argv[1:]
WIDTH, DIM, GROUP, LAYERS, KV = 48, 8, 3, 3, 2

def write(path, tensors):
    head, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))

def layer(name, dtype, shape, data):
    if not name.endswith("attention.wqkv.weight"):
        for a, b in (("tok_embeddings", "embed_tokens"), ("feed_forward.w1", "mlp.gate_proj"),
                     ("feed_forward.w3", "mlp.up_proj"), ("feed_forward.w2", "mlp.down_proj"),
                     ("attention.wo", "self_attn.o_proj"), ("attention_norm", "input_layernorm"),
                     ("ffn_norm", "post_attention_layernorm"), ("model.output", "model.lm_head")):
            name = name.replace(a, b)
        return {name: (dtype, shape, data)}
    rows, part = len(data) // shape[0], {"q": b"", "k": b"", "v": b""}
    for head in range(shape[0] // DIM): # each key head has its queries, its key and its value
        kind = "qqqkv"[head % (GROUP + 2)]
        part[kind] += data[head * DIM * rows:(head + 1) * DIM * rows]
    return {name.replace("attention.wqkv", f"self_attn.{c}_proj"):
            (dtype, [len(part[c]) // rows, WIDTH], part[c]) for c in part}

b = open(source + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", b[:8])[0]
tensors = {}
for name, t in json.loads(b[8:8 + n]).items():
    if name == "__metadata__":
        continue
    first, last = t["data_offsets"]
    data = b[8 + n + first:8 + n + last]
    tensors |= layer(name, t["dtype"], t["shape"], data) if name.startswith("language_model.") \
        else {name: (t["dtype"], t["shape"], data)}
assert len([name for name in tensors if "self_attn.v_proj" in name]) == LAYERS
write(target + "/model.safetensors", tensors)
config = json.load(open(source + "/config.json"))
config["llm_config"] |= {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
json.dump(config, open(target + "/config.json", "w"))

numbers = lambda rows, cols: struct.pack(f"<{rows * cols}f", *[math.sin(i) / 2 for i in range(rows * cols)])
write(ira + "/extra.safetensors",
      {"ira.1.head.weight": ("F32", [DIM + 1, DIM], numbers(DIM + 1, DIM)),
       "ira.1.head.bias": ("F32", [DIM + 1], numbers(DIM + 1, 1))})
P

# Logits of a prompt with a picture.
run() { # NAME MODEL LINE...
    local name=$1 model=$2
    shift 2
    lines "/load $model" '/set compute.matmul f32' '/set kv.dtype f32' "/adapter load $work/ira" "$@" \
        "/dump logits $work/$name.safetensors" "/image $scene" "/forward What is this?"
    check "$name" 'select(.event == "error").message' ""
}

# The largest difference between two dumps.
difference() {
    python3 - "$work/$1.safetensors" "$work/$2.safetensors" <<'P'
import json, struct, sys
def read(path):
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    first, last = json.loads(b[8:8 + n])["logits"]["data_offsets"]
    return struct.unpack(f"<{(last - first) // 4}f", b[8 + n + first:8 + n + last])
a, b = read(sys.argv[1]), read(sys.argv[2])
print(max(abs(x - y) for x, y in zip(a, b)) if len(a) == len(b) else "not as many")
P
}

both() { # NAME LINE...
    local name=$1
    shift
    run "$name.packed" $packed "$@"
    run "$name.apart" "$apart" "$@"
    local d
    d=$(difference "$name.packed" "$name.apart")
    python3 -c "import sys; sys.exit(not float('$d') < 1e-5)" || fail "$name: the logits differ by $d"
    [ "$name" = plain ] || [ "$(difference plain.apart "$name.apart")" != 0.0 ] || fail "$name changes nothing"
}

both plain '/set ira.on off'
both ira '/set ira.layers 1' '/set ira.on on'
for score in contribution attention; do
    both $score "/set prune.layer 1" "/set prune.keep 0.3" "/set prune.score $score"
done
finish
