#!/bin/bash
# Measures the program on a GPU: one report (Markdown) with the machine, both sides, their ratio and
# the goal. A part that fails adds a line to the report, and the next part runs.
#
#   tests/bench/gpu/run.sh BUILD_DIR [PART...]     default: all, in this order
#     model       loading, prefill and tokens, beside a copy on the device and cuBLASLt alone
#     prune       CAPA, beside the ratio of operations
#     answers     prefill and tokens in the program, beside transformers
#     train       training steps and their memory in the program, beside transformers
#     products    the kernels one by one
#     attention
#     quantised   as model, with weights of GGUF files: q8_0, q4_k
#     several     as model, with the layers on two GPUs
#     families    as model, for shapes of other families
#
# $VLMSH_CUDA names the CUDA library. PEERS=PYTHON: an interpreter with torch, transformers and
# accelerate; without it, vlmsh is measured alone. PEERS_STATIC=1: also transformers with a static cache,
# compiled. GPU_FOLDER: where the models are written, 22 GB, and one after the other the GGUF files,
# 8 GB at most, and the other families, 33 GB at most, each deleted after its measurement
# (build/bench; a folder in memory is faster). GPU_REPORT: the report (build/bench/gpu.md); a part that is measured again replaces its
# earlier text. GPU_SECONDS: time limit of one measurement. GPU_TRY=1: very small sizes, to try this
# script on the emulated GPU.
set -u
build=${1:?usage: tests/bench/gpu/run.sh BUILD_DIR [PART...]}
shift
cd "$(dirname "$0")/../../.." || exit 1
here=tests/bench/gpu all='model prune answers train products attention quantised several families'
models='llava-1.5-7b llama-3.2-3b+siglip-so400m' trained=llava-1.5-7b
families='qwen2.5-vl-3b qwen3-vl-4b qwen3.5-2b gemma3-4b internvl3-2b smolvlm2-2.2b llava-onevision-0.5b glm-4.1v-9b kimi-vl-a3b'
rows=(640 4096) visual=576 by=1 answers=() train=()
peer_device=cuda
if [ "${GPU_TRY:-}" = 1 ]; then
    models=tiny trained=tiny families=tiny rows=(24) visual=16 by=64 answers=(--decode 3) peer_device=cpu
    train=(--text 40 --steps 2 --methods layernorm-simple:2 layernorm-simple:2:host layernorm:1)
fi
folder=${GPU_FOLDER:-build/bench} report=${GPU_REPORT:-build/bench/gpu.md}
pieces=$report.parts failed=0
mkdir -p "$folder" "$pieces" || exit 1
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $all
beside=(--vlmsh "$build/vlmsh" --peer-device "$peer_device")
[ -z "${PEERS:-}" ] || beside+=(--peer "$PEERS")
[ -z "${PEERS_STATIC:-}" ] || beside+=(--peer-static)

head_of_report() {
    echo "# vlmsh on a GPU, $(date -u +%F)"
    echo
    echo "- vlmsh $(git rev-parse --short HEAD 2>/dev/null || echo "${GPU_COMMIT:-of an unknown commit}")"
    echo "- GPU, driver, memory: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)"
    echo "- CUDA $( (nvcc --version || /usr/local/cuda/bin/nvcc --version) 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
    echo "- $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
    [ -z "${PEERS:-}" ] || echo "- $("$PEERS" -c 'import torch, transformers; print("torch", torch.__version__ + ", transformers", transformers.__version__)' 2>&1 | tail -n 1)"
}

# The report of all parts measured so far, in their order.
assemble() {
    {
        cat "$pieces/head.md"
        for part in $all; do
            if [ -f "$pieces/$part.md" ]; then
                echo
                cat "$pieces/$part.md"
            fi
        done
    } >"$report"
}

# In the foreground, so that a time limit of this script (first.sh) also ends the measurement.
measure() {
    timeout --foreground --kill-after=10 "${GPU_SECONDS:-500}" "$@" 2>"$pieces/told"
    local status=$?
    [ $status = 0 ] && return
    printf '\n%s ended with %s: %s\n' "$(basename "$1")" $status "$(tail -n 1 "$pieces/told")"
    return 1
}

# Written under another name first, so that a folder with the final name is complete.
model() {
    [ -d "$folder/$1" ] && return
    local start=$SECONDS
    rm -rf "$folder/$1.part"
    if ! measure "$build/vlmsh" new --like "$1" "$folder/$1.part" >"$pieces/wrote"; then
        tail -n 1 "$pieces/wrote"
        return 1
    fi
    mv "$folder/$1.part" "$folder/$1" &&
        echo "$1: written in $((SECONDS - start)) s" >&2
}

each_model() {
    local status=0
    for m in $models; do
        { model "$m" && measure "$@" "$folder/$m" "${after[@]}"; } || status=1
        echo
    done
    return $status
}

# No other part reads these models.
each_family() {
    local status=0
    for f in $families; do
        models=$f each_model "$@" || status=1
        case " $models " in *" $f "*) ;; *) rm -rf "${folder:?}/$f" ;; esac
    done
    return $status
}

# Measures each model as a GGUF file.
quantised() {
    local status=0 file
    for m in $models; do
        model "$m" || return 1
        for type in q8_0 q4_k; do
            file=$folder/$m-$type.gguf
            [ -f "$file" ] || measure "$build/vlmsh" quantize "$folder/$m" "$file" --type $type --no-compare >"$pieces/wrote" ||
                { status=1; continue; }
            measure "$build/$here/model" "$file" "${rows[@]}" || status=1
            rm "$file"
            echo
        done
    done
    return $status
}

measure_part() {
    local after=()
    case $1 in
    model)
        printf '## The decoder, and what limits it\n\n'
        after=("${rows[@]}")
        each_model "$build/$here/model"
        ;;
    prune)
        printf '## CAPA\n\n'
        after=("$visual")
        each_model "$build/$here/prune"
        ;;
    answers)
        printf '## Answers of the program\n\n'
        after=("${beside[@]}" --prefill "${rows[@]}" "${answers[@]}")
        each_model python3 $here/program.py chat
        ;;
    train)
        printf '## Training by the program\n\n'
        model $trained && measure python3 $here/program.py train "$folder/$trained" "${beside[@]}" "${train[@]}"
        ;;
    quantised)
        printf '## Quantised weights\n\n'
        quantised
        ;;
    several)
        printf '## Two GPUs\n\n'
        if ! CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0,1} "$build/vlmsh" --json -c /devices | grep -q '"cuda:1"'; then
            echo 'There is no second GPU.'
            return
        fi
        after=("${rows[@]}")
        GPU_DEVICE=cuda:0,1 each_model "$build/$here/model"
        ;;
    families)
        printf '## Families\n\n'
        after=("${rows[0]}")
        each_family "$build/$here/model"
        ;;
    products | attention) measure "$build/$here/$1" $by ;;
    *)
        echo "'$1' is not one of: $all"
        return 1
        ;;
    esac
}

head_of_report >"$pieces/head.md"
trap assemble EXIT
trap 'exit 1' INT TERM
for part in "$@"; do
    start=$SECONDS
    measure_part "$part" | tee "$pieces/$part.md"
    [ "${PIPESTATUS[0]}" = 0 ] || failed=1
    echo "$part: $((SECONDS - start)) s" >&2
    assemble
done
exit $failed
