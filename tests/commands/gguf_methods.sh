# tests/commands/gguf_methods.sh -- methods, probes, adapters and training on GGUF files: the
# results equal those of a folder with the dequantised numbers (core/model/linear.c,
# core/files/gguf_tokenizer.c, core/adapter/adapter_read.c).
. tests/commands/common.bash
export OMP_NUM_THREADS=1 # tiny models do not use a second thread
convert="python3 tests/goldens/to_gguf.py"

# Models with the types as stored, and in 4 bits. Kimi's rows do not fit blocks, so kimi-vl is tested only as stored.
# GGUF files of Llama-like models store the rows of queries and keys in a different order.
make() { # NAME TYPE [OPTION...]: $work/NAME-TYPE/m.gguf with its encoder, and a folder with the same numbers
    local at=$work/$1-$2 type=(--type "$2" "${@:3}")
    [ "$2" != stored ] || type=("${@:3}")
    mkdir "$at" && $convert tests/goldens/$1 "$at/m.gguf" --mmproj "$at/mmproj-m.gguf" "${type[@]}" --folder "$at/folder" || fail "$1: convert"
}
make llava-1.5 stored
make qwen2.5-vl stored
make kimi-vl stored --set "tokenizer.ggml.eos_token_id=$(jq .eos_token_id tests/goldens/kimi-vl/generation_config.json)"
make llava-1.5 q4_0
make qwen2.5-vl q4_0
vlmsh "$work/llava-1.5-q4_0/m.gguf" -c /info | grep -q '^embedding .* q4_0 ' || fail "the weights are not q4_0"

# --- methods ---------------------------------------------------------------------------------------------------
python3 - "$work" <<'P' # IRA parameters for heads of 16 numbers
import math, os, struct, json, sys
os.mkdir(sys.argv[1] + "/ira")
head, body = {}, b""
for name, shape in (("ira.1.head.weight", [17, 16]), ("ira.1.head.bias", [17])):
    data = struct.pack(f"<{math.prod(shape)}f", *[math.sin(i) / 2 for i in range(math.prod(shape))])
    head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(head).encode()
open(sys.argv[1] + "/ira/extra.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
P
declare -A method=(
    [all]="/set norm.align on;/adapter load $work/ira;/set ira.layers 1;/set ira.on on;/set prune.layer 1;/set prune.keep 0.3;/set prune.score norope;/set ffn.layers 2;/set ffn.approx skip"
    [align]='/set norm.align on'
    [ira]="/adapter load $work/ira;/set ira.layers 1;/set ira.on on"
    [contribution]='/set prune.layer 1;/set prune.keep 0.3;/set prune.score contribution'
    [norope]='/set prune.layer 1;/set prune.keep 0.3;/set prune.score norope'
    [dynamic]='/set prune.layer 1;/set prune.keep 0.3;/set prune.score attention;/set prune.mode dynamic'
    [skip]='/set ffn.layers 2;/set ffn.approx skip'
)
# run NAME MODEL LINES: an answer about a picture in f32, with these lines, separated by ';', before it.
run() {
    local setup
    IFS=';' read -ra setup <<<"$3"
    lines "/load $2" '/set compute.matmul f32' '/set kv.dtype f32' '/set chat.template plain' "${setup[@]}" "/dump *logits $work/$1.safetensors" \
        '/set sample.max_tokens 4' '/set sample.ignore_eos on' "/image $scene" 'What is this?'
    check "$1" 'select(.event == "error").message' ""
}
for at in llava-1.5-stored qwen2.5-vl-stored kimi-vl-stored llava-1.5-q4_0 qwen2.5-vl-q4_0; do
    tolerance=1e-6 # llava-1.5's rows of queries and keys are in a different order, so sums are equal up to rounding
    [[ $at == *-q4_0 ]] && tolerance=2e-4
    names=(all dynamic)
    [ $at != llava-1.5-q4_0 ] || names=("${!method[@]}")
    run plain "$work/$at/m.gguf" ''
    for name in "${names[@]}"; do
        run folder "$work/$at/folder" "${method[$name]}"
        run file "$work/$at/m.gguf" "${method[$name]}"
        near "$work/folder.safetensors" "$work/file.safetensors" $tolerance || fail "$at: $name"
        near "$work/plain.safetensors" "$work/file.safetensors" 1e-5 logits 2>/dev/null && fail "$at: $name changes nothing"
    done
done

# --- probes ----------------------------------------------------------------------------------------------------
probes=(/norms /redundancy /similarity '/attention --layer 1' '/contribution --layer 1' '/sinks --layer 1 --dims 3,5' /curvature /sink-ratio
    '/dice --layer 1 --box 10,10,40,40' /flops "/adapter load $work/ira" '/set ira.layers 1' '/set ira.on on' '/kl --layer 1')
# Tables and maps of these probes, except times and the output of the encoder's last block, which a file may lack.
measured() { # MODEL
    lines "/load $1" '/set compute.matmul f32' '/set kv.dtype f32' '/set chat.template plain' '/set sample.max_tokens 3' '/set sample.ignore_eos on' \
        "/image $scene" 'What is this?' "${probes[@]}"
    check "$1" 'select(.event == "error").message' ""
    jq -c 'select((.event == "table" and .name != "times") or .event == "heatmap") | del(.rows? | arrays[] | select(.[0] == "encoder, last output"))' "$work/events"
}
for name in llava-1.5 qwen2.5-vl kimi-vl; do
    measured "$work/$name-stored/folder" >"$work/folder"
    measured "$work/$name-stored/m.gguf" >"$work/file"
    [ "$(wc -l <"$work/file")" -ge 11 ] || fail "$name: too few tables and maps"
    cmp -s "$work/folder" "$work/file" || fail "$name: probes: $(diff "$work/folder" "$work/file" | head -c 300)"
done

# --- adapters and training -------------------------------------------------------------------------------------
cat >"$work/data.json" <<J
[{"id": 1, "image": "$PWD/$scene", "question": "Where?", "answer": "Here it is."},
 {"id": 2, "question": "Why?", "answer": "Because."}]
J
train() { # NAME MODEL SETTING...
    local name=$1 from=$2 sets=()
    shift 2
    for s in "$@"; do sets+=(-c "/set $s"); done
    rm -rf "${work:?}/$name"
    vlmsh "$from" -c '/set compute.matmul f32' -c '/set chat.template plain' -c '/set train.steps 3' -c '/set train.lr 1e-2' \
        "${sets[@]}" -c "/train $work/data.json $work/$name" -c '/wait' >"$work/out" 2>&1 || fail "$name: $(tail -3 "$work/out")"
}
for at in qwen2.5-vl-stored kimi-vl-stored llava-1.5-q4_0 qwen2.5-vl-q4_0; do
    for how in 'train.params lora:*:4' 'train.method layernorm-simple'; do
        train folder "$work/$at/folder" "$how"
        train file "$work/$at/m.gguf" "$how"
        # AdamW's first steps scale small gradients up, which magnifies their rounding.
        near "$work/folder/adapter_model.safetensors" "$work/file/adapter_model.safetensors" 5e-3 || fail "$at: trained: $how"
    done
done
# Adapters trained on 4-bit weights are used with the model's 16-bit ones, and the reverse.
for name in llava-1.5 qwen2.5-vl; do
    train small "$work/$name-q4_0/m.gguf" 'train.params lora:*:4'
    train large tests/goldens/$name 'train.params lora:*:4'
    for pair in "small tests/goldens/$name $work/$name-stored/m.gguf" "large $work/$name-q4_0/folder $work/$name-q4_0/m.gguf"; do
        read -r adapter folder file <<<"$pair"
        run folder "$folder" "/adapter load $work/$adapter"
        run file "$file" "/adapter load $work/$adapter"
        near "$work/folder.safetensors" "$work/file.safetensors" 2e-4 || fail "$name: the adapter $adapter on $file"
        run plain "$file" ''
        near "$work/plain.safetensors" "$work/file.safetensors" 1e-3 logits 2>/dev/null && fail "$name: the adapter $adapter changes nothing"
    done
done

# --- the end of an answer --------------------------------------------------------------------------------------
# If a chat template writes nothing after an answer, training ends answers with the file's own end token: <|eot_id|> if
# the metadata names it, although <|end_of_text|> has a lower id.
mkdir "$work/ends" && cp $llama/{config.json,tokenizer*.json,*.safetensors*} "$work/ends" 2>/dev/null
echo '[{"id": 2, "question": "Why?", "answer": "Because."}]' >"$work/data.json"
id_of() { jq -r --arg t "$1" '.added_tokens[] | select(.content == $t).id' $llama/tokenizer.json; }
eot=$(id_of '<|eot_id|>') end=$(id_of '<|end_of_text|>')
[ "$end" -lt "$eot" ] || fail "the golden's end tokens have unexpected ids"
for id in $eot $end; do
    echo "{\"eos_token_id\": [$id, $((eot + end - id))]}" >"$work/ends/generation_config.json"
    $convert $llama "$work/ends-$id.gguf" --set "tokenizer.ggml.eos_token_id=$id" || fail "ends: convert"
    train folder-$id "$work/ends" 'train.params lora:*:4'
    train file-$id "$work/ends-$id.gguf" 'train.params lora:*:4'
    near "$work/folder-$id/adapter_model.safetensors" "$work/file-$id/adapter_model.safetensors" 1e-3 || fail "did not learn to end with $id"
done
near "$work/file-$eot/adapter_model.safetensors" "$work/file-$end/adapter_model.safetensors" 1e-2 2>/dev/null && fail "the end token is not learned"
finish
