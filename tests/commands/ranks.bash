# ranks.bash -- shared by scripts of jobs in several processes. Sourced after common.bash.
#
#   run RANKS LINE...    runs the lines, of which the last starts a job in RANKS ranks; waits for the job
#   good RANKS LINE...   the same, but fails the test if the job fails
#   texts N              prints N samples without a picture
common=("/load $llava" '/set job.nice 0' '/set compute.matmul f32' '/set sample.max_tokens 4')
training=('/set train.method all' '/set train.batch 2' '/set train.accumulate 4' '/set train.steps 8'
    '/set train.lr 1e-3' '/set train.keep 1')
# Settings whose results do not depend on the number of ranks.
exact=("${training[@]}" '/set train.exact_sum on' '/set train.validation 0.2' '/set train.eval_every 3'
    '/set train.score cider')

run() {
    local n=$1 last=${*: -1}
    shift
    printf '%s\n' "${common[@]}" "${@:1:$#-1}" "$last --ranks $n" /wait >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1
}
good() {
    run "$@" || fail "$*: $(tail -1 "$work/out")"
}
texts() {
    local i
    for ((i = 0; i < $1; i++)); do
        printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
    done
}
