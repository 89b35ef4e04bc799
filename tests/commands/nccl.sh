# nccl.sh -- training in ranks with a GPU each: with NCCL, sums go from GPU to GPU; without it,
# through host memory. The weights are the same. The GPUs and NCCL are emulated.
case ${VLMSH_CUDA:-} in
*cuda_host*) ;;
*) echo "SKIPPED: it needs the emulated GPU" && exit 77 ;;
esac
. tests/commands/common.bash
emulated=$(dirname "$VLMSH_CUDA")/../nccl_host
[ -e "$emulated/libnccl.so.2" ] || fail "$emulated/libnccl.so.2 was not built"
export CUDA_HOST_GPUS=2 CUDA_HOST_OPEN=1
for i in $(seq 0 7); do
    printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
done >"$work/data.jsonl"

# train RANKS OUT LINE...
train() {
    local n=$1 out=$2
    shift 2
    printf '%s\n' "/load $llama" '/set job.nice 0' '/set compute.matmul f32' '/set train.batch 2' '/set train.accumulate 2' \
        '/set train.steps 3' '/set train.lr 1e-3' '/set train.keep 1' "$@" "/train $work/data.jsonl $out --ranks $n" \
        /wait >"$work/script"
    vlmsh --device cuda -f "$work/script" >"$work/out" 2>&1
}
log() {
    vlmsh -c "/job $1 log" >"$work/out" 2>&1
}

# The machine may have a real NCCL, which finds no GPU.
mkdir "$work/none"
: >"$work/none/libnccl.so.2"
LD_LIBRARY_PATH=$work/none train 2 "$work/host" '/set train.method layernorm' || fail "through the host: $(tail -1 "$work/out")"
log "$work/host"
grep -q "sums over the ranks go through host memory: rank 0: cannot load NCCL" "$work/out" || fail "log: $(cat "$work/out")"

export LD_LIBRARY_PATH=$emulated NCCL_HOST_REPORT=$work/report
# If one rank cannot start NCCL, the others free what they started.
NCCL_HOST_FAIL=0 train 2 "$work/start" '/set train.method layernorm' '/set train.steps 1' || fail "no start: $(tail -1 "$work/out")"
log "$work/start"
grep -q "sums over the ranks go through host memory: rank 1: NCCL: start: internal error" "$work/out" || fail "log: $(cat "$work/out")"
same "NCCL ends where it started" "$(cat "$work/report")" "rank 0 of 2: aborted"
rm "$work/report"
train 2 "$work/gpus" '/set train.method layernorm' || fail "between GPUs: $(tail -1 "$work/out")"
log "$work/gpus"
grep -q "host memory" "$work/out" && fail "log: $(cat "$work/out")"
cmp "$work/host/checkpoint-3/state.safetensors" "$work/gpus/checkpoint-3/state.safetensors" || fail "weights differ"
reported() { # ranks exit after their job's end
    for _ in $(seq 200); do
        [ "$(cat "$work/report" 2>/dev/null | wc -l)" = 2 ] && return
        sleep 0.1
    done
    fail "no report of both ranks"
}
# One group per step, with every gradient.
reported
same "groups of each rank, one per step" "$(sort "$work/report" | cut -d, -f1)" $'rank 0 of 2: 3 groups\nrank 1 of 2: 3 groups'
same "both ranks sum equally often" "$(sed 's/^rank [01]//' "$work/report" | sort -u | wc -l)" 1
grep -q ' 0 sums' "$work/report" && fail "no sums: $(cat "$work/report")"

# Sharded optimizer state: master weights go from GPU to GPU, too.
rm "$work/report"
train 2 "$work/shard" '/set train.method layernorm' '/set train.shard on' || fail "train.shard on: $(tail -1 "$work/out")"
cmp "$work/gpus/checkpoint-3/state.safetensors" "$work/shard/checkpoint-3/state.safetensors" || fail "weights differ with train.shard on"
reported
same "groups of each rank with train.shard on" "$(sort "$work/report" | cut -d, -f1)" $'rank 0 of 2: 6 groups\nrank 1 of 2: 6 groups'
grep -q ' 0 messages' "$work/report" && fail "no messages: $(cat "$work/report")"

# Sharded gradients: the sums of each layer go from GPU to GPU: a group for vectors, table and head, one for
# masters, and one each for four layers.
NCCL_HOST_REPORT=$work/other train 2 "$work/kept" '/set train.method all' '/set train.batch 1' || fail "all weights: $(tail -1 "$work/out")"
rm "$work/report"
train 2 "$work/layers" '/set train.method all' '/set train.batch 1' '/set train.shard gradients' ||
    fail "train.shard gradients: $(tail -1 "$work/out")"
cmp "$work/kept/checkpoint-3/state.safetensors" "$work/layers/checkpoint-3/state.safetensors" || fail "weights differ with train.shard gradients"
reported
same "groups of each rank with train.shard gradients" "$(sort "$work/report" | cut -d, -f1)" $'rank 0 of 2: 18 groups\nrank 1 of 2: 18 groups'

# Rows of a plan run in parts of the ranks. If a part has no NCCL, the log says why.
printf 'set pair: %s\nrow plain: off\nrow again: off\n' "$work/data.jsonl" >"$work/plan"
printf '%s\n' "/load $llama" '/set job.nice 0' '/set sample.max_tokens 3' "/eval --plan $work/plan $work/parts --ranks 2" /wait >"$work/script"
NCCL_HOST_FAIL=part vlmsh --device cuda -f "$work/script" >"$work/out" 2>&1 || fail "a plan: $(tail -1 "$work/out")"
log "$work/parts"
grep -q "sums over the ranks of a part of the table go through host memory: rank 1: NCCL: start: internal error" "$work/out" || fail "log: $(cat "$work/out")"

# An NCCL error ends the job with the rank and the reason; so does a missing GPU.
NCCL_HOST_FAIL=5 train 2 "$work/fails" '/set train.method layernorm' && fail "the job succeeds although NCCL fails"
grep -q "failed: rank 1: NCCL: sum: internal error" "$work/out" || fail "message: $(tail -1 "$work/out")"
train 3 "$work/few" '/set train.method layernorm' && fail "three ranks run on two GPUs"
grep -q "failed: rank 2: no GPU available: no cuda:2: the driver sees 2 GPUs: every rank needs a GPU of its own" "$work/out" || fail "message: $(tail -1 "$work/out")"

# Layers split over GPUs of two ranks: activations go through host memory.
for n in 1 2; do
    printf '%s\n' "/load $llama" '/set job.nice 0' '/set compute.matmul f32' '/set job.split layers' '/set sample.max_tokens 3' \
        "/eval $work/data.jsonl --metric cider --limit 4 --ranks $n" /wait "/eval show --csv $work/scores$n.csv" >"$work/script"
    vlmsh --device cuda -f "$work/script" >"$work/out" 2>&1 || fail "layers in $n: $(tail -1 "$work/out")"
done
cmp "$work/scores1.csv" "$work/scores2.csv" || fail "scores differ with layers split"
finish
