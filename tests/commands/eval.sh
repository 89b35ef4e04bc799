# eval.sh -- /eval: the same scores in a job and in the shell; /eval show, CSV; resuming a killed job.
. tests/commands/common.bash
export OMP_WAIT_POLICY=passive

"$VLMSH" new --like tiny "$work/tiny" >/dev/null 2>&1 || fail "vlmsh new fails"
"$VLMSH" scenes 6 "$work/world" --seed 3 >/dev/null 2>&1 || fail "vlmsh scenes fails"
tiny() {
    printf '%s\n' "/set sample.max_tokens 4" "$@" | vlmsh "$work/tiny" --json >"$work/events"
}
value() {
    jq -r --arg key "$1" 'select(.event=="table" and .name=="evaluation") | .rows[] |
        select(.[0]==$key)[1]' "$work/events"
}

tiny "/eval $work/world/yesno.json" "/wait" "/eval show" "/eval $work/world/yesno.json --here"
check "no line fails" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue\ntrue'
check "/wait shows the score of /eval show" '[inputs, .] | (map(select(.event=="table" and
    .name=="evaluation") | .rows[] | {(.[0]):.[1]}) | add) as $t | map(select(.event=="notice" and
    (.text|startswith("job 1 (evaluate) is done")))) | .[0].text ==
    "job 1 (evaluate) is done: yesno \($t.score) (95%: \($t.low) to \($t.high)), n 36"' true
same "metric of the data" "$(value metric)" $'yesno\nyesno'
same "number of questions" "$(value n)" $'36\n36'
check "the same scores in the shell and in the job" '[inputs, .] | map(select(.event=="table" and .name=="evaluation") |
    .rows) | .[0] == .[1]' true
check "the same answers in the shell and in the job" '[inputs, .] | map(select(.event=="table" and .name=="answers") | .rows) |
    (.[0] == .[1]) and (.[0] | length) == 20' true
case $(value rule | head -1) in
*"first yes or no"*) ;;
*) fail "the rule is not named" ;;
esac

tiny "/eval show 1 --csv $work/a.csv" "/eval show --csv $work/a.csv" "/eval show 1 --wrong --csv $work/w.csv"
check "written again" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue'
same "header and length of the CSV" "$(head -1 "$work/a.csv") $(wc -l <"$work/a.csv")" \
    "number,id,kind,score,answer,reference,question 37"
[ "$(wc -l <"$work/w.csv")" -le 37 ] || fail "--wrong shows too many answers"

# The last evaluation is the one that ended last, in the shell or as a job, even if another shell asks for it.
tiny "/eval $work/world/yesno.json --limit 3" "/wait" "/eval $work/world/questions.json --limit 2 --here" \
    "/eval show" "/jobs" "/eval show --csv $work/here.csv" "/eval show 2" "/eval show"
same "metric of each run" "$(value metric)" $'exact\nexact\nyesno\nexact'
check "shown again unchanged" '[inputs, .] | map(select(.event=="table" and (.name=="evaluation" or .name=="answers")) |
    .rows) | .[0] == .[2] and .[1] == .[3] and .[0] == .[6]' true
check "an evaluation in the shell is not a job" 'select(.event=="table" and .name=="jobs") | .rows | length' 2
same "lines of the CSV of --here" "$(wc -l <"$work/here.csv")" 3
lines "/eval show"
same "the last evaluation, shown by another shell" "$(value metric)" exact
tiny "/eval $work/world/yesno.json --limit 3" "/wait" "/eval show"
same "the last evaluation after a job" "$(value metric)" yesno

# Kinds, limits, metrics.
tiny "/eval $work/world/questions.json --kind colour,shape --here" \
    "/eval $work/world/questions.json --limit 3 --metric loss --here" \
    "/eval $work/world/captions.json --metric cider --limit 2 --here"
same "metrics of the three runs" "$(value metric)" $'exact\nloss\ncider'
same "samples under a limit" "$(value n | tail -2)" $'3\n2'
same "kinds of scores" "$(jq -r 'select(.name=="evaluation").rows[] | select(.[0]|startswith("score "))[0]' \
    "$work/events" | head -2 | sort)" $'score colour\nscore shape'

# A kind that no sample has, and settings of sampling, which evaluations ignore.
tiny "/set sample.temperature 0.5" "/eval $work/world/questions.json --kind colour,shade --here" "/eval $work/world/questions.json --limit 1 --metric loss --here"
same "absent kind" "$(value data)" "no sample is of the kind shade"
same "sampling that is not used" "$(value 'ignored (greedy)')" "sample.temperature=0.5"

# The job uses the shell's adapter, with its scale.
for adapter in ln_tuning lora; do
    printf '%s\n' "/eval $work/world/captions.json --metric loss --limit 2 --here" \
        "/set adapter $llava/adapters/$adapter" "/set adapter.scale 3" \
        "/eval $work/world/captions.json --metric loss --limit 2 --here" \
        "/eval $work/world/captions.json --metric loss --limit 2" "/wait" "/eval show" |
        vlmsh $llava --json >"$work/events"
    same "$adapter in the job" "$(value score | sed -n 2p)" "$(value score | sed -n 3p)"
    [ "$(value score | sed -n 1p)" != "$(value score | sed -n 2p)" ] || fail "$adapter changes nothing"
done

# --wrong does not work with a loss, whose best score is 0.
tiny "/eval $work/world/captions.json --metric loss --limit 2" "/wait" "/eval show --wrong"
check "--wrong fails with a loss" 'select(.event=="done").ok' $'true\ntrue\ntrue\nfalse'
check_has "why --wrong is refused" 'select(.event=="error").message' "loss does not score"

# Refusals, each before a job starts.
session "refused" $work/tiny <<E
> /eval $work/absent.json
error: cannot open '$work/absent.json': No such file or directory
> /eval
error: usage: /eval DATA [--set NAME [--rule SUITE] [--columns NAME=COLUMN,...] [--submit FILE] [--export-predictions SUITE[:FILE]] [--force]] [--metric M] [--limit N] [--images DIR] [--shots FILE] [--kind K,...] [--answers FILE] [--thinking keep|strip] [--expect NAME>=X,...] [--here] | --plan FILE OUT | --sets DIR OUT [--settings "A | B"] [--limit N] | show [JOB] [--csv FILE [--force]] [--wrong] (/help eval)
> /eval $work/world/yesno.json --metric bleu
error: no metric 'bleu': choose one of exact, ...
> /eval $work/world/yesno.json --limit 0
error: --limit must be a whole number of at least 1, not '0'
> /eval $work/world/yesno.json --limit
error: --limit needs N
> /eval a b
error: unexpected 'b' after DATA
> /eval $work/world/yesno.json --export-predictions vlmevalkit
error: --export-predictions needs a set: --set pope --export-predictions vlmevalkit
> /eval $work/world/yesno.json --set pope --export-predictions nothing
error: --export-predictions is lmms-eval or vlmevalkit, not 'nothing'
> /eval $work/world/yesno.json --set blink --export-predictions lmms-eval
error: --export-predictions lmms-eval: it has no task for the file of --set blink
> /eval $work/world/yesno.json --set hellaswag --export-predictions lmms-eval
error: --export-predictions: loglik ranks choices and generates no answers
> /eval $work/world/yesno.json --settings "off | now"
error: --settings needs several sets: --sets DIR OUT --settings "off | now"
> /eval $work/world/yesno.json --dance 1
error: unknown option '--dance': options are --set, --rule, --columns, --metric, --limit, --images, --shots, --submit, --export-predictions, --force, --kind, --answers, --thinking, --expect, --here, --plan, --sets, --settings, --ranks, --sbatch
> /eval --kind , a
error: --kind needs K,..., not ','
> /eval show 99
error: no job 99 (/jobs lists them)
> /eval show --csv
error: --csv needs FILE
> /eval show x
error: 'x' is not a job number (/jobs lists them)
> /eval $work/world/yesno.json --kind none --here
error: no sample of this kind
> /jobs
[jobs]
job  kind      state  steps  loss  left  created              arguments
6    evaluate  done   2/2    -     -     DATE  $work/world/captions.json --metric loss --limit 2
5    evaluate  done   2/2    -     -     DATE  $work/world/captions.json --metric loss --limit 2
4    evaluate  done   2/2    -     -     DATE  $work/world/captions.json --metric loss --limit 2
3    evaluate  done   3/3    -     -     DATE  $work/world/yesno.json --limit 3
2    evaluate  done   3/3    -     -     DATE  $work/world/yesno.json --limit 3
1    evaluate  done   36/36  -     -     DATE  $work/world/yesno.json
E

# A job killed in the middle resumes at its sample and ends with the same numbers. The first
# sample has two questions that cannot be scored and counts as one skipped sample.
jq '[{id: "odd", metric: "letter", messages: [{role: "user", content: "One?"},
    {role: "assistant", content: "1"}, {role: "user", content: "Two?"},
    {role: "assistant", content: "2"}]}] + .' "$work/world/questions.json" >"$work/world/odd.json"
tiny "/set sample.max_tokens 120" "/eval $work/world/odd.json --limit 12"
job=
for _ in $(seq 200); do
    [ -n "$job" ] && break
    lines "/job 7"
    job=$(jq -r 'select(.event=="table").rows[] | select(.[0]=="process")[1]' "$work/events")
done
state=$work/vlmsh.db.jobs/7/scores.jsonl
for _ in $(seq 3000); do
    [ "$(cat "$state" 2>/dev/null | wc -l)" -ge 5 ] && break
    sleep 0.01
done
kill -9 "$job" || fail "no process to kill"
while kill -0 "$job" 2>/dev/null; do sleep 0.02; done
[ "$(wc -l <"$state")" -lt 14 ] || fail "the job ended before it was killed"
# Pretends that a machine that batches questions scored one of them.
sed -i '0,/"score":/s//"batch":3,"score":/' "$state"
# The job does not resume with different data.
cp "$work/world/odd.json" "$work/world/as_it_was.json"
jq -c . "$work/world/as_it_was.json" >"$work/world/odd.json"
tiny "/job 7 resume" "/wait 7" "/job 7"
check_has "changed data are named" 'select(.event=="table").rows[] | join(" ")' "has changed since the job started"
cp "$work/world/as_it_was.json" "$work/world/odd.json"
# Nor does it resume with different pictures.
cp -r "$work/world/pictures" "$work/as_they_were"
for file in "$work/world/pictures"/*; do echo >>"$file"; done
tiny "/job 7 resume" "/wait 7" "/job 7"
check_has "changed pictures are named" 'select(.event=="table").rows[] | join(" ")' "have changed since the job started"
rm -r "$work/world/pictures" && mv "$work/as_they_were" "$work/world/pictures"
tiny "/job 7 resume" "/wait 7" "/eval show 7"
same "samples of the resumed run" "$(value n)" 11
check_has "samples skipped" 'select(.event=="table").rows[] | select(.[0]=="skipped")[1]' \
    '1 of 12 samples, the first: sample odd: '
same "the state's lines" "$(jq -r 'keys - (keys - ["done", "end", "identity"]) | .[]' "$state" | sort | uniq -c | xargs)" \
    '13 done 1 end 1 identity'
cp "$work/events" "$work/resumed"
same "shared passes before it was resumed" "$(value "eval.batch")" 3
tiny "/set sample.max_tokens 120" "/eval $work/world/odd.json --limit 12 --here"
same "equal to an uninterrupted run" "$(jq -c 'select(.event=="table").rows | map(select(.[0]!="eval.batch"))' "$work/resumed")" \
    "$(jq -c 'select(.event=="table").rows' "$work/events")"
# Answers truncated by the end of the context are counted.
tiny "/set sample.max_tokens 30" "/set ctx.max 100" "/eval $work/world/yesno.json --limit 3" "/wait" "/eval show" "/eval $work/world/yesno.json --limit 3 --here"
same "samples cut off" "$(value "cut off")" $'3 hit the context limit (ctx.max)\n3 hit the context limit (ctx.max)'
tiny "/set sample.max_tokens 1" "/eval $work/world/yesno.json --limit 3 --here" "/set eval.batch 1" "/eval $work/world/yesno.json --limit 3 --here" \
    "/compare off | prune.score=random --data $work/world/yesno.json --limit 3"
same "ended by the setting" "$(value "cut off")" $'3 reached sample.max_tokens\n3 reached sample.max_tokens'
check_has "/compare counts them" 'select(.event=="table" and .name=="compare").rows[] | select(.[0]=="answers that reached sample.max_tokens") | tojson' ',3,3,'

# Under bf16 a batch may round a score differently, so the result names it; f32 gives the same bits.
batch=4
multiplies_bf16 || { batch=; echo "SKIPPED: this CPU does not multiply bf16: no test that its results name the batch"; }
tiny "/set compute.matmul bf16" "/set eval.batch 4" "/eval $work/world/yesno.json --limit 3 --here" \
    "/set compute.matmul f32" "/eval $work/world/yesno.json --limit 3 --here"
same "the batch is named once" "$(value "eval.batch")" "$batch"

# A plan: rows by sets as one job and one table; another job continues its cells, unless something changed.
cat >"$work/scores.plan" <<E
set yes/no: "$work/world/yesno.json" --limit 4
set loss: $work/world/captions.json --metric loss --limit 2
row Vanilla: off
row Pruned: prune.score=random prune.layer={late} prune.keep=0.1 prune.seed={seed}
row "Other: 2": "model=$work/a model" "chat.date=26 Jul 2024"
seeds 1 2
compare Pruned | "Other: 2"
E
ln -s "$PWD/$llava" "$work/a model"
tiny "/eval --plan $work/scores.plan $work/scores" "/wait" "/eval --plan $work/scores.plan $work/scores" "/wait"
check "both runs are done" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue\ntrue'
check "the second run shows the same table" '[inputs, .] | map(select(.event=="table" and .name=="scores")) | .[0] == .[1]' true
check "columns and rows of the table" '[inputs, .] | map(select(.event=="table" and .name=="scores"))[0] |
    (.columns, (.rows | map(.[0]))) | join("|")' $'row|yes/no|loss|Improve %\nVanilla|Pruned|Other: 2'
same "a mean of two seeds" "$(grep '^Pruned,Pruned,,yes/no' "$work/scores/scores.csv" | cut -d, -f8)" 8
same "pairs of compare.csv" "$(cut -d, -f1-3 "$work/scores/compare.csv" | paste -sd' ')" \
    "from,to,column Pruned,Other: 2,yes/no Pruned,Other: 2,loss"
same "Markdown and LaTeX" "$(sed -n 2p "$work/scores/table.md") $(head -1 "$work/scores/table.tex")" \
    '|---|---:|---:|---:| \begin{tabular}{lrrr}'
kept=$work/scores/cells/Vanilla_yes_no.scores.jsonl && cp "$kept" "$work/whole" && sed -i 's/"done":4,/"done":9000000000000000,/' "$kept"
tiny "/eval --plan $work/scores.plan $work/scores" "/wait"
check_has "a damaged file" 'select(.event=="error").message' "'$kept': a line has no valid sample number: delete the file"
cp "$work/whole" "$kept"
sed -i 's/keep=0.1/keep=0.2/; /^compare/d' "$work/scores.plan"
tiny "/eval --plan $work/scores.plan $work/scores" "/wait"
check_has "what changed" 'select(.event=="error").message' "4 of 8 cells failed, the first: Pruned, yes/no: model, \
adapter or settings have changed since the job started: prune.keep was 0.1, now 0.2"
[ -e "$work/scores/compare.csv" ] && fail "a comparison that the plan no longer has"
mkdir "$work/two" && cp "$work"/world/{questions,yesno}.json "$work/two" && ln -s ../world/pictures "$work/two/pictures"
echo none >"$work/two/notes.txt"
tiny "/eval --sets $work/two $work/all --settings \"off | prune.score=uniform\" --limit 1" "/wait"
check "all data sets of a folder" '[inputs, .] | map(select(.event=="table" and .name=="scores"))[0] |
    (.columns | join("|")), (.rows | map(.[0]) | join("|"))' \
    $'row|questions|yesno|Avg|Improve %\noff|prune.score=uniform'
echo "row a: prune.kep=1" >>"$work/scores.plan"
for line in "--plan $work/scores.plan $work/other" "--plan $work/none $work/other" \
    "--sets $work/world --plan $work/scores.plan $work/other" "--sets $work/world $work/world"; do
    tiny "/eval $line"
    jq -r 'select(.event=="error").message' "$work/events"
done >"$work/refused"
same "messages of refused rows" "$(sed "s|$work|W|g" "$work/refused")" "row a: no setting 'prune.kep': did you mean 'prune.keep'?
cannot open 'W/none': No such file or directory
give either --plan FILE or --sets DIR
'W/world' holds other files: choose a new folder"

finish
