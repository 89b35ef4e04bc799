# tests/commands/recurrent.sh -- Qwen3.5 in a conversation: the same answer after undo, in a fork, in a resumed session
# and with pruning; GGUF files; what commands say about recurrent layers; /recurrence.
. tests/commands/common.bash
qwen=tests/goldens/qwen3.5
moe=tests/goldens/qwen3.5-moe
wide=tests/goldens/pictures/wide.png

# --- the same answer -------------------------------------------------------------------------------------------
# third NAME LINE...: the answer to the last line has the logits of $work/live.safetensors.
third() {
    lines "${@:2:$#-2}" "/dump step.logits $work/$1.safetensors" "${!#}"
    near "$work/live.safetensors" "$work/$1.safetensors" 1e-4 || fail "$1: $(jq -r 'select(.event == "error").message' "$work/events")"
}
for case in "$qwen off 2" "$qwen attention 2" "$moe off 1" "$moe attention 1"; do
    read -r model pruning layer <<<"$case"
    name=$(basename $model)-$pruning
    setup=("/load $model" '/set compute.matmul f32' '/set sample.max_tokens 4' '/set sample.ignore_eos on'
        "/set prune.score $pruning" "/set prune.layer $layer")
    lines "${setup[@]}" "/image $scene" 'What is this?' "/image $wide" 'And that?' "/dump step.logits $work/live.safetensors" 'Where?' "/session rename $name"
    third "$name-undo" "${setup[@]}" "/image $scene" 'What is this?' "/image $wide" 'And that?' 'Something else' /undo 'Where?'
    third "$name-middle" "${setup[@]}" "/image $scene" 'What is this?' "/image $scene" 'Another one' /undo "/image $wide" 'And that?' 'Where?'
    [ $pruning = off ] || third "$name-resumed" "${setup[@]}" "/session resume $name" /undo 'Where?'
    [ $pruning != off ] || third "$name-forked" "${setup[@]}" "/session resume $name" "/session fork $name-2" /undo /undo "/image $wide" 'And that?' 'Where?'
done

# Drafts, right and wrong ones, before and after a picture in the middle: the same tokens as without.
for model in $qwen $moe; do
    for drafts in off 7; do
        lines "/load $model" '/set sample.max_tokens 40' '/set sample.ignore_eos on' "/set sample.lookahead $drafts" "/image $scene" \
            'say it again and again and again' "/image $wide" 'say it again and again and again'
        jq -c 'select(.event == "answer").ids' "$work/events" >"$work/ids-$drafts"
        [ "$(wc -l <"$work/ids-$drafts")" = 2 ] || fail "$model: no answers with drafts $drafts"
    done
    same "$model: answers with drafts" "$(cat "$work/ids-7")" "$(cat "$work/ids-off")"
    jq 'select(.event == "answer").accepted' "$work/events" >>"$work/accepted"
done
[ "$(jq -s add "$work/accepted")" -gt 0 ] || fail "no draft was right"

# --- GGUF files ------------------------------------------------------------------------------------------------
# The recurrence computes value heads in the file's order, so that sums of products differ in their last bits. In
# q8_0, only rows of 32 numbers are quantised: the recurrence's output product, whose columns are in that order.
mkdir "$work/file"
for model in $qwen $moe; do
    name=$(basename $model)
    python3 tests/goldens/to_gguf.py $model "$work/file/$name.gguf" --mmproj "$work/file/mmproj-$name.gguf" || fail "convert $name"
    for pair in "$model $name bf16" "$work/$name.gguf $name-again bf16" "$model $name-q8 q8_0"; do
        set -- $pair
        vlmsh quantize $1 "$work/$2.gguf" --type $3 --no-compare >"$work/out" 2>&1 || fail "$2: $(tail -1 "$work/out")"
    done
    answer $model "$work/a.safetensors" -c "/image $scene"
    for file in "$work/file/$name.gguf" "$work/$name.gguf" "$work/$name-again.gguf"; do
        answer "$file" "$work/b.safetensors" -c "/image $scene"
        near "$work/a.safetensors" "$work/b.safetensors" 2e-5 || fail "$file"
    done
    answer "$work/$name-q8.gguf" "$work/b.safetensors" -c "/image $scene"
    near "$work/a.safetensors" "$work/b.safetensors" 0.02 layer.1.in || fail "$name: q8_0"
    near "$work/a.safetensors" "$work/b.safetensors" 1e-4 layer.1.in 2>/dev/null && fail "$name: q8_0 changes nothing"
done
# Adapters have the folder's order of value heads, those trained on the file too; the file uses them in its own order.
echo "[{\"id\": 1, \"image\": \"$PWD/$scene\", \"question\": \"Where?\", \"answer\": \"Here it is.\"}]" >"$work/data.json"
for how in 'lora:*:2' 'layers.1.linear_attn.*'; do
    for at in folder file; do
        from=$qwen
        [ $at = folder ] || from=$work/file/qwen3.5.gguf
        rm -rf "${work:?}/trained-$at"
        vlmsh "$from" -c '/set compute.matmul f32' -c '/set train.steps 2' -c '/set train.lr 1e-2' -c "/set train.params $how" \
            -c "/train $work/data.json $work/trained-$at" -c /wait >"$work/out" 2>&1 || fail "$how: $(tail -3 "$work/out")"
        answer $qwen "$work/a.safetensors" -c "/adapter load $work/trained-$at" -c "/image $scene"
        answer "$work/file/qwen3.5.gguf" "$work/b.safetensors" -c "/adapter load $work/trained-$at" -c "/image $scene"
        near "$work/a.safetensors" "$work/b.safetensors" 1e-4 || fail "$how: an adapter of the $at on the file"
        answer $qwen "$work/b.safetensors" -c "/image $scene"
        near "$work/a.safetensors" "$work/b.safetensors" 1e-2 logits 2>/dev/null && fail "$how: the adapter changes nothing"
    done
    near "$work/trained-folder/adapter_model.safetensors" "$work/trained-file/adapter_model.safetensors" 5e-3 || fail "$how: trained on the file"
done
vlmsh "$work/file/qwen3.5.gguf" -c "/adapter load $work/trained-folder" -c "/quantize $work/merged.gguf --type f16 --no-compare" >"$work/out" 2>&1 ||
    fail "merged: $(tail -1 "$work/out")"
answer "$work/merged.gguf" "$work/b.safetensors" -c "/image $scene"
near "$work/a.safetensors" "$work/b.safetensors" 5e-3 logits || fail "the adapter is not merged into the file"
# A whole layer as PEFT saves it (modules_to_save), with the constants, which no adapter may change: `rates` changes
# A_log and is refused.
python3 - $qwen "$work" <<'P'
import json, os, struct, sys
golden, work = sys.argv[1:]
raw = open(f"{golden}/model.safetensors", "rb").read()
n, = struct.unpack_from("<Q", raw)
stored = {k: t for k, t in json.loads(raw[8:8 + n]).items() if ".layers.1.linear_attn." in k}
for name, factor in ("whole", 1), ("rates", 1.001):
    head, data = {}, b""
    for k, t in stored.items():
        bytes_ = raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = [struct.unpack("<f", b"\0\0" + bytes_[i:i + 2])[0] for i in range(0, len(bytes_), 2)]
        else:
            x = list(struct.unpack(f"<{len(bytes_) // 4}f", bytes_))
        if k.endswith(".weight"):
            x = [v + .3 * ((i * 7919) % 13 - 6) / 6 for i, v in enumerate(x)]
        elif k.endswith("A_log"):
            x = [v * factor for v in x]
        new = struct.pack(f"<{len(x)}f", *x)
        head[f"base_model.model.{k}"] = {"dtype": "F32", "shape": t["shape"], "data_offsets": [len(data), len(data) + len(new)]}
        data += new
    head = json.dumps(head).encode()
    os.makedirs(f"{work}/{name}")
    open(f"{work}/{name}/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
    json.dump({"peft_type": "LORA", "r": 2, "target_modules": [], "modules_to_save": ["linear_attn"]},
              open(f"{work}/{name}/adapter_config.json", "w"))
P
answer $qwen "$work/plain.safetensors" -c "/image $scene"
for model in "a $qwen" "b $work/file/qwen3.5.gguf"; do
    answer "${model#* }" "$work/${model%% *}.safetensors" -c "/adapter load $work/whole" -c "/image $scene"
    vlmsh "${model#* }" -c "/adapter load $work/rates" >"$work/out" 2>&1 && fail "${model#* }: a changed A_log is accepted"
    grep -q 'a trained A_log is not supported' "$work/out" || fail "${model#* }: $(cat "$work/out")"
done
near "$work/a.safetensors" "$work/b.safetensors" 1e-4 || fail "a whole layer on the file"
near "$work/a.safetensors" "$work/plain.safetensors" 1e-2 logits 2>/dev/null && fail "a whole layer changes nothing"

# A model of layers with attention alone, with biases; the others are beyond its layers.
mkdir "$work/attends"
python3 - $qwen "$work/attends" <<'P'
import json, re, shutil, struct, sys
golden, to = sys.argv[1:]
for name in "chat_template.jinja", "generation_config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json":
    shutil.copy(f"{golden}/{name}", to)
config = json.load(open(f"{golden}/config.json"))
config["text_config"].update(num_hidden_layers=2, full_attention_interval=1, layer_types=None, attention_bias=True)
json.dump(config, open(f"{to}/config.json", "w"))
raw = open(f"{golden}/model.safetensors", "rb").read()
n, = struct.unpack_from("<Q", raw)
numbers = {"2": "0", "5": "1"}
head = {re.sub(r"(language_model\.layers\.)(\d+)", lambda m: m[1] + numbers.get(m[2], "1" + m[2]), k): t for k, t in json.loads(raw[8:8 + n]).items()}
data = raw[8 + n:]
for k in [k for k in head if re.search(r"layers\.[01]\.self_attn\.[qkvo]_proj\.weight", k)]:
    new = struct.pack("<H", 0x3f00) * head[k]["shape"][0]  # 0.5 in bf16
    head[k[:-6] + "bias"] = {"dtype": "BF16", "shape": head[k]["shape"][:1], "data_offsets": [len(data), len(data) + len(new)]}
    data += new
head = json.dumps(head).encode()
open(f"{to}/model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
P
vlmsh quantize "$work/attends" "$work/attends.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "attends: $(tail -1 "$work/out")"
answer "$work/attends" "$work/a.safetensors" -c "/image $scene"
answer "$work/attends.gguf" "$work/b.safetensors" -c "/image $scene"
near "$work/a.safetensors" "$work/b.safetensors" 2e-5 || fail "a model without recurrence as a file"

# The check-up answers without reasoning, which its short answers would not get past.
vlmsh checkup $qwen --only sees,inside --quick --out "$work/page" >"$work/out" 2>&1
grep -q 'contribute most to text in layer [25]$' "$work/out" || fail "check-up, a layer without attention: $(cat "$work/out")"
grep -q 'describes' "$work/out" && ! grep -q '“”' "$work/out" || fail "check-up: $(cat "$work/out")"

# --- recurrent layers ------------------------------------------------------------------------------------------
session "recurrent layers" $qwen <<E
> /set compute.matmul f32
> /set sample.max_tokens 3
> /set sample.ignore_eos on
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 15 visual tokens; 8177 of 8192 tokens left
> What is this?
(an answer to 15 visual tokens)
the reasoning was cut off before an answer: raise sample.max_tokens
> /attention --layer all
[attention]
...
[attention.rows]
...
[map attention: 3 x 5]
[map attention: 3 x 5]
most attention to the picture in layer 2 (30.3%), least in layer 5 (26.9%)
> /attention --layer 3
error: --layer: layer 3 has a recurrence in place of attention; the layers with attention are 2, 5
> /contribution --layer 0
error: --layer: layer 0 has a recurrence in place of attention; the layers with attention are 2, 5
> /sinks --layer 1
error: --layer: layer 1 has a recurrence in place of attention; the layers with attention are 2, 5
> /recurrence --layer 2
error: --layer 2: the layer has attention (/attention shows it); the recurrent layers are 0, 1, 3, 4
> /set prune.layer 3
error: prune.layer: layer 3 has a recurrence in place of attention; the layers with attention are 2, 5
> /recurrence
[recurrence]
...
[map recurrence: 3 x 5]
absolute weights of the tokens' values in the outputs of the heads, mean over the heads; 'to the pictures' is a share of the sum of all weights
> /recurrence --layer all --token last
[recurrence]
...
[map recurrence: 3 x 5]
[map recurrence: 3 x 5]
[map recurrence: 3 x 5]
[map recurrence: 3 x 5]
absolute weights of the tokens' values in the outputs of the heads, mean over the heads; 'to the pictures' is a share of the sum of all weights
...
> /why
[why.summary]
...
[why]
...
[why.alternatives]
...
[why.objects]
object  token  lost
picture, prompt, answer: shares of attention at the position that predicts the token, mean over layers and heads (why.share)
the shares leave out layers with a recurrent state in place of attention: 0, 1, 3, 4 (/recurrence measures what they read); 'without picture' also keeps the picture out of their states
an object gets nothing from the picture if the first mention of its name loses less than 0.1 nats of log-probability (why.threshold) when nothing attends to the picture
...
> /knockout picture > all --layers 0-3
[knockout]
...
[knockout.tokens]
...
[knockout.windows]
...
53 positions no longer attend to 15 in 4 layers
knockout.windows: attention is cut in 1 layer, from that layer on
...
> /knockout picture > last --layers 0-3
[knockout]
...
[knockout.tokens]
...
[knockout.windows]
...
1 position no longer attends to 15 in 4 layers
layers without attention to change (they keep a recurrent state): 0, 1, 3
knockout.windows: attention is cut in 1 layer, from that layer on
...
E

session "no recurrent layers" demo/model <<E
> hello
(an answer to 0 visual tokens)
> /recurrence
error: the model 'demo/model' has no recurrent layers: use /attention
E
finish
