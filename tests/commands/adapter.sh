# tests/commands/adapter.sh -- /adapter and the settings adapter, adapter.scale: live switching,
# tables, merging, refusals, resuming.
. tests/commands/common.bash
lora=$llava/adapters/lora
norms=$llava/adapters/ln_tuning
ids() { # KEY of golden.safetensors as jq prints a list
    python3 - build/goldens/llava-1.5/golden.safetensors "$1" <<'P'
import json, struct, sys
b = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
t = json.loads(b[8:8 + n])[sys.argv[2]]
a, e = t["data_offsets"]
print(json.dumps(list(struct.unpack("<%di" % ((e - a) // 4), b[8 + n + a:8 + n + e])), separators=(",", ":")))
P
}
ask=("/image $scene" 'What is in the picture?')
short=('/set sample.max_tokens 8' '/set sample.ignore_eos on')

lines "/load $llava" "${short[@]}" "/adapter load $lora" "${ask[@]}" "/adapter load $norms" '/regen' \
    "/set adapter lora" '/regen' '/adapter list' '/adapter scale 0.5' '/regen' '/adapter scale 1' '/regen' \
    '/adapter unload' '/regen' '/adapter unload norms' '/adapter unload ln_tuning' '/adapter'
check "answers" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)
$(ids adapter.ln_tuning.gen_ids)
$(ids adapter.lora.gen_ids)
$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 4p)
$(ids adapter.lora.gen_ids)
$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 6p)"
[ "$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 4p)" != "$(ids adapter.lora.gen_ids)" ] ||
    fail "half the scale gives the same answer"
check "what is kept" 'select(.event == "table" and .name == "adapters").rows | map(.[0] + " " + .[1]) | join(", ")' \
    $'lora yes, ln_tuning no\nlora no'
check "an unknown name" 'select(.event == "error").message' "no adapter 'norms' is loaded (/adapter list)"
check "reports the setting" 'select(.event == "setting" and .key == "adapter").value' "$lora
$norms
$lora
none"

lines "/load $llava" "/adapter load $norms" '/adapter show' '/adapter scale 2' "/adapter load $lora" '/adapter show' \
    '/adapter show ln_tuning'
check "norms in the table" 'select(.event == "table" and .name == "adapter.tensors").rows | length' $'8\n8'
check "a norm is measured" 'select(.event == "table" and .name == "adapter.tensors").rows[0][2]' $'8.54914\n8.54914'
check "layers of LoRA" 'select(.event == "table" and .name == "adapter.lora").rows | map(.[0:3] | tostring) | unique | length' 7
check_has "whole weights are not scaled" 'select(.event == "error").message' "has no LoRA"

# A refused adapter leaves the current one in place.
mkdir "$work/broken"
cp $lora/adapter_config.json "$work/broken"
head -c 3000 $lora/adapter_model.safetensors >"$work/broken/adapter_model.safetensors"
lines "/load $llava" "${short[@]}" "/adapter load $lora" "/adapter load $work/broken" "/adapter load $llava" \
    "/adapter load $work/nothing" '/adapter load' '/adapter nonsense' '/adapter merge' "${ask[@]}"
check "what fails" 'select(.event == "done").ok' \
    $'true\ntrue\ntrue\ntrue\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\ntrue\ntrue'
check "the former stays" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"
mkdir "$work/running"
echo '{"state": "running"}' >"$work/running/training.json"
lines "/load $llava" "/adapter load $work/running"
check_has "a run that is not done" 'select(.event == "error").message' "holds an unfinished training"
lines "/load $llama" "/adapter load $lora" '/adapter unload' '/adapter show' '/adapter merge x'
check_has "another model's is refused" 'select(.event == "error").message' "another model"

# An adapter of another model of the same shape is applied, with a notice.
cp -r "$lora" "$work/foreign"
lines "/load $llava" "/adapter load $work/foreign"
check "no notice without a record" 'select(.event == "notice" and (.text | test("another model"))).text' ""
echo '{"state": "done", "fingerprint": "0"}' >"$work/foreign/training.json"
lines "/load $llava" "/adapter load $work/foreign"
check_has "another base" 'select(.event == "notice").text' "trained on a different model"

# Merged: the folder answers without the adapter; existing files are not overwritten.
lines "/load $llava" "/adapter load $lora" "/adapter merge $work/merged" "/adapter merge $work/merged" "/adapter merge $work/merged --once" \
    '/adapter unload' "/load $work/merged" "${short[@]}" "${ask[@]}"
check_has "logits are compared" 'select(.event == "notice").text' "largest difference 0.0"
check_has "merged before" 'select(.event == "notice").text' "already holds a model"
check_has "not overwritten" 'select(.event == "error").message' "already exists"
check "the merged model answers" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"
same "names and sizes stay" "$(stat -c %s "$work/merged/model.safetensors")" "$(stat -Lc %s $llava/model.safetensors)"
cmp -s "$work/merged/tokenizer.json" $llava/tokenizer.json || fail "tokenizer.json is not copied"
same "nothing is left over" "$(find "$work" -maxdepth 1 -name 'merged.*')" ""

# Saved again: as it is applied, half as large in bf16, with the record of its training.
lines "/load $llava" "/adapter load $work/foreign" '/adapter scale 0.5' "/adapter save $work/saved" "/adapter save $work/saved" \
    "/adapter save $work/small --type bf16" "/adapter save $work/x --type q8" '/adapter show --type bf16' \
    "/adapter save $work/small --once" "/adapter load x --once" "/adapter load $work/saved" '/adapter scale 1' "${short[@]}" "${ask[@]}" \
    "/adapter load $work/foreign" '/adapter scale 0.5' /regen "/adapter load $work/small" '/adapter scale 1' '/adapter show'
check "written files" 'select(.event == "written" and .what == "adapter").file' "$work/saved
$work/small"
check_has "a folder that is there" 'select(.event == "error").message' "already exists"
check_has "an unknown type" 'select(.event == "error").message' "unknown type 'q8': use f32, bf16 or f16"
check_has "an option of save" 'select(.event == "error").message' "usage: /adapter show [NAME]"
check_has "saved before" 'select(.event == "notice").text' "$work/small already holds an adapter: nothing to do"
check_has "an option of save and merge" 'select(.event == "error").message' "usage: /adapter load FOLDER"
check "the scale is in it" 'select(.event == "answer").ids | tostring' "$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 1p)
$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 1p)"
cmp -s "$work/saved/training.json" "$work/foreign/training.json" || fail "training.json is not kept"
python3 - "$work/foreign" "$work/saved" "$work/small" <<'P' || fail "saved numbers"
import json, struct, sys
def read(folder):
    b = open(folder + "/adapter_model.safetensors", "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    out = {}
    for key, t in json.loads(b[8:8 + n]).items():
        if key == "__metadata__": continue
        raw = b[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        else:
            assert t["dtype"] == "F32"
        out[key] = struct.unpack("<%df" % (len(raw) // 4), raw)
    return out
first, saved, small = map(read, sys.argv[1:])
assert saved == first, "not the same numbers"
assert small.keys() == first.keys()
for key in first:
    for x, y in zip(first[key], small[key]):
        assert abs(x - y) <= abs(x) / 256, key
P

# A matrix trained in full below its LoRA: the saved adapter loads, and merging keeps the logits up to bf16 rounding.
printf '[{"id": 1, "question": "Who lives here?", "answer": "A keeper with two cats."}]' >"$work/below.json"
lines "/load $llama" '/set train.steps 2' '/set train.lr 1e-2' '/set train.params lora:q_proj:2' \
    "/train $work/below.json $work/above" /wait "/set adapter $work/above" '/set train.params *q_proj*' \
    "/train $work/below.json $work/below" /wait "/adapter load $work/below" '/adapter show' "/adapter merge $work/below.merged"
check_has "LoRA and the matrix below it" 'select(.event == "notice" or .event == "text").text' "LoRA 4, weight 4"
merged=$(jq -r 'select(.event == "notice").text | capture("difference (?<d>[^,]*), largest logit (?<l>.*)") | "\(.d) \(.l)"' "$work/events")
awk -v m="$merged" 'BEGIN { split(m, n); exit !(n[2] > 0 && n[1] < 2e-2 * n[2]) }' || fail "merged: $merged"

# With a router, a large difference is explained.
check "no router" 'select(.event == "notice" and (.text | test("router"))).text' ""
mkdir "$work/routed"
python3 - "$work/routed" <<'P'
import json, struct, sys
key = "base_model.model.model.layers.1.mlp.shared_experts.down_proj.lora_%s.weight"
head = json.dumps({key % "A": {"dtype": "F32", "shape": [1, 48], "data_offsets": [0, 192]},
                   key % "B": {"dtype": "F32", "shape": [48, 1], "data_offsets": [192, 384]}}).encode()
with open(sys.argv[1] + "/adapter_model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head + struct.pack("<96f", *[.1] * 96))
with open(sys.argv[1] + "/adapter_config.json", "w") as f:
    json.dump({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["down_proj"]}, f)
P
lines "/load tests/goldens/kimi-text" "/adapter load $work/routed" "/adapter merge $work/routed.merged"
check_has "a router" 'select(.event == "notice").text' "this model is a mixture of experts"

# A notice names training options that are not used here, however the adapter is loaded.
cp -r "$lora" "$work/beside"
jq '. + {modules_to_save: ["lm_head"], alpha_pattern: {"^q_proj": 9, "k_proj": 16}, use_new_trick: true, scaling: null,
    base_model_name_or_path: "org/other-7b", revision: "v2"}' "$lora/adapter_config.json" >"$work/beside/adapter_config.json"
touch "$work/beside/non_lora_trainables.bin" "$work/beside/optimizer.pt"
echo '{{ "x" }}' >"$work/beside/chat_template.jinja"
echo '{"<loc>": 600, "<image>": 540}' >"$work/beside/added_tokens.json"
jq '.image_mean = [0.5, 0.5, 0.5]' "$llava/preprocessor_config.json" >"$work/beside/preprocessor_config.json"
lines "/load $llava" "/set adapter $work/beside" '/get adapter' '/adapter unload'
check "each once" 'select(.event == "notice") | .text | select(test("adapter|trained"))' "$(sed 's/^    //' <<'E'
    the adapter has no tensors for these modules of modules_to_save: lm_head. The model's own are used: if they were trained, answers are wrong
    its adapter_config.json says that it was trained on 'org/other-7b', revision v2: make sure that this is the same model
    adapter_config.json has unknown keys, which are not used: use_new_trick
    adapter_config.json: "alpha_pattern" has keys that match none of the adapter's modules, so nothing uses them: ^q_proj
    files in the adapter's folder that are not read: non_lora_trainables.bin: if these weights were trained with it, answers are wrong without them
    the adapter's folder has a chat template other than the model's, which is not used: if it was trained with it, copy it to the model's folder
    the adapter's folder has tokens that the model's tokenizer lacks or gives other ids: <loc>; the model's tokenizer is used
    the adapter's folder has picture settings that differ from the model's (image_mean): the model's preprocessor is used
E
)"
jq '.bias = "all"' "$lora/adapter_config.json" >"$work/beside/adapter_config.json"
lines "/load $llava" "/set adapter $work/beside"
check_has "biases" 'select(.event == "notice").text' "that its adapter_config.json targets; they stay unchanged: vision_tower.vision_model.pre_layrnorm.bias"
jq '.target_modules = ["q_proj"] | .layers_to_transform = [0, 1, 2, 3] | .layers_pattern = "blocks"' "$lora/adapter_config.json" \
    >"$work/beside/adapter_config.json"
lines "/load $llava" "/set adapter $work/beside" || true
check_has "another name of layers" 'select(.event == "error").message' "excludes its module: PEFT would ignore it"
lines "/load $llava" "/adapter load $lora"
check "nothing of it" 'select(.event == "notice").text | select(test("trained on|not used|not read"))' ""

# A restored session has its adapter.
lines "/load $llava" '/session new kept' "${short[@]}" "/adapter load $lora" "${ask[@]}" || true
lines '/session resume kept' '/regen'
check "resumed with its adapter" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"

# From another working folder too, as its script and a preset do.
lines '/session resume kept' "/save $work/kept.vlmsh" '/preset save kept adapter'
program=$(realpath "$VLMSH")
(cd "$work" && "$program" --db "$work/vlmsh.db" --session kept --json -c /regen) >"$work/events"
check "resumed in another folder" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"
(cd "$work" && "$program" --json -f kept.vlmsh) >"$work/events"
check "replayed in another folder" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"
(cd "$work" && "$program" --json --db "$work/vlmsh.db" --session kept -c '/set adapter none' -c '/preset load kept' \
    -c '/adapter list') >"$work/events"
check "a preset in another folder, read once" \
    'select(.event == "table" and .name == "adapters").rows | map(.[0] + " " + .[1]) | join(", ")' 'lora yes'
# Words that mean "no adapter" are not taken as folders.
lines "/load $llava" '/adapter load ""' '/adapter load none' '/adapter load OFF' "/adapter load $lora" '/adapter load none' '/get adapter'
check "no adapter's name" 'select(.event == "error").message' "the adapter's folder is missing
'none' means no adapter (/adapter unload); a folder of that name is './none'
'OFF' means no adapter (/adapter unload); a folder of that name is './OFF'
'none' means no adapter (/adapter unload); a folder of that name is './none'"
check "the current one stays" 'select(.key == "adapter").value' "$lora"$'\n'"$lora"
finish
