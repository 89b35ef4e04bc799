# sweep.sh -- /sweep: each value has its scores, series and folder; kill -9 and resume.
. tests/commands/common.bash
. tests/processes.bash
for i in 0 1 2 3 4 5 6 7; do
    printf '{"id": "%d", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $((i * i))
done >"$work/data.jsonl"
settings="/set job.nice 0
/set train.method layernorm-simple
/set train.batch 2
/set train.steps 300
/set train.save_every 1"

lines "/load $llava" "/sweep train.lr 1e-3,1e-4 $work/data.jsonl $work/no" "/set train.validation 0.25" \
    "/sweep train.lr 1e-3 $work/data.jsonl $work/no" "/sweep train.lr 1e-3,0.001 $work/data.jsonl $work/no" \
    "/sweep train.l 1,2 $work/data.jsonl $work/no" "/sweep train.lr 1,x $work/data.jsonl $work/no" \
    "/sweep train.lr 1e-3,1e-4 $work/data.jsonl" "/sweep lr-grid $work/none $work/no" \
    "/sweep train.validation 0.25,0.5 $work/data.jsonl $work/no" "/sweep train.filter a,b $work/data.jsonl $work/no" \
    "/sweep prune.keep 0.25,0.5 $work/data.jsonl $work/no"
check "which lines are refused" 'select(.event=="done").ok' $'true\nfalse\ntrue\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse'
check_has "a setting that does not affect training" 'select(.event=="error").message' "prune.keep is a setting of pruning, which only acts in training with train.prune"
check_has "a setting that defines the comparison" 'select(.event=="error").message' "train.validation determines how a sweep compares"
check_has "filtered validation" 'select(.event=="error").message' "train.filter determines how a sweep compares"
[ -e "$work/no" ] && fail "a folder was made"

sweep="/sweep train.lr 1e-2,1e-4,1e-6 $work/data.jsonl"
printf '%s\n' "/load $llava" "$settings" "/set train.validation 0.25" "$sweep $work/whole" /wait \
    "$sweep $work/cut" >"$work/s.vlmsh"
vlmsh -f "$work/s.vlmsh" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
# Killed as soon as the second value starts.
for i in $(seq 3000); do
    [ -d "$work/cut/1e-4" ] && break
    sleep 0.01
done
pid=$(running "job run 2 --db $work/")
[ -n "$pid" ] && kill -9 $pid || fail "the job ended before it was killed"
while kill -0 $pid 2>/dev/null; do sleep 0.01; done
lines "/job 2 resume" "/wait 2" "/job 2" "/job 1"
check "resumes without an error" '[select(.event=="error").message] | .[]' ""
check "number of rates in the results" 'select(.event=="table" and .name=="job") | .rows | map(select(.[0]|startswith("train.lr "))) | length' \
    $'3\n3'
check "/wait shows the scores" 'select(.event=="table" and .name=="sweep") | .rows |
    "\(map(.[0]) | join(" ")) \(map(select(.[1]|startswith("validation loss "))) | length) \(map(select(.[2]=="best")) | length)"' \
    "train.lr 0.01 train.lr 0.0001 train.lr 1e-06 3 1"
check_has "/wait names the best value" 'select(.event=="notice").text' "job 2 (sweep) is done: best: "
results='select(.event=="table" and .name=="job") | [.rows[] | select(.[0]|startswith("train.lr ") or . == "best")]'
jq -c "$results" "$work/events" | sort -u | wc -l | grep -qx 1 || fail "a resumed sweep has different results"
for v in 1e-2 1e-4 1e-6; do
    cmp -s "$work/whole/$v/adapter_model.safetensors" "$work/cut/$v/adapter_model.safetensors" ||
        fail "weights of $v differ"
done
best=$(jq -r 'select(.event=="table" and .name=="job") | .rows[] | select(.[0]=="best run")[1]' "$work/events" | tail -1)
same "a link to the best run" "$(readlink "$work/whole/best")" "$(basename "$best")"
# The best run's settings of training are loaded as a preset, for another seed; no others, and none from a record of a sweep.
jq '.settings["job.command"] = "touch" | .settings["prune.keep"] = "0.5"' "$work/whole/best/training.json" >"$work/record"
mkdir "$work/foreign" && cp "$work/record" "$work/foreign/training.json"
lines "/load $llava" "/preset load $work/foreign" '/set train.seed 9' '/get train.lr' '/set' "/preset show $work/foreign" \
    "/preset load $work/whole" "/preset load $work/nowhere"
same "the best value" "$(jq -r 'select(.event=="setting" and .key=="train.lr").value' "$work/events" | sort -u)" \
    "$(jq -r '.best' "$work/whole/training.json")"
same "settings of training only" "$(jq -r 'select(.event=="setting").key' "$work/events" | grep -vc '^train\.')" 0
check_has "error of the record of a whole sweep" 'select(.event=="error").message' "'$work/whole/training.json' has no settings of training: name the folder of one run"
check_has "error of a missing record" 'select(.event=="error").message' "cannot open '$work/nowhere/training.json'"
mkdir "$work/list" && echo '{"settings": ["train.lr"]}' >"$work/list/training.json"
lines "/preset show $work/list"
check_has "settings in a list" 'select(.event=="error").message' "training.json' has no settings of training"
# Values are compared by their numbers, not by their spelling.
mkdir "$work/v"
lines "/load $llava" "/set train.validation 0.25" "/sweep train.weight_decay 0,-0 $work/data.jsonl $work/no" \
    "/sweep chat.date a|b|a $work/data.jsonl $work/no" '/set train.ira on' "/sweep ira.layers 2-3|2,3 $work/data.jsonl $work/no" \
    "/sweep ira.layers 0-3|0%-100% $work/data.jsonl $work/no" "/sweep job.folder $work/v,$work/./v $work/data.jsonl $work/no"
check "equal values are refused" 'select(.event=="error").message | split(": ") | last' \
    "'-0' is the same value as '0'
'a' is the same value as 'a'
'2,3' is the same value as '2-3'
'0%-100%' is the same value as '0-3'
'$work/./v' is the same value as '$work/v'"
lines "/load $llava" '/set train.method layernorm-simple' '/set train.steps 1' '/set train.validation 0.25' \
    "/sweep chat.date \"a/b,a_b,что,кто,training.json\" $work/data.jsonl $work/names" /wait
check "different values are accepted" 'select(.event=="error").message' ""
same "names of the folders" "$(ls "$work/names" | LC_ALL=C sort | paste -sd' ')" "______ ______-2 a_b a_b-2 best training.json training.json-2"

# Seeds are scored on the same samples: with a learning rate of 0 their scores are equal.
lines "/load $llava" '/set train.method layernorm-simple' '/set train.lr 0' '/set train.steps 1' '/set train.validation 0.25' \
    "/sweep train.seed 1,2,3 $work/data.jsonl $work/seeds" /wait
same "scores of seeds" "$(jq -r 'select(.event=="table" and .name=="sweep") | .rows[:3][][1]' "$work/events" | sort -u | wc -l)" 1
job=$(jq -r 'select(.event=="notice").text' "$work/events" | sed -n 's/^job \([0-9]*\): sweep started.*/\1/p')
same "the mean over seeds" "$(python3 - "$work/vlmsh.db" "$job" <<'P'
import re, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
text, = db.execute("SELECT value FROM job_results WHERE job = ? AND key = 'mean over seeds'", sys.argv[2:]).fetchone()
mean, low, high = re.match(r"validation loss (\S+) \(95%: (\S+) to (\S+)\), std 0, n 3", text).groups()
print(mean == low == high)
P
)" True
lines "/plot $job validation_loss@* --mean" "/plot 2 loss@* --mean --figure $work/mean.svg" "/plot 2 loss@* --mean --csv $work/mean.csv"
check "means are drawn" 'select(.event=="error").message' ""
[ "$(grep -c '@' "$work/mean.svg")" = 0 ] && [ -s "$work/mean.svg" ] || fail "the plot does not have one line for all values"
same "means as a table" "$(awk -F, 'NR > 1 && ($3 < $4 || $3 > $5 || /@/) { wrong++ } END { print (NR > 1) + 0, wrong + 0 }' "$work/mean.csv") $(head -1 "$work/mean.csv")" "1 0 series,step,mean,low,high"
lines "/plot 2 --mean"
check_has "--mean without a series" 'select(.event=="error").message' "name the series to plot"
lines "/plot 2 loss@1e-2 loss@1e-6 validation_loss@1e-4" "/plot 2 loss@* --csv $work/c.csv"
check "no error of the plot" 'select(.event=="error").message' ""
same "lines of the CSV" "$(wc -l <"$work/c.csv")" 901
finish
