# tests/commands/unread.sh -- tensors that nothing reads, quantised folders, keys of config.json that change the result,
# and types of encoders and language models that a family lacks (core/model/unread.c, quantised.c, config_keys.c).
. tests/commands/common.bash
qwen=tests/goldens/qwen2.5-vl

# more MODEL FOLDER NAME[=DTYPE:VALUE]...: a copy with additional tensors of 16 numbers (a head's width); NAME may be a
# pattern: "layers.*.o_proj.bias" adds one per layer. NAME=copy:OTHER adds a copy of that tensor.
more() {
    cp -rL "$1" "$2" && chmod -R u+w "$2" && python3 - "$@" <<'P'
import fnmatch, json, pathlib, re, struct, sys
folder, adds = pathlib.Path(sys.argv[2]), sys.argv[3:]
raw = (folder / "model.safetensors").read_bytes()
n, = struct.unpack_from("<Q", raw)
head, body = json.loads(raw[8:8 + n]), raw[8 + n:]
head.pop("__metadata__", None)
def put(name, dtype, shape, data):
    global body
    head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
for add in adds:
    name, _, what = add.partition("=")
    if what.startswith("copy:"):
        t = head[what[5:]]
        put(name, t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
        continue
    value, width = float(what or 3), 16
    layers = sorted({m[1] for k in head if (m := re.match(r"(?:.*\.)?layers\.(\d+)\.self_attn", k))}, key=int)
    for one in ([name.replace("*", l, 1) for l in layers] if "*" in name else [name]):
        put(one, "F32", [width], struct.pack(f"<{width}f", *[value] * width))
text = json.dumps(head).encode()
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
P
}

# says NAME MODEL TEXT: the model is refused with that text. opens NAME MODEL [TEXT]: the model opens, with that notice
# or none.
says() {
    local got
    got=$(vlmsh "$2" -c /info 2>&1) && fail "$1: opens"
    case $got in *"$3"*) ;; *) fail "$1: '$got' does not contain '$3'" ;; esac
}
opens() {
    local name=$1 model=$2 want=${3:-}
    shift 3
    vlmsh "$model" "$@" -c /info >"$work/out" 2>&1 || fail "$name: $(tail -1 "$work/out")"
    if [ "$want" ]; then
        [ "$(grep -cF "$want" "$work/out")" = 2 ] || fail "$name: no notice and row '$want': $(cat "$work/out")"
    else
        grep -q 'not read' "$work/out" && fail "$name: $(grep 'not read' "$work/out")"
    fi
}

# --- tensors ----------------------------------------------------------------------------------------------------
more $qwen "$work/norms" 'model.layers.*.self_attn.q_norm.weight' 'model.layers.*.self_attn.o_proj.bias'
says "norms and biases" "$work/norms" "8 tensors ('model.layers.*.self_attn.o_proj.bias' x 4, 'model.layers.*.self_attn.q_norm.weight' x 4)"
opens "ignored" "$work/norms" "8 tensors ('model.layers.*.self_attn.o_proj.bias' x 4" --ignore-weights
lines "/load $work/norms" "/load $work/norms --ignore-weights" /info hi
check "which folders /load opens" 'select(.event == "done").ok' $'false\ntrue\ntrue\ntrue'
check "the name opens it again" 'select(.event == "model").path' "$work/norms::ignore-weights"
lines "/load $work/norms::ignore-weights" '/set weights.dtype q8_0' "/load $work/norms --ignore-weights" /info hi
check "with smaller weights" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\ntrue'
check "the name has both options" 'select(.event == "model").path' "$work/norms::q8_0::ignore-weights"
vlmsh "$work/norms" --ignore-weights --session ignored -c hi >/dev/null 2>&1 || fail "a session cannot be started"
lines '/session resume ignored' /info
check_has "a session opens it again" 'select(.event == "model").path' "$work/norms::ignore-weights"
# GGUF files cannot hold these tensors.
more tests/goldens/llama-3.2 "$work/llama" 'model.layers.*.self_attn.o_proj.bias'
lines "/load $work/llama --ignore-weights" "/quantize $work/llama.gguf --type f16"
check_has "tensors that are not written" 'select(.event == "notice").text' "not written: 4 tensors ('model.layers.*.self_attn.o_proj.bias' x 4)"
lines "/load $work/llama.gguf" "/quantize $work/again.gguf --type q8_0" "/load $work/again.gguf" /info
check_has "loading the file reports them" 'select(.event == "notice").text' "when the file was made: 4 tensors ('model.layers.*.self_attn.o_proj.bias' x 4) inside"
check_has "a file made from that file" 'select(.name == "model").rows[] | select(.[0] == "not read")[1]' "when the file was made: 4 tensors"
# A merged model keeps the ignored tensors.
more $llava "$work/bias" 'language_model.model.layers.*.self_attn.o_proj.bias'
lines "/load $work/bias --ignore-weights" "/adapter load $llava/adapters/lora" "/adapter merge $work/merged" "/load $work/merged" \
    "/load $work/merged --ignore-weights" '/set weights.dtype q8_0' "/load $work/bias --ignore-weights" \
    "/adapter load $llava/adapters/lora" "/adapter merge $work/again"
check "which lines with merged folders succeed" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\ntrue\ntrue\ntrue\ntrue\nfalse'
check_has "smaller ones are not" 'select(.event == "error").message' "were quantised at loading (q8_0) and cannot be written back"
for name in model.layers.0.input_layernorm.bias model.norm.bias lm_head.bias model.embed_norm.weight visual.blocks.0.norm1.bias \
    visual.merger.mlp.4.weight model.layers.1.self_attn.q_proj.weight_scale visual.patch_embed.proj.bias; do
    rm -rf "$work/one" && more $qwen "$work/one" $name
    says $name "$work/one" "1 tensor ('$(sed -E 's/\.[0-9]+\./.*./g' <<<$name)')"
done
more $qwen "$work/known" 'model.layers.*.self_attn.rotary_emb.inv_freq' visual.rotary_pos_emb.inv_freq 'model.layers.*.self_attn.o_proj.bias=0' \
    model.layers.4.eh_proj.weight model.layers.4.input_layernorm.weight mtp.norm.weight
opens "known ones" "$work/known" ""
more $qwen "$work/apart" v_head.summary.weight audio_tower.layers.0.norm.weight model.layers.4.input_layernorm.weight
opens "of other parts" "$work/apart" "3 tensors ('audio_tower.layers.*.norm.weight', 'model.layers.4.*', 'v_head.summary.weight')"
more tests/goldens/llama-3.2 "$work/tied" lm_head.weight=copy:model.embed_tokens.weight
opens "a second copy of a tied head" "$work/tied" ""
more tests/goldens/llama-3.2 "$work/scale" model.layers.0.mlp.up_proj.weight_scale_inv
says "a scale" "$work/scale" "FP8 in blocks"

# --- quantised folders ------------------------------------------------------------------------------------------
quantised() { # NAME OBJECT TENSOR TEXT
    rm -rf "$work/q" && more tests/goldens/llama-3.2 "$work/q" ${3:+"$3"}
    jq ".$1 = $2" tests/goldens/llama-3.2/config.json >"$work/q/config.json"
    says "$2" "$work/q" "these are $4 weights"
    vlmsh "$work/q" --ignore-weights -c /info >/dev/null 2>&1 && fail "$2: ignored"
}
scale='model.layers.*.mlp.up_proj.weight_scale'
quantised quantization_config '{"quant_method": "compressed-tensors", "format": "naive-quantized"}' "$scale" "FP8 (compressed-tensors)"
quantised quantization_config '{"quant_method": "fp8", "weight_block_size": [128, 128]}' "${scale}_inv" "FP8"
quantised quantization_config '{"quant_method": "awq", "bits": 4}' model.layers.0.mlp.up_proj.qweight "INT4 (AWQ)"
quantised quantization_config '{"quant_method": "gptq", "bits": 8}' model.layers.0.mlp.up_proj.g_idx "INT8 (GPTQ)"
quantised quantization_config '{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}' model.layers.0.mlp.up_proj.weight.absmax "NF4 (bitsandbytes)"
quantised quantization_config '{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}' \
    model.layers.0.mlp.up_proj.weight_packed "INT4 (compressed-tensors)"
quantised quantization_config '{"quant_method": "hqq"}' model.layers.0.mlp.up_proj.W_q "quantised (HQQ)"
quantised quantization '{"group_size": 64, "bits": 4}' model.layers.0.mlp.up_proj.scales "INT4 (MLX)"
# A dequantised copy whose config.json still has the key.
more tests/goldens/llama-3.2 "$work/plain"
jq '.quantization_config = {"quant_method": "fp8"}' tests/goldens/llama-3.2/config.json >"$work/plain/config.json"
opens "plain numbers" "$work/plain" ""
grep -q 'says that the weights are FP8, but they are not quantised' "$work/out" || fail "plain numbers: $(cat "$work/out")"

# --- config.json ------------------------------------------------------------------------------------------------
keys() { # MODEL TEXT EDIT...: each edited config is refused with that text; TEXT opens: it opens
    local model=$1 want=$2 edit
    shift 2
    for edit in "$@"; do
        rm -rf "$work/k" && cp -rL $model "$work/k" && chmod -R u+w "$work/k"
        jq "$edit" $model/config.json >"$work/k/config.json"
        if [ "$want" = opens ]; then opens "$edit" "$work/k" ""; else says "$edit" "$work/k" "$want"; fi
    done
}
keys tests/goldens/llama-3.2 "changes what the model computes" '.attn_logit_softcapping = 30' '.final_logit_softcapping = 20.5' \
    '.logit_scale = 0.0625' '.embedding_multiplier = 12' '.query_pre_attn_scalar = 99' '.is_causal = false' '.use_qk_norm = true' \
    '.layer_types = ["full_attention", "linear_attention"]' '.no_rope_layers = [1, 1, 0]' '.hidden_activation = "gelu_pytorch_tanh"' \
    '.rope_interleaved = true' '.rope_scaling.mrope_interleaved = true' '.alibi = true' '.attention_chunk_size = 8192'
keys tests/goldens/llama-3.2 opens '.attn_logit_softcapping = null | .logit_scale = 1 | .is_causal = true | .use_qk_norm = false |
    .query_pre_attn_scalar = .head_dim | .layer_types = ["full_attention"] | .no_rope_layers = [1, 1] | .num_nextn_predict_layers = 1 |
    .torch_dtype = "float16" | .use_cache = false | .pretraining_tp = 2 | .add_cross_attention = false | .cross_attention_layers = []'
vlmsh "$work/k" -c /info >/dev/null 2>&1 || fail "harmless keys are refused"
jq '.logit_scale = 0.5' tests/goldens/llama-3.2/config.json >"$work/k/config.json"
opens "a key that is ignored" "$work/k" '"logit_scale" 0.5' --ignore-weights

odd='is not supported (known:'
keys tests/goldens/internvl2.5-qwen2 "$odd intern_vit_6b)" '.vision_config.model_type = "uniflow"' '.vision_config.model_type = "siglip_vision_model"'
keys tests/goldens/internvl3 "$odd" '.vision_config.model_type = "intern_vit_6b"' '.text_config.model_type = "gpt_oss"'
keys $qwen "$odd" '.vision_config.model_type = "qwen3_vl"' '.text_config = {"model_type": "qwen3"}'
keys tests/goldens/glm-4.1v "$odd" '.vision_config.model_type = "glm_ocr_vision"' '.text_config.model_type = "glm_ocr_text"'
keys tests/goldens/kimi-vl "$odd" '.vision_config.model_type = "siglip_vision_model"' '.text_config.model_type = "llama4"'
keys tests/goldens/llava-onevision "$odd" '.vision_config.model_type = "siglip2_vision_model"' '.text_config.model_type = "phi3"'
keys $qwen opens '.vision_config.model_type = "qwen2_5_vl"' '.vision_config.model_type = ""'

# --- requests of other files that are not implemented (core/model/unused.c) --------------------------------------
# unused NAME NOTICE: the copy of a model in $work/u gives exactly this notice; "": none.
unused() {
    vlmsh "$work/u" -c /info >"$work/out" 2>"$work/said" || fail "$1: $(cat "$work/said")"
    same "$1" "$(grep -v '^loaded' "$work/said")" "$2"
}
copy() { rm -rf "$work/u" && cp -rL "tests/goldens/$1" "$work/u" && chmod -R u+w "$work/u"; }
change() { jq "$2" "$work/u/$1" >"$work/u.json" && cp "$work/u.json" "$work/u/$1"; }
more tests/goldens/llama-3.2 "$work/head" lm_head.weight=copy:model.embed_tokens.weight
rm -rf "$work/u" && cp -r "$work/head" "$work/u"
unused "a second copy of the tied head" ""
python3 - "$work/u/model.safetensors" <<'P'
import json, struct, sys
raw = bytearray(open(sys.argv[1], "rb").read())
n, = struct.unpack_from("<Q", raw)
raw[8 + n + json.loads(raw[8:8 + n])["lm_head.weight"]["data_offsets"][0] + 1000] ^= 1
open(sys.argv[1], "wb").write(raw)
P
unused "another head" "config.json ties the output head to the embedding, but the file has a different head: vlmsh uses it, as transformers 5 does (4 used the embedding)"
copy llama-3.2
unused "sampling is a row only" ""
grep -q '^sampling, not used *temperature 0.6, top_p 0.9$' "$work/out" || fail "the row of sampling is missing"
change generation_config.json '.min_new_tokens = 0 | .stop_strings = null | .num_beams = 1 | .repetition_penalty = 1'
unused "neutral" ""
change generation_config.json '.repetition_penalty = 1.05 | .begin_suppress_tokens = [1] | .min_new_tokens = 5 | .penalty_alpha = 0.6 | .watermarking_config = {bias: 2}'
unused "greedy answers too" "generation_config.json asks for repetition_penalty 1.05, begin_suppress_tokens, min_new_tokens 5, penalty_alpha 0.6, watermarking_config, which vlmsh does not apply (transformers does, even to greedy answers): /set sample.repeat_penalty 1.05"
# Neither chat nor the batches of /ask --data answer with a token of suppress_tokens.
printf '{"question": "Hello"}\n{"question": "Hello there"}\n' >"$work/ask.jsonl"
answers() {
    lines "/load $work/u" '/set sample.max_tokens 4' Hello "/ask --data $work/ask.jsonl --out $work/answers.jsonl --again"
    jq -c 'select(.event == "answer").ids' "$work/events"
    jq -c .ids "$work/answers.jsonl"
}
answers >"$work/free"
barred=$(jq -s 'add | unique' "$work/free")
change generation_config.json ".suppress_tokens = $barred"
answers | jq -s --argjson barred "$barred" -c '[length, (add | length > 0), (add - $barred == add)]' >"$work/barred"
same "barred tokens" "$(cat "$work/barred")" '[3,true,true]'
copy llava-1.5
change preprocessor_config.json '.do_flip_channel_order = true | .do_grayscale = false | .image_processor_type = "ViTImageProcessor"'
unused "steps" 'preprocessor_config.json has keys that vlmsh ignores: image_processor_type "ViTImageProcessor", do_flip_channel_order true; pictures may be preprocessed differently than in training'
copy kimi-vl
change preprocessor_config.json '.merge_kernel_size = [4, 4]'
says "another kernel" "$work/u" "\"merge_kernel_size\" differs from the encoder's 2 x 2"
copy qwen2.5-vl
change preprocessor_config.json '.size = {"min_pixels": 784, "max_pixels": 1568}'
says "another size" "$work/u" '"size" must have shortest_edge and longest_edge'
copy qwen2.5-vl
change preprocessor_config.json '.do_center_crop = true'
change generation_config.json 'del(.repetition_penalty)'
unused "a crop that the processor does not have" "preprocessor_config.json has keys that vlmsh ignores: do_center_crop true; pictures may be preprocessed differently than in training"
lines "/load $work/u" '/image tests/goldens/pictures/big.png'
check "the picture is not cropped" 'select(.event == "attached").visual_tokens' 12

# A notice names keys that only another family or no family reads, unless they ask for the default
# behaviour.
steps() { # FOLDER EDIT KEYS: the notice names these keys
    copy "$1"
    change generation_config.json 'del(.repetition_penalty)'
    change preprocessor_config.json "$2"
    unused "$1 $2" "${3:+preprocessor_config.json has keys that vlmsh ignores: $3; pictures may be preprocessed differently than in training}"
}
chat=internvl2.5-qwen2
steps $chat '.image_mean = [0.5, 0.5, 0.5]' image_mean
steps $chat '.image_std = [0.5, 0.5, 0.5]' image_std
steps $chat '.resample = 2 | .do_normalize = false' 'do_normalize false, resample 2'
steps $chat '.size = 56 | .rescale_factor = 0.5' 'size 56, rescale_factor 0.5'
steps $chat '.crop_size = {"height": 28, "width": 14}' crop_size
steps $chat '.min_patches = 2' 'min_patches 2'
steps $chat '.size = {"shortest_edge": 28} | .crop_size = {"height": 28, "width": 28} | .do_rescale = true | .rescale_factor = 0.00392156862745098 |
    .do_convert_rgb = true | .image_processor_type = "CLIPImageProcessor" | .patch_size = 7' ''
steps internvl2-internlm2 . ''
steps llava-1.5 '.image_processor_type = "LlavaNextImageProcessor"' 'image_processor_type "LlavaNextImageProcessor"'
steps qwen2.5-vl '.image_processor_type = "Glm4vImageProcessor"' 'image_processor_type "Glm4vImageProcessor"'
steps qwen2.5-vl '.image_processor_type = "Qwen2VLImageProcessorFast"' ''
steps internvl3 '.in_token_limit = 5' 'in_token_limit 5'
steps qwen2.5-vl '.max_patches = 3 | .crop_size = 28' 'max_patches 3'
steps kimi-vl '.max_pixels = 784' 'max_pixels 784'
steps llava-1.5 '.image_grid_pinpoints = [[35, 70]] | .patch_size = 7' image_grid_pinpoints
for folder in llava-next llava-onevision glm-4.1v kimi-vl llava-siglip-llama3; do
    steps $folder '.do_center_crop = null | .crop_size = .crop_size | .pad_size = null' ''
done
copy kimi-vl
change preprocessor_config.json '.size = {"shortest_edge": 28}'
says "another size" "$work/u" '"size" must have max_height and max_width'
change preprocessor_config.json '.size = null | .merge_size = 3'
says "another merge" "$work/u" '"merge_size" is 3, but the encoder'"'s is 2"
copy llava-next
change preprocessor_config.json '.size.shortest_edge = 20'
says "other tiles" "$work/u" 'tiles of 20 pixels a side ("size") are not'

# --- GGUF -------------------------------------------------------------------------------------------------------
gguf() { # TEXT ARGUMENT...: refused with that text; "": opens
    rm -f "$work/m.gguf"
    python3 tests/goldens/to_gguf.py $llama "$work/m.gguf" "${@:2}" || fail "convert ${*:2}"
    if [ "$1" ]; then says "${*:2}" "$work/m.gguf" "$1"; else opens "${*:2}" "$work/m.gguf" ""; fi
}
for name in blk.0.attn_q_norm.weight blk.0.attn_output.bias blk.0.attn_v.bias blk.0.ffn_down.bias blk.0.attn_norm.bias output_norm.bias \
    output.bias token_embd.bias; do
    gguf "1 tensor ('${name/.0./.*.}')" --add $name
done
gguf "opens the model without these tensors" --add blk.0.attn_k_norm.weight
opens "ignored" "$work/m.gguf" "1 tensor ('blk.*.attn_k_norm.weight')" --mmproj none --ignore-weights
gguf "" --set 'general.sampling.penalty_repeat=1.5' --set 'general.sampling.temp=0.3' --set 'general.sampling.top_k=20'
grep -q "the file's metadata asks for repetition_penalty 1.5, which vlmsh does not apply (llama.cpp" "$work/out" || fail "the notice about sampling is missing"
grep -q '^sampling, not used *temperature 0.3, top_k 20, repetition_penalty 1.5$' "$work/out" || fail "the row of sampling is missing"
gguf "" --set 'llama.attention.head_count_kv=[2, 2, 2, 2]' --set 'llama.feed_forward_length=[128, 128, 128, 128]'
# Unread metadata: known to be harmless, unknown, or relevant to the result.
gguf "" --set 'llama.vocab_size=569' --set 'llama.attention.value_length=16' --set 'llama.rope.scaling.finetuned=true' \
    --set 'llama.rope.scaling.original_context_length=32' --set 'llama.expert_count=0' --set 'llama.expert_used_count=0' \
    --set 'llama.tensor_data_layout="Meta AI original pth"' --set 'llama.logit_scale=1.0' --set 'qwen2.block_count=9' --set 'llama.attention.scale=0.0' \
    --set 'general.url="x"' --set 'general.file_type=7' --set 'general.quantization_version=2' --set 'quantize.imatrix.file="x"' \
    --set 'tokenizer.ggml.fim_pre_token_id=7' --set 'tokenizer.ggml.padding_token_id=7' --set 'tokenizer.ggml.add_sep_token=false' --set 'general.sampling.mirostat=0' \
    --set 'llama.hidden_activation="silu"' --set 'llama.activation_sparsity_scale=[0.0, 0.0]'
for set in llama.xyz=3 'llama.attention.xyz="a"' 'llama.xyz=[1, 2]' tokenizer.ggml.xyz=true general.sampling.xtc_probability=0.5; do
    rm -f "$work/m.gguf" && python3 tests/goldens/to_gguf.py $llama "$work/m.gguf" --set "$set"
    opens "$set" "$work/m.gguf" "the file's metadata '${set%=*}' " --mmproj none
done
python3 tests/goldens/to_gguf.py $llama "$work/m.gguf" $(for i in {1..10}; do echo --set "llama.key-$i=$i.5"; done)
opens "many" "$work/m.gguf" "'llama.key-1' 1.5, 'llama.key-10' 10.5, 'llama.key-2' 2.5, 'llama.key-3' 3.5, 'llama.key-4' 4.5, 'llama.key-5' 5.5, 'llama.key-6' 6.5, 'llama.key-7' 7.5, 2 more" --mmproj none
for set in llama.expert_count=8 'llama.activation_sparsity_scale=[0.5, 0.0]' 'llama.hidden_activation="gelu"' llama.attention.sliding_window_pattern=2 \
    llama.final_logit_softcapping=30.0 llama.attention.causal=false; do
    gguf "which is not supported" --set "$set"
    says "$set" "$work/m.gguf" "--ignore-weights opens the model anyway"
    opens "$set, ignored" "$work/m.gguf" "'${set%=*}' is" --mmproj none --ignore-weights
done
python3 tests/goldens/to_gguf.py $llama "$work/m.gguf" --set 'tokenizer.chat_template=null' --set 'tokenizer.chat_templates=["rag"]' \
    --set 'tokenizer.chat_template.rag="{{ messages[0].content }}"'
vlmsh "$work/m.gguf" --mmproj none -c /info >"$work/out" 2>&1
grep -qF "the file has no 'tokenizer.chat_template': 'tokenizer.chat_template.rag' is used" "$work/out" || fail "a named template: $(cat "$work/out")"
gguf "'llama.attention.value_length' is 8, but key heads have 16 elements" --set llama.attention.value_length=8
# Metadata of encoders.
eyes() { # FOLDER TEXT SET...: "!TEXT": refused with TEXT; "TEXT": opens with that notice; "": opens
    local folder=tests/goldens/$1 text=$2 sets=()
    shift 2
    for set; do sets+=(--set "$set"); done
    rm -f "$work"/e.gguf "$work"/mmproj-e.gguf
    python3 tests/goldens/to_gguf.py $folder "$work/e.gguf" --mmproj "$work/mmproj-e.gguf" "${sets[@]}" || fail "convert $*"
    case $text in
    !*) says "$*" "$work/e.gguf" "${text#!}" ;;
    *) opens "$folder $*" "$work/e.gguf" "$text" ;;
    esac
}
eyes llava-1.5 "" clip.use_silu=false 'clip.has_text_encoder=false' 'clip.has_llava_projector=true' 'clip.vision.projection_dim=768' 'clip.vision.image_crop_resolution=224' \
    'clip.vision.image_split_resolution=224' 'clip.vision.image_aspect_ratio="anyres"' 'clip.vision.mm_projector_type="mlp2x_gelu"' \
    'clip.vision.mm_patch_merge_type="flat"' 'clip.has_audio_encoder=false'
eyes llava-1.5 "metadata 'clip.vision.image_aspect_ratio' \"pad\", 'clip.vision.xyz' 5" 'clip.vision.image_aspect_ratio="pad"' clip.vision.xyz=5
eyes llava-1.5 "!'clip.vision.is_deepstack_layers' is a list of 2, which is not supported" 'clip.vision.is_deepstack_layers=[false, true]'
eyes llava-1.5 "!'clip.vision.attention.head_count_kv' is 1" clip.vision.attention.head_count_kv=1
eyes llava-1.5 "!'clip.vision.attention.head_dim' is 3" clip.vision.attention.head_dim=3
eyes qwen2.5-vl "" clip.use_glu_mlp=true clip.use_rms_norm=true clip.use_gelu=false clip.has_qwen2vl_merger=true \
    'clip.vision.fullatt_block_indexes=[1, 3]' clip.vision.n_wa_pattern=null clip.vision.image_size=560 'clip.projector_type=null' 'clip.vision.projector_type="qwen2.5vl_merger"'
eyes qwen2.5-vl "!'clip.use_gelu' is true, which is not supported" clip.use_gelu=true
eyes qwen2.5-vl "metadata 'clip.vision.attention.layer_norm_epsilon' 0.01" clip.vision.attention.layer_norm_epsilon=0.01
eyes qwen3-vl "!it has 2 mergers of DeepStack" 'clip.vision.is_deepstack_layers=[true, false, false, false]'
eyes qwen3-vl "!it has 2 mergers of DeepStack" qwen3vl.n_deepstack_layers=1
eyes kimi-vl "" clip.vision.image_size=896
eyes internvl3 "" clip.vision.projection_dim=64
eyes glm-4.1v "" clip.vision.projection_dim=64
finish
