# tests/commands/adapter.sh -- /adapter and the settings adapter, adapter.scale: live switching,
# tables, merging, saving, LoRA of stacked experts, unread parts of the folder, refusals, resuming.
. tests/commands/common.bash
lora=$llava/adapters/lora
norms=$llava/adapters/ln_tuning
ids() { # KEY: prints this tensor of golden.safetensors as jq prints a list
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
check "loaded adapters" 'select(.event == "table" and .name == "adapters").rows | map(.[0] + " " + .[1]) | join(", ")' \
    $'lora yes, ln_tuning no\nlora no'
check "an unknown name" 'select(.event == "error").message' "no adapter 'norms' is loaded (/adapter list)"
check "reports the setting" 'select(.event == "setting" and .key == "adapter").value' "$lora
$norms
$lora
none"

session "tables" $llava <<E
> /adapter load $norms
adapter = tests/goldens/llava-1.5/adapters/ln_tuning
adapter 'ln_tuning' applied: weight 8, 512 parameters
> /adapter show
tests/goldens/llava-1.5/adapters/ln_tuning: weight 8, 512 parameters; trained on 'llava-1.5'; applied
[adapter.tensors]
tensor                                                         parameters  norm     mean |x|  std |x|
language_model.model.layers.0.input_layernorm.weight           64          8.54914  1.0393    0.248695
language_model.model.layers.0.post_attention_layernorm.weight  64          8.68799  1.05155   0.271356
language_model.model.layers.1.input_layernorm.weight           64          8.37382  1.01721   0.246844
language_model.model.layers.1.post_attention_layernorm.weight  64          8.38178  1.01449   0.261783
language_model.model.layers.2.input_layernorm.weight           64          8.21313  0.991929  0.264708
language_model.model.layers.2.post_attention_layernorm.weight  64          8.15355  0.98375   0.266445
language_model.model.layers.3.input_layernorm.weight           64          7.62659  0.925479  0.228724
language_model.model.layers.3.post_attention_layernorm.weight  64          8.21012  0.995608  0.24897
> /adapter scale 2
error: adapter 'ln_tuning' has no LoRA: only LoRA can be scaled
> /adapter load $lora
adapter = tests/goldens/llava-1.5/adapters/lora
adapter 'lora' applied: LoRA 28, 15488 parameters
> /adapter show
tests/goldens/llava-1.5/adapters/lora: LoRA 28, 15488 parameters; trained on 'llava-1.5'; applied
[adapter.lora]
LoRA on            layers  rank  scale  parameters  norm
decoder down_proj  4       4     2      2432        3.21999
decoder gate_proj  4       4     2      2432        3.6468
decoder up_proj    4       4     2      2432        3.75583
decoder k_proj     4       4     2      2048        3.09528
decoder o_proj     4       4     2      2048        3.25472
decoder q_proj     4       4     2      2048        3.12203
decoder v_proj     4       4     2      2048        3.18014
> /adapter show ln_tuning
tests/goldens/llava-1.5/adapters/ln_tuning: weight 8, 512 parameters; trained on 'llava-1.5'; not applied
[adapter.tensors]
tensor                                                         parameters  norm     mean |x|  std |x|
language_model.model.layers.0.input_layernorm.weight           64          8.54914  1.0393    0.248695
language_model.model.layers.0.post_attention_layernorm.weight  64          8.68799  1.05155   0.271356
language_model.model.layers.1.input_layernorm.weight           64          8.37382  1.01721   0.246844
language_model.model.layers.1.post_attention_layernorm.weight  64          8.38178  1.01449   0.261783
language_model.model.layers.2.input_layernorm.weight           64          8.21313  0.991929  0.264708
language_model.model.layers.2.post_attention_layernorm.weight  64          8.15355  0.98375   0.266445
language_model.model.layers.3.input_layernorm.weight           64          7.62659  0.925479  0.228724
language_model.model.layers.3.post_attention_layernorm.weight  64          8.21012  0.995608  0.24897
E

# A refused adapter leaves the current one in place.
mkdir "$work/broken"
cp $lora/adapter_config.json "$work/broken"
head -c 3000 $lora/adapter_model.safetensors >"$work/broken/adapter_model.safetensors"
session "a refused adapter" $llava <<E
> /set sample.max_tokens 8
> /set sample.ignore_eos on
> /adapter load $lora
adapter = tests/goldens/llava-1.5/adapters/lora
adapter 'lora' applied: LoRA 28, 15488 parameters
> /adapter load $work/broken
error: '$work/broken/adapter_model.safetensors' is not a valid safetensors file: its header of 7768 bytes is longer than the file: is it truncated?
> /adapter load $llava
error: 'tests/goldens/llava-1.5' is not an adapter (no adapter_config.json and no extra.safetensors) but a model: open it with /load
> /adapter load $work/nothing
error: no folder '$work/nothing'
> /adapter load
error: usage: /adapter load FOLDER
> /adapter nonsense
error: 'nonsense' is neither a file nor an action of /adapter: use list, load, unload, show, scale, save or merge
> /adapter merge
error: usage: /adapter merge FOLDER [--once]
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> What is in the picture?
(an answer to 25 visual tokens)
E
check "the former adapter stays" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"
mkdir "$work/running"
echo '{"state": "running"}' >"$work/running/training.json"
session "an unfinished training" $llava <<E
> /adapter load $work/running
error: '$work/running' contains an unfinished training run or a sweep (/job $work/running): load one of its folders instead, checkpoint-N (train.keep), a value of the sweep or best
E
session "another model's adapter" $llama <<E
> /adapter load $lora
error: adapter 'tests/goldens/llava-1.5/adapters/lora': tensor 'base_model.model.model.language_model.layers.0.mlp.down_proj.lora_A.weight': its shape is [4, 88], but 'model.layers.0.mlp.down_proj.weight' of this model needs [4, 128]: the adapter was made for another model
> /adapter unload
error: no adapter is applied
> /adapter show
error: no adapter is applied: /adapter load FOLDER
> /adapter merge x
error: no adapter is applied: /adapter load FOLDER
E

# An adapter of another model of the same shape is applied, with a notice.
cp -r "$lora" "$work/foreign"
session "no record of the base" $llava <<E
> /adapter load $work/foreign
adapter = $work/foreign
adapter 'foreign' applied: LoRA 28, 15488 parameters
E
echo '{"state": "done", "fingerprint": "0"}' >"$work/foreign/training.json"
session "another base" $llava <<E
> /adapter load $work/foreign
adapter = $work/foreign
adapter 'foreign' applied: LoRA 28, 15488 parameters
the adapter was trained on a different model ('llava-1.5'): answers may be wrong
E

# The merged folder answers as the model with the adapter did; existing files are not overwritten.
session "merged" $llava <<E
> /adapter load $lora
adapter = tests/goldens/llava-1.5/adapters/lora
adapter 'lora' applied: LoRA 28, 15488 parameters
> /adapter merge $work/merged
(written: model $work/merged)
merged into '$work/merged'; logits before and after merging (68 tokens of a fixed prompt): largest difference 0.0..., largest logit ...
> /adapter merge $work/merged
error: '$work/merged' already exists: choose another folder
> /adapter merge $work/merged --once
$work/merged already holds a model: nothing to do
> /load $work/merged
loaded '$work/merged': llava, 0.242 million parameters, with vision, N s
adapter 'lora' stays applied: /adapter unload if it is merged into this model, which would apply it twice
adapter_config.json says that the adapter was trained on 'llava-1.5': make sure that this is the loaded model
> /adapter unload
adapter = none
> /load $work/merged
loaded '$work/merged': llava, 0.242 million parameters, with vision, N s
> /set sample.max_tokens 8
> /set sample.ignore_eos on
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> What is in the picture?
(an answer to 25 visual tokens)
E
check "the merged model answers" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"
same "names and sizes stay" "$(stat -c %s "$work/merged/model.safetensors")" "$(stat -Lc %s $llava/model.safetensors)"
cmp -s "$work/merged/tokenizer.json" $llava/tokenizer.json || fail "tokenizer.json is not copied"
same "nothing is left over" "$(find "$work" -maxdepth 1 -name 'merged.*')" ""

# An adapter saved again holds the applied weights, rounded if saved in bf16, and keeps the record of
# its training.
session "saved" $llava <<E
> /adapter load $work/foreign
adapter = $work/foreign
adapter 'foreign' applied: LoRA 28, 15488 parameters
the adapter was trained on a different model ('llava-1.5'): answers may be wrong
> /adapter scale 0.5
adapter.scale = 0.5
> /adapter save $work/saved
(written: adapter $work/saved)
adapter 'foreign' saved in '$work/saved' in f32
> /adapter save $work/saved
error: '$work/saved' already exists: choose another folder
> /adapter save $work/small --type bf16
(written: adapter $work/small)
adapter 'foreign' saved in '$work/small' in bf16
> /adapter save $work/x --type q8
error: unknown type 'q8': use f32, bf16 or f16
> /adapter show --type bf16
error: usage: /adapter show [NAME]
> /adapter save $work/small --once
$work/small already holds an adapter: nothing to do
> /adapter load x --once
error: usage: /adapter load FOLDER
> /adapter load $work/saved
adapter = $work/saved
adapter 'saved' applied: LoRA 28, 15488 parameters
the adapter was trained on a different model ('tests/goldens/llava-1.5'): answers may be wrong
the adapter's LoRA scale is multiplied by 0.5: /set adapter.scale 1 restores the trained scale
> /adapter scale 1
adapter.scale = 1
> /set sample.max_tokens 8
> /set sample.ignore_eos on
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> What is in the picture?
(an answer to 25 visual tokens)
> /adapter load $work/foreign
adapter = $work/foreign
adapter changed: the next answer recomputes the conversation
adapter 'foreign' applied: LoRA 28, 15488 parameters
the adapter was trained on a different model ('llava-1.5'): answers may be wrong
> /adapter scale 0.5
adapter.scale = 0.5
> /regen
(an answer to 25 visual tokens)
the same answer again: sample.temperature 0 always takes the likeliest token; /set sample.temperature 0.7 samples
> /adapter load $work/small
adapter = $work/small
adapter changed: the next answer recomputes the conversation
adapter 'small' applied: LoRA 28, 15488 parameters
the adapter was trained on a different model ('tests/goldens/llava-1.5'): answers may be wrong
the adapter's LoRA scale is multiplied by 0.5: /set adapter.scale 1 restores the trained scale
> /adapter scale 1
adapter.scale = 1
> /adapter show
$work/small: LoRA 28, 15488 parameters; trained on 'tests/goldens/llava-1.5'; applied
[adapter.lora]
LoRA on            layers  rank  scale  parameters  norm
decoder down_proj  4       4     1      2432        1.60991
decoder gate_proj  4       4     1      2432        1.82331
decoder up_proj    4       4     1      2432        1.87779
decoder k_proj     4       4     1      2048        1.54738
decoder o_proj     4       4     1      2048        1.62709
decoder q_proj     4       4     1      2048        1.56129
decoder v_proj     4       4     1      2048        1.59046
E
check "the saved adapter includes the scale" 'select(.event == "answer").ids | tostring' "$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 1p)
$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 1p)"
cmp -s "$work/saved/training.json" "$work/foreign/training.json" || fail "training.json is not kept"
python3 - "$work/foreign" "$work/saved" "$work/small" <<'P' || fail "the saved numbers are wrong"
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

# A LoRA above a matrix that is then trained in full: the adapter holds both, and merging keeps the logits up to bf16
# rounding.
printf '[{"id": 1, "question": "Who lives here?", "answer": "A keeper with two cats."}]' >"$work/below.json"
lines "/load $llama" '/set train.steps 2' '/set train.lr 1e-2' '/set train.params lora:q_proj:2' \
    "/train $work/below.json $work/above" /wait "/set adapter $work/above" '/set train.params *q_proj*' \
    "/train $work/below.json $work/below" /wait "/adapter load $work/below" '/adapter show' "/adapter merge $work/below.merged"
check_has "LoRA and the matrix below it" 'select(.event == "notice" or .event == "text").text' "LoRA 4, weight 4"
merged=$(jq -r 'select(.event == "notice").text | capture("difference (?<d>[^,]*), largest logit (?<l>.*)") | "\(.d) \(.l)"' "$work/events")
awk -v m="$merged" 'BEGIN { split(m, n); exit !(n[2] > 0 && n[1] < 2e-2 * n[2]) }' || fail "merged: $merged"

# For a model with a router, a notice explains a large difference.
check "no notice about a router" 'select(.event == "notice" and (.text | test("router"))).text' ""
lora_of() { # FOLDER MODULE IN OUT: a LoRA of rank 1 for one matrix
    mkdir "$1" && python3 - "$@" <<'P'
import json, struct, sys
folder, module, n, m = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
key = "base_model.model.model." + module + ".lora_%s.weight"
head = json.dumps({key % "A": {"dtype": "F32", "shape": [1, n], "data_offsets": [0, 4 * n]},
                   key % "B": {"dtype": "F32", "shape": [m, 1], "data_offsets": [4 * n, 4 * (n + m)]}}).encode()
with open(folder + "/adapter_model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{n + m}f", *[.1] * (n + m)))
with open(folder + "/adapter_config.json", "w") as f:
    json.dump({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": [module.split(".")[-1]]}, f)
P
}
lora_of "$work/routed" layers.1.mlp.shared_experts.down_proj 48 48
session "a router" tests/goldens/kimi-text <<E
> /adapter load $work/routed
adapter = $work/routed
adapter 'routed' applied: LoRA 1, 96 parameters
the adapter has no tensors for 27 of the 28 weights that its adapter_config.json targets; they stay unchanged: model.layers.0.mlp.down_proj.weight, model.layers.1.mlp.experts.0.down_proj.weight, model.layers.1.mlp.experts.1.down_proj.weight, model.layers.1.mlp.experts.2.down_proj.weight, model.layers.1.mlp.experts.3.down_proj.weight and 22 more
> /adapter merge $work/routed.merged
(written: model $work/routed.merged)
merged into '$work/routed.merged'; logits before and after merging (53 tokens of a fixed prompt): largest difference 0.0..., largest logit ...
this model is a mixture of experts: where rounding the merged weights to the folder's dtype changes the router's choice, logits differ much more than rounding alone explains
E

# Folders that hold the experts of a layer in two tensors (Qwen3-VL's on the hub: transposed). PEFT's LoRA on these two
# (target_parameters) is merged into them. The same LoRA in PEFT's older orientation, or split into one for each
# expert's matrix, has the same effect.
cat >"$work/stack.py" <<'P'
import json, os, random, struct, sys
out, layer, E, m, D, r = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
draw = random.Random(3)
shapes = {"gate_up_proj": (2 * m, D), "down_proj": (D, m)}
A = {k: [[[draw.gauss(0, .3) for _ in range(n)] for _ in range(r)] for _ in range(E)] for k, (_, n) in shapes.items()}
B = {k: [[[draw.gauss(0, .3) for _ in range(r)] for _ in range(n)] for _ in range(E)] for k, (n, _) in shapes.items()}
T = lambda x: [list(row) for row in zip(*x)]
def save(folder, tensors, **config):
    os.makedirs(f"{out}/{folder}")
    head, data = {}, b""
    for k, x in tensors.items():
        raw = struct.pack(f"<{len(x) * len(x[0])}f", *(v for row in x for v in row))
        head[f"base_model.model.model.language_model.{layer}experts{k}"] = {
            "dtype": "F32", "shape": [len(x), len(x[0])], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(head).encode()
    open(f"{out}/{folder}/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
    json.dump({"peft_type": "LORA", "r": r, "lora_alpha": 2 * r, **config}, open(f"{out}/{folder}/adapter_config.json", "w"))
for folder, swapped in ("stack", False), ("older", True):
    tensors = {}
    for k, level in ("gate_up_proj", ".base_layer"), ("down_proj", ""):
        a, b = ([T(x) for x in B[k]], [T(x) for x in A[k]]) if swapped else (A[k], B[k])
        tensors[f"{level}.lora_A.weight"] = [row for e in a for row in e]
        tensors[f"{level}.lora_B.weight"] = [[b[e][o][k] for k in range(r) for e in range(E)] for o in range(len(b[0]))]
    save(folder, tensors, target_modules=[], target_parameters=["experts.gate_up_proj", "experts.down_proj"])
tensors = {}
for e in range(E):
    for name, of, first, rows in ("gate_proj", "gate_up_proj", 0, m), ("up_proj", "gate_up_proj", m, m), ("down_proj", "down_proj", 0, D):
        tensors[f".{e}.{name}.lora_A.weight"] = A[of][e]
        tensors[f".{e}.{name}.lora_B.weight"] = B[of][e][first:first + rows]
save("apart", tensors, target_modules=["gate_proj", "up_proj", "down_proj"])
a, b = A["gate_up_proj"], B["gate_up_proj"]
save("some", {".0.gate_proj.lora_A.weight": a[0], ".0.gate_proj.lora_B.weight": b[0][:m],
              ".2.up_proj.lora_A.weight": a[2][:1], ".2.up_proj.lora_B.weight": [row[:1] for row in b[2][m:]]},
     target_modules=["gate_proj", "up_proj"], rank_pattern={"2.up_proj": 1}, alpha_pattern={"2.up_proj": 8})
P
applied() { # FOLDER
    vlmsh "$moe" -c "/adapter load $1" 2>/dev/null | grep -o 'applied: .*'
}
for case in "qwen3-vl-moe layers.1.mlp. 4 16 32" "gemma4-moe layers.0. 4 6 16"; do
    read -r name layer E m D <<<"$case"
    moe=tests/goldens/$name
    python3 "$work/stack.py" "$work/$name" "$layer" "$E" "$m" "$D" 2
    answer $moe "$work/plain.safetensors"
    kinds=(stack apart)
    [ "$D" = $((2 * m)) ] || kinds+=(older) # with D = 2 m, the shapes do not show the older orientation
    for kind in "${kinds[@]}"; do
        answer $moe "$work/$kind.safetensors" -c "/adapter load $work/$name/$kind"
        near "$work/plain.safetensors" "$work/$kind.safetensors" 1e-2 logits 2>/dev/null && fail "$name: $kind changes nothing"
    done
    for kind in "${kinds[@]:1}"; do same_dump "$name: $kind" "$work/stack.safetensors" "$work/$kind.safetensors"; done
    answer $moe "$work/some.safetensors" -c "/adapter load $work/$name/some"
    for kind in apart some; do # saved in PEFT's form, they are the same adapters
        saved=$work/$name.saved-$kind
        answer $moe "$work/saved.safetensors" -c "/adapter load $work/$name/$kind" -c "/adapter save $saved" -c "/adapter load $saved"
        same_dump "$name: $kind, saved" "$work/$kind.safetensors" "$work/saved.safetensors"
        same "$name: parameters of $kind, saved" "$(applied "$saved")" "$(applied "$work/$name/$kind")"
    done
    experts=model.language_model.${layer}experts
    same "$name: parameters of PEFT" "$(jq -r '[.target_modules, .target_parameters, .rank_pattern, .alpha_pattern] | tostring' \
        "$work/$name.saved-apart/adapter_config.json" "$saved/adapter_config.json")" \
        "[\"dummy-target-modules\",[\"$experts.gate_up_proj\",\"$experts.down_proj\"],{\"$experts.gate_up_proj\":4},{\"$experts.gate_up_proj\":8}]
[\"dummy-target-modules\",[\"$experts.gate_up_proj\"],{\"$experts.gate_up_proj\":3},{\"$experts.gate_up_proj\":24}]"
    lines "/load $moe" "/adapter load $work/$name/stack" "/adapter merge $work/$name.merged"
    check "$name: errors of the merge" 'select(.event == "error").message' ''
    answer "$work/$name.merged" "$work/merged.safetensors"
    near "$work/stack.safetensors" "$work/merged.safetensors" 0.1 logits || fail "$name: merged"
done

# Parameters without tensors, and names of parameters that the model lacks.
cp -r "$work/qwen3-vl-moe/stack" "$work/named"
jq '.target_parameters += ["experts.gate_proj", "layers.0.self_attn.q_proj.weight"]' "$work/qwen3-vl-moe/stack/adapter_config.json" \
    >"$work/named/adapter_config.json"
session "parameters without tensors" tests/goldens/qwen3-vl-moe <<E
> /adapter load $work/named
adapter = $work/named
adapter 'named' applied: LoRA 12, 1152 parameters
the adapter has no tensors for 5 of the 7 weights that its adapter_config.json targets; they stay unchanged: model.language_model.layers.0.self_attn.q_proj.weight, model.language_model.layers.0.mlp.experts.gate_up_proj, model.language_model.layers.0.mlp.experts.down_proj, model.language_model.layers.2.mlp.experts.gate_up_proj, model.language_model.layers.2.mlp.experts.down_proj
adapter_config.json: "target_parameters" names parameters that the model lacks: experts.gate_proj
E

# A list of added tokens, in place of an object, names no token.
cp -r "$lora" "$work/listed"
echo '{"added_tokens_decoder": [{"content": "<loc>"}]}' >"$work/listed/tokenizer_config.json"
lines "/load $llava" "/set adapter $work/listed"
check "added tokens in a list" 'select(.event=="done").ok' $'true\ntrue'

# Notices name the parts of an adapter's folder that are not used, even if /set adapter loads it.
cp -r "$lora" "$work/beside"
jq '. + {modules_to_save: ["lm_head"], alpha_pattern: {"^q_proj": 9, "k_proj": 16}, use_new_trick: true, scaling: null,
    base_model_name_or_path: "org/other-7b", revision: "v2"}' "$lora/adapter_config.json" >"$work/beside/adapter_config.json"
touch "$work/beside/non_lora_trainables.bin" "$work/beside/optimizer.pt"
echo '{{ "x" }}' >"$work/beside/chat_template.jinja"
echo '{"<loc>": 600, "<image>": 540}' >"$work/beside/added_tokens.json"
jq '.image_mean = [0.5, 0.5, 0.5]' "$llava/preprocessor_config.json" >"$work/beside/preprocessor_config.json"
session "unread parts of the folder" $llava <<E
> /set adapter $work/beside
the adapter has no tensors for these modules of modules_to_save: lm_head. The model's own are used: if they were trained, answers are wrong
adapter_config.json says that the adapter was trained on 'org/other-7b', revision v2: make sure that this is the loaded model
adapter_config.json has unknown keys, which are not used: use_new_trick
adapter_config.json: "alpha_pattern" has keys that match none of the adapter's modules, so nothing uses them: ^q_proj
vlmsh does not read these files of the adapter's folder: non_lora_trainables.bin. If the adapter was trained with these weights, answers are wrong without them
the chat template in the adapter's folder differs from the model's and is not used: if the adapter was trained with it, copy it to the model's folder
the adapter's folder has tokens that the model's tokenizer lacks or numbers differently: <loc>; the model's tokenizer is used
the adapter's folder has picture settings that differ from the model's (image_mean): the model's preprocessor is used
> /get adapter
adapter = $work/beside
> /adapter unload
adapter = none
E
jq '.bias = "all"' "$lora/adapter_config.json" >"$work/beside/adapter_config.json"
session "biases" $llava <<E
> /set adapter $work/beside
the adapter has no tensors for 27 of the 55 weights that its adapter_config.json targets; they stay unchanged: vision_tower.vision_model.pre_layrnorm.bias, vision_tower.vision_model.encoder.layers.0.layer_norm1.bias, vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.bias, vision_tower.vision_model.encoder.layers.0.self_attn.k_proj.bias, vision_tower.vision_model.encoder.layers.0.self_attn.v_proj.bias and 22 more
vlmsh does not read these files of the adapter's folder: non_lora_trainables.bin. If the adapter was trained with these weights, answers are wrong without them
the chat template in the adapter's folder differs from the model's and is not used: if the adapter was trained with it, copy it to the model's folder
the adapter's folder has tokens that the model's tokenizer lacks or numbers differently: <loc>; the model's tokenizer is used
the adapter's folder has picture settings that differ from the model's (image_mean): the model's preprocessor is used
E
jq '.target_modules = ["q_proj"] | .layers_to_transform = [0, 1, 2, 3] | .layers_pattern = "blocks"' "$lora/adapter_config.json" \
    >"$work/beside/adapter_config.json"
session "another name of layers" $llava <<E
> /set adapter $work/beside
error: adapter '$work/beside': tensor 'base_model.model.model.language_model.layers.0.mlp.down_proj.lora_A.weight': adapter_config.json (target_modules, exclude_modules, layers_to_transform) excludes its module: PEFT would ignore it
E
session "nothing unread" $llava <<E
> /adapter load $lora
adapter = tests/goldens/llava-1.5/adapters/lora
adapter 'lora' applied: LoRA 28, 15488 parameters
E

# A restored session has its adapter.
lines "/load $llava" '/session new kept' "${short[@]}" "/adapter load $lora" "${ask[@]}" || true
lines '/session resume kept' '/regen'
check "resumed with its adapter" 'select(.event == "answer").ids | tostring' "$(ids adapter.lora.gen_ids)"

# So has one restored from another working folder; its script and a preset restore the adapter, too.
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
session "no adapter" $llava <<E
> /adapter load ""
error: give the adapter's folder
> /adapter load none
error: 'none' means no adapter (/adapter unload); a folder of that name is './none'
> /adapter load OFF
error: 'OFF' means no adapter (/adapter unload); a folder of that name is './OFF'
> /adapter load $lora
adapter = tests/goldens/llava-1.5/adapters/lora
adapter 'lora' applied: LoRA 28, 15488 parameters
> /adapter load none
error: 'none' means no adapter (/adapter unload); a folder of that name is './none'
> /get adapter
adapter = tests/goldens/llava-1.5/adapters/lora
E
finish
