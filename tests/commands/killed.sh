# killed.sh -- a training run that is killed after its shell, then by kill -9 at up to 20 random
# moments, ends with the same bits, curves and checkpoints as an undisturbed one.
. tests/commands/common.bash
cp $scene "$work/scene.png"
for i in 0 1 2 3 4 5; do
    printf '{"id": "%d", %s"question": "What is %d?", "answer": "It is %d."}\n' $i \
        "$([ $i = 0 ] && printf '"image": "scene.png", ')" $i $((i * i))
done >"$work/data.jsonl"
tail -2 "$work/data.jsonl" >"$work/held.jsonl"
cat >"$work/settings" <<S
/load $llava
/set job.nice 0
/set job.threads 2
/set train.method all
/set train.batch 2
/set train.steps 150
/set train.lr 1e-3
/set train.save_every 1
/set train.keep 2
/set train.validation $work/held.jsonl
/set train.eval_every 7
S

# word KEY: a value of the table of /job that was shown last. told N KEY: shows job N's table first.
word() {
    jq -r --arg key "$1" 'select(.event=="table") | .rows[] | select(.[0]==$key)[1]' "$work/events"
}
told() {
    lines "/job $1"
    word "$2"
}

(cat "$work/settings"; echo "/train $work/data.jsonl $work/straight"; echo /wait) >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "undisturbed: $(cat "$work/out")"

# First the shell is killed, then its job.
(cat "$work/settings"; echo "/train $work/data.jsonl $work/killed"; echo /wait) >"$work/script"
"$VLMSH" --db "$work/vlmsh.db" -f "$work/script" >"$work/out" 2>&1 &
shell=$!
until compgen -G "$work/killed/checkpoint-*" >/dev/null; do # the first checkpoint may have been removed already
    kill -0 $shell 2>/dev/null || { fail "the shell ended: $(cat "$work/out")"; break; }
    sleep 0.01
done
kill -9 $shell
wait $shell 2>/dev/null
pid=$(told 2 process)
same "the job outlives its shell" "$(word state)" running
kill -9 "$pid" || fail "no process '$pid'"
while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
same "state after a kill" "$(told 2 state)" interrupted

RANDOM=12345
kills=0 status=-1
for i in $(seq 20); do
    "$VLMSH" job run 2 --db "$work/vlmsh.db" >"$work/out" 2>&1 &
    job=$!
    ms=$((20 + RANDOM % (60 + 10 * i)))
    sleep "$(printf '0.%03d' $ms)"
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    status=$?
    [ $status = 137 ] || break
    # Killed on exit, after all events.
    grep -q '"state":.*"done"' "$work/killed/training.json" && [ "$(told 2 state)" = done ] &&
        status=0 && break
    kills=$((kills + 1))
done
[ $status = 137 ] || [ $status = 0 ] || fail "it ended with $status: $(cat "$work/out")"
[ $kills -ge 5 ] || fail "killed only $kills times"
if [ $status = 137 ]; then
    vlmsh -c "/job 2 resume" -c /wait >"$work/out" 2>&1 || fail "resumed: $(cat "$work/out")"
fi
same "state and steps at the end" "$(told 2 state) $(told 2 steps)" "done 150/150"

[ $failed = 0 ] || finish # skip the slow checks
(cd "$work/straight" && find . -type f | sort) >"$work/files"
same "files after the kill" "$(cd "$work/killed" && find . -type f | sort)" "$(cat "$work/files")"
while read -r file; do
    cmp "$work/straight/$file" "$work/killed/$file" || fail "$file differs"
done <<<"$(grep -v training.json "$work/files")"
same "number of checkpoints" "$(ls -d "$work"/killed/checkpoint-* | wc -l)" 2
for id in 1 2; do
    vlmsh -c "/plot $id loss lr grad_norm validation_loss grad_* --csv $work/$id.csv" >"$work/out" 2>&1 ||
        fail "curves: $(cat "$work/out")"
done
cmp <(sed 's/^1,//' "$work/1.csv") <(sed 's/^2,//' "$work/2.csv") || fail "the curves differ"
[ "$(wc -l <"$work/1.csv")" -gt 450 ] || fail "no curves"
finish
