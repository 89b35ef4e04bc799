#!/bin/bash
# How many kernels a token of an answer starts, where the host plays the GPU: those of the fused forms
# in each layer, and three around the layers. A part that falls back to single ops shows here.
. tests/commands/common.bash
case ${VLMSH_CUDA:-} in *cuda_host*) ;; *) echo "skipped: for the GPU that the host plays"; exit 0 ;; esac

# kernels FOLDER TOKENS: of a whole answer.
kernels() {
    rm -f "$work/report"
    CUDA_HOST_REPORT=$work/report vlmsh "tests/goldens/$1" --device cuda -c "/set sample.max_tokens $2" \
        -c '/set sample.ignore_eos on' -c 'What is this?' >"$work/told" 2>&1 || fail "$1: $(cat "$work/told")"
    jq .kernels "$work/report"
}

# check_token FOLDER LAYERS EACH [FIRST]: EACH kernels in a layer, FIRST in the first one.
check_token() {
    local few many
    few=$(kernels "$1" 4)
    many=$(kernels "$1" 14)
    same "$1: kernels of ten tokens" $((many - few)) $((10 * (3 + ${4:-$3} + ($2 - 1) * $3)))
}
check_token llama-3.2 4 5
check_token internvl2-internlm2 3 5
check_token internvl3.5 3 6 # normed heads
check_token glm-4.1v 3 7    # a norm behind each of two products
check_token kimi-text 4 9 7 # five over the latents, four for the experts
finish
