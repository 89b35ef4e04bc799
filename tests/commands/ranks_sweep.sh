# ranks_sweep.sh -- /sweep in several ranks: groups of them train values side by side, with the results of
# one process; pause, resume in different groups, a value that fails.
. tests/commands/common.bash
. tests/commands/ranks.bash
texts 20 >"$work/data.jsonl"

# One rank per value, two per value, one group for all, and more values than ranks.
sweep=("${training[@]}" '/set train.exact_sum on' '/set train.validation 0.2' '/set train.eval_every 2')
points() { # JOB: points of the loss curves of all values
    python3 - "$work/vlmsh.db" "$1" <<'PY'
import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM metrics JOIN job_series s ON s.id = series "
                                            "WHERE s.job = ? AND s.name GLOB 'loss@1e-[234]'", sys.argv[2:]).fetchone())
PY
}
run 1 "${sweep[@]}" "/sweep train.lr 1e-3,1e-2,1e-4 $work/data.jsonl $work/sweep1" || fail "$(tail -1 "$work/out")"
ways='2:auto 3:auto 4:2 4:4'
! sanitized || ways=4:2
for way in $ways; do
    n=${way%:*} out=$work/sweep-$way shard=auto
    # A group of one rank sums alone, as without ranks: exactly, whatever train.shard says.
    [ $way != 2:auto ] || shard=gradients
    run $n "${sweep[@]}" "/set train.shard $shard" "/set sweep.ranks ${way#*:}" "/sweep train.lr 1e-3,1e-2,1e-4 $work/data.jsonl $out" ||
        fail "a sweep with $way: $(tail -1 "$work/out")"
    for value in 1e-3 1e-2 1e-4; do
        cmp "$work/sweep1/$value/checkpoint-8/state.safetensors" "$out/$value/checkpoint-8/state.safetensors" ||
            fail "training with $value differs with $way"
    done
    same "results with $way" "$(jq -c '[.best, .results]' "$out/training.json")" \
        "$(jq -c '[.best, .results]' "$work/sweep1/training.json")"
    id=$(sed -n 's/^job \([0-9]*\): sweep.*/\1/p' "$work/out")
    lines "/job $id"
    check "ranks with $way" 'select(.name=="ranks").rows | length' $n
    same "points of the curves with $way" "$(points $id)" 24
done

# A sweep ends even if training with a value fails; a number of ranks that does not form groups is refused.
run 2 "${sweep[@]}" "/sweep train.lr 1e-3,10 $work/data.jsonl $work/sweep-bad" || fail "$(tail -1 "$work/out")"
# If a value fails on rank 0 alone, the other rank of its group does not wait: both continue with the next value.
sed -i 's/"state":\([[:space:]]*\)"done"/"state":\1"running"/' "$work/sweep-bad/training.json"
rm -r "$work/sweep-bad/1e-3" "$work/sweep-bad/best" && touch "$work/sweep-bad/1e-3"
good 2 "${sweep[@]}" '/set sweep.ranks 2' "/sweep train.lr 1e-3,10 $work/data.jsonl $work/sweep-bad --resume"
same "the error of rank 0 alone" "$(jq -r '.best, (.results[] | select(.failed) | .value, .failed)' "$work/sweep-bad/training.json" | paste -sd' ')" \
    "10 0.001 rank 0: '$work/sweep-bad/1e-3' is not a folder"
lines "/set job.ranks 3" '/set train.validation 0.2' "/load $llava" '/set sweep.ranks 2' \
    "/sweep train.lr 1e-3,1e-4 $work/data.jsonl $work/none" '/set sweep.ranks 1' \
    "/sweep train.lr 1e-3,1e-4 $work/data.jsonl $work/none"
check_has "error of groups that do not divide the ranks" 'select(.event=="error").message' "does not divide job.ranks 3"
check_has "too many groups" 'select(.event=="error").message' "more than the 2 values"

# A sweep that is cancelled after group 0 has trained its value ends only when the groups
# synchronise.
uneven=("${training[@]}" '/set train.validation 0.2' '/set train.save_every 20')
begin() { # OUT
    printf '%s\n' "${common[@]}" "${uneven[@]}" "/sweep train.steps 2,1000000 $work/data.jsonl $1 --ranks 2" >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
    id=$(sed -n 's/^job \([0-9]*\): sweep.*/\1/p' "$work/out")
    for _ in $(seq 600); do
        compgen -G "$1/1000000/checkpoint-*" >/dev/null && grep -q '"state":[[:space:]]*"done"' "$1/2/training.json" && break
        sleep 0.1
    done
}
begin "$work/uneven"
sleep 2 # reports are read twice a second
lines /jobs
check "steps of a sweep" "select(.event==\"table\" and .name==\"jobs\").rows[] | select(.[0]==$id)[3]" 1/2
vlmsh -c "/job $id cancel" -c "/wait $id" >"$work/out" 2>&1
grep -q "is cancelled" "$work/out" || fail "no end of a sweep: $(cat "$work/out")"

# A sweep that is paused while each of two groups is in the middle of a value resumes in different
# groups.
long=("${sweep[@]}" '/set train.steps 200' '/set train.save_every 20' '/set train.eval_every 200')
printf '%s\n' "${common[@]}" "${long[@]}" "/sweep train.lr 1e-3,1e-4 $work/data.jsonl $work/cut --ranks 2" >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
id=$(sed -n 's/^job \([0-9]*\): sweep.*/\1/p' "$work/out")
for _ in $(seq 600); do
    compgen -G "$work/cut/1e-3/checkpoint-*" >/dev/null && compgen -G "$work/cut/1e-4/checkpoint-*" >/dev/null && break
    sleep 0.1
done
vlmsh -c "/job $id pause" -c "/wait $id" >"$work/out" 2>&1
grep -q "is paused" "$work/out" || fail "no pause of a sweep: $(cat "$work/out")"
vlmsh -c "/job $id resume --ranks 3" -c "/wait $id" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
run 1 "${long[@]}" "/sweep train.lr 1e-3,1e-4 $work/data.jsonl $work/uncut" || fail "$(tail -1 "$work/out")"
for value in 1e-3 1e-4; do
    cmp "$work/cut/$value/checkpoint-200/state.safetensors" "$work/uncut/$value/checkpoint-200/state.safetensors" ||
        fail "training with $value differs after a pause"
done
finish
