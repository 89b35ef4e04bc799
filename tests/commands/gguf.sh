# tests/commands/gguf.sh -- GGUF files as models: the folder's numbers bit for bit, encoders, tokenizers, adapters,
# training, sessions and jobs; and files that are refused (core/files/checkpoint_gguf.c, gguf_*.c).
. tests/commands/common.bash
. tests/commands/dumps.bash
convert="python3 tests/goldens/to_gguf.py"

# --- the folder's numbers --------------------------------------------------------------------------------------
for name in llama-3.2 qwen2; do
    $convert tests/goldens/$name "$work/$name.gguf" || fail "$name: convert"
    answer tests/goldens/$name "$work/a.safetensors"
    answer "$work/$name.gguf" "$work/b.safetensors"
    same_dump "$name" "$work/a.safetensors" "$work/b.safetensors"
done
for how in "" --split-heads; do
    $convert tests/goldens/kimi-text "$work/latent.gguf" $how || fail "kimi-text: convert"
    answer tests/goldens/kimi-text "$work/a.safetensors"
    answer "$work/latent.gguf" "$work/b.safetensors"
    same_dump "kimi-text $how" "$work/a.safetensors" "$work/b.safetensors"
done
for type in f32 f16 bf16; do
    mkdir "$work/$type"
    $convert $llama "$work/$type/m.gguf" --type $type --folder "$work/$type/folder" || fail "$type: convert"
    answer "$work/$type/folder" "$work/a.safetensors"
    answer "$work/$type/m.gguf" "$work/b.safetensors"
    same_dump "$type" "$work/a.safetensors" "$work/b.safetensors"
done

# Encoders: LLaVA's with CLIP and SigLIP (whose last block is cut off), the layers of its FFNs exchanged, Qwen2.5-VL's
# (convolution over two pictures in two parts; q, k and v apart), InternVL's.
see() { # NAME TAP [OPTION]
    local name=$1 tap=$2
    shift 2
    rm -rf "$work/see" && mkdir "$work/see"
    $convert tests/goldens/$name "$work/see/m.gguf" --mmproj "$work/see/mmproj-m.gguf" "$@" || fail "$name: convert"
    answer tests/goldens/$name "$work/a.safetensors" -c '/set chat.template plain' -c "/image $scene"
    answer "$work/see/m.gguf" "$work/b.safetensors" -c '/set chat.template plain' -c "/image $scene"
    same_dump "$name $*" "$work/a.safetensors" "$work/b.safetensors" "$tap"
}
see qwen2.5-vl none
see internvl3 none
see kimi-vl none
see glm-4.1v none
see llava-siglip-llama3 vision.layer.4.0
see llava-1.5 vision.layer.3.0 --swap
see llava-1.5 vision.layer.3.0

# Weights in blocks: the numbers that they hold, multiplied in f32.
mkdir "$work/blocks"
$convert $llava "$work/blocks/m.gguf" --mmproj "$work/blocks/mmproj.gguf" --type q8_0 --folder "$work/numbers" || fail "q8_0: convert"
answer "$work/numbers" "$work/a.safetensors" -c '/set chat.template plain' -c "/image $scene"
answer "$work/blocks/m.gguf" "$work/b.safetensors" -c '/set chat.template plain' -c "/image $scene"
near "$work/a.safetensors" "$work/b.safetensors" 2e-4 '*logits' || fail "q8_0"
vlmsh "$work/blocks/m.gguf" -c /info | grep -q '^embedding .* q8_0 ' || fail "the type is not told"

# --- which encoder ---------------------------------------------------------------------------------------------
mkdir "$work/apart"
mv "$work/see/mmproj-m.gguf" "$work/apart/eyes.gguf"
cp "$work/qwen2.gguf" "$work/see/mmproj-other.gguf" # not an encoder: left alone
lines "/load $work/see/m.gguf" "/load $work/see/m.gguf --mmproj $work/apart/eyes.gguf" '/info' \
    "/load $work/qwen2.gguf --mmproj $work/apart/eyes.gguf" "/load $work/apart/eyes.gguf" \
    "/load $work/see/m.gguf --mmproj none" "/load $work/see/m.gguf extra" "/load $work/none.gguf"
check "encoders" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\nfalse\ntrue\nfalse\nfalse'
check "text or vision" 'select(.event == "notice").text | capture("(?<what>with vision|text only)").what' \
    $'text only\nwith vision\ntext only'
check_has "its files" 'select(.name == "model").rows[] | select(.[0] == "file")[1]' "$work/apart/eyes.gguf"
check_has "another's encoder" 'select(.event == "error").message' "does not belong to '$work/qwen2.gguf'"
check_has "an encoder alone" 'select(.event == "error").message' "it is a picture encoder"
same "option" "$(vlmsh "$work/see/m.gguf" --mmproj "$work/apart/eyes.gguf" -c "/image $scene" 2>&1 | grep -c attached)" 1

# --- files -----------------------------------------------------------------------------------------------------
$convert $llama "$work/split.gguf" --split 3 || fail "split: convert"
answer $llama "$work/a.safetensors"
answer "$work/split-00001-of-00003.gguf" "$work/b.safetensors"
same_dump "split" "$work/a.safetensors" "$work/b.safetensors"
mv "$work/split-00003-of-00003.gguf" "$work/gone"
cp "$work/llama-3.2.gguf" "$work/two.gguf"
printf '\002' | dd of="$work/two.gguf" bs=1 seek=4 conv=notrunc status=none
answer "$work/two.gguf" "$work/b.safetensors"
same_dump "version 2" "$work/a.safetensors" "$work/b.safetensors"

$convert $llama "$work/arch.gguf" --set 'general.architecture="mamba"'
$convert $llama "$work/pre.gguf" --set 'tokenizer.ggml.pre="klingon"'
$convert $llama "$work/model.gguf" --set 'tokenizer.ggml.model="bert"'
$convert $llama "$work/ffn.gguf" --set 'llama.feed_forward_length=99'
$convert $llama "$work/scaling.gguf" --set 'llama.rope.scaling.type="longrope"'
head -c 100000 "$work/llama-3.2.gguf" >"$work/short.gguf"
lines "/load $work/split-00002-of-00003.gguf" "/load $work/split-00001-of-00003.gguf" "/load $work/arch.gguf" \
    "/load $work/pre.gguf" "/load $work/model.gguf" "/load $work/ffn.gguf" "/load $work/scaling.gguf" \
    "/load $work/short.gguf"
messages=$(jq -r 'select(.event == "error").message' "$work/events")
for part in "is file 2 of 3: open the first one" "split-00003-of-00003.gguf" "architecture 'mamba' is not supported (known: llama" \
    "pre-tokenizer 'klingon' is not supported (known: default" "model 'bert' is not supported (known: gpt2, llama)" \
    "the metadata need" 'rope scaling "longrope" is not supported' "the file is truncated"; do
    [[ $messages == *"$part"* ]] || fail "no message says: $part"
done
same "messages" "$(grep -c . <<<"$messages")" 8

# --- adapters and training -------------------------------------------------------------------------------------
model=$work/see/m.gguf
mv "$work/apart/eyes.gguf" "$work/see/mmproj-m.gguf"
rm "$work/see/mmproj-other.gguf"
for adapter in lora ln_tuning; do
    answer $llava "$work/a.safetensors" -c "/adapter load $llava/adapters/$adapter" -c '/set chat.template plain' -c "/image $scene"
    answer "$model" "$work/b.safetensors" -c "/adapter load $llava/adapters/$adapter" -c '/set chat.template plain' -c "/image $scene"
    same_dump "adapter $adapter" "$work/a.safetensors" "$work/b.safetensors" vision.layer.3.0
done
lines "/load $model" "/adapter load $llava/adapters/lora" "/adapter merge $work/merged"
check_has "merge" 'select(.event == "error").message' "is a GGUF file, which is not written as a folder"

cat >"$work/data.json" <<J
[{"id": 1, "image": "$PWD/$scene", "question": "Where?", "answer": "Here it is."},
 {"id": 2, "question": "Why?", "answer": "Because."}]
J
# train NAME MODEL SETTING...: the adapter that a job trains on it.
train() {
    local name=$1 from=$2 sets=()
    shift 2
    for s in "$@"; do sets+=(-c "/set $s"); done
    vlmsh "$from" -c '/set compute.matmul f32' -c '/set chat.template plain' -c '/set train.steps 3' -c '/set train.lr 1e-2' \
        "${sets[@]}" -c "/train $work/data.json $work/$name" -c '/wait' >"$work/out" 2>&1 || fail "$name: $(tail -3 "$work/out")"
}
# Queries and keys are trained in Hugging Face's order of rows, as LoRA and as whole matrices.
for how in 'train.params lora:q_proj,k_proj,up_proj:4' 'train.method layernorm' 'train.params layers.1.self_attn.[qk]_proj.weight'; do
    rm -rf "$work/folder" "$work/file"
    train folder $llava "$how"
    train file "$model" "$how"
    # Gradients are sums over rows that stand in another order.
    near "$work/folder/adapter_model.safetensors" "$work/file/adapter_model.safetensors" 1e-3 || fail "trained: $how"
done
# Beside weights in blocks, gradients are those of the numbers that the blocks hold; the adapter goes from one to the other.
for how in 'train.params lora:q_proj,k_proj,down_proj:4' 'train.method layernorm'; do
    rm -rf "$work/folder" "$work/file"
    train folder "$work/numbers" "$how"
    train file "$work/blocks/m.gguf" "$how"
    near "$work/folder/adapter_model.safetensors" "$work/file/adapter_model.safetensors" 1e-3 || fail "trained on q8_0: $how"
    answer "$work/numbers" "$work/a.safetensors" -c "/adapter load $work/file" -c '/set chat.template plain' -c "/image $scene"
    answer "$work/blocks/m.gguf" "$work/b.safetensors" -c "/adapter load $work/folder" -c '/set chat.template plain' -c "/image $scene"
    near "$work/a.safetensors" "$work/b.safetensors" 1e-3 logits || fail "adapters exchanged: $how"
done
lines "/load $model" '/set train.method full' "/train $work/data.json $work/full"
check_has "full" 'select(.event == "error").message' "cannot be trained"

# --- sessions --------------------------------------------------------------------------------------------------
cd "$work" || exit 1
case $VLMSH in /*) ;; *) VLMSH=$OLDPWD/$VLMSH ;; esac
vlmsh see/m.gguf --session kept -c '/set sample.max_tokens 3' -c 'Hello' >first 2>&1 || fail "session: $(cat first)"
cd / && vlmsh --session kept -c '/info' >"$work/second" 2>&1 || fail "resume: $(cat "$work/second")"
grep -q "^file .*$work/see/m.gguf" "$work/second" || fail "resumed: $(cat "$work/second")"
finish
