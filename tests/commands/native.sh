# native.sh -- LLaVA with an encoder of native resolution, from `vlmsh new` to a trained model: a chat
# about two pictures, methods, norm alignment, a heat map, training with IRA, a whole model; adapters
# of Mistral Small.
. tests/commands/common.bash
vlmsh new --like tiny-moonvit "$work/m" >/dev/null || fail "vlmsh new fails"
cp tests/goldens/pictures/{scene,wide}.png "$work"
for i in 1 2 3 4; do
    printf '{"image": "%s.png", "question": "What is %d?", "answer": "It is %d."}\n' \
        "$([ $((i % 2)) = 0 ] && echo scene || echo wide)" $i $((i * i))
done >"$work/data.jsonl"

# A patch has 12 x 12 pixels, a visual token 2 x 2 patches.
lines "/load $work/m" "/set sample.max_tokens 4" "/image $work/scene.png" "/image $work/wide.png" \
    "What?" "/set prune.score contribution" "/set norm.align on" "What then?" /attention
check "visual tokens of two sizes" 'select(.event=="notice").text | capture(", (?<n>[0-9]+) visual").n' $'6\n14'
check "shapes of two maps" 'select(.event=="heatmap") | "\(.rows)x\(.cols)"' $'2x3\n2x7'
check "no error" 'select(.event=="error").message' ""

# image.max_tokens applies to a waiting picture and to the pictures of training.
lines "/load $work/m" "/set image.max_tokens 4" "/image $work/wide.png" "/set image.max_tokens 0" \
    "/context" "/set image.max_tokens 4" "/context" "/data check $work/data.jsonl"
check "visual tokens that wait" 'select(.event=="table" and .name=="context") | .rows[0][2]' $'14\n4'
check "visual tokens of the data" 'select(.name=="data tokens").rows[] | select(.[1]=="visual") | .[-1]' 4
lines "/load $work/m" "/set job.nice 0" "/set image.max_tokens 4" "/set train.steps 2" "/set train.ira on" \
    "/set train.method connector" "/train $work/data.jsonl $work/ira" /wait \
    "/set train.ira off" "/set train.method all" "/train $work/data.jsonl $work/all" /wait \
    "/adapter load $work/ira" "/image $work/wide.png" "What?" "/load $work/all" "/image $work/wide.png" \
    "What?"
check "no error" 'select(.event=="error").message' ""
check "the whole model has the encoder" 'select(.event=="notice").text | capture(", (?<n>[0-9]+) visual").n' $'4\n4'
grep -q '"moonvit"' "$work/all/config.json" || fail "config.json of the trained model does not name moonvit"

# Mistral Small: LoRA of the decoder with a trained projector is loaded, unloaded and merged.
mistral=tests/goldens/mistral3
lines "/load $mistral" "/set job.nice 0" "/set train.steps 2" "/set train.lr 0.01" \
    "/set train.params lora:*:2; *multi_modal_projector*" "/train $work/data.jsonl $work/lora" /wait \
    "/adapter load $work/lora" "/adapter merge $work/merged" "/set train.method layernorm" \
    "/train $work/data.jsonl $work/norms" /wait
check "no error" 'select(.event=="error").message' ""
asked() { # MODEL DUMP [LINE...]
    answer "$1" "$2" "${@:3}" -c "/image $work/wide.png"
}
asked $mistral "$work/a.safetensors"
asked $mistral "$work/b.safetensors" -c "/adapter load $work/lora"
asked "$work/merged" "$work/c.safetensors"
near "$work/a.safetensors" "$work/b.safetensors" 1e-3 'visual.*' 2>/dev/null && fail "the projector was not trained"
for tensors in 'visual.*' logits; do
    near "$work/b.safetensors" "$work/c.safetensors" 0.05 "$tensors" || fail "a merged adapter gives different numbers"
done
asked $mistral "$work/d.safetensors" -c "/adapter load $work/lora" -c "/adapter unload"
same_dump "an unloaded adapter" "$work/a.safetensors" "$work/d.safetensors"

# LLaVA with Pixtral's encoder and another decoder, Qwen2 with biases of 0.5, as a file.
cp -r tests/goldens/pixtral "$work/qwen2"
python3 - "$work/qwen2" <<'P'
import json, struct, sys
config = json.load(open(sys.argv[1] + "/config.json"))
config["text_config"]["model_type"] = "qwen2"
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
raw = open(sys.argv[1] + "/model.safetensors", "rb").read()
n, = struct.unpack_from("<Q", raw)
head, data = json.loads(raw[8:8 + n]), raw[8 + n:]
for k in [k for k in head if k.startswith("language_model.") and k.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))]:
    new = struct.pack("<H", 0x3f00) * head[k]["shape"][0]
    head[k[:-6] + "bias"] = {"dtype": "BF16", "shape": head[k]["shape"][:1], "data_offsets": [len(data), len(data) + len(new)]}
    data += new
head = json.dumps(head).encode()
open(sys.argv[1] + "/model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
P
vlmsh quantize "$work/qwen2" "$work/qwen2.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "qwen2: $(tail -1 "$work/out")"
asked "$work/qwen2" "$work/e.safetensors"
asked "$work/qwen2.gguf" "$work/f.safetensors"
near "$work/e.safetensors" "$work/f.safetensors" 1e-5 logits || fail "another decoder as a file"

# Blocks after the one whose output is the feature run only for listeners, and leave the feature unchanged.
cp -r $mistral "$work/earlier"
sed -i 's/"vision_feature_layer": -1/"vision_feature_layer": -2/' "$work/earlier/config.json"
for taps in 'visual.*' 'visual.* vision.layer.*'; do
    vlmsh "$work/earlier" -c "/image $work/wide.png" -c "/dump $taps $work/${#taps}.safetensors" -c '/forward What?' >"$work/out" 2>&1 ||
        fail "$taps: $(tail -1 "$work/out")"
done
near "$work/8.safetensors" "$work/23.safetensors" 0 'visual.*' || fail "a listener changes the features"
finish
