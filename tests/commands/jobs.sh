# jobs.sh -- /jobs, /job, /wait, /plot and `vlmsh job`: rows as a job would write them, processes
# that fail because their job has an unknown kind, and real jobs.
. tests/commands/common.bash

rows() {
    python3 - "$work/vlmsh.db" "$1" <<'EOF'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA foreign_keys = ON")
db.executescript(sys.argv[2])
db.commit()
EOF
}

# OMP_WAIT_POLICY=active applies to the chat only: threads of a job sleep while they wait.
policy() {
    OMP_DISPLAY_ENV=true OMP_WAIT_POLICY=active "$VLMSH" "$@" 2>&1 | sed -n "s/.*WAIT_POLICY = //p" | tail -1
}
same "a chat spins on request" "$(policy version)" "'ACTIVE'"
same "a job's threads sleep" "$(policy job run 1 --db "$work/none.db")" "'PASSIVE'"

session "no job" <<E
> /jobs
[jobs]
job  kind  state  steps  loss  left  created  arguments
E
session "nothing to wait for" <<E
> /wait
error: no job to wait for
E

rows "
INSERT INTO jobs(id, kind, arguments, settings, folder, model, fingerprint, device, state, runs, step,
                 steps, loss, asked, created, started, ended, message) VALUES
 (1, 'unheard', '[\"d.json\",\"out dir\"]', '{\"sample.top_k\":\"7\",\"gone.key\":\"1\"}', '/', '', '',
  'cpu', 'done', 1, 40, 40, 0.5, 0, 100, 100, 200, ''),
 (2, 'unheard', '[]', '{}', '$PWD', '', '', 'cpu', 'failed', 1, 3, 40, 0.5, 0, 100, 100, 200, 'no disk'),
 (3, 'unheard', '[]', '{}', '$PWD', '', '', 'cpu', 'running', 1, 3, 40, 0.5, 0, 100, 100, NULL, '');
INSERT INTO job_log(job, time, text) VALUES(1, 100, 'first'), (1, 101, 'second'), (1, 102, 'third');
INSERT INTO job_results(job, key, value) VALUES(1, 'adapter', '/out');
INSERT INTO job_series(id, job, name) VALUES(1, 1, 'loss'), (2, 1, 'norm.0.mean'), (3, 2, 'loss');
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39)
INSERT INTO metrics(series, step, value) SELECT 1, i, 4.0 / (i + 1) FROM n
UNION ALL SELECT 2, i, CASE WHEN i = 5 THEN NULL ELSE i END FROM n UNION ALL SELECT 3, i, 2 FROM n;"

session "states" <<E
> /jobs
[jobs]
job  kind     state        steps  loss  left  created              arguments
3    unheard  interrupted  3/40   0.5   -     DATE  -
2    unheard  failed       3/40   0.5   -     DATE  -
1    unheard  done         40/40  0.5   -     DATE  d.json out dir
E
session "one job" <<E
> /job 1
[job]
field      value
job        1
kind       unheard
state      done
arguments  d.json out dir
folder     /
settings   sample.top_k=7
steps      40/40
loss       0.5
created    DATE
started    DATE
ended      DATE
adapter    /out
4 +*
  |
  |
3 + *
  |
  |
2 +  *
  |   *
1 +    ****
  |        ****
  |            ***************
  |                           *************************************************
  +----------------------------------------------------------------------------
   0                 10                 20                  30
* loss
> /job 1 log 2
DATE  second
DATE  third
> /job 1 log x
error: LINES must be a whole number from 1 to 2147483647, not 'x'
> /job 1 dance
error: /job has no action 'dance': use show, log, pause, resume, cancel, delete or submit
> /job x
error: 'x' is not a job number, and no job uses this path (/jobs)
> /job 9
error: no job 9 (/jobs lists them)
E

session "waiting" <<E
> /wait 1
job 1 (unheard) is done
> /wait 2
error: job 2 (unheard) failed: no disk
> /wait 3
error: job 3 (unheard) is interrupted (/job 3 resume continues it)
> /job 1 resume
error: job 1 is done: nothing to resume
> /job 2 pause
error: job 2 is not running: it is failed
> /job 3 cancel
job 3 is cancelled
> /wait 3
error: job 3 (unheard) is cancelled
E

session "plots" <<E
> /plot 1
[series]
job  series       points  last step  last
1    loss         40      39         0.1
1    norm.0.mean  40      39         39
> /plot 1 2 loss
4 +*
  |
  |
  |
3 + *
  |
  |
  |
  |
2 +oo*ooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo
  |   *
  |
  |    **
1 +      **
  |        **
  |          *******
  |                 ******************
  |                                   *****************************************
  +----------------------------------------------------------------------------
   0                 10                 20                  30
* 1: loss   o 2: loss
> /plot 1 norm.* --csv $work/c.csv
(written: csv $work/c.csv)
1 series written to '$work/c.csv'
> /plot 1 loss --png $work/p.png
(written: figure $work/p.png)
plot written to '$work/p.png'
> /plot 1 none
error: no series 'none': /plot 1 lists them
> /plot loss
error: /plot needs a job number (/jobs), a job's output folder, or a CSV file
> /plot 1 loss --smooth 0
error: --smooth must be a whole number from 1 to 1000000, not '0'
> /plot 1 * --csv
error: --csv needs FILE
> /plot 1 loss --dance
error: unknown option '--dance': options are --figure, --title, --y, --smooth, --mean, --log, --points, --csv, --by, --where, --interval
E
same "length and lines of the CSV" "$(wc -l <"$work/c.csv") $(sed -n '2p;7p' "$work/c.csv" | tr '\n' ' ')" \
    '41 1,"norm.0.mean",0,0 1,"norm.0.mean",5, '
same "the plot is a PNG" "$(head -c 4 "$work/p.png" | tail -c 3)" PNG
session "without series" <<E
> /plot 1 --figure $work/loss.svg
(written: figure $work/loss.svg)
plot written to '$work/loss.svg'
> /plot 1 --csv $work/all.csv
(written: csv $work/all.csv)
2 series written to '$work/all.csv'
> /plot 1 --smooth 3
3.0 +*
    | *
    |
2.5 +  *
    |
    |
2.0 +   *
    |
    |
1.5 +    *
    |     *
    |      *
1.0 +
    |       **
    |         ****
0.5 +             ********
    |                     ******************
    |                                       ***********************************
    +--------------------------------------------------------------------------
     0                 10                20                 30
* loss
> /job 1
...
* loss
E
grep -q '<svg' "$work/loss.svg" || fail "the figure is missing if no series is named"
same "number of series in the CSV of all" "$(cut -d, -f2 "$work/all.csv" | sort -u | wc -l)" "$(($(cut -d, -f2 "$work/c.csv" | sort -u | wc -l) + 1))"
session "empty arguments" <<E
> /train data.json ""
error: argument 2 of /train is empty: it must be a file, folder or value
> /calibrate norm "" out
error: argument 2 of /calibrate is empty: it must be a file, folder or value
E
lines "/plot 1 loss --smooth 3 --csv $work/s.csv"
same "a smoothed value" "$(sed -n 3p "$work/s.csv")" '1,"loss",1,2.44444444'

# A job's process outlives the shell and reports why it failed.
lines "/job 2 resume"
for _ in $(seq 200); do
    lines "/job 2"
    [ "$(jq -r 'select(.event=="table") | .rows[] | select(.[0]=="state")[1]' "$work/events")" = failed ] && break
    sleep 0.2 # each look starts the program
done
check_has "why the job failed" 'select(.event=="table") | .rows[] | select(.[0]=="why")[1]' \
    "this vlmsh has no job kind 'unheard'"
# A job runs the shell's program, even if its file has been removed.
cp "$VLMSH" "$work/program"
mkfifo "$work/typed"
"$work/program" --db "$work/vlmsh.db" --json <"$work/typed" >"$work/events" 2>&1 &
exec 9>"$work/typed"
echo "/jobs" >&9
for _ in $(seq 200); do
    grep -q '"done"' "$work/events" && break
    sleep 0.05
done
rm "$work/program"
printf '/job 2 resume\n/wait 2\n' >&9
exec 9>&-
wait $!
check_has "the process of the job answers" 'select(.event=="error").message' "failed: this vlmsh has no job kind 'unheard'"
printf '/job 2 resume\n/wait\nnever\n' >"$work/script"
vlmsh -f "$work/script" 2>"$work/errors"
same "a failed job fails the script" $? 1
grep -q 'script:2: job 2 (unheard) failed' "$work/errors" || fail "the script says: $(cat "$work/errors")"
same "vlmsh job run" "$("$VLMSH" job run 2 --db "$work/vlmsh.db" 2>&1 | tail -1)" \
    "vlmsh job: this vlmsh has no job kind 'unheard'"
same "message for an unknown job" "$("$VLMSH" job run 77 --db "$work/vlmsh.db" 2>&1)" \
    "vlmsh job: no job 77 (/jobs lists them)"
"$VLMSH" job list --db "$work/vlmsh.db" | grep -q '^  1  unheard  done' || fail "vlmsh job list fails"

# A real job outlives the shell that started it; another shell pauses it, a third resumes it.
"$VLMSH" scenes 40 "$work/world" >"$work/scenes" 2>&1 || fail "scenes: $(cat "$work/scenes")"
vlmsh -c "/load $llava" -c "/set sample.max_tokens 4" -c "/set job.nice 0" \
    -c "/eval $work/world/questions.json --limit 40" >"$work/said" 2>&1 || fail "eval: $(cat "$work/said")"
grep -q '^job 4: evaluate started' "$work/said" || fail "it said: $(cat "$work/said")"
vlmsh -c "/job 4 pause" 2>"$work/errors" || grep -q "it is done" "$work/errors" || fail "$(cat "$work/errors")"
vlmsh -c "/wait 4" 2>"$work/errors"
grep -Eq 'is (paused|done)' "$work/errors" || fail "after the pause: $(cat "$work/errors")"
if grep -q 'is paused' "$work/errors"; then
    vlmsh -c "/job 4 resume" -c /wait 2>"$work/errors" || fail "resumed: $(cat "$work/errors")"
fi
lines "/job 4"
check "scores of the evaluation" 'select(.event=="table") | .rows | map({(.[0]):.[1]}) | add |
    "\(.kind) \(.state) \(.n)"' "evaluate done 40"

# Pause requests in the middle of a step do not interrupt it; a cancellation does.
for i in $(seq 6000); do
    printf '{"question": "What is %d?", "answer": "%s"}\n' $i "$(seq -s ' ' 200)"
done >"$work/data.jsonl"
vlmsh -c "/load $llava" -c "/set train.batch 8" -c "/set train.accumulate 750" -c "/set job.threads 1" \
    -c "/train $work/data.jsonl $work/trained" >"$work/said" 2>&1 || fail "train: $(cat "$work/said")"
grep -q '^job 5: train started' "$work/said" || fail "it said: $(cat "$work/said")"
until "$VLMSH" job list --db "$work/vlmsh.db" | grep -q '^  5 .*running' &&
    grep -q 'training [0-9]* parameters' "$work/vlmsh.db.jobs/5/output"; do
    sleep 0.2
done
for _ in 1 2 3 4; do
    vlmsh -c "/job 5 pause" 2>"$work/errors" || fail "$(cat "$work/errors")"
    sleep 0.2 # time for a signal to take effect
done
"$VLMSH" job list --db "$work/vlmsh.db" | grep -q '^  5 .*running' || fail "the job does not continue"
vlmsh -c "/job 5 cancel" 2>"$work/errors" || fail "$(cat "$work/errors")"
vlmsh -c "/wait 5" 2>"$work/errors"
same "cancelled in its step" "$(cat "$work/errors")" "-c:1: job 5 (train) is cancelled"
[ -z "$(compgen -G "$work/trained/checkpoint-*")" ] || fail "the job completed its step"

# Ctrl-C pauses a job that runs in the foreground, and the message says so.
vlmsh -c "/load $llava" -c "/eval $work/world/questions.json" -c "/job 6 pause" 2>"$work/errors" ||
    fail "$(cat "$work/errors")"
vlmsh -c "/wait 6" 2>"$work/errors"
"$VLMSH" job run 6 --db "$work/vlmsh.db" >"$work/out" 2>&1 &
while kill -0 $! 2>/dev/null && ! "$VLMSH" job list --db "$work/vlmsh.db" | grep -q '^  6 .*running'; do
    sleep 0.02
done
kill -INT $!
wait $!
same "exit status of an interrupted job" $? 130
same "the last line" "$(tail -1 "$work/out")" "job 6 is paused"

# If the model's file is truncated while a job uses it, the row shows the process's last message.
cp -r "$llava" "$work/model"
chmod -R u+w "$work/model"
vlmsh -c "/load $work/model" -c "/train $work/data.jsonl $work/cut" >"$work/said" 2>&1 || fail "train: $(cat "$work/said")"
until grep -q 'training [0-9]* parameters' "$work/vlmsh.db.jobs/7/output" 2>/dev/null; do sleep 0.02; done
truncate -s 4096 "$work/model/model.safetensors"
lines "/wait 7" "/job 7"
check_has "why it was interrupted" 'select(.event=="error").message' \
    'job 7 (train) is interrupted: a model file was truncated'
check_has "the job's row says why" 'select(.event=="table") | .rows[] | select(.[0]=="why")[1]' 'a model file was truncated'

session "deleted" <<E
> /job 1 delete
deleted job 1
> /job 1
error: no job 1 (/jobs lists them)
E
finish
