#!/bin/bash
# The program with --device cuda: its messages about the device, and answers equal to the CPU's; too
# little memory is an error, and the shell continues.
. tests/commands/common.bash

ask() {
    vlmsh "$llava" "$@" --json -c '/set compute.matmul f32' -c '/set kv.dtype f32' -c '/set sample.max_tokens 6' -c '/set sample.ignore_eos on' -c "/image $scene" \
        -c 'What is this?' >"$work/events" 2>"$work/told" || fail "no answer: $*"
    jq -c 'select(.event == "answer").ids' "$work/events"
}

plain=$(ask --device cpu)
same "an answer on the GPU" "$(ask --device cuda)" "$plain"
same "prints nothing else" "$(cat "$work/told")" ""

# The model's weights are f16, which a GPU multiplies without conversion.
vlmsh "$llava" --device cuda --json -c '/set sample.max_tokens 6' -c '/set sample.ignore_eos on' -c "/image $scene" \
    -c 'What is this?' >"$work/events"
check "an answer of f16" 'select(.event == "answer").ids | tojson' "$plain"

lines "/load $llava" /devices
check "devices listed" 'select(.name == "devices").rows[][0]' $'cpu\ncuda:0'
vlmsh --device cuda --json -c /version >"$work/events"
check_has "version names the device" 'select(.event == "text").text' "(cuda:0 ("

# On a GPU, keys and values default to bf16.
printf '%s\n' "/load $llava" '/set sample.max_tokens 3' '/set sample.ignore_eos on' 'What is this?' /memory \
    '/set kv.dtype f32' /regen /memory | vlmsh --device cuda --json >"$work/events"
sizes=$(jq -r 'select(.event == "table" and .name == "memory") | .rows[] | select(.[0] == "keys and values") | .[1]' "$work/events" | tr '\n' ' ')
same "bf16 keys and values take half the memory of f32" "$(awk '{ print ($2 > 0 && $1 / $2 > 0.4999 && $1 / $2 < 0.5001) }' <<<"$sizes")" 1

# If the GPU is missing, a notice says so, and the CPU computes.
same "the CPU's answer if the GPU is missing" "$(ask --device cuda:7)" "$plain"
grep -q 'no GPU available: no cuda:7: .*; computing on the CPU' "$work/told" || fail "told: $(cat "$work/told")"
VLMSH_CUDA=$work/none.so ask --device cuda >/dev/null
grep -q "no GPU available: cannot open '.*none.so'" "$work/told" || fail "told: $(cat "$work/told")"

# Products of few rows by the ring of bulk copies.
same "an answer by the ring" "$(VLMSH_CUDA_FEW_ROWS=ring ask --device cuda)" "$plain"
same "prints nothing else" "$(cat "$work/told")" ""
VLMSH_CUDA_FEW_ROWS=rings ask --device cuda >/dev/null
grep -q "VLMSH_CUDA_FEW_ROWS is 'rings': it must be 'ring' or 'registers'" "$work/told" || fail "told: $(cat "$work/told")"

# Little memory on the emulated GPU: first too little for the weights, then enough for a short
# conversation only.
case $VLMSH_CUDA in *cuda_host*) ;; *) finish ;; esac
lines_on() {
    printf '%s\n' "$@" | CUDA_HOST_MEMORY=$memory vlmsh --device cuda --json >"$work/events"
}
CUDA_HOST_IMAGE=none ask --device cuda >/dev/null
grep -q 'no GPU available: cuda:0 is an sm_90, .*CUDA_ARCH=90.*; computing on the CPU' "$work/told" || fail "told: $(cat "$work/told")"
# A fault makes the GPU unusable: an error says so, and the shell continues.
printf '%s\n' "/load $llava" 'What is this?' 'What is this?' /version |
    CUDA_HOST_FAULT=500 vlmsh --device cuda --json >"$work/events"
check_has "the GPU is lost" 'select(.event == "error").message' "the GPU cannot be used any more"
check "the shell continues" 'select(.event == "done").ok' $'true\nfalse\nfalse\ntrue'
grep -q '0.0 of 0.0 MB' "$work/events" && fail "reports the fault as short memory"
memory=$((32 * 1024 * 1024 + 500000)) # cuBLASLt takes 32 MB
lines_on "/load $llava" /version
check_has "no room for the weights" 'select(.event == "error").message' "out of memory"
check "the shell continues" 'select(.event == "done").ok' $'false\ntrue'
memory=$((37 * 1024 * 1024))
long=$(printf 'word %.0s' $(seq 600))
lines_on "/load $llava" '/set sample.max_tokens 3' '/set sample.ignore_eos on' 'What is this?' "/forward $long" \
    /clear 'What is this?'
check_has "no room for a long prompt" 'select(.event == "error").message' "MB are free"
check "the shell continues and answers as before" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\nfalse\ntrue\ntrue'
same "the same answer" "$(jq -c 'select(.event == "answer" and (.ids | length) == 3).ids' "$work/events" | sort -u | wc -l)" 1

# A training run without enough memory says so before it fails, and suggests no setting that it
# already uses.
printf '{"id": "0", "question": "What is 0?", "answer": "It is 0."}\n' >"$work/data.jsonl"
for how in on auto; do
    lines_on "/load $llava" "/set train.checkpointing $how" '/set train.method full' '/set train.steps 1' \
        "/train $work/data.jsonl $work/tight-$how" /wait
    check_has "no room to train" 'select(.event == "error").message' "out of memory"
    lines "/job $work/tight-$how log"
    advice="smaller train.batch, or"
    [ $how = auto ] || advice="smaller train.batch, train.checkpointing host, or"
    grep -q "use a $advice train fewer" "$work/events" || fail "advice for $how: $(cat "$work/events")"
done
finish
