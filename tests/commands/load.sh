# tests/commands/load.sh -- /load, /unload: a folder that cannot be loaded leaves the current model.
. tests/commands/common.bash

broken() { # NAME: a copy of the model to break
    cp -rL $llama "$work/$1"
    chmod -R u+w "$work/$1"
}
broken truncated
head -c 5000 $llama/model.safetensors >"$work/truncated/model.safetensors"
broken family
jq '.architectures = ["NobodyForCausalLM"] | .model_type = "nobody"' $llama/config.json >"$work/family/config.json"
broken shape
jq '.intermediate_size += 8' $llama/config.json >"$work/shape/config.json"
broken config
echo '{"architectures": [' >"$work/config/config.json"
broken missing
rm "$work/missing/model.safetensors"
cp -rL tests/goldens/llava-siglip-llama3 "$work/shards"
chmod -R u+w "$work/shards"
rm "$work"/shards/model-00002-of-00003.safetensors

session "broken folders" $llama <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> hello
(an answer to 0 visual tokens)
> /undo
undone: 'hello' and its answer
> /load $work/truncated
error: '$work/truncated/model.safetensors' is not a valid safetensors file: tensor 'model.embed_tokens.weight': its data ends at 72832, beyond the file's 1040 data bytes: the file is truncated, download it again
> /load $work/family
error: cannot load '$work/family': config.json: architecture NobodyForCausalLM is not supported (known: LlavaForConditionalGeneration, ...
> /load $work/shape
error: cannot load '$work/shape': tensor 'model.layers.0.mlp.gate_proj.weight' has shape [128, 64], but config.json needs [136, 64]
> /load $work/config
error: '$work/config/config.json' is not valid JSON (near line 1)
> /load $work/missing
error: '$work/missing' has no weights (*.safetensors)
> /load $work/shards
error: '$work/shards/model.safetensors.index.json': shard 'model-00002-of-00003.safetensors' (2 of 3) is missing: download the rest of the model
> /load $work/nothing
error: no folder '$work/nothing': No such file or directory
> hello
(an answer to 0 visual tokens)
E
same "same answer afterwards" \
    "$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 1p)" \
    "$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 2p)"

session "without a model" $llama <<E
> /unload
> /info
no model is loaded; device: ...
...
> hello
error: no model is loaded: use '/load MODEL' (a folder, a GGUF file, or org/name from the local hub cache)
> /unload
error: no model is loaded: use '/load MODEL' (a folder, a GGUF file, or org/name from the local hub cache)
> /load $llama
loaded 'tests/goldens/llama-3.2': llama, 0.1844 million parameters, text only, N s
E

# org/name is found in a hub cache.
snapshot=$work/hub/models--org--tiny/snapshots/abc
mkdir -p "$snapshot" "$work/hub/models--org--tiny/refs"
printf abc >"$work/hub/models--org--tiny/refs/main"
cp -rL $llama/. "$snapshot"
HF_HUB_CACHE=$work/hub lines '/load org/tiny' '/load org/other'
check "which names of the hub cache open" 'select(.event == "done").ok' $'true\nfalse'
check_has "the searched cache is named" 'select(.event == "error").message' "$work/hub"

# Errors inside a file name the file.
names() { # COMMAND FOLDER: reads lines "FILE EDIT" (of jq), makes a copy for each, checks the message
    local command=$1 from=$2 n=0 i file edit lines=() files=() edits=()
    while read -r file edit; do
        n=$((n + 1))
        cp -r "$from" "$work/$n.edited"
        chmod -R u+w "$work/$n.edited"
        [ -e "$work/$n.edited/$file" ] || echo '{}' >"$work/$n.edited/$file"
        jq "$edit" "$work/$n.edited/$file" >"$work/new" || fail "jq: $edit"
        cp "$work/new" "$work/$n.edited/$file"
        lines+=("$command $work/$n.edited") files+=("$file") edits+=("$edit")
    done
    lines "/load $llava" "${lines[@]}"
    jq -r 'select(.event == "error").message' "$work/events" >"$work/messages"
    for i in $(seq $n); do
        grep "/$i\.edited['/]" "$work/messages" | grep -Eq "(^|['/ ])${files[i - 1]}\\b" ||
            fail "${files[i - 1]} with ${edits[i - 1]}: $(grep "/$i\.edited['/]" "$work/messages")"
    done
    rm -rf "$work"/*.edited
}
names /load $llava <<'E'
config.json .text_config = []
config.json .text_config = 3
config.json .text_config.hidden_size = "x"
config.json .text_config.rms_norm_eps = "x"
config.json .text_config.rope_scaling = {"type": "odd"}
config.json .text_config.num_attention_heads = 0
config.json .text_config.hidden_act = "odd"
config.json .vision_config = 3
config.json .vision_config.image_size = -1
config.json .vision_config.model_type = "odd"
config.json .vision_feature_layer = [1, 2]
config.json .vision_feature_layer = []
config.json .vision_feature_layer = ["x"]
config.json .vision_feature_layer = -90
config.json .vision_feature_select_strategy = "odd"
config.json .projector_hidden_act = "odd"
config.json .multimodal_projector_bias = 3
config.json .image_token_index = "x"
config.json .image_token_index = 99999999
config.json .tie_word_embeddings = 3
config.json .architectures = ["Odd"]
config.json del(.architectures) | .model_type = 3
config.json del(.architectures, .model_type)
config.json 3
generation_config.json 3
generation_config.json .eos_token_id = "2"
generation_config.json .eos_token_id = [2, 0.5]
tokenizer_config.json 3
preprocessor_config.json .size = "x"
preprocessor_config.json .size = 7 | .crop_size = 7
preprocessor_config.json .image_mean = [1]
preprocessor_config.json .rescale_factor = 0
preprocessor_config.json .image_processor_type = 3
preprocessor_config.json 3
processor_config.json .image_processor = {"size": "x"}
processor_config.json .image_processor = {"size": 7, "crop_size": 7}
processor_config.json 3
chat_template.json 3
tokenizer.json 3
tokenizer.json .model = 3
tokenizer.json .model.type = "odd"
tokenizer.json .model.vocab = 3
tokenizer.json .model.merges = [3]
tokenizer.json .normalizer = {"type": "odd"}
tokenizer.json .pre_tokenizer = {"type": "odd"}
tokenizer.json .post_processor = {"type": "odd"}
tokenizer.json .decoder = {"type": "odd"}
tokenizer.json .added_tokens = [3]
E
names /load tests/goldens/llava-siglip-llama3 <<'E'
model.safetensors.index.json .weight_map = 3
model.safetensors.index.json .weight_map = {}
model.safetensors.index.json .weight_map |= map_values("none.safetensors")
model.safetensors.index.json .weight_map |= map_values("a/b")
model.safetensors.index.json .weight_map.none = "model-00001-of-00003.safetensors"
model.safetensors.index.json 3
config.json .text_config = []
preprocessor_config.json .size = "x"
tokenizer.json .model = 3
E
names /load $llama <<'E'
config.json .hidden_size = "x"
config.json .rope_scaling = {"rope_type": "odd"}
E
names "/adapter load" $llava/adapters/lora <<'E'
adapter_config.json .peft_type = "odd"
adapter_config.json .peft_type = "LN_TUNING"
adapter_config.json .peft_type = 3
adapter_config.json .r = "x"
adapter_config.json .r = 3
adapter_config.json .lora_alpha = "x"
adapter_config.json .lora_alpha = 1e30
adapter_config.json .target_modules = 3
adapter_config.json .target_modules = [3]
adapter_config.json .target_modules = "("
adapter_config.json .target_modules = ["none"]
adapter_config.json .exclude_modules = "("
adapter_config.json .rank_pattern = []
adapter_config.json .rank_pattern = {"(": 3}
adapter_config.json .rank_pattern = {"q_proj": "x"}
adapter_config.json .alpha_pattern = {"q_proj": "x"}
adapter_config.json .use_dora = true
adapter_config.json 3
E

# Loading names a missing companion file and its replacement, and so does /info.
without() { # FOLDER FILE...: a copy without these files, and without the template of tokenizer_config.json
    local folder=$1
    shift
    rm -rf "$work/cut" && cp -rL "$folder" "$work/cut" && (cd "$work/cut" && rm -f "$@")
    [ -f "$work/cut/tokenizer_config.json" ] || return 0
    jq 'del(.chat_template)' "$work/cut/tokenizer_config.json" >"$work/json" && mv "$work/json" "$work/cut/tokenizer_config.json"
}
row() { check "$1" "select(.name == \"model\").rows[] | select(.[0] == \"$1\")[1]" "$2"; }
for folder in tests/goldens/qwen2.5-vl $llama; do
    without $folder chat_template.{json,jinja}
    lines "/load $work/cut" /info
    check_has "notice without a chat template" 'select(.event == "notice").text' "the folder has no chat template (chat_template.jinja, chat_template.json, or in tokenizer_config.json): the model gets the bare text"
    row "chat template" "none; bare text"
done
without $llava chat_template.{json,jinja}
session "LLaVA-1.5 without a template" $work/cut <<E
> /info
the folder has no chat template (chat_template.jinja, chat_template.json, or in tokenizer_config.json): that of its family, 'vicuna', is used; /set chat.template NAME chooses another one (see /help templates)
[model]
field           value
family          llava
architecture    LlavaForConditionalGeneration
folder          $work/cut
fingerprint     ...
vision encoder  2 of 3 layers, width 32, 4 heads
picture         35 pixels a side, patches of 7, 25 visual tokens
decoder         4 layers, width 64, 4 heads, 4 key-value heads, ffn 88
vocabulary      552
positions       4096
chat template   none; its family's, 'vicuna'
end of answers  </s> (generation_config.json)
preprocessor    preprocessor_config.json
device          ...
arithmetic      ... (compute.matmul auto)
(model)
...
> /set sample.max_tokens 1
> /dump ids $work/without.safetensors
the next forward pass writes ids to '$work/without.safetensors'
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> Hello
(an answer to 25 visual tokens)
(written: tensors $work/without.safetensors)
wrote 1 tensor to '$work/without.safetensors'
> /load $llava
loaded 'tests/goldens/llava-1.5': llava, 0.242 million parameters, with vision, N s
> /clear
> /dump ids $work/with.safetensors
the next forward pass writes ids to '$work/with.safetensors'
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> Hello
(an answer to 25 visual tokens)
(written: tensors $work/with.safetensors)
wrote 1 tensor to '$work/with.safetensors'
E
cmp "$work/without.safetensors" "$work/with.safetensors" || fail "the prompt of LLaVA-1.5 without a template"
without tests/goldens/qwen2.5-vl preprocessor_config.json generation_config.json tokenizer_config.json
session "no preprocessor" $work/cut <<E
> /info
the folder has no preprocessor_config.json: pictures are preprocessed with the defaults of the family qwen2_5_vl (resized to 3136 to 1003520 pixels, mean 0.481455 0.457828 0.408211, deviation 0.26863 0.261303 0.275777), which may differ from training
the folder has no tokenizer_config.json: special tokens are those of its other files, and the defaults of the tokenizer's class
[model]
field           value
family          qwen2_5_vl
architecture    Qwen2_5_VLForConditionalGeneration
folder          $work/cut
fingerprint     ...
vision encoder  4 of 4 layers, width 24, 2 heads
picture         native resolution, patches of 7
decoder         4 layers, width 64, 4 heads, 2 key-value heads, ffn 72
vocabulary      568
positions       128000
chat template   the folder's
end of answers  <|im_end|> (config.json)
preprocessor    none; the family's defaults: resized to 3136 to 1003520 pixels, mean 0.481455 0.457828 0.408211, deviation 0.26863 0.261303 0.275777
device          ...
arithmetic      ... (compute.matmul auto)
(model)
...
E
session "nothing is missing" $llava <<E
> /info
[model]
field           value
family          llava
architecture    LlavaForConditionalGeneration
folder          tests/goldens/llava-1.5
fingerprint     ...
vision encoder  2 of 3 layers, width 32, 4 heads
picture         35 pixels a side, patches of 7, 25 visual tokens
decoder         4 layers, width 64, 4 heads, 4 key-value heads, ffn 88
vocabulary      552
positions       4096
chat template   the folder's
end of answers  </s> (generation_config.json)
preprocessor    preprocessor_config.json
device          ...
arithmetic      ... (compute.matmul auto)
(model)
...
E
finish
