#!/bin/bash
# A real shape, LLaVA-1.5-7B, where the host plays a GPU that computes nothing (CUDA_HOST_DRY): every
# launch, copy and product of chat and training is possible there, and a training takes the memory
# that its forecast says, no more than it may.
. tests/commands/common.bash
case ${VLMSH_CUDA:-} in *cuda_host*) ;; *) echo "skipped: for the GPU that the host plays"; exit 0 ;; esac
export CUDA_HOST_DRY=1 CUDA_HOST_MEMORY=150000000000
model=$work/7b
vlmsh new --like llava-1.5-7b "$model" --zeros >"$work/told" || fail "$(cat "$work/told")"

on_gpu() {
    printf '%s\n' "$@" | vlmsh "$model" --device cuda --json >"$work/events" 2>"$work/told"
    check "no error" 'select(.event == "error").message' ""
    same "nothing is told" "$(cat "$work/told")" ""
}

# The long prompt nearly fills the model's 4096 tokens.
long=$(printf 'word %.0s' $(seq 1700))
on_gpu '/set sample.max_tokens 3' '/set sample.ignore_eos on' "/image $scene" 'What is this?' \
    '/set prune.score contribution' /regen /norms '/set prune.score off' "$long" /memory
check "answers" 'select(.event == "answer").ids | length' $'3\n3\n3'

# All weights but the embedding table, 0.26 of 14.1 GB, and what a short talk takes.
CUDA_HOST_REPORT=$work/report vlmsh "$model" --device cuda -c '/set sample.max_tokens 3' -c "/image $scene" -c 'What is this?' >/dev/null 2>&1
[ "$(jq .most "$work/report")" -lt 14800000000 ] || fail "a talk takes $(cat "$work/report")"

# 576 visual tokens and about as many of text as the goal is stated for.
words=$(printf 'a %.0s' $(seq 95))
jq -n --arg image "$PWD/$scene" --arg words "$words" '[range(8) | {id: "\(.)", image: $image, conversations:
    [{from: "human", value: "<image>\nDescribe the picture."}, {from: "gpt", value: $words}]}]' >"$work/data.json"

# train METHOD CHECKPOINTING: $peak in MB, and its $forecast.
train() {
    on_gpu "/set train.method $1" '/set train.steps 1' "/set train.checkpointing $2" \
        "/train $work/data.json $work/out-$1-$2" /wait "/job $((++jobs))"
    read -r peak forecast <<<"$(jq -r 'select(.name == "job").rows[] | select(.[0] == "memory")[1] | gsub("[^0-9. ]"; "")' "$work/events")"
}
jobs=0
for how in on auto; do
    train layernorm-simple $how
    awk -v p="${peak:-0}" -v f="${forecast:-0}" 'BEGIN { exit !(p > 14000 && f > 0.98 * p && f < 1.05 * p) }' ||
        fail "checkpointing $how takes $peak MB, the forecast was $forecast"
    # 17.5 GB, of which a GPU's own context is 0.6.
    [ $how = on ] && { awk -v p="${peak:-0}" 'BEGIN { exit !(p < 16900) }' || fail "a batch of 8 takes $peak MB"; }
done
# With head and embedding; the table's master, gradient and moments are on the host.
train layernorm on
awk -v p="${peak:-0}" -v f="${forecast:-0}" 'BEGIN { exit !(p < 17900 && f > 0.98 * p && f < 1.05 * p) }' ||
    fail "layernorm takes $peak MB, the forecast was $forecast"
check "on the host" 'select(.name == "job").rows[] | select(.[0] == "on the host")[1]' "2101.3 MB, forecast 2101.3 MB"
finish
