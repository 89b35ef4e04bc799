# tests/commands/quantize.sh -- GGUF files that vlmsh writes: they hold the model's numbers; losses of smaller
# weights; refusals (commands/quantize.c, core/adapter/model_gguf.c, model_mmproj.c).
. tests/commands/common.bash

# value ROW: the number in that row of the table.
value() {
    sed -n "s/^$1  *//p" "$work/out"
}

# --- the same numbers ------------------------------------------------------------------------------------------
# Tiny models are stored in bf16 or f16, whichever is lossless. Rows of Llama's and InternLM2's queries and keys
# are permuted; matrices of InternLM2, Kimi and Qwen are split; experts are joined.
written() { # NAME TYPE [TAP [LINE...]]
    local name=$1 file=$work/$1/m.gguf tap=${3:-none} from=tests/goldens/$1
    mkdir -p "$work/$name"
    [ -e "$from" ] || from=$work/$name
    vlmsh quantize $from "$file" --type $2 >"$work/out" 2>&1 || fail "$name: $(tail -1 "$work/out")"
    [ "$(value 'KL divergence, largest')" = 0.000000 ] || fail "$name: KL divergence"
    [ "$(value 'same likeliest token')" = 100.00% ] || fail "$name: likeliest tokens"
    grep 'preprocessed differently' "$work/out" && fail "$name: pictures"
    shift; shift; shift
    answer $from "$work/a.safetensors" "$@"
    answer "$file" "$work/b.safetensors" "$@"
    same_dump "$name" "$work/a.safetensors" "$work/b.safetensors" "$tap"
}
glm_text "$work/glm4"
glm_text "$work/air" glm-4.5v Glm4MoeForCausalLM glm4_moe
for name in llama-3.2 qwen2 kimi-text glm4 air glm-4.5v; do written $name bf16 none; done
# Models with their encoders; LLaVA's last block is not used and not written.
# With sanitizers, one of each kind of encoder.
encoders="internvl2-internlm2 kimi-vl glm-4.1v qwen3-vl-moe mistral3 gemma4"
sanitized || encoders+=" qwen2.5-vl internvl3 internvl3.5 internvl2.5-qwen2 qwen2-vl qwen3-vl pixtral gemma4-moe gemma4-unified"
for name in $encoders; do
    written $name bf16 none -c '/set chat.template plain' -c "/image $scene"
done
# GLM-OCR, whose convolutions are f32 in the file and bf16 in the folder: their products sum in different orders.
vlmsh quantize tests/goldens/glm-ocr "$work/ocr.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "glm-ocr: $(tail -1 "$work/out")"
for model in "a tests/goldens/glm-ocr" "b $work/ocr.gguf"; do
    answer "${model#* }" "$work/${model%% *}.safetensors" -c "/image $scene"
done
near "$work/a.safetensors" "$work/b.safetensors" 1e-5 || fail "glm-ocr"
# MiniCPM-V 4.6, whose convolutions differ likewise, with the nine slices of llama.cpp. A file of its own file is the same.
cp -rL tests/goldens/minicpm-v-4.6 "$work/minicpm" && chmod -R u+w "$work/minicpm"
sed -i 's/"max_slice_nums": 2/"max_slice_nums": 9/' "$work/minicpm/preprocessor_config.json"
vlmsh quantize "$work/minicpm" "$work/cpm.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "minicpm: $(tail -1 "$work/out")"
for model in "a $work/minicpm" "b $work/cpm.gguf"; do
    answer "${model#* }" "$work/${model%% *}.safetensors" -c "/image $scene"
done
near "$work/a.safetensors" "$work/b.safetensors" 1e-5 || fail "minicpm"
vlmsh quantize "$work/cpm.gguf" "$work/cpm-again.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "minicpm again: $(tail -1 "$work/out")"
cmp "$work/mmproj-cpm.gguf" "$work/mmproj-cpm-again.gguf" || fail "minicpm: the encoder's second file differs"
# A file for four patches per visual token has only this mode.
sed -i 's/"patch_size": 3/"patch_size": 3, "downsample_mode": "4x"/' "$work/minicpm/preprocessor_config.json"
sed -i 's/"insert_layer_id": 0/"insert_layer_id": 0, "downsample_mode": "4x"/' "$work/minicpm/config.json"
vlmsh quantize "$work/minicpm" "$work/cpm4.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "minicpm 4x: $(tail -1 "$work/out")"
for model in "a $work/minicpm" "b $work/cpm4.gguf"; do
    answer "${model#* }" "$work/${model%% *}.safetensors" -c "/image $scene"
done
near "$work/a.safetensors" "$work/b.safetensors" 1e-5 || fail "minicpm 4x"
vlmsh "$work/cpm4.gguf" -c '/set image.downsample_mode 16x' >"$work/out" 2>&1 && fail "minicpm 4x: it joins windows"
grep -q 'so it has only the mode 4x' "$work/out" || fail "minicpm 4x: $(cat "$work/out")"
vlmsh quantize tests/goldens/minicpm-v-4.6 "$work/cpm-two.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "minicpm-2: $(tail -1 "$work/out")"
grep -q 'cannot be written as GGUF: "max_slice_nums" or "slice_mode"' "$work/out" || fail "minicpm-2 does not say so"
# Ministral 3, whose queries grow after position 16; as a text model, too. The file of a file has
# the same keys.
cp -rL tests/goldens/mistral3 "$work/ministral3" && chmod -R u+w "$work/ministral3"
jq '.text_config += {model_type: "ministral3", rope_theta: null, rope_parameters: {rope_type: "yarn", rope_theta: 1e6, factor: 4,
    original_max_position_embeddings: 16, mscale: 1, mscale_all_dim: 1, llama_4_scaling_beta: 0.1}}' tests/goldens/mistral3/config.json >"$work/ministral3/config.json"
written ministral3 bf16 none -c '/set chat.template plain' -c "/image $scene"
answer "$work/ministral3" "$work/a.safetensors" -c '/set chat.template plain'
answer "$work/ministral3/m.gguf --mmproj none" "$work/b.safetensors" -c '/set chat.template plain'
same_dump "ministral3 as text" "$work/a.safetensors" "$work/b.safetensors"
vlmsh quantize "$work/ministral3/m.gguf" "$work/ministral3/again.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "ministral3 again: $(tail -1 "$work/out")"
cmp "$work/ministral3/m.gguf" "$work/ministral3/again.gguf" || fail "ministral3: the second file differs"
# SmolVLM, whose tiles must have the size of its table of positions (30 pixels, not 20).
cp -rL tests/goldens/smolvlm "$work/smolvlm-30" && chmod -R u+w "$work/smolvlm-30"
sed -i 's/"longest_edge": 20/"longest_edge": 30/; s/"longest_edge": 40/"longest_edge": 90/' "$work/smolvlm-30/preprocessor_config.json"
written smolvlm-30 bf16 none -c "/image $scene"
vlmsh quantize tests/goldens/smolvlm "$work/two.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "smolvlm: $(tail -1 "$work/out")"
grep -q 'the picture encoder cannot be written as GGUF: its tiles differ from its table of positions' "$work/out" || fail "smolvlm does not say so"
# Gemma 3 with five sliding layers to one; GGUF cannot describe the golden's pattern of two to one, or other score factors.
cp -rL tests/goldens/gemma3 "$work/gemma3-6" && chmod -R u+w "$work/gemma3-6"
sed -i 's/"sliding_window_pattern": 3/"sliding_window_pattern": 6/' "$work/gemma3-6/config.json"
written gemma3-6 bf16 none -c "/image $scene" -c '/set sample.max_tokens 40'
sed 's/"query_pre_attn_scalar": 16/"query_pre_attn_scalar": 20/' "$work/gemma3-6/config.json" >"$work/scalar.json"
refused_gguf() { # FOLDER TEXT
    vlmsh quantize "$1" "$work/refused.gguf" --type bf16 --no-compare >"$work/out" 2>&1 && fail "$1 is written"
    grep -q "$2" "$work/out" || fail "$1: $(cat "$work/out")"
}
refused_gguf tests/goldens/gemma3 'GGUF cannot say which of its layers have a sliding window'
cp "$work/scalar.json" "$work/gemma3-6/config.json"
refused_gguf "$work/gemma3-6" 'GGUF has no key for its "query_pre_attn_scalar"'
# Yarn with an amplitude of its own; layers with a sliding window whose positions are scaled.
cp -rL tests/goldens/llama-3.2 "$work/yarn" && chmod -R u+w "$work/yarn"
yarn() { # KEY VALUE
    jq ".rope_scaling = {rope_type: \"yarn\", factor: 4, original_max_position_embeddings: 64, $1}" tests/goldens/llama-3.2/config.json >"$work/yarn/config.json"
}
yarn 'attention_factor: 0.5'
refused_gguf "$work/yarn" 'the parameters of its rotary scaling "yarn" cannot be written as GGUF'
yarn 'attention_factor: 1.138629436111989'
written yarn bf16 none
jq '.text_config += {query_pre_attn_scalar: 16, rope_parameters: {sliding_attention: {rope_type: "linear", factor: 2, rope_theta: 10000}}}' \
    "$work/scalar.json" >"$work/gemma3-6/config.json"
refused_gguf "$work/gemma3-6" 'GGUF has no key for the rotary scaling of its layers with a sliding window'
# Gemma 4: a file of its own file is the same; GGUF cannot say that only E2B's pictures are causal.
vlmsh quantize "$work/gemma4/m.gguf" "$work/gemma4/again.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "gemma4 again: $(tail -1 "$work/out")"
cmp "$work/gemma4/m.gguf" "$work/gemma4/again.gguf" || fail "gemma4: the second file differs"
cmp "$work/gemma4/mmproj-m.gguf" "$work/gemma4/mmproj-again.gguf" || fail "gemma4: the encoder's second file differs"
cp -rL tests/goldens/gemma4 "$work/gemma4-whole" && chmod -R u+w "$work/gemma4-whole"
sed -i 's/"use_bidirectional_attention": null/"use_bidirectional_attention": "vision"/' "$work/gemma4-whole/config.json"
vlmsh quantize "$work/gemma4-whole" "$work/whole.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "gemma4-whole: $(tail -1 "$work/out")"
grep -q 'cannot be written as GGUF: "use_bidirectional_attention"' "$work/out" || fail "gemma4-whole does not say so"
# LLaVA-Next: the same tiles on the same grids, with newlines.
written llava-next bf16 vision.layer.3.0 -c '/set chat.template plain' -c "/image $scene"
written llava-siglip-llama3 bf16 vision.layer.4.0 -c '/set chat.template plain' -c "/image $scene"
written llava-1.5 f16 vision.layer.3.0 -c '/set chat.template plain' -c "/image $scene"
# GGUF has no keys for some steps of the preprocessing.
cp -rL $llava "$work/padded" && chmod -R u+w "$work/padded"
jq '.image_processor_type = "LlavaImageProcessor" | .do_pad = true | .resample = 2 | .rescale_factor = 0.002' $llava/preprocessor_config.json >"$work/padded/preprocessor_config.json"
vlmsh quantize "$work/padded" "$work/padded.gguf" --type f16 >"$work/out" 2>&1 || fail "padded: $(tail -1 "$work/out")"
grep -q 'with the file, pictures are preprocessed differently: GGUF has no keys for do_pad, resample, rescale_factor$' "$work/out" ||
    fail "padded: $(cat "$work/out")"
# An encoder that vlmsh cannot write.
vlmsh quantize tests/goldens/llava-onevision "$work/one.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "llava-onevision: $(tail -1 "$work/out")"
grep -q 'the language model alone was written: GGUF has no format for the picture encoder of the family llava-onevision' "$work/out" ||
    fail "llava-onevision does not say so"
[ ! -e "$work/mmproj-one.gguf" ] || fail "an encoder of llava-onevision is written"
# With smaller weights of the encoder, the visual tokens are nearly the same.
vlmsh quantize $llava "$work/llava-1.5/q8.gguf" --type q8_0 --encoder q8_0 >"$work/out" 2>&1 || fail "--encoder: $(tail -1 "$work/out")"
answer "$work/llava-1.5/q8.gguf --mmproj $work/llava-1.5/mmproj-q8.gguf" "$work/b.safetensors" -c '/set chat.template plain' -c "/image $scene"
near "$work/a.safetensors" "$work/b.safetensors" 0.05 vision.0 || fail "--encoder q8_0 changes the visual tokens too much"
near "$work/a.safetensors" "$work/b.safetensors" 0 vision.0 2>/dev/null && fail "--encoder q8_0 changes nothing"

# A written file can be written again, from rows in the permuted order.
vlmsh "$work/llama-3.2/m.gguf" -c "/quantize $work/again.gguf --type bf16" >"$work/out" 2>&1 || fail "again: $(tail -1 "$work/out")"
answer "$work/again.gguf" "$work/a.safetensors"
answer "$work/llama-3.2/m.gguf" "$work/b.safetensors"
same_dump "written again" "$work/a.safetensors" "$work/b.safetensors"

# --- smaller weights -------------------------------------------------------------------------------------------
# Rows of 64 numbers fit q8_0's blocks, not q4_k's.
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/q8.gguf --type q8_0" >"$work/out" 2>&1 || fail "q8_0: $(tail -1 "$work/out")"
awk -v kl="$(value 'KL divergence, mean')" 'BEGIN { exit !(kl > 0 && kl < 0.01) }' || fail "q8_0: KL divergence $(value 'KL divergence, mean')"
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/q4.gguf --type q4_k" >"$work/out" 2>&1 || fail "q4_k: $(tail -1 "$work/out")"
grep -q 'get a different type, because their rows do not fit the blocks of q4_k' "$work/out" || fail "q4_k does not report the other type"
grep -q 'q4.gguf: language model, [0-9.]* MB; matrices: [0-9]* q8_0$' "$work/out" || fail "types of q4_k: $(cat "$work/out")"

# A file has the end tokens of its folder: four (llama.cpp has keys for three), and no others, whatever the tokenizer
# calls its end.
ends() {
    lines "/load $1" /info
    jq -r 'select(.event == "table").rows[] | select(.[0] == "end of answers")[1]' "$work/events" | sed 's/ (.*//'
}
for list in '[564, 561, 566, 567]' '[566]' '[568, 564]'; do
    rm -rf "$work/ends"* && cp -rL tests/goldens/llama-3.2 "$work/ends" && chmod -R u+w "$work/ends"
    echo "{\"eos_token_id\": $list}" >"$work/ends/generation_config.json"
    vlmsh quantize "$work/ends" "$work/ends.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "ends: $(tail -1 "$work/out")"
    same "ends $list" "$(ends "$work/ends.gguf")" "$(ends "$work/ends")"
    [ $(grep -c '4 tokens end answers; llama.cpp reads three' "$work/out") = $((${#list} > 15)) ] || fail "$list: $(cat "$work/out")"
done

# A file has the tokens of its folder that no answer may contain.
first() { # MODEL
    lines "/load $1" '/set chat.template plain' '/set sample.max_tokens 1' 'Hi' '/info'
    jq -r 'select(.event == "answer").ids[0]' "$work/events"
}
cp -rL tests/goldens/llama-3.2 "$work/barred" && chmod -R u+w "$work/barred"
likeliest=$(first "$work/barred")
jq ".suppress_tokens = [$likeliest]" tests/goldens/llama-3.2/generation_config.json >"$work/barred/generation_config.json"
vlmsh quantize "$work/barred" "$work/barred.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "barred: $(tail -1 "$work/out")"
same "barred token" "$(first "$work/barred.gguf")" "$(first "$work/barred")"
[ "$(first "$work/barred.gguf")" != "$likeliest" ] || fail "the barred token is an answer"

# The comparison uses a text given by the user.
printf 'One two three. %.0s' 1 2 3 4 5 >"$work/text"
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/text.gguf --type q8_0 --text $work/text" >"$work/out" 2>&1 || fail "--text: $(tail -1 "$work/out")"
[ "$(value 'tokens of the text')" -lt 100 ] || fail "--text is not used"

: >"$work/empty"
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/none.gguf --type q8_0 --text $work/empty" >"$work/out" 2>&1
grep -q 'fewer than two tokens' "$work/out" || fail "an empty text: $(cat "$work/out")"
[ -e "$work/none.gguf" ] && fail "an empty text is noticed after writing"

# If the comparison is interrupted, a message says that the file is written.
for ((i = 0; i < 200000; i++)); do echo "$i is a number"; done >"$work/long"
VLMSH_FILE=$work/cut.gguf python3 - "$VLMSH" --db "$work/cut.db" quantize tests/goldens/llama-3.2 "$work/cut.gguf" --type q8_0 --text "$work/long" >"$work/out" 2>&1 <<'P'
import os, signal, subprocess, sys, time
run = subprocess.Popen(sys.argv[1:])
while not os.path.exists(os.environ["VLMSH_FILE"]) and run.poll() is None:
    time.sleep(0.02)
time.sleep(0.3)
run.send_signal(signal.SIGINT)
sys.exit(run.wait())
P
same "exit status of an interrupted run" "$?" 130
grep -q "cut.gguf' was written, but not compared: cancelled" "$work/out" || fail "interrupted: $(cat "$work/out")"
vlmsh "$work/cut.gguf" -c /info >"$work/out" 2>&1 || fail "interrupted: $(tail -1 "$work/out")"

# JSON events name both files.
vlmsh tests/goldens/llava-1.5 --json -c "/quantize $work/both.gguf --type q8_0 --no-compare" >"$work/events"
check "files written" 'select(.event == "written") | "\(.what) \(.file)"' "encoder $work/mmproj-both.gguf
model $work/both.gguf"

# Without the comparison, the file is the same.
vlmsh quantize tests/goldens/llama-3.2 "$work/only.gguf" --type q8_0 --no-compare >"$work/out" 2>&1 || fail "--no-compare: $(tail -1 "$work/out")"
grep -q 'only.gguf: language model, [0-9.]* MB; matrices: [0-9]* q8_0$' "$work/out" || fail "--no-compare does not say what was written"
grep -q 'KL divergence' "$work/out" && fail "--no-compare compares"
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/command.gguf --type q8_0 --no-compare" >"$work/out" 2>&1 || fail "/quantize --no-compare fails"
for f in only command; do cmp "$work/q8.gguf" "$work/$f.gguf" || fail "--no-compare writes a different file: $f"; done

# No file is reported before both have their names: here the second one cannot be written.
mkdir "$work/full"
if (trap '' XFSZ && ulimit -f 300 && vlmsh quantize $llava "$work/full/m.gguf" --type bf16 --no-compare) >"$work/out" 2>&1; then
    fail "a limit of file sizes does not stop the model's file"
fi
grep -q 'cannot write' "$work/out" || fail "full: $(cat "$work/out")"
grep -q 'encoder' "$work/out" && fail "reports a file that was not kept: $(cat "$work/out")"
same "nothing is left on a full disk" "$(ls "$work/full")" ''

# Progress shows the time left once a part of the text has been read, and none at the end. (tests/core/base/pace.c
# checks the times.)
lines "/load tests/goldens/llama-3.2" "/quantize $work/timed.gguf --type q8_0"
check "progress of each part" 'select(.event == "progress" and .step == .steps) | "\(.what) \(.eta_s)"' $'loading 0\nwriting 0\ncomparing 0'

# A loaded adapter is merged into the file, even if its rows are permuted.
vlmsh "$work/llava-1.5/m.gguf" -c "/adapter load $llava/adapters/lora" -c "/quantize $work/merged/m.gguf --type f16" >"$work/out" 2>&1
grep -q "cannot create" "$work/out" || fail "no folder: $(tail -1 "$work/out")"
mkdir "$work/merged"
vlmsh "$work/llava-1.5/m.gguf" -c "/adapter load $llava/adapters/lora" -c "/quantize $work/merged/m.gguf --type f16" >"$work/out" 2>&1 || fail "merged: $(tail -1 "$work/out")"
answer $llava "$work/a.safetensors" -c "/adapter load $llava/adapters/lora" -c '/set chat.template plain' -c "/image $scene"
answer "$work/merged/m.gguf" "$work/b.safetensors" -c '/set chat.template plain' -c "/image $scene"
near "$work/a.safetensors" "$work/b.safetensors" 2e-3 logits || fail "the adapter is not merged"
answer $llava "$work/a.safetensors" -c '/set chat.template plain' -c "/image $scene"
near "$work/a.safetensors" "$work/b.safetensors" 1e-2 logits 2>/dev/null && fail "the adapter changes nothing"

# --- killed ----------------------------------------------------------------------------------------------------
# Killed while writing: neither file has its final name, and the next run removes the remains.
mkdir "$work/killed"
for try in {1..40}; do
    rm -f "$work/killed"/*.gguf
    "$VLMSH" quantize demo/model "$work/killed/m.gguf" --type q4_k --no-compare >"$work/out" 2>&1 &
    until compgen -G "$work/killed/*.part-*" >"$work/parts" || ! kill -0 $! 2>/dev/null; do :; done
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    compgen -G "$work/killed/*.part-*" >"$work/parts" && break
done
[ -s "$work/parts" ] || fail "the program was never killed while it wrote"
[ ! -e "$work/killed/m.gguf" -a ! -e "$work/killed/mmproj-m.gguf" ] || fail "killed: a file has its final name"
# Locked files, and files that are not remains of vlmsh, stay.
for name in backup part-12345 part-1234567 part-12345- part-locked; do echo mine >"$work/killed/m.gguf.$name"; done
mkdir "$work/killed/m.gguf.part-folder"
flock "$work/killed/m.gguf.part-locked" "$VLMSH" quantize demo/model "$work/killed/m.gguf" --type q4_k --no-compare >"$work/out" 2>&1 ||
    fail "after the kill: $(tail -1 "$work/out")"
same "after the kill" "$(ls "$work/killed")" "$(printf '%s\n' m.gguf m.gguf.{backup,part-12345,part-12345-,part-1234567,part-folder,part-locked} mmproj-m.gguf | sort)"
mkdir -p "$work/killed/merged.part-abc123/deep" "$work/killed/merged.backup"
echo x >"$work/killed/merged.part-abc123/deep/x"
vlmsh $llava -c "/adapter load $llava/adapters/lora" -c "/adapter merge $work/killed/merged" >"$work/out" 2>&1 || fail "merge: $(tail -1 "$work/out")"
same "after a killed merge" "$(cd "$work/killed" && ls -d merged*)" $'merged\nmerged.backup'

# --- refused ---------------------------------------------------------------------------------------------------
refused() {
    local why=$1
    shift
    if vlmsh "$@" >"$work/out" 2>&1; then fail "$*: not refused"; fi
    grep -qF -- "$why" "$work/out" || fail "$*: $(tail -1 "$work/out")"
}
mkdir "$work/copy" && touch "$work/copy/mmproj-m.gguf"
refused "exists" quantize tests/goldens/qwen2 "$work/qwen2/m.gguf" --type f16
refused "types: q8_0, q4_k, f16, bf16" quantize tests/goldens/qwen2 "$work/x.gguf" --type q5_k
refused "give --type TYPE" quantize tests/goldens/qwen2 "$work/x.gguf"
refused "must end in .gguf" quantize tests/goldens/qwen2 "$work/x" --type f16
refused "cannot be combined" quantize tests/goldens/qwen2 "$work/x.gguf" --type f16 --text "$work/text" --no-compare
refused "MODEL" quantize --type f16
refused "unknown type 'q4_k' of the encoder" quantize $llava "$work/x.gguf" --type q4_k --encoder q4_k
refused "mmproj-m.gguf' already exists" quantize $llava "$work/copy/m.gguf" --type f16
refused "cannot create" quantize tests/goldens/qwen2 "$work/none/x.gguf" --type f16
[ ! -e "$work/x.gguf" ] || fail "a refused file exists"
finish
