# tests/commands/gguf.sh -- GGUF files as models: the folder's numbers bit for bit, encoders, tokenizers, adapters,
# training, sessions and jobs; and files that are refused (core/files/checkpoint_gguf.c, gguf_*.c).
. tests/commands/common.bash
convert="python3 tests/goldens/to_gguf.py"

# --- the folder's numbers --------------------------------------------------------------------------------------
for name in llama-3.2 qwen2; do
    $convert tests/goldens/$name "$work/$name.gguf" || fail "$name: convert"
    answer tests/goldens/$name "$work/a.safetensors"
    answer "$work/$name.gguf" "$work/b.safetensors"
    same_dump "$name" "$work/a.safetensors" "$work/b.safetensors"
done
# A linear scaling by 1 leaves Llama 3's divisors in force.
$convert tests/goldens/llama-3.2 "$work/once.gguf" --set 'llama.rope.scaling.type="linear"' || fail "once: convert"
answer tests/goldens/llama-3.2 "$work/a.safetensors"
answer "$work/once.gguf" "$work/b.safetensors"
same_dump "linear scaling by 1" "$work/a.safetensors" "$work/b.safetensors"
# Runs with VLMSH_ISA=base, whose short vectors sum products with bf16 and f32 weights in different orders
# even at this size.
for how in "" --split-heads; do
    $convert tests/goldens/kimi-text "$work/latent.gguf" $how || fail "kimi-text: convert"
    VLMSH_ISA=base answer tests/goldens/kimi-text "$work/a.safetensors"
    VLMSH_ISA=base answer "$work/latent.gguf" "$work/b.safetensors"
    same_dump "kimi-text $how" "$work/a.safetensors" "$work/b.safetensors"
done
# GLM-4 keeps its row order. GLM-4.1V without its encoder has permuted rows and gives the same numbers.
glm_text "$work/glm4"
answer "$work/glm4" "$work/a.safetensors"
$convert "$work/glm4" "$work/glm4.gguf" || fail "glm4: convert"
$convert tests/goldens/glm-4.1v "$work/glm4v.gguf" || fail "glm4v: convert"
for name in glm4 glm4v; do
    answer "$work/$name.gguf" "$work/b.safetensors"
    same_dump "$name" "$work/a.safetensors" "$work/b.safetensors"
done

# GLM-4.5-Air: only q, k and v have biases. Its files contain a last layer that only predicts further tokens.
glm_text "$work/air" glm-4.5v Glm4MoeForCausalLM glm4_moe
answer "$work/air" "$work/a.safetensors"
$convert "$work/air" "$work/air.gguf" --add=blk.3.{attn_q,attn_norm,ffn_gate_exps,nextn.eh_proj,nextn.enorm}.weight || fail "glm4_moe: convert"
answer "$work/air.gguf" "$work/b.safetensors"
same_dump glm4_moe "$work/a.safetensors" "$work/b.safetensors"

# A scaling factor without a type means linear scaling, even in the older spelling.
linear() { # NAME [--set KEY=VALUE]...
    $convert tests/goldens/qwen2 "$work/linear.gguf" "${@:2}" || fail "$1: convert"
    answer "$work/linear.gguf" "$work/$1.safetensors"
}
linear none
linear typed --set 'qwen2.rope.scaling.type="linear"' --set qwen2.rope.scaling.factor=4.0
linear untyped --set qwen2.rope.scaling.factor=4.0
linear older --set qwen2.rope.scale_linear=4.0
same_dump "a factor without a type" "$work/typed.safetensors" "$work/untyped.safetensors"
same_dump "the older spelling" "$work/typed.safetensors" "$work/older.safetensors"

# Positions on three axes with scaling, as in Qwen2.5-VL for long texts.
qwen=tests/goldens/qwen2.5-vl
mkdir "$work/scaled"
cp $qwen/*.json $qwen/model.safetensors "$work/scaled"
jq '.rope_scaling += {type: "yarn", factor: 4, original_max_position_embeddings: 16}' $qwen/config.json >"$work/scaled/config.json"
mkdir "$work/file"
$convert $qwen "$work/file/m.gguf" --mmproj "$work/file/mmproj-m.gguf" --set 'qwen2vl.rope.scaling.type="yarn"' --set qwen2vl.rope.scaling.factor=4.0 \
    --set qwen2vl.rope.scaling.original_context_length=16 || fail "scaled: convert"
see() { # MODEL DUMP
    lines "/load $1" '/set compute.matmul f32' '/set sample.max_tokens 1' "/dump logits $2" '/image tests/goldens/pictures/big.png' 'What is it?'
}
see $qwen "$work/plain.safetensors"
see "$work/scaled" "$work/a.safetensors"
see "$work/file/m.gguf" "$work/b.safetensors"
cmp "$work/a.safetensors" "$work/b.safetensors" || fail "scaled, of three axes: logits differ"
cmp -s "$work/plain.safetensors" "$work/a.safetensors" && fail "the scaling changes nothing"
sed -i 's/clip.vision.n_wa_pattern/clip.vision.n_wa_unknown/' "$work/file/mmproj-m.gguf"
lines "/load $work/file/m.gguf" || true
check_has "which blocks see whole pictures" 'select(.event == "error").message' "'clip.vision.n_wa_pattern' is missing"
cmp -s "$work/none.safetensors" "$work/typed.safetensors" && fail "the factor changes nothing"

for type in f32 f16 bf16; do
    mkdir "$work/$type"
    $convert $llama "$work/$type/m.gguf" --type $type --folder "$work/$type/folder" || fail "$type: convert"
    answer "$work/$type/folder" "$work/a.safetensors"
    answer "$work/$type/m.gguf" "$work/b.safetensors"
    same_dump "$type" "$work/a.safetensors" "$work/b.safetensors"
done

# Encoders, among them LLaVA's with CLIP and SigLIP (whose last block is cut off) and with the two FFN layers exchanged,
# and Qwen2.5-VL's (a convolution over two pictures, stored in two parts; q, k and v separate).
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
see glm-4.5v none
see qwen2-vl none
see qwen2-vl none --swap
see qwen3-vl none
see qwen3-vl-moe none
# Gemma 4's: files limit pixels, not visual tokens (12 of 6 x 6 pixels).
see gemma4 none --set clip.vision.image_max_pixels=432
see gemma4-moe none --set clip.vision.image_max_pixels=432
see gemma4-unified none --set clip.vision.image_max_pixels=432
# Pixtral's: files have the longest edge of pictures only as the encoder's image_size, unless vlmsh wrote them.
see mistral3 none --set clip.vision.longest_edge=24
see pixtral none --set clip.vision.longest_edge=16
see llava-next vision.layer.3.0
see llava-siglip-llama3 vision.layer.4.0
see llava-1.5 vision.layer.3.0 --swap
see llava-1.5 vision.layer.3.0

# Gemma 4: keys that contradict each other, or that nothing computes. An audio encoder is not read.
gemma() { # NAME OPTION...
    mkdir "$work/g-$1" && $convert tests/goldens/gemma4 "$work/g-$1/m.gguf" --mmproj "$work/g-$1/mmproj-m.gguf" "${@:2}" || fail "gemma4 $1: convert"
}
gemma short --set 'gemma4.attention.sliding_window_pattern=[true, false]'
gemma ffn --set 'gemma4.feed_forward_length=[12, 12, 13, 24, 24, 24]'
gemma triple --set 'gemma4.feed_forward_length=[12, 12, 12, 36, 36, 36]'
gemma heads --set 'gemma4.attention.head_count_kv=[1, 2, 1, 2, 1, 2]'
gemma width --set gemma4.attention.value_length_swa=6
gemma shared --set gemma4.attention.shared_kv_layers=6
gemma patch --set clip.vision.patch_size=2000000000
mkdir "$work/g-blocks" && $convert tests/goldens/gemma4-unified "$work/g-blocks/m.gguf" --mmproj "$work/g-blocks/mmproj-m.gguf" --set clip.vision.block_count=5 || fail "gemma4-unified: convert"
gemma sound --add a.blk.0.ln1.weight --set clip.has_audio_encoder=true
session "hostile files of Gemma 4" <<E
> /load $work/g-short/m.gguf
error: '$work/g-short/m.gguf': 'gemma4.attention.sliding_window_pattern' must be a list that says for each of 6 layers whether it has a sliding window
> /load $work/g-blocks/m.gguf
error: '$work/g-blocks/mmproj-m.gguf': 'clip.vision.block_count' must be 0: this encoder has no blocks
> /load $work/g-ffn/m.gguf
error: '$work/g-ffn/m.gguf': 'gemma4.feed_forward_length' is 13 in layer 2, which is not supported
> /load $work/g-triple/m.gguf
error: '$work/g-triple/m.gguf': 'gemma4.feed_forward_length' is 36 in layers that share keys and values and 12 in the others; only twice the width is supported
> /load $work/g-heads/m.gguf
error: '$work/g-heads/m.gguf': 'gemma4.attention.head_count_kv' differs between layers that have matrices of their own for values; this is not supported
> /load $work/g-width/m.gguf
error: '$work/g-width/m.gguf': 'gemma4.attention.value_length_swa' is 6, but keys have a width of 8; this is not supported
> /load $work/g-shared/m.gguf
error: '$work/g-shared/m.gguf': 'gemma4.feed_forward_length' is 24 in layer 3, which is not supported
> /load $work/g-patch/m.gguf
error: '$work/g-patch/mmproj-m.gguf': 'clip.vision.patch_size' is 2000000000 and 'projector.scale_factor' 3; such large patches are not supported
> /load $work/g-sound/m.gguf
not read: 1 tensor ('a.blk.*.ln1.weight') outside the model that config.json describes
loaded '$work/g-sound/m.gguf': gemma4, 0.02609 million parameters, with vision, N s
E

# Unread tensors of an encoder are ignored if no picture needs them; others are refused by name.
# LLaVA-Next has the encoder type of LLaVA.
encoder() { # NAME OPTION...: files m.gguf and mmproj.gguf in $work/NAME
    mkdir "$work/$1" && $convert tests/goldens/llava-next "$work/$1/m.gguf" --mmproj "$work/$1/mmproj.gguf" "${@:2}" || fail "$1: convert"
}
encoder idle --add v.head.probe --add t.token_embd.weight
encoder more --add mm.3.weight
encoder deeper --add v.blk.0.ls1
encoder beyond --add v.blk.2.ln1.weight
encoder bare --drop model.image_newline
encoder siglip --drop v.class_embd
session "parts of an encoder" <<E
> /load $work/idle/m.gguf
loaded '$work/idle/m.gguf': llava-next, 0.1305 million parameters, with vision, N s
> /load $work/more/m.gguf
error: '$work/more/mmproj.gguf': tensor 'mm.3.weight' is not known to projector type 'mlp', and without it the model would misread pictures: open the model's folder instead, or --mmproj none for text only
> /load $work/deeper/m.gguf
error: '$work/deeper/mmproj.gguf': tensor 'v.blk.0.ls1' is not known to projector type 'mlp', and without it the model would misread pictures: open the model's folder instead, or --mmproj none for text only
> /load $work/beyond/m.gguf
error: '$work/beyond/mmproj.gguf': tensor 'v.blk.2.ln1.weight' belongs to a block beyond 'clip.vision.block_count', which is 2
> /load $work/bare/m.gguf
error: '$work/bare/mmproj.gguf': it cuts pictures into tiles (LLaVA-Next), but its tensor 'model.image_newline' is missing
> /load $work/siglip/m.gguf
error: '$work/siglip/mmproj.gguf': it cuts pictures into tiles for SigLIP (LLaVA-OneVision): as GGUF only LLaVA-Next is supported, with CLIP; open the model's folder instead
> /load $work/more/m.gguf --mmproj none
loaded '$work/more/m.gguf::none': llama, 0.1063 million parameters, text only, N s
E

# Quantised weights: the dequantised numbers, multiplied in f32.
mkdir "$work/blocks"
$convert $llava "$work/blocks/m.gguf" --mmproj "$work/blocks/mmproj.gguf" --type q8_0 --folder "$work/numbers" || fail "q8_0: convert"
answer "$work/numbers" "$work/a.safetensors" -c '/set chat.template plain' -c "/image $scene"
answer "$work/blocks/m.gguf" "$work/b.safetensors" -c '/set chat.template plain' -c "/image $scene"
near "$work/a.safetensors" "$work/b.safetensors" 2e-4 '*logits' || fail "q8_0: logits differ"
vlmsh "$work/blocks/m.gguf" -c /info | grep -q '^embedding .* q8_0 ' || fail "the type is not shown"

# --- choice of the encoder --------------------------------------------------------------------------------------
mkdir "$work/apart"
mv "$work/see/mmproj-m.gguf" "$work/apart/eyes.gguf"
cp "$work/qwen2.gguf" "$work/see/mmproj-other.gguf" # not an encoder: ignored
session "files of a pair" <<E
> /load $work/see/m.gguf
no picture encoder: the encoder '$work/see/mmproj-other.gguf' does not belong to '$work/see/m.gguf': it is a language model
loaded '$work/see/m.gguf': llama, 0.2044 million parameters, text only, N s
> /load $work/see/m.gguf --mmproj $work/apart/eyes.gguf
loaded '$work/see/m.gguf::$work/apart/eyes.gguf': llava, 0.2334 million parameters, with vision, N s
> /info
[model]
field           value
family          llava
architecture    LlavaForConditionalGeneration
file            $work/see/m.gguf
file            $work/apart/eyes.gguf
fingerprint     ...
vision encoder  2 of 2 layers, width 32, 4 heads
picture         35 pixels a side, patches of 7, 25 visual tokens
decoder         4 layers, width 64, 4 heads, 4 key-value heads, ffn 88
vocabulary      552
positions       4096
chat template   the file's
end of answers  </s> (metadata)
preprocessor    the encoder file's
device          ...
arithmetic      ... (compute.matmul auto)
(model)
...
> /load $work/qwen2.gguf --mmproj $work/apart/eyes.gguf
error: the encoder '$work/apart/eyes.gguf' does not belong to '$work/qwen2.gguf': its visual tokens are 64 numbers wide, the embeddings 56
> /load $work/apart/eyes.gguf
error: '$work/apart/eyes.gguf': it is a picture encoder: open its language model, and name this file with --mmproj
> /load $work/see/m.gguf --mmproj none
loaded '$work/see/m.gguf::none': llama, 0.2044 million parameters, text only, N s
> /load $work/see/m.gguf extra
error: unexpected 'extra' after MODEL
> /load $work/none.gguf
error: cannot open '$work/none.gguf': No such file or directory
E
session "a text model as encoder" <<E
> /load $work/see/m.gguf --mmproj $work/qwen2.gguf
error: the encoder '$work/qwen2.gguf' does not belong to '$work/see/m.gguf': it is a language model
E
same "pictures attached with --mmproj" "$(vlmsh "$work/see/m.gguf" --mmproj "$work/apart/eyes.gguf" -c "/image $scene" 2>&1 | grep -c attached)" 1

# If several encoders fit, the most similar name wins; words that name a weight type (f16, q8) do not count.
mkdir "$work/choice"
ln "$work/see/m.gguf" "$work/choice/see-3b-q4_k_m.gguf"
ln "$work/idle/m.gguf" "$work/choice/alone-7b.gguf"
# chosen MODEL FILE...: loads the model with these encoders beside it; events in $work/events
chosen() {
    local model=$1
    shift
    rm -f "$work"/choice/*mmproj*
    for f in "$@"; do ln "$work/apart/eyes.gguf" "$work/choice/$f"; done
    lines "/load $work/choice/$model" '/info'
}
chose() { # FILE OTHERS
    check_has "which encoder" 'select(.event == "notice").text' "picture encoder: $1, whose name is the most similar to the model's; others that fit: $2 (choose with --mmproj"
    check "with vision" 'select(.event == "notice").text | capture("(?<what>with vision|text only)").what' 'with vision'
}
unclear() { # FILES
    check "which of the unclear pairs loads" 'select(.event == "done").ok' $'false\ntrue'
    check_has "message for an unclear encoder" 'select(.event == "error").message' "--mmproj none for text only (found: $1)"
}
chosen see-3b-q4_k_m.gguf mmproj-see-3b-f16.gguf mmproj-see-7b-f16.gguf mmproj-f16.gguf
chose mmproj-see-3b-f16.gguf 'mmproj-f16.gguf, mmproj-see-7b-f16.gguf'
chosen see-3b-q4_k_m.gguf see-3b.mmproj-Q8_0.gguf mmproj-see-3b-BF16.gguf mmproj-see-3b-F16.gguf
chose mmproj-see-3b-F16.gguf 'mmproj-see-3b-BF16.gguf, see-3b.mmproj-Q8_0.gguf'
chosen see-3b-q4_k_m.gguf mmproj-see-3b-f16.gguf mmproj-see-3b-q4_k_m.gguf
chose mmproj-see-3b-q4_k_m.gguf mmproj-see-3b-f16.gguf
chosen see-3b-q4_k_m.gguf mmproj-see-7b.gguf mmproj-see-9b.gguf
unclear 'mmproj-see-7b.gguf, mmproj-see-9b.gguf'
chosen see-3b-q4_k_m.gguf mmproj-see-3b.gguf see-3b-mmproj.gguf
unclear 'mmproj-see-3b.gguf, see-3b-mmproj.gguf'
chosen see-3b-q4_k_m.gguf mmproj-other.gguf # a single encoder may have any name
check "a single encoder of any name" 'select(.event == "notice").text | capture("(?<what>with vision|text only|picture encoder:)").what' 'with vision'
# An encoder that does not fit: another model's is ignored with a notice; the model's own is an error.
python3 tests/goldens/to_gguf.py tests/goldens/llava-onevision "$work/choice/wide.gguf" || fail "an encoder of a different width cannot be converted"
chosen wide.gguf mmproj-see-3b.gguf
check_has "the encoder of another model" 'select(.event == "notice").text' "no picture encoder: the encoder '$work/choice/mmproj-see-3b.gguf' does not belong to '$work/choice/wide.gguf': its visual tokens are"
chosen wide.gguf mmproj-wide-f16.gguf
check_has "the model's own encoder of a different width" 'select(.event == "error").message' \
    "mmproj-wide-f16.gguf' does not belong to '$work/choice/wide.gguf': its visual tokens are 64 numbers wide, the embeddings 48; --mmproj FILE"
chosen wide.gguf mmproj.gguf
check_has "an encoder whose name belongs to no model" 'select(.event == "notice").text' "no picture encoder: the encoder '$work/choice/mmproj.gguf' does not belong"

# --- files -----------------------------------------------------------------------------------------------------
$convert $llama "$work/split.gguf" --split 3 || fail "split: convert"
answer $llama "$work/a.safetensors"
answer "$work/split-00001-of-00003.gguf" "$work/b.safetensors"
same_dump "dump of split files" "$work/a.safetensors" "$work/b.safetensors"
mv "$work/split-00003-of-00003.gguf" "$work/gone"
cp "$work/llama-3.2.gguf" "$work/two.gguf"
printf '\002' | dd of="$work/two.gguf" bs=1 seek=4 conv=notrunc status=none
answer "$work/two.gguf" "$work/b.safetensors"
same_dump "dump of a file of version 2" "$work/a.safetensors" "$work/b.safetensors"

# A folder's name opens the only model in it, even in the hub's cache, whose files are links to blobs without an
# extension.
mkdir -p "$work/one" "$work/parts" "$work/hub/models--org--small/blobs" "$work/hub/models--org--small/snapshots/1" "$work/mixed"
ln "$work"/idle/*.gguf "$work/one"
ln "$work"/split-0000[12]-of-00003.gguf "$work/parts"
ln "$work/gone" "$work/parts/split-00003-of-00003.gguf"
ln "$work/idle/m.gguf" "$work/mixed/m.gguf" && : >"$work/mixed/other.safetensors"
mkdir "$work/linked"
ln "$work/split-00001-of-00003.gguf" "$work/linked"
ln -s "$work"/parts/split-0000[23]-of-00003.gguf "$work/linked"
session "a part outside the folder" <<E
> /load $work/linked
error: '$work/linked/split-00002-of-00003.gguf' is a link to '$work/parts/split-00002-of-00003.gguf', outside the model's folder: replace it with the file itself
E
for name in m mmproj; do
    ln "$work/idle/$name.gguf" "$work/hub/models--org--small/blobs/$name"
    ln -s "../../blobs/$name" "$work/hub/models--org--small/snapshots/1/$name.gguf"
done
export HF_HUB_CACHE=$work/hub
session "folders with GGUF files" <<E
> /load $work/one
loaded '$work/one': llava-next, 0.1305 million parameters, with vision, N s
> /load $work/one/
loaded '$work/one/': llava-next, 0.1305 million parameters, with vision, N s
> /load $work/parts/
loaded '$work/parts/': llama, 0.1844 million parameters, text only, N s
> /load org/small
loaded 'org/small': llava-next, 0.1305 million parameters, with vision, N s
> /info
[model]
field           value
family          llava-next
architecture    LlavaNextForConditionalGeneration
file            $work/hub/models--org--small/snapshots/1/m.gguf
file            $work/hub/models--org--small/snapshots/1/mmproj.gguf
fingerprint     ...
vision encoder  2 of 2 layers, width 32, 4 heads
picture         tiles of 22 pixels a side, patches of 5, 70 visual tokens for 640 x 480 pixels
decoder         3 layers, width 48, 6 heads, 2 key-value heads, ffn 80
vocabulary      552
positions       4096
chat template   the file's
end of answers  </s> (metadata)
preprocessor    the encoder file's
device          ...
arithmetic      ... (compute.matmul auto)
(model)
...
> /load org/small/m.gguf --mmproj none
loaded 'org/small/m.gguf::none': llama, 0.1063 million parameters, text only, N s
> /load $work/one --mmproj org/small/mmproj.gguf
loaded '$work/one::org/small/mmproj.gguf': llava-next, 0.1305 million parameters, with vision, N s
E
ln "$work/qwen2.gguf" "$work/hub/models--org--small/snapshots/1/m-q8_0.gguf"
session "GGUF files in the hub cache" <<E
> /load org/small
error: 'org/small' holds 2 models in GGUF files: choose one, as in 'org/small/m-q8_0.gguf' (found: m-q8_0.gguf, m.gguf)
> /load org/small/m-q8_0.gguf
no picture encoder: the encoder '$work/hub/models--org--small/snapshots/1/mmproj.gguf' does not belong to '$work/hub/models--org--small/snapshots/1/m-q8_0.gguf': its visual tokens are 48 numbers wide, the embeddings 56
loaded 'org/small/m-q8_0.gguf': qwen2, 0.1386 million parameters, text only, N s
> /load org/small/none.gguf
error: cannot open '$work/hub/models--org--small/snapshots/1/none.gguf': No such file or directory
> /load $work/mixed
error: '$work/mixed' has no config.json: it is not a model folder in Hugging Face format
> /load $llama --mmproj $work/idle/mmproj.gguf
error: 'tests/goldens/llama-3.2' is not a GGUF file: --mmproj works with GGUF files only
E

# The tokenizer alone.
session "the tokenizer alone" <<E
> /tokenizer $llama/tokenizer.json
tokenizer 'tests/goldens/llama-3.2/tokenizer.json': 569 tokens
> /tokenize <b>Hällo</b>, wörld! 1234
560 27 65 29 39 127 97 346 78 27 14 65 29 11 265 127 114 81 75 67 0 220 434 18 19
> /tokenizer $work/llama-3.2.gguf
tokenizer '$work/llama-3.2.gguf': 569 tokens
> /tokenize <b>Hällo</b>, wörld! 1234
560 27 65 29 39 127 97 346 78 27 14 65 29 11 265 127 114 81 75 67 0 220 434 18 19
> /tokenizer $work/idle/mmproj.gguf
error: '$work/idle/mmproj.gguf': it has no tokenizer (tokenizer.ggml.tokens)
E

# Tokens that end answers: those of the metadata, then known texts of any type, unless the list is complete.
types() { # ID=TYPE...: the types of llama's tokens
    python3 -c 'import sys
types = [1] * 560 + [3] * 9
for word in sys.argv[1:]:
    types[int(word.split("=")[0])] = int(word.split("=")[1])
print(types)' "$@"
}
ends() { # NAME WANT [--set KEY=VALUE]...: of a file
    local name=$1 want=$2
    shift 2
    $convert $llama "$work/ends.gguf" "$@" || fail "$name: convert"
    lines "/load $work/ends.gguf" /info '/tokenize a<|eot_id|>b'
    same "$name" "$(jq -r 'select(.event == "table").rows[] | select(.[0] == "end of answers")[1]' "$work/events")" "$want"
    same "$name: ids" "$(jq -c 'select(.event == "ids").ids' "$work/events")" "$ids"
}
lines "/load $work/llama-3.2.gguf" '/tokenize a<|eot_id|>b'
ids=$(jq -c 'select(.event == "ids").ids' "$work/events")
other=(--set tokenizer.ggml.eos_token_id=568)
texts='<|python_tag|> (metadata), <|end_of_text|>, <|eom_id|>, <|eot_id|> (by text)'
ends "control tokens" "$texts" "${other[@]}" --set "tokenizer.ggml.token_type=$(types)"
jq -r 'select(.event == "notice").text' "$work/events" | grep -q 'control token' && fail "a notice is given about correct types"
ends "other types" "$texts" "${other[@]}" --set "tokenizer.ggml.token_type=$(types 561=1 567=4)"
check_has "notice about other token types" 'select(.event == "notice").text' "does not mark <|end_of_text|>, <|eot_id|> as a control token"
ends "an ordinary token" "$texts" "${other[@]}" --set "tokenizer.ggml.token_type=$(types 567=1)"
ends "a list" '<|python_tag|>, <|start_header_id|> (metadata), <|end_of_text|>, <|eom_id|>, <|eot_id|> (by text)' "${other[@]}" \
    --set 'tokenizer.ggml.eos_token_ids=[564, 568, 9999]'
ends "a complete list" '<|start_header_id|>, <|python_tag|> (metadata)' "${other[@]}" \
    --set 'tokenizer.ggml.eos_token_ids=[564, 568]' --set tokenizer.ggml.eot_token_id=564

# A file that does not name its pre-tokenizer.
$convert $llama "$work/no-pre.gguf" --set tokenizer.ggml.pre=null
session "no pre-tokenizer" <<E
> /load $work/no-pre.gguf
the file does not name its pre-tokenizer (tokenizer.ggml.pre is missing): llama.cpp's "default" is used; tokens may differ from the model's, and answers may be worse; convert the model again
loaded '$work/no-pre.gguf': llama, 0.1844 million parameters, text only, N s
> /tokenizer $work/no-pre.gguf
the file does not name its pre-tokenizer (tokenizer.ggml.pre is missing): llama.cpp's "default" is used; tokens may differ from the model's, and answers may be worse; convert the model again
tokenizer '$work/no-pre.gguf': 569 tokens
> /tokenizer $work/llama-3.2.gguf
tokenizer '$work/llama-3.2.gguf': 569 tokens
E

$convert $llama "$work/arch.gguf" --set 'general.architecture="mamba"'
$convert $llama "$work/pre.gguf" --set 'tokenizer.ggml.pre="klingon"'
$convert $llama "$work/model.gguf" --set 'tokenizer.ggml.model="bert"'
$convert $llama "$work/ffn.gguf" --set 'llama.feed_forward_length=99'
$convert tests/goldens/qwen2 "$work/scaling.gguf" --set 'qwen2.rope.scaling.type="longrope"'
python3 - "$work/llama-3.2.gguf" "$work/divisors.gguf" <<'E' || fail "divisors"
import struct, sys
data, name = open(sys.argv[1], "rb").read(), b"rope_freqs.weight" + struct.pack("<I", 1)
at = data.index(name) + len(name) + 8  # the type, after the only dimension
open(sys.argv[2], "wb").write(data[:at] + struct.pack("<I", 1) + data[at + 4:])  # F16
E
head -c 100000 "$work/llama-3.2.gguf" >"$work/short.gguf"
session "refused files" <<E
> /load $work/split-00002-of-00003.gguf
error: '$work/split-00002-of-00003.gguf' is file 2 of 3: open the first one
> /load $work/split-00001-of-00003.gguf
error: cannot open '$work/split-00003-of-00003.gguf': No such file or directory
> /load $work/arch.gguf
error: '$work/arch.gguf': architecture 'mamba' is not supported (known: llama, internlm2, mistral3, qwen2, qwen2vl, qwen3, qwen3vl, qwen3moe, qwen3vlmoe, qwen35, qwen35moe, gemma3, gemma4, glm4, glm4moe, deepseek2)
> /load $work/pre.gguf
error: cannot load '$work/pre.gguf' (its metadata serves as config.json): tokenizer '$work/pre.gguf': pre-tokenizer 'klingon' is not supported (known: default ...
> /load $work/model.gguf
error: cannot load '$work/model.gguf' (its metadata serves as config.json): tokenizer '$work/model.gguf': model 'bert' is not supported (known: gpt2, llama, gemma4)
> /load $work/ffn.gguf
error: cannot load '$work/ffn.gguf' (its metadata serves as config.json): tensor 'model.layers.0.mlp.gate_proj.weight' has shape [128, 64], but the metadata needs [99, 64]
> /load $work/scaling.gguf
error: cannot load '$work/scaling.gguf' (its metadata serves as config.json): config.json: rope scaling "longrope" is not supported (known: default, linear, llama3, yarn, dynamic, proportional, divisors, mrope)
> /load $work/divisors.gguf
error: '$work/divisors.gguf': tensor 'rope_freqs.weight' has the type F16; only F32 is supported
> /load $work/short.gguf
error: '$work/short.gguf' is not a valid GGUF file: tensor 'blk.0.ffn_down.weight': its data ends beyond the file's 80416 data bytes: the file is truncated, download it again
E

# Wrong metadata, or missing keys that answers depend on: refused with the key's name.
wrong=('tokenizer.ggml.merges=null|has no merges' 'tokenizer.ggml.merges=[]|has no merges'
    'tokenizer.ggml.merges=["nospace"]|merge 0: it is not two tokens' 'tokenizer.ggml.tokens="a"|is not a list of texts'
    'tokenizer.ggml.token_type=[1, 2]|has 2 members for 569 tokens' 'tokenizer.ggml.eos_token_id=999999|is 999999, but there are only 569'
    'tokenizer.chat_template=5|is not a text' 'llama.block_count=3|belongs to a layer beyond' 'llama.block_count=5|layers.4.'
    'llama.block_count=2147483647|must be a whole number' 'llama.attention.head_count=0|must be within'
    'llama.attention.head_count_kv=[2, 2, 2, 1]|is 2 in one layer and 1 in another' 'llama.attention.key_length=15|must be even'
    'llama.rope.freq_base=-5.0|must not be negative' 'llama.rope.freq_base=0.0|greater than 0'
    'llama.attention.layer_norm_rms_epsilon=null|is missing' 'llama.rope.scaling.type=7|is not a text'
    'llama.rope.dimension_count=8|rotating only a part of each head of 16 elements' 'llama.rope.scaling.attn_factor=2.0|is 2, which is not supported'
    'llama.rope.scaling.factor=2.0|both' 'llama.rope.scaling.type="yarn"|both' 'llama.rope.scale_linear=-2.0|must not be negative'
    'llama.final_logit_softcapping=30.0|is 30, which is not supported' 'llama.attention.causal=false|does not generate text'
    'llama.attention.temperature_scale=0.1|is 0.1, which is not supported' 'llama.n_deepstack_layers=3|is 3, which is not supported'
    'llama.use_parallel_residual=true|is true, which is not supported'
    'general.alignment=3|not a power of two' 'general.architecture=null|is missing')
for i in "${!wrong[@]}"; do $convert $llama "$work/wrong-$i.gguf" --set "${wrong[i]%|*}"; done
for i in "${!wrong[@]}"; do echo "/load $work/wrong-$i.gguf"; done | vlmsh --json >"$work/events"
mapfile -t messages < <(jq -r 'select(.event == "error").message' "$work/events")
same "number of errors of wrong metadata" "${#messages[@]}" "${#wrong[@]}"
for i in "${!wrong[@]}"; do
    [[ ${messages[i]} == *"wrong-$i.gguf"*"${wrong[i]#*|}"* ]] || fail "${wrong[i]}: ${messages[i]}"
done

# --- adapters and training -------------------------------------------------------------------------------------
model=$work/see/m.gguf
mv "$work/apart/eyes.gguf" "$work/see/mmproj-m.gguf"
rm "$work/see/mmproj-other.gguf"
for adapter in lora ln_tuning; do
    answer $llava "$work/a.safetensors" -c "/adapter load $llava/adapters/$adapter" -c '/set chat.template plain' -c "/image $scene"
    answer "$model" "$work/b.safetensors" -c "/adapter load $llava/adapters/$adapter" -c '/set chat.template plain' -c "/image $scene"
    same_dump "adapter $adapter" "$work/a.safetensors" "$work/b.safetensors" vision.layer.3.0
done
# LoRA on all layers of the encoder: the GGUF file lacks the last one, whose features are not used.
mkdir "$work/all-layers"
echo '{"peft_type": "LORA", "r": 1, "lora_alpha": 2, "target_modules": ["q_proj"]}' >"$work/all-layers/adapter_config.json"
python3 - "$work/all-layers/adapter_model.safetensors" <<'P'
import json, struct, sys
vision = json.load(open("tests/goldens/llava-1.5/config.json"))["vision_config"]
wide, header, numbers = vision["hidden_size"], {}, []
for layer in range(vision["num_hidden_layers"]):
    for part, shape in ("A", [1, wide]), ("B", [wide, 1]):
        name = f"base_model.model.model.vision_tower.encoder.layers.{layer}.self_attn.q_proj.lora_{part}.weight"
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [4 * len(numbers), 4 * (len(numbers) + wide)]}
        numbers += [.1 + layer] * wide
raw = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(raw)) + raw + struct.pack(f"<{len(numbers)}f", *numbers))
P
for from in $llava "$model"; do
    answer "$from" "$work/$(basename "$from").safetensors" -c "/adapter load $work/all-layers" -c '/set chat.template plain' -c "/image $scene"
done
same_dump "layers that the file lacks" "$work/llava-1.5.safetensors" "$work/m.gguf.safetensors" vision.layer.3.0
lines "/load $model" "/adapter load $llava/adapters/lora" "/adapter merge $work/merged"
check_has "no merge into a GGUF file" 'select(.event == "error").message' "is a GGUF file, which cannot be written as a folder"

cat >"$work/data.json" <<J
[{"id": 1, "image": "$PWD/$scene", "question": "Where?", "answer": "Here it is."},
 {"id": 2, "question": "Why?", "answer": "Because."}]
J
# train NAME MODEL SETTING...: trains an adapter on the model as a job.
train() {
    local name=$1 from=$2 sets=()
    shift 2
    for s in "$@"; do sets+=(-c "/set $s"); done
    vlmsh "$from" -c '/set compute.matmul f32' -c '/set chat.template plain' -c '/set train.steps 3' -c '/set train.lr 1e-2' \
        "${sets[@]}" -c "/train $work/data.json $work/$name" -c '/wait' >"$work/out" 2>&1 || fail "$name: $(tail -3 "$work/out")"
}
# Queries and keys are trained in Hugging Face's row order, as LoRA and as full matrices.
for how in 'train.params lora:q_proj,k_proj,up_proj:4' 'train.method layernorm' 'train.params layers.1.self_attn.[qk]_proj.weight'; do
    rm -rf "$work/folder" "$work/file"
    train folder $llava "$how"
    train file "$model" "$how"
    # Gradients sum rows in a different order.
    near "$work/folder/adapter_model.safetensors" "$work/file/adapter_model.safetensors" 1e-3 || fail "trained: $how"
done
# With quantised weights, gradients are those of the dequantised numbers; adapters work with both.
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
check_has "no training in full" 'select(.event == "error").message' "cannot be trained"

# A job started with relative names reopens both files of a pair. Its adapter records the pair and loads with it.
rm -rf "$work/folder"
mkdir "$work/pair" && ln "$model" "$work/pair/m.gguf" && ln "$work/see/mmproj-m.gguf" "$work/pair/eyes.gguf"
cd "$work/pair" || exit 1
case $VLMSH in /*) ;; *) VLMSH=$OLDPWD/$VLMSH ;; esac
pair=$work/pair/m.gguf::$work/pair/eyes.gguf
for end in '/wait' $'/job OUT pause\n/wait\n/job OUT\n/job OUT resume\n/wait'; do
    out=$work/pair/$([ "$end" = /wait ] && echo whole || echo parts)
    lines '/load m.gguf --mmproj eyes.gguf' '/set compute.matmul f32' '/set chat.template plain' '/set train.steps 300' \
        '/set train.lr 1e-3' '/set train.params lora:*:2' "/train $work/data.json $out" "${end//OUT/$out}"
    cp "$work/events" "$out/events"
done
cd "$OLDPWD" || exit 1
cp "$work/pair/parts/events" "$work/events"
check "state of the paused job" '[select(.event == "table").rows[] | select(.[0] == "state")[1]] | first // empty' paused
check "model of the job" '[select(.event == "table").rows[] | select(.[0] == "model")[1]] | first // empty' "$pair"
cmp "$work/pair/whole/adapter_model.safetensors" "$work/pair/parts/adapter_model.safetensors" || fail "resumed: the adapter differs"
same "base model in the adapter's config" "$(jq -r .base_model_name_or_path "$work/pair/parts/adapter_config.json")" "$pair"
lines "/load $pair" "/adapter load $work/pair/parts" "/load $model" "/adapter load $work/pair/parts"
check "an adapter of a pair" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue'

# --- sessions --------------------------------------------------------------------------------------------------
cd "$work" || exit 1
vlmsh see/m.gguf --session kept -c '/set sample.max_tokens 3' -c 'Hello' >first 2>&1 || fail "session: $(cat first)"
cd / && vlmsh --session kept -c '/info' >"$work/second" 2>&1 || fail "resume: $(cat "$work/second")"
grep -q "^file .*$work/see/m.gguf" "$work/second" || fail "resumed: $(cat "$work/second")"
finish
