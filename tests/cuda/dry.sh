#!/bin/bash
# A real shape, LLaVA-1.5-7B, on an emulated GPU that computes nothing (CUDA_HOST_DRY): every launch,
# copy and product of chat and training is valid, and a training run takes the memory that its
# forecast states and stays within the limit.
. tests/commands/common.bash
case ${VLMSH_CUDA:-} in *cuda_host*) ;; *) echo "SKIPPED: needs the emulated GPU"; exit 77 ;; esac
export CUDA_HOST_DRY=1 CUDA_HOST_MEMORY=150000000000
model=$work/7b
vlmsh new --like llava-1.5-7b "$model" --zeros >"$work/told" || fail "$(cat "$work/told")"

on_gpu() {
    printf '%s\n' "$@" | vlmsh "$model" --device cuda --json >"$work/events" 2>"$work/told"
    check "no error" 'select(.event == "error").message' ""
    same "prints nothing else" "$(cat "$work/told")" ""
}

# The long prompt nearly fills the model's 4096 tokens.
long=$(printf 'word %.0s' $(seq 1700))
on_gpu '/set sample.max_tokens 3' '/set sample.ignore_eos on' "/image $scene" 'What is this?' \
    '/set prune.score contribution' /regen /norms '/set prune.score off' "$long" /memory
check "lengths of the answers" 'select(.event == "answer").ids | length' $'3\n3\n3'

# The GPU holds all weights except the embedding table (0.26 of 14.1 GB), and the memory of a short
# conversation.
CUDA_HOST_REPORT=$work/report vlmsh "$model" --device cuda -c '/set sample.max_tokens 3' -c "/image $scene" -c 'What is this?' >/dev/null 2>&1
[ "$(jq .most "$work/report")" -lt 14800000000 ] || fail "a conversation takes $(cat "$work/report")"

# A sample of 576 visual tokens and about 100 of text, for which the limits are stated.
words=$(printf 'a %.0s' $(seq 95))
jq -n --arg image "$PWD/$scene" --arg words "$words" '[range(8) | {id: "\(.)", image: $image, conversations:
    [{from: "human", value: "<image>\nDescribe the picture."}, {from: "gpt", value: $words}]}]' >"$work/data.json"

# Prints a number of the last job's result and its forecast, in MB.
result() {
    jq -r --arg key "$1" 'select(.name == "job").rows[] | select(.[0] == $key)[1] | gsub("[^0-9. ]"; "")' "$work/events"
}
# train METHOD BATCH CHECKPOINTING [EMBEDDING]: sets $peak, in MB, and $forecast.
jobs=0
train() {
    on_gpu "/set train.method $1" "/set train.batch $2" "/set train.checkpointing $3" '/set train.steps 1' "/set train.embedding ${4:-auto}" \
        "/train $work/data.json $work/out-$((++jobs))" /wait "/job $jobs"
    read -r peak forecast <<<"$(result memory)"
    awk -v p="${peak:-0}" -v f="${forecast:-0}" 'BEGIN { exit !(p > 14000 && f > 0.98 * p && f < 1.05 * p) }' ||
        fail "$*: it takes $peak MB, the forecast was $forecast"
}
# The limit includes 0.6 GB of a GPU's own context.
within() {
    awk -v p="$peak" -v most="$1" 'BEGIN { exit !(p < 1000 * most - 600) }' || fail "it takes $peak MB, not ${1} GB"
}
train layernorm-simple 8 auto
train layernorm-simple 8 on
within 17.5
on=$peak

# Only two of the 31 inputs of [rows, 4096] are on the GPU.
train layernorm-simple 8 host
host=$peak
read -r waiting _ <<<"$(result 'on the host')"
awk -v on="$on" -v host="$host" -v w="${waiting:-0}" 'BEGIN { exit !(w > 300 && on - host > 0.9 * w) }' ||
    fail "training takes $host MB with inputs of $waiting MB on the host, and $on MB without"
# auto chooses `host` if nothing else fits.
CUDA_HOST_MEMORY=$(awk -v on="$on" -v host="$host" 'BEGIN { printf "%.0f", (on + host) / 2 * 1e6 }')
train layernorm-simple 8 auto
read -r again _ <<<"$(result 'on the host')"
same "inputs on the host by themselves" "${again:-}" "$waiting"
CUDA_HOST_MEMORY=150000000000
train layernorm-simple 1 host
within 15

# Head and embedding are trained, too; the table's master, gradient and moments are on the host.
train layernorm 1 on host
within 18.5
read -r there forecast <<<"$(result 'on the host')"
same "memory on the host, as forecast" "$there $forecast" "2101.3 2101.3"
host=$peak
# By default they are on the GPU, if they fit.
train layernorm 1 on
awk -v host="$host" -v gpu="$peak" 'BEGIN { d = gpu - host; exit !(d > 2050 && d < 2150) }' ||
    fail "with the embedding on the GPU, training takes $peak MB, else $host"
same "nothing on the host" "$(result 'on the host')" ""
CUDA_HOST_MEMORY=$(awk -v host="$host" -v gpu="$peak" 'BEGIN { printf "%.0f", (host + gpu) / 2 * 1e6 }')
train layernorm 1 on
read -r there forecast <<<"$(result 'on the host')"
same "on the host if it does not fit" "$there" 2101.3
CUDA_HOST_MEMORY=150000000000
train layernorm 8 on host
within 21
finish
