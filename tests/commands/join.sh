# tests/commands/join.sh -- /new --encoder --decoder: joins encoders and language models of several
# kinds; the written files and the refusals (core/new/join*.c).
. tests/commands/common.bash
goldens=tests/goldens

# join ENCODER DECODER OUT [OPTION...]
join() {
    vlmsh new --encoder "$1" --decoder "$2" "$3" "${@:4}" >"$work/out" 2>&1 || fail "$1 + $2: $(tail -1 "$work/out")"
}

# refused WORDS OPTION...: these options fail with these words.
refused() {
    ! vlmsh new "${@:2}" >"$work/out" 2>&1 || fail "accepted: ${*:2}"
    grep -qF -- "$1" "$work/out" || fail "${*:2}: $(tail -1 "$work/out")"
}

# sees MODEL: answers a question about a picture.
sees() {
    vlmsh "$1" -c '/set sample.max_tokens 2' -c '/image demo/pictures/scene-1.png' -c 'What is it?' >"$work/out" 2>&1 ||
        fail "$1: $(tail -1 "$work/out")"
}

# weights OUT ENCODER DECODER SCALE: OUT has the weights of both in bf16, a mean row for a new token, and a projector
# drawn from the expected range.
weights() {
    python3 - "$@" <<'P'
import json, math, struct, sys
def read(folder):
    raw = open(folder + "/model.safetensors", "rb").read()
    n, = struct.unpack_from("<Q", raw)
    out = {}
    for k, t in json.loads(raw[8:8 + n]).items():
        if k == "__metadata__": continue
        a, b = t["data_offsets"]
        data = raw[8 + n + a:8 + n + b]
        if t["dtype"] == "F16":
            data = struct.pack(f"<{len(data) // 2}f", *struct.unpack(f"<{len(data) // 2}e", data))
        if t["dtype"] in ("F16", "F32"):  # rounds to bf16, ties to even
            bits = struct.unpack(f"<{len(data) // 4}I", data)
            data = struct.pack(f"<{len(bits)}H", *[(x + 0x7fff + (x >> 16 & 1)) >> 16 for x in bits])
        out[k] = (t["shape"], data)
    return out
def floats(data):
    return [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in struct.unpack(f"<{len(data) // 2}H", data)]
out, encoder, decoder = map(read, sys.argv[1:4])
scale = float(sys.argv[4])
text = lambda k: k if k.startswith("language_model.") else "language_model." + k
for k, v in encoder.items():
    if "vision_tower." in k and "position_ids" not in k:
        assert out[k] == v, k
for k, (shape, data) in decoder.items():
    if "vision_tower." in k or "multi_modal" in k: continue
    there, has = out[text(k)]
    if "embed_tokens" in k or "lm_head" in k:
        assert has[:len(data)] == data and there[1] == shape[1], k
        if there[0] > shape[0]:  # the new row is the mean of all rows
            x, new = floats(data), floats(has[len(data):])
            for c in range(shape[1]):
                mean = sum(x[c::shape[1]]) / shape[0]
                assert abs(new[c] - mean) <= 1e-5 + abs(mean) / 128, (k, c)
    else:
        assert (there, has) == (shape, data), k
for layer, factor in (("1", 1), ("2", scale)):
    shape, data = out[f"multi_modal_projector.linear_{layer}.weight"]
    bound = factor / math.sqrt(shape[1])
    x = floats(data) + floats(out[f"multi_modal_projector.linear_{layer}.bias"][1])
    assert max(map(abs, x)) <= bound * 1.01, layer
    spread = math.sqrt(sum(v * v for v in x) / len(x))
    assert abs(spread - bound / math.sqrt(3)) < 0.1 * bound or not bound, (layer, spread, bound)
P
}

# --- CLIP and SigLIP, Qwen2 and Llama; the placeholder is a new or an existing token ----------------------------
join $goldens/llava-1.5 $goldens/qwen2 "$work/a" --scale 0.5
weights "$work/a" $goldens/llava-1.5 $goldens/qwen2 0.5 || fail "weights differ: CLIP and Qwen2"
[ "$(jq .image_token_index "$work/a/config.json")" = "$(jq '[.added_tokens[] | select(.content == "<image>")][0].id' "$work/a/tokenizer.json")" ] ||
    fail "the id of <image> differs"
sees "$work/a"
join demo/model $goldens/llava-1.5 "$work/b"
weights "$work/b" demo/model $goldens/llava-1.5 1 || fail "weights differ: the demo model's encoder and Llama"
sees "$work/b"
join $goldens/kimi-vl $goldens/llama-3.2 "$work/moon"
sees "$work/moon"

# /tokenize <image> works; models joined with the same decoder give the same text answer.
join $goldens/llava-1.5 $goldens/llava-1.5 "$work/bf16"
vlmsh "$work/b" -c '/tokenize <image>' >"$work/out" 2>&1 || fail "/tokenize: $(tail -1 "$work/out")"
for model in "$work/b" "$work/bf16"; do
    vlmsh "$model" -c '/set compute.matmul f32' -c '/set sample.max_tokens 12' -c 'Say something.' 2>/dev/null | head -1
done >"$work/said"
[ "$(sort -u "$work/said" | wc -l)" = 1 ] || fail "text answers differ: $(cat "$work/said")"

# --- GGUF files hold the same decoder: Llama's rows are permuted, Llama 3's frequencies are in a table --
# Llama 3's frequencies get a name in config.json if they are the published ones.
cp -r $goldens/llama-3.2 "$work/llama-3.2"
jq '.rope_scaling.original_max_position_embeddings = 8192' $goldens/llama-3.2/config.json >"$work/llama-3.2/config.json"
for decoder in "$work/llama-3.2" $goldens/qwen2; do
    name=${decoder##*/}
    vlmsh quantize "$decoder" "$work/$name.gguf" --type bf16 >"$work/out" 2>&1 || fail "$name: $(tail -1 "$work/out")"
    join demo/model "$decoder" "$work/$name-folder"
    join demo/model "$work/$name.gguf" "$work/$name-file"
    cmp "$work/$name-folder/model.safetensors" "$work/$name-file/model.safetensors" || fail "$name: weights differ"
    for model in folder file; do
        vlmsh "$work/$name-$model" -c '/set sample.max_tokens 8' -c '/image demo/pictures/scene-1.png' -c 'Wo ist 1234?' 2>/dev/null | tail -1
    done >"$work/said"
    [ "$(sort -u "$work/said" | wc -l)" = 1 ] || fail "$name: answers differ: $(cat "$work/said")"
done
[ "$(jq -r .text_config.rope_scaling.rope_type "$work/llama-3.2-file/config.json")" = llama3 ] || fail "the scaling has no name"
vlmsh quantize $goldens/llama-3.2 "$work/other.gguf" --type bf16 >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
refused "cannot express its rotary scaling" --encoder demo/model --decoder "$work/other.gguf" "$work/x"

# --- seeds and --once -------------------------------------------------------------------------------------------
join $goldens/llava-1.5 $goldens/qwen2 "$work/again" --scale 0.5
cmp "$work/a/model.safetensors" "$work/again/model.safetensors" || fail "the same seed gives different weights"
join $goldens/llava-1.5 $goldens/qwen2 "$work/other" --seed 7
! cmp -s "$work/a/model.safetensors" "$work/other/model.safetensors" || fail "a different seed gives the same weights"
join $goldens/llava-1.5 $goldens/qwen2 "$work/again" --once
grep -q 'already holds a model' "$work/out" || fail "--once does not report the existing model"
vlmsh new --encoder demo/model --decoder $goldens/qwen2 --dry >"$work/out" || fail "--dry fails"
grep -q '^projector' "$work/out" || fail "--dry: $(cat "$work/out")"

# --- one linear layer ------------------------------------------------------------------------------------------
join $goldens/llava-1.5 $goldens/qwen2 "$work/linear" --linear
same "tensors of a projector of one layer" "$(grep -ao 'multi_modal_projector\.[a-z_0-9]*' "$work/linear/model.safetensors" | sort -u)" multi_modal_projector.linear
vlmsh "$work/linear" -c '/set sample.max_tokens 2' -c '/image demo/pictures/scene-1.png' -c 'What is it?' >"$work/out" 2>&1 ||
    fail "linear: $(tail -1 "$work/out")"

# --- merged features: a quarter of the visual tokens; the projector reads four features at a time ---------------
join demo/model $goldens/qwen2 "$work/merged" --merge 2
weights "$work/merged" demo/model $goldens/qwen2 1 || fail "weights differ: merged"
vlmsh "$work/merged" -c '/set compute.matmul f32' -c "/dump v* $work/merged.safetensors" -c '/set sample.max_tokens 2' \
    -c '/image demo/pictures/scene-1.png' -c 'What is it?' -c '/attention' >"$work/out" 2>&1 || fail "merged: $(tail -1 "$work/out")"
python3 - "$work/merged.safetensors" "$work/merged/model.safetensors" <<'P' || fail "merged: visual tokens differ"
import json, math, struct, sys
def read(path):
    raw = open(path, "rb").read()
    n, = struct.unpack_from("<Q", raw)
    out = {}
    for k, t in json.loads(raw[8:8 + n]).items():
        if k == "__metadata__": continue
        a, b = t["data_offsets"]
        data = raw[8 + n + a:8 + n + b]
        if t["dtype"] == "BF16":
            x = [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in struct.unpack(f"<{len(data) // 2}H", data)]
        elif t["dtype"] == "F32":
            x = struct.unpack(f"<{len(data) // 4}f", data)
        else: continue
        out[k] = t["shape"], x
    return out
dump, model = map(read, sys.argv[1:3])
(rows, width), h = dump["vision.layer.4.0"]  # patches row by row, 12 per row
(tokens, D), v = dump["visual.0"]
assert (rows, width, tokens) == (144, 192, 36), (rows, width, tokens)
def linear(name, x):
    (out, inputs), w = model[f"multi_modal_projector.{name}.weight"]
    b = model[f"multi_modal_projector.{name}.bias"][1]
    assert inputs == len(x), (name, inputs)
    return [b[o] + sum(w[o * inputs + i] * x[i] for i in range(inputs)) for o in range(out)]
for token in (0, 7, 35):
    r, c = token // 6 * 2, token % 6 * 2
    x = [h[(y * 12 + z) * width + k] for y in (r, r + 1) for z in (c, c + 1) for k in range(width)]
    y = linear("linear_2", [t * (1 + math.erf(t / math.sqrt(2))) / 2 for t in linear("linear_1", x)])
    assert all(abs(a - b) <= 1e-3 + 1e-3 * abs(b) for a, b in zip(v[token * D:(token + 1) * D], y)), token
P
# Pictures are not tiled, whatever the encoder's own model did with them.
for encoder in llava-next llava-onevision; do
    rm -rf "$work/whole"
    vlmsh new --encoder $goldens/$encoder --decoder $goldens/llama-3.2 "$work/whole" >/dev/null 2>&1 || fail "$encoder"
    same "$encoder's processor" "$(vlmsh "$work/whole" -c /info 2>&1 >/dev/null | grep 'not used')" ""
done
refused "all experts of a layer in one tensor cannot be joined" --encoder demo/model --decoder $goldens/qwen3.5-moe "$work/x"
refused "does not divide the 12 patches" --encoder demo/model --decoder $goldens/qwen2 --merge 5 "$work/x"
refused "--linear: the projector of '$goldens/kimi-vl' always has two layers" --encoder $goldens/kimi-vl --decoder $goldens/qwen2 \
    --linear "$work/x"
refused "merges its features itself" --encoder $goldens/kimi-vl --decoder $goldens/qwen2 --merge 2 "$work/x"
refused "--merge must be" --encoder demo/model --decoder $goldens/qwen2 --merge 0 "$work/x"
vlmsh quantize "$work/merged" "$work/merged.gguf" --type q8_0 >"$work/out" 2>&1 || fail "merged: $(tail -1 "$work/out")"
grep -q "its features are merged" "$work/out" || fail "merged, as GGUF: $(tail -1 "$work/out")"

# --- refusals ----------------------------------------------------------------------------------------------------
refused "give --decoder MODEL, the language model" --encoder demo/model "$work/x"
refused "give --encoder MODEL, the picture encoder" --decoder demo/model "$work/x"
refused "cannot be combined with --encoder" --encoder demo/model --decoder demo/model --like tiny "$work/x"
refused "has no CLIP, SigLIP or MoonViT encoder" --encoder $goldens/qwen2.5-vl --decoder $goldens/qwen2 "$work/x"
refused "has no CLIP, SigLIP or MoonViT encoder" --encoder $goldens/qwen2 --decoder $goldens/qwen2 "$work/x"
refused "--decoder: no folder" --encoder demo/model --decoder /nowhere/model "$work/x"
refused "--scale must be a number from 0 to 100" --encoder demo/model --decoder demo/model --scale -1 "$work/x"
refused "already exists" --encoder demo/model --decoder demo/model "$work/a"
[ ! -e "$work/x" ] || fail "a refused join leaves a folder"
finish
