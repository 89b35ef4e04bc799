#!/bin/bash
# Counts the kernels launched per answer token on the emulated GPU: the fused forms in each layer, and
# three around the layers. The count rises if a part falls back to single ops or quantised weights are
# not read as they are stored.
. tests/commands/common.bash
case ${VLMSH_CUDA:-} in *cuda_host*) ;; *) echo "SKIPPED: needs the emulated GPU"; exit 77 ;; esac

# kernels FOLDER TOKENS: prints the kernels of a whole answer.
kernels() {
    rm -f "$work/report"
    CUDA_HOST_REPORT=$work/report vlmsh "$1" --device cuda -c "/set sample.max_tokens $2" \
        -c '/set sample.ignore_eos on' -c '/set sample.lookahead off' -c 'What is this?' >"$work/told" 2>&1 ||
        fail "$1: $(cat "$work/told")"
    jq .kernels "$work/report"
}

# check_token FOLDER LAYERS EACH [FIRST]: expects EACH kernels in each layer, but FIRST in the first
# one.
check_token() {
    local few many
    few=$(kernels "$1" 4)
    many=$(kernels "$1" 14)
    same "${1##*/}: kernels of ten tokens" $((many - few)) $((10 * (3 + ${4:-$3} + ($2 - 1) * $3)))
}
check_token tests/goldens/llama-3.2 4 5
check_token tests/goldens/internvl2-internlm2 3 5
check_token tests/goldens/internvl3.5 3 6 # normed heads
check_token tests/goldens/glm-4.1v 3 7    # a norm after each of two products
check_token tests/goldens/kimi-text 4 9 7 # five over the latents, four for the experts

# wide OUT: a text model whose rows are whole blocks of q4_k; its numbers are arbitrary.
wide() {
    cp -r tests/goldens/llama-3.2 "$1"
    python3 - "$1" <<'P'
import json, random, struct, sys
folder, d, layers = sys.argv[1], 256, 2
config = json.load(open(f"{folder}/config.json"))
config.update(hidden_size=d, intermediate_size=d, head_dim=64, num_hidden_layers=layers)
json.dump(config, open(f"{folder}/config.json", "w"))
shapes = {"model.embed_tokens.weight": (config["vocab_size"], d), "model.norm.weight": (d,)}
for layer in range(layers):
    for name, rows in ("self_attn.q_proj", d), ("self_attn.k_proj", d // 2), ("self_attn.v_proj", d // 2), \
            ("self_attn.o_proj", d), ("mlp.gate_proj", d), ("mlp.up_proj", d), ("mlp.down_proj", d):
        shapes[f"model.layers.{layer}.{name}.weight"] = (rows, d)
    for name in "input_layernorm", "post_attention_layernorm":
        shapes[f"model.layers.{layer}.{name}.weight"] = (d,)
header, at, data, noise = {}, 0, [], random.Random(1)
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    data.append(b"".join(struct.pack("<f", noise.uniform(-1, 1))[2:] for _ in range(count)))
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * count]}
    at += 2 * count
text = json.dumps(header).encode()
open(f"{folder}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data))
P
}

# answer DEVICE FILE: prints the tokens of an answer in f32.
answer() {
    vlmsh "$2" --device "$1" --json -c '/set compute.matmul f32' -c '/set kv.dtype f32' \
        -c '/set sample.max_tokens 12' -c '/set sample.ignore_eos on' -c 'What is this?' |
        jq -c 'select(.event == "answer").ids'
}

# GGUF files: quantised weights, and llama.cpp's order of the rows of queries and keys.
wide "$work/wide"
for type in bf16 q8_0 q4_k; do
    vlmsh quantize "$work/wide" "$work/$type.gguf" --type $type >"$work/told" 2>&1 || fail "$type: $(cat "$work/told")"
    check_token "$work/$type.gguf" 2 5
    same "$type: an answer as on the CPU" "$(answer cuda "$work/$type.gguf")" "$(answer cpu "$work/$type.gguf")"
done
finish
