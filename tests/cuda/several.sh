#!/bin/bash
# --device cuda:0,1: layers split over two GPUs give the results of one GPU, forward and backward,
# and replayed from a CUDA graph; a model that does not fit on one GPU fits on two.
export CUDA_HOST_GPUS=2 # for emulated GPUs
if [ "$("$VLMSH" --db "$(mktemp -u)" --json -c /devices | jq 'select(.name == "devices").rows | length')" -lt 3 ]; then
    echo "SKIPPED: there are fewer than two GPUs"
    exit 77
fi
(
    . tests/cuda/suites.bash
    export TEST_DEVICE=cuda:0,1
    run_suites core/model/families/goldens cuda/steps cuda/later cuda/offload
    run_suites_open core/model/families/training
    exit $failed
) || exit 1

. tests/commands/common.bash
ask() {
    vlmsh "$llava" "$@" --json -c '/set sample.max_tokens 6' -c '/set sample.ignore_eos on' -c "/image $scene" -c 'What is this?' \
        -c '/set prune.score contribution' -c /regen >"$work/events" 2>"$work/told" || fail "no answer: $*"
    jq -c 'select(.event == "answer").ids' "$work/events"
}
one=$(ask --device cuda:0)
same "number of answers" "$(wc -l <<<"$one")" 2
same "the same answer with layers on two GPUs" "$(ask --device cuda:0,1)" "$one"
same "the same answer with the GPUs in the other order" "$(ask --device cuda:1,0)" "$one"
vlmsh --device cuda:0,1 --json -c /version >"$work/events"
check_has "the first GPU's name" 'select(.event == "text").text' "cuda:0 ("
check_has "the second GPU's name" 'select(.event == "text").text' "), cuda:1 ("
vlmsh --device cuda:0,0 -c /version 2>"$work/told" && fail "a GPU named twice is accepted"
grep -q "'0,0' is not a list of GPUs" "$work/told" || fail "told: $(cat "$work/told")"
vlmsh --device cuda:0,5 -c /version 2>"$work/told" >/dev/null
grep -q "no GPU available: no cuda:5: .*; computing on the CPU" "$work/told" || fail "told: $(cat "$work/told")"

case $VLMSH_CUDA in *cuda_host*) ;; *) finish ;; esac
CUDA_HOST_ALONE=1 vlmsh --device cuda:0,1 -c /version 2>"$work/told" >/dev/null
grep -q "cuda:0 cannot reach the memory of cuda:1" "$work/told" || fail "told: $(cat "$work/told")"
# cuBLASLt takes 32 MB of each GPU.
export CUDA_HOST_MEMORY=$((43 * 1024 * 1024))
talk() {
    printf '%s\n' '/load demo/model' '/set sample.max_tokens 2' 'Hello!' | vlmsh --device "$1" --json >"$work/events"
}
talk cuda:0
check_has "the model does not fit on one GPU" 'select(.event == "error").message' "out of memory"
talk cuda:0,1
check "the model fits on two GPUs" 'select(.event == "done").ok' $'true\ntrue\ntrue'
finish
