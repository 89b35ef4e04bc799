#!/bin/bash
# The first quarter of an hour on a GPU: checks and measurements, the most valuable first. Each part's
# results are written as soon as it ends, so that nothing is lost when time runs out.
#
#   tests/bench/gpu/first.sh BUILD_DIR [PART...]     default: all, in this order
#     machine     GPU, driver, missing libraries; an answer of the demo model
#     right       correctness of products of few rows and of replayed decode steps, with
#                 VLMSH_CUDA_FEW_ROWS=registers and =ring (docs/gpu.md)
#     products    chains of products of few rows, by both kinds of kernels; the kernels one by one
#     tokens      whole models, with ring, then with registers
#     suites      all tests of tests/cuda
#     answers, train, prune, attention, quantised, several, families
#                 parts of run.sh (with PEERS: beside transformers)
#     profile     kernels of a prefill and of tokens, by nsys if it is installed
#
# FIRST_SECONDS: time for all parts (840). A part gets its own limit, or what is left if that is less;
# with less than 15 s left, no part begins. FIRST_OUT: the folder of results ($OUT, or
# build/bench/first): NN-PART.md of each part, and first.md, which lists the parts with their status
# and time. The models are written at the beginning, in the background, to GPU_FOLDER
# (/dev/shm/vlmsh-models, which needs 30 GB, with the families 55 GB). Parts that an earlier call has
# finished in the same FIRST_OUT are not run again. Other variables as in run.sh.
set -u
build=${1:?usage: tests/bench/gpu/first.sh BUILD_DIR [PART...]}
shift
cd "$(dirname "$0")/../../.." || exit 1
here=tests/bench/gpu began=$SECONDS
all='machine right products tokens suites answers train prune attention quantised several families profile'
out=${FIRST_OUT:-${OUT:-build/bench/first}}
mkdir -p "$out" || exit 1
out=$(realpath "$out")
export GPU_FOLDER=${GPU_FOLDER:-/dev/shm/vlmsh-models} VLMSH=${VLMSH:-$PWD/$build/vlmsh}
models='llava-1.5-7b llama-3.2-3b+siglip-so400m'
[ "${GPU_TRY:-}" != 1 ] || models=tiny
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $all
for part in "$@"; do
    case " $all " in *" $part "*) ;; *) echo "'$part' is not one of: $all" >&2 && exit 2 ;; esac
done
: "${VLMSH_CUDA:?must name the CUDA library}"

left() {
    echo $((${FIRST_SECONDS:-840} - SECONDS + began))
}

# Runs a command for at most $1 seconds, or what is left.
within() {
    local most=$1
    shift
    [ "$(left)" -ge "$most" ] || most=$(left)
    [ "$most" -gt 0 ] || return 124 # `timeout 0` would not end
    timeout --kill-after=5 "$most" "$@"
}

bench() {
    GPU_REPORT=$out/$1.report.md GPU_SECONDS=$((2 * limit / 3)) within "$limit" $here/run.sh "$build" "$1"
}

# Written under another name first, so that a folder with the final name is complete; run.sh does
# the same for what is missing then.
write_models() {
    for m in $models; do
        [ -d "$GPU_FOLDER/$m" ] && continue
        mkdir -p "$GPU_FOLDER" && "$VLMSH" new --like "$m" "$GPU_FOLDER/$m.first" >/dev/null &&
            mv "$GPU_FOLDER/$m.first" "$GPU_FOLDER/$m"
    done
}

wait_for_models() {
    while kill -0 "$writer" 2>/dev/null && [ "$(left)" -gt 15 ]; do sleep 0.2; done
}

machine() {
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv,noheader
    nproc
    free -g | sed -n 2p
    df -h "$(dirname "$GPU_FOLDER")" | tail -n 1
    ldd "$VLMSH" "$VLMSH_CUDA" | grep 'not found'
    within 60 "$VLMSH" --device cuda --plain -c /version -c '/image demo/pictures/scene-1.png' \
        -c 'What is in the picture?' demo/model </dev/null
}

right() {
    local status=0
    for how in registers ring; do
        for suite in few_rows steps; do
            echo "$how, $suite"
            VLMSH_CUDA_FEW_ROWS=$how within 60 "$build/tests/cuda/$suite" 2>&1 | grep -vE '^\[ RUN|^\[=' || status=1
            [ "${PIPESTATUS[0]}" = 0 ] || status=1
        done
    done
    return $status
}

tokens() {
    wait_for_models
    local status=0
    for how in ring registers; do
        printf '\nVLMSH_CUDA_FEW_ROWS=%s\n\n' $how
        VLMSH_CUDA_FEW_ROWS=$how GPU_REPORT=$out/tokens-$how.report.md GPU_SECONDS=60 \
            within 120 $here/run.sh "$build" model || status=1
    done
    return $status
}

suites() {
    TEST_JOBS=${TEST_JOBS:-6} TEST_TIMEOUT=${TEST_TIMEOUT:-90} within 150 \
        tests/run.sh $(find "$build/tests/cuda" -type f -perm -u+x ! -name tests) tests/cuda/*.sh
}

profile() {
    if ! command -v nsys >/dev/null; then
        echo 'nsys is not installed here'
        return
    fi
    wait_for_models
    for m in $models; do
        within 90 nsys profile -o "$out/$m" --force-overwrite true --trace cuda --cuda-graph-trace node \
            "$build/$here/model" "$GPU_FOLDER/$m" 640 >/dev/null 2>&1
        within 60 nsys stats --report cuda_gpu_kern_sum --format csv "$out/$m.nsys-rep" | head -40
        rm -f "$out/$m.nsys-rep" "$out/$m.sqlite"
    done
}

write_models >"$out/models.log" 2>&1 &
writer=$!
trap 'kill $writer 2>/dev/null' EXIT
number=0 failed=0
for part in $all; do
    number=$((number + 1))
    case " $* " in *" $part "*) ;; *) continue ;; esac
    file=$out/$(printf %02d $number)-$part.md start=$SECONDS
    [ -f "$file" ] && continue
    if [ "$(left)" -lt 15 ]; then
        echo "$part: not begun, $(left) s were left" | tee -a "$out/first.md"
        failed=1
        continue
    fi
    limit=150
    case $part in
    machine | right | tokens | suites | profile) $part >"$file.part" 2>&1 ;;
    products | attention) bench $part >"$file.part" 2>&1 ;;
    *) wait_for_models && bench "$part" >"$file.part" 2>&1 ;;
    esac
    status=$?
    # The next call runs a part again that failed or ran out of time.
    if [ $status = 0 ]; then mv "$file.part" "$file"; else mv "$file.part" "${file%.md}.failed.md" && failed=1; fi
    echo "$part: status $status, $((SECONDS - start)) s" | tee -a "$out/first.md"
done
exit $failed
