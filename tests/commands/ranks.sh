# ranks.sh -- jobs in several processes (job.ranks): the results of one, and what is said when a rank
# is killed, stands still, cannot write or fails.
. tests/commands/common.bash
. tests/processes.bash
cp $scene "$work/scene.png"
# Pictures beside text alone; with a broken one and one without a question.
for i in $(seq 0 19); do
    printf '{"id": "%d", %s"question": "What is %d?", "answer": "It is %d."}\n' $i \
        "$([ $((i % 3)) = 0 ] && printf '"image": "scene.png", ')" $i $((i * i))
done >"$work/data.jsonl"
sed '3s/.*/{"id": "x", "image": "none.png", "question": "What?", "answer": "It."}/; 8s/.*/{"id": "y"}/' \
    "$work/data.jsonl" >"$work/broken.jsonl"
common=("/load $llava" '/set job.nice 0' '/set compute.matmul f32' '/set sample.max_tokens 4')

# run RANKS LINE...: the last line starts a job; waits for it.
run() {
    local n=$1 last=${*: -1}
    shift
    printf '%s\n' "${common[@]}" "${@:1:$#-1}" "$last --ranks $n" /wait >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1
}
good() {
    run "$@" || fail "$*: $(tail -1 "$work/out")"
}
training=('/set train.method all' '/set train.batch 2' '/set train.accumulate 4' '/set train.steps 8'
    '/set train.lr 1e-3' '/set train.keep 1')

# --- one, two, three and four ranks --------------------------------------------------------------

exact=("${training[@]}" '/set train.exact_sum on' '/set train.validation 0.2' '/set train.eval_every 3'
    '/set train.score cider')
for n in 1 2 3 4; do
    shard=$([ $n = 3 ] && echo on || echo auto)
    good $n "${exact[@]}" "/set train.shard $shard" "/train $work/broken.jsonl $work/exact$n"
    cmp "$work/exact1/checkpoint-8/state.safetensors" "$work/exact$n/checkpoint-8/state.safetensors" ||
        fail "another training with $n ranks"
    good $n "/eval $work/broken.jsonl --metric cider"
    vlmsh -c "/eval show --csv $work/scores$n.csv" >"$work/out" || fail "no scores of $n"
    cmp "$work/scores1.csv" "$work/scores$n.csv" || fail "other scores with $n ranks"
    for kind in ffn norms sinks; do
        good $n "/calibrate $kind $work/broken.jsonl $work/$kind$n.safetensors --limit 13"
        cmp "$work/${kind}1.safetensors" "$work/$kind$n.safetensors" || fail "another $kind with $n ranks"
    done
done
# Answers, sampled ones too, in the order of the samples; a job cut short goes on in other ranks.
answers() { jq -c 'del(.vision_s, .prefill_s, .decode_s)' "$1"; }
sampled=('/set sample.temperature 0.8' '/set sample.ignore_eos on')
for n in 1 2 3 4; do
    good $n "${sampled[@]}" "/ask --data $work/broken.jsonl --out $work/answers$n.jsonl --job"
    same "answers of $n ranks" "$(answers "$work/answers$n.jsonl")" "$(answers "$work/answers1.jsonl")"
done
same "answers" "$(wc -l <"$work/answers4.jsonl")" 20
sed '8,$d' "$work/answers1.jsonl" >"$work/answers.jsonl"
good 3 "${sampled[@]}" "/ask --data $work/broken.jsonl --out $work/answers.jsonl --job"
same "the rest of them" "$(answers "$work/answers.jsonl")" "$(answers "$work/answers1.jsonl")"
good 2 "${sampled[@]}" '/set sample.max_tokens 3' "/ask --data $work/broken.jsonl --out $work/answers.jsonl --again --job"
same "again" "$(jq -c 'select(.ids).ids | length' "$work/answers.jsonl" | sort -u)" 3
lines '/eval show' '/jobs'
check "not scored" 'select(.event=="table") | .rows[] | select(.[0]=="skipped")[1][0:7]' "2 of 20"
# The last job; two samples were left out by ranks other than 0.
lines "/job $work/sinks4.safetensors" "/job $work/exact2"
check "left out" '[select(.event=="table") | .rows[] | select(.[0]=="left out")[1]] | join(" ")' '2'
check "samples of all ranks" 'select(.name=="ranks") | .rows | map(.[3] | tonumber) | add >= 13' $'true\ntrue'
check_has "waiting is told" 'select(.event=="table") | .rows[] | select(.[0]=="waited for other ranks")[1]' "rank 1"

# Sums in another order: within 1e-6 of each tensor's maximum. (In a full training, parameters whose
# gradient is zero but for rounding differ by more: Adam makes steps of any gradient.)
for n in 1 2 4; do
    good $n "${training[@]}" '/set train.method layernorm' "/train $work/data.jsonl $work/sum$n"
done
python3 - "$work" <<'PY' || fail "sums differ"
import array, json, struct, sys
def masters(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + size]).items():
        if name.startswith("w."):
            a, b = t["data_offsets"]
            yield name, array.array("f", data[8 + size + a:8 + size + b])
one = dict(masters(sys.argv[1] + "/sum1/checkpoint-8/state.safetensors"))
for n in 2, 4:
    for name, other in masters(f"{sys.argv[1]}/sum{n}/checkpoint-8/state.safetensors"):
        d = max(abs(a - b) for a, b in zip(one[name], other)) / max(map(abs, one[name]))
        if d > 1e-6: sys.exit(f"{name} with {n} ranks: {d}")
PY

# Optimizer state is shared out, and the forecast says so.
memory() { jq -r 'select(.name=="train memory") | .rows[] | select(.[0]=="optimizer")[1]' "$work/events"; }
lines "/load $llava" '/set train.method all' '/set train.shard on' '/train plan' '/train plan --ranks 4'
same "optimizer of four ranks" "$(memory | tr '\n' ' ')" "1.9 0.5 "

# --- refusals ------------------------------------------------------------------------------------

lines "/load $llava" "/train $work/data.jsonl $work/none --ranks 0" "/train $work/data.jsonl $work/none --ranks" \
    "/sweep train.lr 1e-3,1e-4 $work/data.jsonl $work/none --ranks 2" "/eval $work/data.jsonl --here --ranks 2"
check_has "no ranks" 'select(.event=="error").message' "job.ranks cannot be '0'"
check_has "no number" 'select(.event=="error").message' "--ranks needs a number"
check_has "one process" 'select(.event=="error").message' "runs in one process"
check_has "here" 'select(.event=="error").message' "leave out --ranks"
(PATH=$work "$VLMSH" --db "$work/vlmsh.db" -c "/load $llava" -c "/train $work/data.jsonl $work/none --ranks 2") \
    >"$work/out" 2>&1 && fail "there is no mpirun"
grep -q "install Open MPI" "$work/out" || fail "without mpirun: $(cat "$work/out")"
"$VLMSH" job rank 1 --db "$work/vlmsh.db" >"$work/out" 2>&1 && fail "a rank alone"

# --- faults --------------------------------------------------------------------------------------

long=("${exact[@]}" '/set train.steps 2000' '/set train.save_every 2')
id=0
# begin OUT RANKS: a training of many steps, with its first checkpoint.
begin() {
    printf '%s\n' "${common[@]}" "${long[@]}" "/train $work/data.jsonl $1 --ranks $2" >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
    id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
    for _ in $(seq 600); do
        compgen -G "$1/checkpoint-*" >/dev/null && return
        sleep 0.1
    done
    fail "no checkpoint in $1"
}
rank() { # NUMBER: its process
    local p
    for p in $(running "job rank $id "); do
        tr '\0' '\n' 2>/dev/null <"/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$p"
    done
}
ends() { # TEXT: it fails, and says so; no rank is left
    vlmsh -c "/wait $id" >"$work/out" 2>&1 && fail "job $id is well"
    grep -q "failed: .*$1" "$work/out" || fail "not '$1': $(tail -1 "$work/out")"
    for _ in $(seq 100); do
        [ -z "$(running "job rank $id ")" ] && return
        sleep 0.1
    done
    fail "ranks of job $id are left"
}

begin "$work/killed" 2
kill -9 "$(rank 1)"
ends "rank 1 on .* was killed"
vlmsh -c "/job $id resume --ranks 4" >"$work/out" || fail "$(cat "$work/out")"
for _ in $(seq 300); do [ -n "$(rank 3)" ] && break; sleep 0.1; done
kill -9 "$(rank 0)"
ends "rank 0 on .* was killed"

begin "$work/stopped" 2
kill -STOP "$(rank 1)"
ends "rank 1 on .* has not answered for 15 s"

begin "$work/paused" 2
vlmsh -c "/job $id pause" -c "/wait $id" >"$work/out" 2>&1
grep -q "is paused" "$work/out" || fail "no pause: $(cat "$work/out")"
vlmsh -c "/job $id resume --ranks 3" >"$work/out" || fail "$(cat "$work/out")"
for _ in $(seq 300); do [ -n "$(rank 2)" ] && break; sleep 0.1; done
vlmsh -c "/job $id cancel" -c "/wait $id" >"$work/out" 2>&1
grep -q "is cancelled" "$work/out" || fail "no end: $(cat "$work/out")"

# The bits of a run that was paused in two ranks and went on in three, and with one.
long=("${exact[@]}" '/set train.steps 8' '/set train.save_every 1')
printf '%s\n' "${common[@]}" "${long[@]}" "/train $work/data.jsonl $work/straight" /wait >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
begin "$work/changed" 2
vlmsh -c "/job $id pause" -c "/wait $id" >"$work/out" 2>&1
vlmsh -c "/job $id resume --ranks 3" -c "/wait $id" >"$work/out" 2>&1
cmp "$work/straight/checkpoint-8/state.safetensors" "$work/changed/checkpoint-8/state.safetensors" ||
    fail "other bits: $(cat "$work/out")"

# A full disk: a limit of the size of files stands for it. (Without memory shared through files.)
long=("${exact[@]}" '/set train.steps 8' '/set train.save_every 1')
(
    export OMPI_MCA_btl=self,tcp PMIX_MCA_gds=hash
    ulimit -f 1000
    run 2 "${long[@]}" "/train $work/data.jsonl $work/full" && exit 0
    grep -q "failed: rank 0: checkpoint of step 1: cannot write" "$work/out"
) || fail "a full disk: $(tail -1 "$work/out")"
[ -z "$(find "$work/full" -name '*.part')" ] || fail "half a checkpoint"
finish
