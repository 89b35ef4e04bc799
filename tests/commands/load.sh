# tests/commands/load.sh -- /load, /unload: a folder that cannot be loaded leaves the former model.
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

lines "/load $llama" '/set sample.max_tokens 4' '/set sample.ignore_eos on' 'hello' '/undo' \
    "/load $work/truncated" "/load $work/family" "/load $work/shape" "/load $work/config" \
    "/load $work/missing" "/load $work/shards" "/load $work/nothing" 'hello'
check "what fails" 'select(.event == "done").ok' \
    "$(printf 'true\n%.0s' 1 2 3 4 5; printf 'false\n%.0s' 1 2 3 4 5 6 7; echo 'true')"
same "same answer afterwards" \
    "$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 1p)" \
    "$(jq -c 'select(.event == "answer").ids' "$work/events" | sed -n 2p)"
for name in truncated family shape config missing shards nothing; do
    check_has "$name is named" 'select(.event == "error").message' "$work/$name"
done
check_has "the unknown family is named" 'select(.event == "error").message' obody
check_has "the missing shard is named" 'select(.event == "error").message' model-00002-of-00003

lines "/load $llama" '/unload' '/info' 'hello' '/unload' "/load $llama"
check "without a model" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\nfalse\ntrue'
check_has "says what to do" 'select(.event == "error").message' "/load MODEL"
check_has "a loaded model is told" 'select(.event == "notice").text' "llama"

# org/name from a hub cache.
snapshot=$work/hub/models--org--tiny/snapshots/abc
mkdir -p "$snapshot" "$work/hub/models--org--tiny/refs"
printf abc >"$work/hub/models--org--tiny/refs/main"
cp -rL $llama/. "$snapshot"
HF_HUB_CACHE=$work/hub lines '/load org/tiny' '/load org/other'
check "hub cache" 'select(.event == "done").ok' $'true\nfalse'
check_has "says where it looked" 'select(.event == "error").message' "$work/hub"
finish
