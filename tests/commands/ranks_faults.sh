# ranks_faults.sh -- jobs in several processes: messages when a rank is killed, hangs or cannot write;
# the job resumes from the last checkpoint with a different number of ranks.
. tests/commands/common.bash
. tests/commands/ranks.bash
. tests/processes.bash
texts 20 >"$work/data.jsonl"

long=("${exact[@]}" '/set train.steps 2000' '/set train.save_every 2')
id=0
# begin OUT RANKS: starts a training run of many steps and waits for its first checkpoint.
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
rank() { # NUMBER: prints the rank's process
    local p
    for p in $(running "job rank $id --folder $work/"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$p"
    done
}
ends() { # TEXT: the job fails with this message; no rank is left
    vlmsh -c "/wait $id" >"$work/out" 2>&1 && fail "job $id does not fail"
    grep -q "failed: .*$1" "$work/out" || fail "not '$1': $(tail -1 "$work/out")"
    for _ in $(seq 100); do
        [ -z "$(running "job rank $id --folder $work/")" ] && return
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

# mpirun itself is killed: its ranks exit, and only then the job reports its end.
begin "$work/orphaned" 2
kill -9 "$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$(rank 0)/status")"
ends "mpirun ended with status 137 before the job did"

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

# An evaluation whose ranks are killed, resumed with a different number of ranks, ends with the
# scores, answers and order of an undisturbed one.
texts 800 >"$work/questions.jsonl"
evaluate() { # RANKS
    run "$1" '/set sample.ignore_eos on' '/set sample.max_tokens 100' '/set eval.batch 1' "/eval $work/questions.jsonl --metric exact"
}
evaluate 1 || fail "$(tail -1 "$work/out")"
id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
vlmsh -c "/eval show $id --csv $work/alone.csv" >/dev/null 2>&1
sed -i '/^\/wait$/d' "$work/script"
sed -i 's/ --ranks 1$/ --ranks 2/' "$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
scores() { cat "$work/vlmsh.db.jobs/$id/scores.jsonl" 2>/dev/null | wc -l; }
for killed in 1 0; do
    there=$(scores) pid=
    for _ in $(seq 600); do pid=$(rank $killed); [ -n "$pid" ] && break; sleep 0.05; done
    for _ in $(seq 3000); do [ "$(scores)" -gt $((there + 9)) ] && break; sleep 0.02; done
    kill -9 "$pid" || fail "no rank $killed"
    ends "rank $killed on .* was killed"
    # Pretends that the job was killed before it had written the last of the ranks' lines.
    sed -i '$d' "$work/vlmsh.db.jobs/$id/scores.jsonl"
    vlmsh -c "/job $id resume --ranks $((3 - killed))" >"$work/out" || fail "$(cat "$work/out")"
done
vlmsh -c "/wait $id" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
vlmsh -c "/eval show $id --csv $work/killed.csv" >"$work/out" 2>&1
grep -q "800 answers of job $id" "$work/out" || fail "$(cat "$work/out")"
cmp "$work/alone.csv" "$work/killed.csv" || fail "the answers or their order differ"

# All ranks of a plan of scores pause in the middle of a cell. After a cancel, which reaches some of them alone, none
# waits for ever.
head -100 "$work/questions.jsonl" >"$work/some.jsonl"
printf 'set %s: %s --metric exact\n' one "$work/some.jsonl" two "$work/questions.jsonl" >"$work/plan"
printf 'row a: now\nrow b: sample.max_tokens=90\n' >>"$work/plan"
cells() { # OUT
    printf '%s\n' "${common[@]}" '/set sample.ignore_eos on' '/set sample.max_tokens 100' '/set eval.batch 1' \
        "/eval --plan $work/plan $1 --ranks 2" >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
    id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
    for _ in $(seq 600); do [ "$(cat "$1"/cells/* 2>/dev/null | wc -l)" -gt 9 ] && break; sleep 0.02; done
}
cells "$work/cells1"
vlmsh -c "/job $id pause" -c "/wait $id" >"$work/out" 2>&1
grep -q "is paused" "$work/out" || fail "no pause of a plan of scores: $(cat "$work/out")"
cells "$work/cells2"
vlmsh -c "/job $id cancel" -c "/wait $id" >"$work/out" 2>&1
grep -q "is cancelled" "$work/out" || fail "no end of a plan of scores: $(cat "$work/out")"

# Two jobs train into one folder, which is locked or holds an unfinished run for one of them: its rank 0 fails alone,
# and the message names that rank once.
printf '%s\n' "${common[@]}" "${training[@]}" '/set train.steps 100000' \
    "/train $work/some.jsonl $work/twice --ranks 2"{,} >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out" | head -1)
ended= other=
for _ in $(seq 300); do
    for k in $id $((id + 1)); do
        vlmsh -c "/job $k" 2>&1 | grep -q "^state *failed" && ended=$k other=$((2 * id + 1 - k))
    done
    [ -n "$ended" ] && break
    sleep 0.1
done
vlmsh -c "/job ${other:-$id} cancel" -c "/wait ${ended:-$id}" >"$work/out" 2>&1
grep -qE "failed: rank 0: (another process is training into )?'" "$work/out" || fail "one folder: $(cat "$work/out")"

# A run paused with two ranks and resumed with three equals one with a single process bit by bit.
long=("${exact[@]}" '/set train.steps 8' '/set train.save_every 1')
printf '%s\n' "${common[@]}" "${long[@]}" "/train $work/data.jsonl $work/straight" /wait >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
begin "$work/changed" 2
vlmsh -c "/job $id pause" -c "/wait $id" >"$work/out" 2>&1
vlmsh -c "/job $id resume --ranks 3" -c "/wait $id" >"$work/out" 2>&1
cmp "$work/straight/checkpoint-8/state.safetensors" "$work/changed/checkpoint-8/state.safetensors" ||
    fail "the state differs: $(cat "$work/out")"

# mpirun prints the same message for any failed start and for a machine that leaves the network; only
# in the latter case have the ranks reported before. LOST is the host of ranks 1 and 2.
mkdir "$work/fake"
cat >"$work/fake/mpirun" <<'SH'
#!/bin/bash
while [ "$1" != --folder ]; do shift; done
if [ -n "$LOST" ]; then
    echo "1 1.0 0.0 0 0 $(hostname)" >"$2/rank-0"
    for k in 1 2; do echo "1 1.0 0.0 0 0 $LOST" >"$2/rank-$k"; done
    sleep 2
fi
dashes=--------------------------------------------------------------------------
cat >&2 <<E
node7: Permission denied (publickey).
$dashes
ORTE was unable to reliably start one or more daemons.
This usually is caused by:

* not finding the required libraries and/or binaries on
  one or more nodes.

* lack of authority to execute on one or more specified nodes.
$dashes
E
exit 1
SH
chmod +x "$work/fake/mpirun"
daemons() { # LOST TEXT
    (export LOST=$1 PATH=$work/fake:$PATH
    run 3 "${exact[@]}" "/train $work/data.jsonl $work/daemons") && fail "daemons that were not started"
    grep -q "failed: $2" "$work/out" || fail "not '$2': $(tail -1 "$work/out")"
}
daemons "" "mpirun: ORTE was unable to reliably start .* lack of authority to execute"
daemons node7 "ranks 1, 2 are out of reach: the machine or its network is down"

# A full disk is named, although Open MPI then reports that its processes cannot reach each other.
# A file size limit emulates it.
(
    ulimit -f 1000
    daemons "" "files are limited to 1.0 MB (ulimit -f), .*; mpirun: ORTE was unable"
    finish
) || failed=1

# A full disk while writing a checkpoint, emulated by the same limit. (Without shared memory through
# files; Open MPI 5 cannot reach every machine's own address over TCP, but can over loopback.)
long=("${exact[@]}" '/set train.steps 8' '/set train.save_every 1')
(
    export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo PMIX_MCA_gds=hash
    ulimit -f 1000
    run 2 "${long[@]}" "/train $work/data.jsonl $work/full" && exit 0
    grep -q "failed: rank 0: checkpoint of step 1: cannot write" "$work/out"
) || fail "a full disk: $(tail -1 "$work/out")"
[ -z "$(find "$work/full" -name '*.part')" ] || fail "an unfinished checkpoint is left"
finish
