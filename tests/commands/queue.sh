# queue.sh -- jobs of a Slurm queue: the script, submission, and the states of a job that waits, runs, is
# restarted or ends in the queue. sbatch, squeue and scancel are emulated; `make test-cluster` uses real
# ones.
. tests/commands/common.bash
. tests/processes.bash
# A queue of files: JOB.state holds "STATE|REASON", JOB.pid its process.
queue=$work/queue shared=$work/shared
mkdir "$queue" "$shared" "$work/bin"
cat >"$work/bin/sbatch" <<'END'
#!/bin/bash
[ ! -e "$QUEUE/refuse" ] || { echo "sbatch: error: invalid partition specified: none" >&2; exit 1; }
n=$(($(cat "$QUEUE/last" 2>/dev/null || echo 40) + 1))
echo $n >"$QUEUE/last"
cp "${@: -1}" "$QUEUE/$n.script"
echo "PENDING|Resources" >"$QUEUE/$n.state"
echo "$n;cluster"
END
cat >"$work/bin/squeue" <<'END'
#!/bin/bash
for n in $(tr ',' ' ' <<<"${@: -1}"); do
    [ -e "$QUEUE/$n.state" ] && echo "$n|$(cat "$QUEUE/$n.state")" && found=1
done
[ -n "${found:-}" ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
END
cat >"$work/bin/scancel" <<'END'
#!/bin/bash
echo "CANCELLED|None" >"$QUEUE/$1.state"
[ ! -e "$QUEUE/$1.pid" ] || kill -TERM "$(cat "$QUEUE/$1.pid")"
END
chmod +x "$work"/bin/*
export QUEUE=$queue PATH=$work/bin:$PATH
# start N: starts job N of the queue; over N [STATE]: waits for its end and sets its state.
start() {
    echo "RUNNING|None" >"$queue/$1.state"
    SLURM_JOB_ID=$1 OMPI_MCA_plm=isolated OMPI_MCA_ras=^slurm sh "$queue/$1.script" >"$queue/$1.out" 2>&1 &
    echo $! >"$queue/$1.pid"
}
over() {
    wait "$(cat "$queue/$1.pid")"
    echo "${2:-COMPLETED}|None" >"$queue/$1.state"
}
for i in $(seq 0 9); do
    printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
done >"$work/data.jsonl"
common=("/load $llava" '/set job.nice 0' "/set job.folder $shared" '/set compute.matmul f32' '/set train.method layernorm'
    '/set train.batch 2' '/set train.accumulate 2' '/set train.steps 2' '/set sample.max_tokens 3')

# --- the script ----------------------------------------------------------------------------------

lines "${common[@]}" '/set job.nodes 2' '/set job.gpus 4' '/set job.threads 1' '/set job.time 12:00:00' '/set job.partition big' \
    '/set job.sbatch "--account=x --qos=y"' "/train $work/data.jsonl $work/a --ranks 2 --sbatch $work/a.sh" '/job 1'
check_has "the script is written" 'select(.event == "notice").text' "job 1: wrote '$work/a.sh'; submit it with /job 1 submit"
check "the reason for waiting" 'select(.event == "table") | .rows[] | select(.[0] == "why")[1]' "not submitted: /job 1 submit, or sbatch $work/a.sh"
bash -n "$work/a.sh" || fail "no script"
for option in job-name=vlmsh-train-1 nodes=2 ntasks=2 gpus-per-node=4 cpus-per-task=1 time=12:00:00 partition=big account=x qos=y requeue; do
    grep -qx "#SBATCH --$option" "$work/a.sh" || fail "no $option: $(cat "$work/a.sh")"
done
[ "$(find "$shared" -name order.json | wc -l)" = 1 ] || fail "no order in the shared folder"
same "computes on the GPUs" "$(jq -r .device "$shared"/*/order.json)" cuda

# No other file is replaced, and a script that the user has edited is submitted as it is.
echo mine >"$work/mine.sh"
lines "${common[@]}" "/train $work/data.jsonl $work/m --sbatch $work/mine.sh"
check_has "another file" 'select(.event == "error").message' "'$work/mine.sh' already exists, and vlmsh did not write it"
same "is unchanged" "$(cat "$work/mine.sh")" mine
echo '# mine' >>"$work/a.sh"

# --- a job that waits, runs in two ranks, and is done --------------------------------------------

cp "$work/a.sh" "$work/kept.sh"
sed -i 's/ job batch 1 / job batch 2 /' "$work/a.sh"
lines '/job 1 submit'
check_has "the script of another job" 'select(.event == "error").message' "'$work/a.sh' has changed since vlmsh wrote it, and does not start job 1"
cp "$work/kept.sh" "$work/a.sh"
lines '/job 1 resume --ranks 3' '/job 1 submit' '/job 1' '/jobs'
check_has "other ranks for an edited script" 'select(.event == "error").message' "'$work/a.sh' has changed since vlmsh wrote it"
same "the edited script" "$(tail -1 "$work/a.sh") $(tail -1 "$queue/41.script")" '# mine # mine'
check_has "notice of the submitted job" 'select(.event == "notice").text' "train was submitted as Slurm job 41"
check "why job 41 waits" 'select(.name == "job") | .rows[] | select(.[0] == "why")[1]' "Slurm job 41: PENDING: Resources"
lines '/job 1 submit'
check_has "not submitted twice" 'select(.event == "error").message' "is already in the queue (Slurm job 41"
sed -i '/cpus-per-task/d' "$queue/41.script"
sed -i 's/"cuda"/"cpu"/' "$shared"/*/order.json
start 41
lines '/wait 1' '/job 1' "/plot 1 loss"
check_has "the job is done" 'select(.event == "notice").text' "job 1 (train) is done: loss"
check "ranks of the job" 'select(.name == "ranks") | .rows | length' 2
check "number in the queue" 'select(.name == "job") | .rows[] | select(.[0] == "in the queue")[1][0:13]' "Slurm job 41:"
[ -s "$work/a/adapter_model.safetensors" ] || fail "no adapter"
over 41

# --- pause and resume, as another job of the queue ------------------------------------------------

long=("${common[@]}" '/set train.steps 2000' '/set train.save_every 2')
begun() {
    for _ in $(seq 600); do compgen -G "$1/checkpoint-*" >/dev/null && return; sleep 0.1; done
    fail "no checkpoint in $1: $(cat "$queue"/*.out)"
}
lines "${long[@]}" "/train $work/data.jsonl $work/b --submit"
check_has "notice of a job with one process" 'select(.event == "notice").text' "job 2: train was submitted as Slurm job 42"
start 42
begun "$work/b"
vlmsh -c '/job 2 pause' -c '/wait 2' >"$work/out" 2>&1
grep -q "is paused" "$work/out" || fail "no pause: $(cat "$work/out")"
over 42
# Preempted: the queue ends the job and starts it again later.
lines '/job 2 resume'
start 43
for _ in $(seq 300); do grep -q . "$queue/43.out" && break; sleep 0.1; done
kill -TERM "$(cat "$queue/43.pid")"
over 43 PENDING
sed -i 's/.*/PENDING|BeginTime/' "$queue/43.state"
lines '/job 2'
check_has "it will be restarted" 'select(.name == "job") | .rows[] | select(.[0] == "why")[1]' "Slurm job 43: PENDING: BeginTime"
check "state of a job that waits" 'select(.name == "job") | .rows[] | select(.[0] == "state")[1]' "waiting"
start 43
for _ in $(seq 600); do
    vlmsh -c '/job 2' | grep -q '^state *running' && break
    sleep 0.1
done
vlmsh -c '/job 2 log 50' >"$work/out"
grep -q "continu" "$work/out" || fail "the job does not resume: $(cat "$work/out")"
# If a job is killed with its machine, only the queue reports it.
kill -9 "$(cat "$queue/43.pid")"
over 43 NODE_FAIL 2>"$work/out"
lines '/job 2'
check_has "the queue's reason" 'select(.name == "job") | .rows[] | select(.[0] == "why")[1]' "Slurm ended its job 43: NODE_FAIL"
check "state of a job that was killed" 'select(.name == "job") | .rows[] | select(.[0] == "state")[1]' "interrupted"
lines '/job 2 resume'
start 44
for _ in $(seq 300); do vlmsh -c '/job 2' | grep -q '^state *running' && break; sleep 0.1; done
lines '/job 2 cancel' '/job 2'
check "state of a cancelled job" 'select(.name == "job") | .rows[] | select(.[0] == "state")[1]' "cancelled"
wait "$(cat "$queue/44.pid")"
lines '/job 2'
check "cancelled after its process has ended" 'select(.name == "job") | .rows[] | select(.[0] == "state")[1]' "cancelled"

# --- other kinds of jobs; refusals; a queue that forgets -------------------------------------------

lines "${common[@]}" "/ask --data $work/data.jsonl --out $work/answers.jsonl --job --submit" "/eval $work/data.jsonl --metric loss --submit"
start 45
start 46
lines '/wait 3' '/wait 4' '/eval show'
check_has "notice of the answers" 'select(.event == "notice").text' "job 3 (ask) is done: 10 answered"
check_has "notice of the scores" 'select(.event == "notice").text' "job 4 (evaluate) is done: loss"
over 45
over 46
touch "$queue/refuse"
lines "${common[@]}" "/train $work/data.jsonl $work/c --submit" "/train $work/data.jsonl $work/c --sbatch" '/job 1 resume' "/train $work/data.jsonl $work/c --sbatch $work/none/c.sh"
check_has "message of sbatch's refusal" 'select(.event == "error").message' "sbatch: sbatch: error: invalid partition"
check_has "error without a file" 'select(.event == "error").message' "--sbatch needs a file"
check_has "a missing folder" 'select(.event == "error").message' "cannot write '$work/none/c.sh'"
lines '/jobs'
check "a refused submission leaves no job" '[select(.name == "jobs").rows[][0]] | join(" ")' "4 3 2 1"
rm "$queue/refuse"
lines "${common[@]}" "/train $work/data.jsonl $work/c --submit" '/job 6'
rm "$queue/47.state"
sleep 2.1
lines '/job 6'
check_has "why a forgotten job ended" 'select(.name == "job") | .rows[] | select(.[0] == "why")[1]' "Slurm ended its job 47: ENDED"
lines '/job 6 cancel' '/job 6 delete' "/job 1 delete"
[ -z "$(find "$shared" -path '*job-*' -name 'rank-0')" ] || fail "files remain in the shared folder: $(find "$shared")"
finish
