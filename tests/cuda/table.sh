#!/bin/bash
# The embedding table, which stays on the host unless it is also the head: training it there or on the
# GPU (train.embedding) equals training on the CPU, over one GPU and over two, after a kill and resume,
# and after saving, reloading and merging.
export CUDA_HOST_GPUS=2 # for emulated GPUs
. tests/commands/common.bash
gpus=$(vlmsh --json -c /devices | jq -s '[.[] | select(.name == "devices").rows[] | select(.[0] | startswith("cuda"))] | length')
tied=tests/goldens/llava-siglip-llama3
cp $scene "$work/scene.png"
for i in 0 1 2 3; do
    printf '{"id": "%d", %s"question": "What is %d?", "answer": "It is %d."}\n' $i \
        "$([ $i = 0 ] && printf '"image": "scene.png", ')" $i $((i * i))
done >"$work/data.jsonl"

# train DEVICE MODEL METHOD OUT [LINE...]: prints the losses.
train() {
    local device=$1 model=$2 method=$3 out=$work/$4
    printf '%s\n' "/load $model" '/set job.nice 0' '/set compute.matmul f32' "/set train.method $method" '/set train.batch 2' \
        '/set train.steps 2' '/set train.lr 1e-3' '/set train.shuffle off' "${@:5}" "/train $work/data.jsonl $out" /wait |
        vlmsh --device "$device" --json >"$work/events" 2>"$work/told"
    check "$4: no error" 'select(.event == "error").message' ""
    same "$4: prints nothing else" "$(cat "$work/told")" ""
    lines "/plot $out loss --csv $work/loss.csv"
    awk -F, 'NR > 1 { print $4 }' "$work/loss.csv"
}

# numbers DEVICE MODEL OUT: prints norm and spread of the adapter's embedding, and an answer with
# it.
numbers() {
    printf '%s\n' "/load $2" "/adapter load $work/$3" '/adapter show' '/set sample.max_tokens 6' '/set sample.ignore_eos on' \
        "/image $scene" 'What is this?' | vlmsh --device "$1" --json >"$work/events"
    check "$3 on $1: no error" 'select(.event == "error").message' ""
    jq -r 'select(.event == "table").rows[] | select(.[0] | test("embed_tokens"; "")) | .[1:][] | tonumber? // empty' "$work/events"
    jq -r 'select(.event == "answer").ids[]' "$work/events"
}

# near NAME A B: expects equally many numbers, each within a thousandth.
near() {
    [ -n "$2" ] && paste <(echo "$2") <(echo "$3") | awk '{ d = $1 - $2; if (d < 0) d = -d; m = $1 < 0 ? -$1 : $1
        if (NF != 2 || d > 1e-3 * m + 1e-6) bad = 1 } END { exit bad }' || fail "$1: $(echo "$2" "beside" "$3")"
}

for model in $llava $tied; do # in the second model the table is also the head
    name=${model##*/}
    plain=$(train cpu $model layernorm "$name-cpu")
    on_gpu=$(train cuda $model layernorm "$name-gpu")
    near "$name" "$on_gpu" "$plain"
    near "$name, the table on the host" "$(train cuda $model layernorm "$name-host" '/set train.embedding host')" "$plain"
    # Over two GPUs, `auto` leaves the table on the host.
    [ "$gpus" -lt 2 ] || near "$name, over two GPUs" "$(train cuda:0,1 $model layernorm "$name-two")" "$on_gpu"
    there=$(numbers cpu $model "$name-cpu")
    near "$name, the adapter" "$(numbers cuda $model "$name-gpu")" "$there"
    same "$name, numbers and an answer" "$(($(wc -l <<<"$there") > 7))" 1
done
decay=('/set train.weight_decay 0.1' '/set train.clip 0.1')
near "training with weight decay" "$(train cuda $llava full full-gpu "${decay[@]}")" "$(train cpu $llava full full-cpu "${decay[@]}")"

# A run that is killed after a checkpoint, which holds the table's masters and moments and says where
# they were, and then resumed ends with the same bits.
long=('/set train.steps 6' '/set train.save_every 1')
train cuda $llava layernorm straight "${long[@]}" >"$work/straight.loss"
printf '%s\n' "/load $llava" '/set job.nice 0' '/set compute.matmul f32' '/set train.method layernorm' '/set train.batch 2' \
    '/set train.lr 1e-3' '/set train.shuffle off' "${long[@]}" "/train $work/data.jsonl $work/killed" |
    vlmsh --device cuda --json >"$work/events"
word() {
    lines "/job $work/killed"
    jq -r --arg key "$1" 'select(.event == "table").rows[] | select(.[0] == $key)[1]' "$work/events"
}
for _ in $(seq 6000); do
    compgen -G "$work/killed/checkpoint-[2-9]*" >/dev/null && break
    sleep 0.01
done
pid=$(word process)
kill -9 "$pid" || fail "the run had ended before it was killed"
while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
head -c 4000 "$work"/killed/checkpoint-[2-9]*/state.safetensors | grep -aq '"embedding": *"gpu"' ||
    fail "the checkpoint does not say where the table was"
"$VLMSH" job run "$(word job)" --db "$work/vlmsh.db" >"$work/told" 2>&1 || fail "the run does not resume: $(cat "$work/told")"
cmp "$work/straight/adapter_model.safetensors" "$work/killed/adapter_model.safetensors" || fail "weights differ after a kill"

# Merges the adapter trained on the GPU into a model's files.
printf '%s\n' "/load $llava" "/adapter load $work/straight" "/adapter merge $work/merged" | vlmsh --device cuda --json >"$work/events"
check "no error after a merge" 'select(.event == "error").message' ""
answer() {
    vlmsh --device "$1" --json "${@:2}" -c '/set sample.max_tokens 6' -c '/set sample.ignore_eos on' -c 'What is this?' | jq -c 'select(.event == "answer").ids'
}
same "the merged model gives the same answer" "$(answer cuda -c "/load $work/merged")" "$(answer cuda -c "/load $llava" -c "/adapter load $work/straight")"
finish
