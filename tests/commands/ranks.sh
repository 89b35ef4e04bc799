# ranks.sh -- jobs in several processes (job.ranks): the results equal those of one process; wrong options and
# different files on the ranks are refused.
. tests/commands/common.bash
. tests/commands/ranks.bash
. tests/processes.bash
cp $scene "$work/scene.png"
# Samples with and without pictures, a broken one and one without a question.
for i in $(seq 0 19); do
    printf '{"id": "%d", %s"question": "What is %d?", "answer": "It is %d."}\n' $i \
        "$([ $((i % 3)) = 0 ] && printf '"image": "scene.png", ')" $i $((i * i))
done >"$work/data.jsonl"
sed '3s/.*/{"id": "x", "image": "none.png", "question": "What?", "answer": "It."}/; 8s/.*/{"id": "y"}/' \
    "$work/data.jsonl" >"$work/broken.jsonl"

# --- one, two, three and four ranks --------------------------------------------------------------

counts='1 2 3 4'
! sanitized || counts='1 3'
most=${counts: -1}
for n in $counts; do
    shard=$([ $n = 3 ] && echo on || echo auto)
    good $n "${exact[@]}" "/set train.shard $shard" "/train $work/broken.jsonl $work/exact$n"
    cmp "$work/exact1/checkpoint-8/state.safetensors" "$work/exact$n/checkpoint-8/state.safetensors" ||
        fail "training differs with $n ranks"
    good $n "/eval $work/broken.jsonl --metric cider"
    vlmsh -c "/eval show --csv $work/scores$n.csv" >"$work/out" || fail "no scores with $n ranks"
    cmp "$work/scores1.csv" "$work/scores$n.csv" || fail "scores differ with $n ranks"
    for kind in ffn norms sinks; do
        good $n "/calibrate $kind $work/broken.jsonl $work/$kind$n.safetensors --limit 13"
        cmp "$work/${kind}1.safetensors" "$work/$kind$n.safetensors" || fail "the $kind calibration differs with $n ranks"
    done
done
# Answers keep the order of the data, even with sampling; an interrupted job resumes with a
# different number of ranks.
answers() { jq -c 'del(.vision_s, .prefill_s, .decode_s)' "$1"; }
sampled=('/set sample.temperature 0.8' '/set sample.ignore_eos on')
for n in $counts; do
    good $n "${sampled[@]}" "/ask --data $work/broken.jsonl --out $work/answers$n.jsonl --job"
    same "answers of $n ranks" "$(answers "$work/answers$n.jsonl")" "$(answers "$work/answers1.jsonl")"
done
same "number of answers" "$(wc -l <"$work/answers$most.jsonl")" 20
sed '8,$d' "$work/answers1.jsonl" >"$work/answers.jsonl"
good 3 "${sampled[@]}" "/ask --data $work/broken.jsonl --out $work/answers.jsonl --job"
same "the resumed answers" "$(answers "$work/answers.jsonl")" "$(answers "$work/answers1.jsonl")"
good 2 "${sampled[@]}" '/set sample.max_tokens 3' "/ask --data $work/broken.jsonl --out $work/answers.jsonl --again --job"
same "tokens of each answer with --again" "$(jq -c 'select(.ids).ids | length' "$work/answers.jsonl" | sort -u)" 3
lines '/eval show' '/jobs'
check "samples that were not scored" 'select(.event=="table") | .rows[] | select(.[0]=="skipped")[1][0:7]' "2 of 20"
# The calibration's table counts the samples that all ranks left out.
lines "/job $work/sinks$most.safetensors" "/job $work/exact$most"
check "samples that all ranks left out" 'select(.event=="table") | .rows | select(any(.[]; .[0]=="calibration")) | .[] | select(.[0]=="skipped")[1][:4]' '2 of'
check "samples of all ranks" 'select(.name=="ranks") | .rows | map(.[3] | tonumber) | add >= 13' $'true\ntrue'
check_has "reports the waiting time" 'select(.event=="table") | .rows[] | select(.[0]=="waited for other ranks")[1]' "rank 1"

# Notices about the data appear whichever rank read it, once per picture.
cp tests/core/picture/pictures/animated.webp "$work/moving.webp"
sed 's/"image": "scene.png"/"image": "moving.webp", "tools": [{}]/' "$work/data.jsonl" >"$work/moving.jsonl"
for order in "/ask --data $work/moving.jsonl --out $work/moving.out --job" "/eval $work/moving.jsonl --metric exact"; do
    good 2 '/set sample.max_tokens 1' "$order"
    grep -qF 'not used: "tools" (7 samples); 1 picture file is animated' "$work/out" || fail "notices: $(tail -1 "$work/out")"
done

# Ranks sum in a different order, so weights agree within 1e-6 of each tensor's maximum. (Except biases of keys,
# whose gradient is zero up to rounding: Adam normalises any gradient.)
agree() { # RUN RUN
    python3 - "$work/$1" "$work/$2" <<'PY' || fail "$1 and $2 differ"
import array, glob, json, struct, sys
def masters(run):
    [path] = glob.glob(run + "/checkpoint-*/state.safetensors")
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + size]).items():
        if name.startswith("w.") and not name.endswith("k_proj.bias"):
            a, b = t["data_offsets"]
            yield name, array.array("f", data[8 + size + a:8 + size + b])
one = dict(masters(sys.argv[1]))
for name, other in masters(sys.argv[2]):
    d = max(abs(a - b) for a, b in zip(one[name], other)) / max(map(abs, one[name]))
    if d > 1e-6: sys.exit(f"{name}: {d}")
PY
}
for n in 1 2 4; do
    good $n "${training[@]}" '/set train.steps 10' '/set train.method layernorm' "/train $work/data.jsonl $work/sum$n"
    [ $n = 1 ] || agree sum1 sum$n
done

# With train.shard on, sums are sent only to the rank that updates the weight; with two ranks, the
# weights have the same bits as without.
good 2 "${training[@]}" '/set train.steps 10' '/set train.method layernorm' '/set train.shard on' "/train $work/data.jsonl $work/sumto"
cmp "$work/sum2/checkpoint-10/state.safetensors" "$work/sumto/checkpoint-10/state.safetensors" || fail "weights differ with train.shard on"

# With train.shard gradients, weights have the same bits if each rank computes one pass per step, even if the run
# began without.
one=("${training[@]}" '/set train.batch 1' '/set train.accumulate 2' '/set train.steps 4' '/set train.save_every 2' '/set train.keep 9')
good 2 "${one[@]}" '/set train.shard off' "/train $work/data.jsonl $work/kept"
cp -r "$work/kept" "$work/given"
rm -r "$work/given/checkpoint-4"
sed -i 's/"state":.*"done"/"state": "running"/' "$work/given/training.json"
good 2 "${one[@]}" '/set train.shard gradients' "/train $work/data.jsonl $work/given --resume"
grep -q "continuing after step 2 of 4" <(vlmsh -c "/job $work/given log 20") || fail "the run is not resumed"
cmp "$work/kept/checkpoint-4/state.safetensors" "$work/given/checkpoint-4/state.safetensors" || fail "weights differ with train.shard gradients"
lines "/load $llava" '/set train.exact_sum on' '/set train.shard gradients' "/train $work/data.jsonl $work/none --ranks 2" \
    '/train plan --ranks 1' '/train plan --ranks 2'
check_has "exact sums of sharded gradients" 'select(.event=="error").message' "set train.exact_sum off, or train.shard on"
same "refusals with two ranks, not with one" "$(jq -r 'select(.event=="error").message' "$work/events" | wc -l)" 2

# Sharded gradients appear in the forecast. Only the owner's share stays (and tables, head and vectors), and a rank
# holds those of one layer during a pass.
lines '/load demo/model' '/set train.method full' '/set train.shard gradients' '/train plan --like llava-1.5-7b --ranks 8'
check "gradients of eight ranks" 'select(.name=="train memory") | [.rows[] | {(.[0]): .[1]}] | add |
    .gradients < 27100 / 8 + 1100 and .workspace < 1500' true

# Sharded optimizer state appears in the forecast.
memory() { jq -r 'select(.name=="train memory") | .rows[] | select(.[0]=="optimizer")[1]' "$work/events"; }
lines "/load $llava" '/set train.method all' '/set train.shard on' '/train plan' '/train plan --ranks 4'
same "optimizer of four ranks" "$(memory | tr '\n' ' ')" "1.9 0.5 "

# Micro-batches that cannot be shared evenly among the ranks are split; the forecast assumes this
# split.
activations() { jq -r 'select(.name=="train memory") | .rows[] | select(.[0]=="activations")[1]' "$work/events" | tr '\n' ' '; }
whole=$(lines "${common[@]}" '/set train.batch 4' '/set train.exact_sum on' "/train plan $work/data.jsonl --ranks 2"; activations)
lines "${common[@]}" '/set train.batch 2' '/set train.accumulate 2' '/train plan --ranks 2'
halves=$(activations)
lines "${common[@]}" '/set train.batch 4' '/train plan --ranks 2' "/train plan $work/data.jsonl --ranks 2"
read -r rows data <<<"$(activations)"
same "activations of half a micro-batch" "$rows " "$halves"
jq -ne "$data < $whole" >"$work/out" || fail "a forecast of $data MB with split micro-batches, but $whole MB with whole ones"
good 2 '/set train.batch 4' '/set train.steps 2' "/train $work/data.jsonl $work/cut"
lines "/job $(sed -n 's/^job \([0-9]*\): train.*/\1/p' "$work/out")"
check "the job's forecast is the plan's" 'select(.event=="table") | .rows[] | select(.[0]=="activations")[1] |
    capture("forecast (?<mb>[0-9.]+) MB").mb' "$data"

# Bytes per step match the formula, for each way of summing.
for way in 'method all:shard on' 'method all:shard gradients' 'method layernorm:exact_sum on' 'method lora:shard off'; do
    printf '%s\n' "${training[@]}" '/set train.batch 3' "/set train.${way%:*}" "/set train.${way#*:}" >"$work/way"
    mapfile -t lines_of <"$work/way"
    good 3 "${lines_of[@]}" "/train $work/data.jsonl $work/bytes${way//[^a-z]/}"
    lines "/job $(sed -n 's/^job \([0-9]*\): train.*/\1/p' "$work/out")"
    check "bytes with $way" 'select(.event=="table") | .rows[] | select(.[0]=="sums of a step")[1] |
        capture("^(?<is>[0-9.]+) MB, formula (?<formula>[0-9.]+) MB; ") | .is == .formula and .is != "0"' true
done
# In these runs, ranks compute different numbers of passes.
agree bytesmethodallshardon bytesmethodallshardgradients

# --- refusals ------------------------------------------------------------------------------------

lines "/load $llava" "/train $work/data.jsonl $work/none --ranks 0" "/train $work/data.jsonl $work/none --ranks" \
    "/eval $work/data.jsonl --here --ranks 2"
check_has "error of zero ranks" 'select(.event=="error").message' "job.ranks cannot be '0'"
check_has "error without a number of ranks" 'select(.event=="error").message' "--ranks needs a number"
check_has "--ranks with --here" 'select(.event=="error").message' "leave out --ranks"
(PATH=$work "$VLMSH" --db "$work/vlmsh.db" -c "/load $llava" -c "/train $work/data.jsonl $work/none --ranks 2") \
    >"$work/out" 2>&1 && fail "succeeds without mpirun"
grep -q "install Open MPI" "$work/out" || fail "without mpirun: $(cat "$work/out")"
"$VLMSH" job rank 1 --db "$work/vlmsh.db" >"$work/out" 2>&1 && fail "job rank succeeds outside mpirun"

# Ranks with different files: the error names the rank. On rank 1, descriptors 9 and 8 are a
# different file and folder.
cat >"$work/mpirun" <<'SH'
#!/bin/bash
set -- "${@/#$VLMSH_PROGRAM/$VLMSH_WORK/rank}"
exec "$VLMSH_MPIRUN" "$@"
SH
cat >"$work/rank" <<'SH'
#!/bin/bash
exec 9<"$VLMSH_WORK/data.jsonl" 8<"$VLMSH_WORK/here"
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec 9<"$VLMSH_WORK/other.jsonl" 8<"$VLMSH_WORK/there"
exec "$VLMSH_PROGRAM" "$@"
SH
chmod +x "$work/mpirun" "$work/rank"
sed 's/16/17/' "$work/data.jsonl" >"$work/other.jsonl"
mkdir "$work/here" "$work/there"
export VLMSH_WORK=$work VLMSH_MPIRUN=$(command -v mpirun) VLMSH_PROGRAM=$(realpath "$VLMSH")
differ() { # TEXT LINE...
    local text=$1
    shift
    PATH=$work:$PATH run 2 "$@" 9<"$work/data.jsonl" 8<"$work/here" && fail "no error: $*"
    grep -q "failed: rank 1: .*$text" "$work/out" || fail "not '$text': $(tail -1 "$work/out")"
}
differ "/dev/fd/9' differs from rank 0's" '/eval /dev/fd/9'
differ "/dev/fd/9' differs from rank 0's" "/calibrate norms /dev/fd/9 $work/other.safetensors"
differ "/dev/fd/9', its pictures, train.validation or the adapter differ from rank 0's" "${training[@]}" "/train /dev/fd/9 $work/other"

# Another host has an older state of the same run, which was paused before its end.
mkdir "$work/there/out"
long=("${training[@]}" '/set train.steps 5000' '/set train.save_every 3' '/set train.keep 999')
printf '%s\n' "${common[@]}" "${long[@]}" "/train $work/data.jsonl $work/here/out" >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
for _ in $(seq 600); do
    [ -e "$work/here/out/checkpoint-3" ] && break
    sleep 0.1
done
vlmsh -c "/job $work/here/out pause" -c /wait >"$work/out" 2>&1
cp -r "$work/here/out/checkpoint-3" "$work/there/out/"
differ "/dev/fd/8/out' differs from rank 0's copy (after step 3)" "${long[@]}" \
    "/train $work/data.jsonl /dev/fd/8/out --resume"
finish
