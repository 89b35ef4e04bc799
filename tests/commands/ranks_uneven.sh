# ranks_uneven.sh -- ranks with different kinds of samples: pictures in one and only text in the other, no samples,
# a broken sample. No rank hangs, and the results equal those of one rank.
. tests/commands/common.bash
cp $scene "$work/scene.png"
sample() { # NUMBER [picture]
    printf '{"id": "%d", %s"question": "What is %d?", "answer": "It is %d."}\n' "$1" \
        "${2:+"\"image\": \"$2\", "}" "$1" $(($1 * $1))
}
common=("/load $llava" '/set job.nice 0' '/set compute.matmul f32' '/set train.method all' '/set train.lr 1e-3' '/set train.keep 1'
    '/set train.exact_sum on' '/set train.batch 1' '/set train.shuffle off')
# run RANKS LINE...: runs the lines, of which the last starts a job; waits for the job and writes
# its /job to $work/events.
run() {
    local n=$1 last=${*: -1}
    shift
    printf '%s\n' "${common[@]}" "${@:1:$#-1}" "$last --ranks $n" /wait >"$work/script"
    timeout 120 bash -c '"$0" --db "$1" -f "$2"' "$VLMSH" "$work/vlmsh.db" "$work/script" >"$work/out" 2>&1 ||
        fail "$last, $n ranks: $(tail -1 "$work/out")"
    lines "/job $(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")"
}
# train DATA RANKS SAMPLES LINE...: the weights equal those of one rank; SAMPLES are the numbers that
# each rank reads.
train() {
    local data=$1 n=$2 samples=$3 k
    shift 3
    for k in 1 "$n"; do
        rm -rf "$work/run$k"
        run "$k" "$@" "/train $work/$data $work/run$k"
    done
    check "$data: samples of $n ranks" 'select(.name=="ranks") | .rows | map(.[3]) | join(" ")' "$samples"
    cmp "$work"/run1/checkpoint-*/state.safetensors "$work/run$n"/checkpoint-*/state.safetensors ||
        fail "$data: weights differ in $n ranks"
}

# In each step one rank has a picture, the other only text: only one has gradients for connector and
# encoder.
for i in 0 1 2 3; do
    sample $i scene.png
    sample $((i + 4))
done >"$work/mixed.jsonl"
train mixed.jsonl 2 "8 8" '/set train.accumulate 2' '/set train.steps 8'
# Here, some steps have no pictures at all.
for i in 0 1; do sample $i scene.png; done >"$work/blocks.jsonl"
for i in 2 3; do sample $i; done >>"$work/blocks.jsonl"
train blocks.jsonl 2 "4 4" '/set train.accumulate 2' '/set train.steps 4'

# Steps of two samples in three and four ranks: some ranks never have a sample.
train mixed.jsonl 3 "8 8 0" '/set train.accumulate 2' '/set train.steps 8'
train blocks.jsonl 4 "4 0 0 0" '/set train.accumulate 1' '/set train.steps 4'
# Seven samples in steps of two micro-batches of two samples: the second micro-batch of an epoch's last step
# has one sample.
for i in $(seq 0 6); do sample $i "$([ $i = 2 ] && echo scene.png)"; done >"$work/seven.jsonl"
train seven.jsonl 4 "8 6 0 0" '/set train.batch 2' '/set train.accumulate 2' '/set train.epochs 2'

# One of two micro-batches cannot be read: its rank has no samples in this step and reports the skipped one.
{ sample 0; sample 1 none.png; sample 2; sample 3 scene.png; } >"$work/broken.jsonl"
train broken.jsonl 2 "2 1" '/set train.accumulate 2' '/set train.steps 2'
grep -q "using 3 of 4 samples" <(vlmsh -c "/job $work/run2 log 20") || fail "the skipped sample is not reported"

# Two samples for four ranks in a job that has no steps; one of them is broken.
for what in '/eval DATA --metric cider' '/eval DATA --metric loss' "/calibrate norms DATA $work/OUT" \
    "/calibrate ffn DATA $work/OUT" "/ask --data DATA --out $work/OUT --job"; do
    for n in 1 4; do
        one=${what//DATA/$work/broken.jsonl}
        run $n '/set sample.max_tokens 3' "${one//OUT/out$n} --limit 2"
        [ "${what#/eval}" = "$what" ] || vlmsh -c "/eval show --csv $work/out$n" >"$work/out" || fail "$what: no scores"
        [ "${what#/ask}" = "$what" ] || sed -i 's/"[a-z]*_s":[0-9.e-]*,\?//g' "$work/out$n"
    done
    [ "${what#/calibrate}" != "$what" ] || # a calibration computes ahead: an unreadable sample does not count
        check "$what: ranks with samples" 'select(.name=="ranks") | .rows | map(select(.[3] != 0)) | length <= 2' true
    cmp "$work/out1" "$work/out4" || fail "$what: results differ in four ranks"
    rm -f "$work/out1" "$work/out4"
done
finish
