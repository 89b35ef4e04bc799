#!/bin/sh
# Runs the benchmarks of tests/bench/*.c (not lookahead) from BUILD_DIR; prints Markdown. Nothing is
# asserted.
#
# With PEERS=PYTHON (an interpreter that has torch, transformers, gguf and llama-cpp-python)
# llama.cpp, in turn with vlmsh, and transformers are measured on the same folder in the same run.
set -eu
build=${1:?usage: tests/bench/run.sh BUILD_DIR}
cd "$(dirname "$0")/../.."
# As in the program (tui/threads.c): waiting threads soon sleep, so that figures are comparable on a
# shared machine.
export OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=1500
folder=build/bench/llama-3.2-1b
printf '%s, %s cores, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
    "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)"
for source in tests/bench/*.c; do
    # Run below on their data; lookahead needs a model that follows instructions.
    case $source in */arithmetic.c | */families.c | */interventions.c | */lookahead.c) continue ;; esac
    printf '\n'
    "$build/${source%.c}"
done
# bf16 products beside f32 on the demo model and a world it has never seen.
[ -d build/bench/world ] || ./vlmsh scenes 20 build/bench/world --seed 2 >/dev/null
printf '\n## Arithmetic\n\n'
"$build/tests/bench/arithmetic" demo/model build/bench/world/conversation.json 6
# The screen and a 1B model that sees: it needs 4 GB of disk and of memory.
seeing=build/bench/llama-3.2-1b+siglip
[ -d "$seeing" ] || ./vlmsh new --like llama-3.2-1b+siglip-so400m "$seeing" >/dev/null
python3 tests/bench/screen.py ./vlmsh "$seeing" tests/goldens/pictures/scene.png
printf '\n'
"$build/tests/bench/interventions" "$seeing"
# Ranks (mpirun): training of norms and of all weights, beside one process with all cores.
if command -v mpirun >/dev/null; then
    printf '\n## Ranks\n\n| training | ranks x threads | rows/s | of one rank | waited for others | sums of a step |\n|---|---|---|---|---|---|\n'
    tests/bench/ranks.sh ./vlmsh demo/model layernorm-simple
    tests/bench/ranks.sh ./vlmsh demo/model full
    tests/bench/ranks.sh ./vlmsh "$folder" layernorm-simple
    small=build/bench/smollm2-135m # with the demo model's encoder; its file comes with `make real`
    if [ -d "$small" ] || [ -f build/smollm2.gguf ]; then
        [ -d "$small" ] || ./vlmsh new --encoder demo/model --decoder build/smollm2.gguf "$small" >/dev/null
        tests/bench/ranks.sh ./vlmsh "$small" layernorm-simple
        tests/bench/ranks.sh ./vlmsh "$small" full
    fi
fi
# Quantised weights: the same shape quantised by vlmsh, compared with its bf16 weights and with
# llama.cpp on the same file. (VLMSH_ISA does not apply to llama.cpp, which has the instructions
# that it was compiled for.)
printf '\n## Small weights\n'
for round in 1 2; do
    for type in bf16 q8_0 q4_k; do
        file=build/bench/llama-3.2-1b.$type.gguf
        [ -f "$file" ] || ./vlmsh quantize "$folder" "$file" --type $type >/dev/null
        for isa in "" avx2; do
            printf '\n%s %s\n\n' $type $isa
            VLMSH_ISA=$isa "$build/tests/bench/model" "$file" | grep '^| [pd]'
        done
        [ -z "${PEERS:-}" ] || "$PEERS" tests/bench/peers/llamacpp_bench.py "$file" --threads "$(nproc)" 2>/dev/null
    done
done
# A model of each family; its folder and the peer's file are removed before the next ones are written.
peers=tests/bench/peers
family() { # SHAPE LAYERS PICTURE TILES [PICTURE]; "-": not measured
    model=build/bench/$1 other=build/bench/peer.numbers
    : >$other
    [ -d "$model" ] || "$build/tests/bench/families" write "$1" "$2" "$model"
    if [ -n "${PEERS:-}" ]; then
        "$PEERS" $peers/to_gguf.py "$model" "$model.gguf" >/dev/null 2>&1 &&
            "$PEERS" $peers/llamacpp_bench.py "$model.gguf" --threads "$(nproc)" --numbers $other >/dev/null 2>&1 || true
        rm -f "$model.gguf"
    fi
    "$build/tests/bench/families" text "$folder" "$model" $other
    for picture in "$3" "${5:--}"; do
        [ "$picture" != - ] || continue
        for dtype in f32 bf16; do
            [ -z "${PEERS:-}" ] || "$PEERS" $peers/hf_vision.py "$model" "$picture" --tiles "$4" --dtype $dtype --threads "$(nproc)" >>$other 2>/dev/null || true
        done
        "$build/tests/bench/families" picture "$folder" "$model" "$picture" $other
    done
    rm -rf "$model" $other
}
printf '\n## Families, beside Llama-3.2-1B in turn\n\n'
printf '| model | | vlmsh | rate | rate of Llama-3.2-1B | of it | llama.cpp; transformers | vlmsh faster |\n|---|---|---|---|---|---|---|---|\n'
family llava-onevision-0.5b 0 700x700 5
family internvl3-2b 0 700x700 5
family internvl2-2b 0 - 0
family qwen2.5-vl-3b 0 700x700 0 2000x1500
family glm-4.1v-9b 6 700x700 0
family kimi-vl-a3b 4 700x700 0
family qwen3.5-0.8b 0 - 0
family qwen3.5-2b 0 - 0
[ -n "${PEERS:-}" ] || exit 0
[ -f "$folder.gguf" ] || "$PEERS" $peers/to_gguf.py "$folder" "$folder.gguf" >/dev/null 2>&1
printf '\n## Peers on the same folder\n\n'
for round in 1 2 3; do
    "$build/tests/bench/model" "$folder" | grep '^| [pd]'
    "$PEERS" $peers/llamacpp_bench.py "$folder.gguf" --threads "$(nproc)" 2>/dev/null
done
for dtype in f32 bf16; do
    "$PEERS" $peers/hf_bench.py "$folder" --dtype $dtype --threads "$(nproc)" 2>/dev/null
done
for method in layernorm-simple lora; do
    "$PEERS" $peers/peft_bench.py "$folder" --method $method --threads "$(nproc)" 2>/dev/null
done
