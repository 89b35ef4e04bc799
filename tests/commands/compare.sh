# compare.sh -- /compare: two sets of settings on one question and on a data set.
. tests/commands/common.bash

value() { # TABLE ROW COLUMN (from 1): one line for each time it was shown
    jq -r --arg t "$1" --arg r "$2" --argjson c "$3" \
        'select(.event=="table" and .name==$t).rows[] | select(.[0]==$r)[$c]' "$work/events" | tr '\n' ' '
}
short=('/set sample.max_tokens 8' '/set sample.ignore_eos on')
prune='prune.score=contribution prune.layer=1 prune.keep=0.25'

lines "/load $llava" "${short[@]}" "/image $scene" 'What is in the picture?' "/compare off | $prune" '/context' \
    '/regen' "/compare now | @fastv --steps Where is it?" '/set' '/turns' "/compare $prune | $prune"
check "the answers before and after /compare are equal" '[inputs, .] | map(select(.event=="answer").text) | .[0] == .[1] and length == 2' true
check "A is the answer" '[inputs, .] | (map(select(.event=="columns"))[0].texts[0]) == (map(select(.event=="answer"))[0].text)' true
check "the answers diverge" '[inputs, .] | map(select(.event=="columns"))[0] | .texts[0] != .texts[1] and .common > 0' true
check "titles of the columns" '[inputs, .] | map(select(.event=="columns"))[0].titles | join("; ")' "A: off; B: $prune"
# The distances equal the tensor hellinger.contribution of the goldens.
check "distances of the steps" '[inputs, .] | map(select(.name=="compare.steps"))[0].rows | map(.[1]*1000|round|tostring) | join(" ")' \
    '267 251 303 207 192 261 332 226'
same "visual tokens kept in each comparison" "$(value compare 'visual tokens kept' 2)" "6 12 6 "
check "settings are as before" '[inputs, .] | map(select(.event=="setting").key) | unique | join(" ")' \
    'sample.ignore_eos sample.max_tokens'
check "the cache is as before" 'select(.event=="table" and .name=="context").rows[0][3] > 30' true
same "no distance between equal sides" "$(value compare.distance 'Hellinger distance, largest' 1 | awk '{print ($3 < 1e-5)}')" 1
check "identical answers have no first token that differs" \
    '[inputs, .] | map(select(.name=="compare.distance").rows | any(.[0] == "first token that differs")) | map(tostring) | join(" ")' \
    'true false false'
same "pruning computes less" "$(value compare 'prefill GFLOP' 3 | awk '{print ($1 < 0.8), ($3 == 1)}')" "1 1"

# A method that both sides use is named, too.
lines "/load $llava" "${short[@]}" "/image $scene" '/set prune.score uniform' '/compare sample.max_tokens=2 | off Where is it?'
check "titles name methods" 'select(.event=="columns").titles | join("; ")' \
    'A: sample.max_tokens=2 (prune.score=uniform); B: off'
session "a preset without @" $llava <<E
> /set sample.max_tokens 8
> /set sample.ignore_eos on
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> /compare off | fastv Where is it?
'fastv' was read as the start of the question; to name the preset, write @fastv
(columns)
...
E
lines "/load $llava" "${short[@]}" "/image $scene" '/set ffn.approx skip' '/set ffn.layers 1' '/compare off | @fastv Where is it?'
check "titles name presets" 'select(.event=="columns").titles | join("; ")' 'A: off; B: @fastv'

# Recipes that take the adapter from the model's folder: titles show only their names, and the settings stay.
lines '/load demo/model' "${short[@]}" "/image $scene" '/compare @ira | @norm-alignment Where is it?' '/set'
check "titles of two recipes" 'select(.event=="columns").titles | join("; ")' 'A: @ira; B: @norm-alignment'
check "settings are as before" '[inputs, .] | map(select(.event=="setting").key) | unique | join(" ")' \
    'sample.ignore_eos sample.max_tokens'

# An adapter for one side only is unloaded again afterwards.
lines "/load $llava" "${short[@]}" "/image $scene" "/adapter load $llava/adapters/lora" 'What is in the picture?' \
    '/adapter unload' '/regen' "/compare adapter= | adapter=$llava/adapters/lora" '/regen' '/get adapter' \
    "/compare off | adapter=$work/none" '/get adapter'
check "each side has its own adapter" '[inputs, .] | (map(select(.event=="columns"))[0].texts) as $t |
    map(select(.event=="answer").text) | $t[0] == .[1] and $t[1] == .[0] and .[2] == .[1]' true
same "LoRA computes more" "$(value compare 'prefill GFLOP' 3 | awk '{print ($1 > 1.001)}')" 1
check "the adapter is off afterwards" '[inputs, .] | map(select(.event=="setting" and .key=="adapter").value) | last' none

# A side may use another model; one with other tokens has no distance.
lines "/load $llava" "${short[@]}" "/image $scene" 'What is in the picture?' "/compare now | model=$llava" \
    "/compare model=demo/model | now" '/regen' "/compare now | model=$work/none"
check "the same model answers the same" '[inputs, .] | map(select(.event=="columns"))[0].texts | .[0] == .[1]' true
check "another model answers differently" '[inputs, .] | map(select(.event=="columns"))[1].texts | .[0] != .[1]' true
check "titles name models" '[inputs, .] | map(select(.event=="columns"))[1].titles | join("; ")' 'A: model=demo/model; B: now'
same "no steps with other tokens" "$(value compare.distance steps 1)" "8 0 "
check "the loaded model is as before" '[inputs, .] | map(select(.event=="answer").text) | .[0] == .[1]' true
check "a missing model" '[inputs, .] | map(select(.event=="error").message) | last | test("none")' true
# Two models with the same tokens have a distance, even if the loaded model's tokens differ; the sides' settings may be
# impossible with the loaded model.
ln -s "$PWD/demo/model" "$work/twin"
lines "/load $llava" "${short[@]}" "/image $scene" "/compare model=demo/model | model=$work/twin prune.score=uniform prune.layer=6 What is this?" \
    "/compare now | model=demo/model prune.score=uniform prune.layer=8 What is this?" '/compare now | model=demo/model @capa-prune What?'
same "steps of two other models with the same tokens" "$(value compare.distance steps 1 | awk '{print ($1 > 0)}')" 1
check "layers of the other model" 'select(.event=="error").message' "prune.layer is 8, but the model's 8 layers are 0 to 7
@capa-prune chooses layers of the loaded model: write KEY=VALUE for 'demo/model'"

# Impossible sides are refused before anything is computed, and nothing changes.
session "refused" $llava <<E
> /compare off | prune.keep=0.25,0.5
error: side B: prune.keep cannot increase (0.5 after 0.25): dropped tokens do not come back
> /compare off
error: write two sets of settings separated by |: /compare off | prune.score=contribution
> /compare off | now | prune.keep=0.5 --data x
error: /compare has two sides: measurements (/norms A | B | C) and plans (/eval --sets DIR OUT --settings "A | B | C") take more
> /compare off | now
error: no question has been asked yet: add one after the settings
> /compare off | prune.layer=9 Hi
error: side B: prune.layer is 9, but the model's 4 layers are 0 to 3
> /compare x | off Hi
error: 'x' is not a setting: use KEY=VALUE, @PRESET, off or now
> /compare off | no.such=1 Hi
error: no setting 'no.such' (/settings lists them)
> /compare off | @nothing Hi
error: no preset 'nothing' (/preset list)
> /compare off | prune.score=contribution prune.layer=0,1 Hi
error: side B: prune.layer names 2 layers, but prune.keep has 1 value: give one value per layer
> /compare off | now --limit 3 Hi
error: --metric, --limit, --images, --shots and --job need --data FILE
> /compare off | now --data x Hi
error: give either a question or --data, not both: 'Hi'
> /compare off | now --data
error: --data needs FILE
> /compare | ffn.approx=hadamard Hi
error: side B: ffn.layers auto needs a calibration: make one with /calibrate ffn DATA OUT and /calibration load OUT, or name the layers
> /set
all settings are at their defaults; /settings lists them
> Hi
(an answer to 0 visual tokens)
E
session "options first" <<E
> /compare --data x.json off | now
error: write --data after the settings: /compare SETTINGS | SETTINGS --data ...
E

# Answers in columns, as wide as the terminal; CSV.
printf '%s\n' "/load $llava" "${short[@]}" "/image $scene" "/compare off | $prune --csv $work/steps.csv What is it?" \
    "/compare off | $prune --csv $work/steps.csv What is it?" >"$work/script"
vlmsh --plain -f "$work/script" >"$work/out" 2>"$work/err"
same "written again" "$?" 0
grep -q 'A: off  *│ B: prune.score=contribution prune.layer=1' "$work/out" || fail "no columns: $(cat "$work/out")"
grep -q '»' "$work/out" || fail "the divergence is not marked"
same "header and length of the CSV of steps" "$(head -1 "$work/steps.csv") $(wc -l <"$work/steps.csv")" "step,hellinger,a,b,token_a,token_b 9"

# A word that looks like a setting is taken as one; a quoted question may still begin with x=3.
session "no question" $llava <<E
> /set sample.max_tokens 8
> /set sample.ignore_eos on
> /compare off | prune=1 What is it?
error: 'prune' is a group of settings: /settings prune lists them
> /compare off | x=3 and y=4, what is x+y?
(columns)
...
E

# A data set.
"$VLMSH" new --like tiny "$work/tiny" >/dev/null 2>&1 || fail "vlmsh new fails"
"$VLMSH" scenes 4 "$work/world" --seed 3 >/dev/null 2>&1 || fail "vlmsh scenes fails"
lines "/load $work/tiny" '/set sample.max_tokens 4' "/compare off | $prune --data $work/world/yesno.json --limit 6 --csv $work/q.csv" \
    "/eval $work/world/yesno.json --limit 6 --here" '/set prune.score contribution' '/set prune.layer 1' \
    "/eval $work/world/yesno.json --limit 6 --here" \
    "/compare now | now --data $work/world/captions.json --limit 2 --metric loss"
check "no line fails" '[inputs, .] | map(select(.event=="done").ok) | all' true
score() { jq -r 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="score")[1]' "$work/events" | sed -n "$1p"; }
same "A's score" "$(value compare yesno 1 | awk '{printf "%.4f", $1}')" "$(score 1 | awk '{printf "%.4f", $1}')"
same "B's score" "$(value compare yesno 2 | awk '{printf "%.4f", $1}')" "$(score 2 | awk '{printf "%.4f", $1}')"
same "number of pairs" "$(value compare.distance pairs 1 | awk '{print $1}')" 6
same "distance of the answers" "$(value compare.distance 'Hellinger distance, mean' 1 | awk '{print ($1 > 0 && $1 < 1)}')" 1
same "the same model" "$(value compare.distance 'difference B - A' 1 | awk '{print $2}')" 0
same "lines of the CSV of questions" "$(wc -l <"$work/q.csv")" 7

# Distances of a question with and one without a picture: a mean near its deviation.
printf '%s\n' '{"question": "Hi?", "answer": "yes"}' '{"image": "pictures/000000.png", "question": "Hi?", "answer": "yes"}' >"$work/world/mixed.jsonl"
lines "/load $work/tiny" '/set sample.max_tokens 4' "/compare off | $prune --data $work/world/mixed.jsonl --metric yesno"
check "an interval of distances begins at 0" 'select(.name=="compare.steps").rows[0] | .[1] > 0 and .[3] == 0' true

# A first question on one side only: its answers are scored after the other side's tokens, without a shared cache.
lines "/load $work/tiny" '/set sample.max_tokens 4' \
    "/compare off | \"eval.first=What is there?\" --data $work/world/yesno.json --limit 6"
same "pairs with a first question on one side" "$(value compare.distance pairs 1)" "6 "
same "distance of the answers with a first question" "$(value compare.distance 'Hellinger distance, mean' 1 | awk '{print ($1 > 0 && $1 < 1)}')" 1
same "tokens of the prompts with a first question" "$(value compare 'prompt tokens' 3 | awk '{print ($1 > 1)}')" 1
same "the same visual tokens" "$(value compare 'norm of visual tokens, first layer' 3 | awk '{printf "%.4f", $1}')" 1.0000

# Answers are greedy on both sides, whatever the settings of sampling.
lines "/load $work/tiny" '/set sample.max_tokens 4' "/compare off | sample.temperature=2 --data $work/world/yesno.json --limit 1"
check "sampling is not used" 'select(.event=="notice" and (.text|contains("greedy"))).text' "B: answers are greedy, so these settings are not used: sample.temperature=2"

# The loss of the data's answers under pruning: keeping all tokens is the same as off.
lines "/load $work/tiny" "/compare off | prune.score=contribution prune.keep=1 --data $work/world/captions.json --limit 3 --metric loss" \
    "/compare off | prune.score=contribution prune.keep=0.1 --data $work/world/captions.json --limit 3 --metric loss"
check "no line fails" '[inputs, .] | map(select(.event=="done").ok) | all' true
check "says that lower losses are better" '[inputs, .] | map(select(.event=="notice" and
    (.text | test("^lower .*is better")))) | length' 2
same "difference of losses if all tokens are kept, and if not" "$(value compare.distance 'difference B - A' 1 | awk '{print ($1*$1 < 1e-10), ($2*$2 > 1e-10 && $2*$2 < 1)}')" "1 1"

# The metric decides which side is better: with a loss, the smaller one.
lines "/load $work/tiny" "/compare off | prune.score=contribution prune.keep=0.1 --data $work/world/captions.json --metric loss --csv $work/loss.csv"
want=$(awk -F, 'NR > 1 { a += $3 < $4; b += $4 < $3 } END { print a, b }' "$work/loss.csv")
case $want in "0 0") fail "no side is better anywhere" ;; esac
same "better in A alone, in B alone" \
    "$(value compare.distance 'better in A alone' 1)$(value compare.distance 'better in B alone' 1)" "$want "

# Comparisons of both kinds are stored and shown again unchanged: texts, tables, every step or
# question.
lines "/load $llava" "${short[@]}" "/image $scene" "/compare off | $prune What is it?" \
    "/load $work/tiny" "/compare off | $prune --data $work/world/yesno.json --limit 3"
shown=$(jq -c 'select(.event=="columns" or (.event=="table" and .name!="compare.steps"))' "$work/events")
ids=$(jq -r 'select(.event=="table" and .name=="compare.steps").rows | length' "$work/events")
lines '/results compare'
first=$(jq -r 'select(.event=="table").rows[1][0]' "$work/events")
lines "/results $first" "/results $((first + 1))"
check "no line fails" '[inputs, .] | map(select(.event=="done").ok) | all' true
same "shown again unchanged" "$(jq -c 'select(.event=="columns" or (.event=="table" and (.name=="compare" or .name=="compare.distance")))' "$work/events")" "$shown"
check "a row for every step" 'select(.event=="table" and .name=="compare.steps").rows | length' "$ids"
check "every question" 'select(.event=="table" and .name=="compare.questions").rows | map(.[1] | tonumber) | length' 3
check_has "the compared settings" 'select(.event=="notice").text' "B: $prune"

# A job killed in the middle resumes at its sample and ends with the results of an uninterrupted run.
# The first sample has two questions that cannot be scored and counts as one skipped sample.
jq '[{id: "odd", metric: "letter", messages: [{role: "user", content: "One?"},
    {role: "assistant", content: "1"}, {role: "user", content: "Two?"},
    {role: "assistant", content: "2"}]}] + .' "$work/world/questions.json" >"$work/world/odd.json"
sides="off | $prune"
rm -f "$work"/vlmsh.db*
lines "/load $work/tiny" '/set sample.max_tokens 60' "/compare $sides --data $work/world/odd.json --limit 12 --job"
job=
for _ in $(seq 200); do
    [ -n "$job" ] && break
    lines '/job 1'
    job=$(jq -r 'select(.event=="table").rows[] | select(.[0]=="process")[1]' "$work/events")
done
state=$work/vlmsh.db.jobs/1/compare.jsonl
for _ in $(seq 3000); do
    [ "$(cat "$state" 2>/dev/null | wc -l)" -ge 4 ] && break
    sleep 0.01
done
kill -9 "$job" || fail "no process to kill"
while kill -0 "$job" 2>/dev/null; do sleep 0.02; done
[ "$(wc -l <"$state")" -lt 13 ] || fail "the job ended before it was killed"
printf '{"done": 99, "si' >>"$state" # a truncated write
# The job does not resume with different data.
cp "$work/world/odd.json" "$work/world/as_it_was.json"
jq -c . "$work/world/as_it_was.json" >"$work/world/odd.json"
lines '/job 1 resume' '/wait 1' '/job 1'
check_has "changed data are named" 'select(.event=="table").rows[] | join(" ")' "has changed since the job started"
cp "$work/world/as_it_was.json" "$work/world/odd.json"
cp -r "$work/world/pictures" "$work/as_they_were"
for file in "$work/world/pictures"/*; do echo >>"$file"; done
lines '/job 1 resume' '/wait 1' '/job 1'
check_has "changed pictures are named" 'select(.event=="table").rows[] | join(" ")' "have changed since the job started"
rm -r "$work/world/pictures" && mv "$work/as_they_were" "$work/world/pictures"
lines '/job 1 resume' '/wait 1' '/results 1'
check "all commands of a resumed run succeed" '[inputs, .] | map(select(.event=="done").ok) | all' true
same "each sample once" "$(jq -r 'select(.done).done' "$state" | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 10 11 12 "
numbers() { # the rows without times
    jq -c 'select(.event=="table" and (.name | test("^compare($|[.](distance|steps)$)"))).rows[] |
        select(.[0] | tostring | test(" s$") | not)' "$work/events"
}
resumed=$(numbers)
lines "/load $work/tiny" '/set sample.max_tokens 60' "/compare $sides --data $work/world/odd.json --limit 12"
same "equal to an uninterrupted run" "$resumed" "$(numbers)"
same "samples skipped" "$(value compare 'samples skipped' 1)" "1 "

# User presets are expanded; requests that a job cannot fulfil are refused before one starts.
session "presets in a job" $work/tiny <<E
> /set sample.max_tokens 4
> /set prune.score attention
> /preset save mine prune.score
preset 'mine': 1 setting (/preset show mine)
> /reset all
sample.max_tokens = 512
prune.score = off
> /compare now | @mine --data $work/world/yesno.json --limit 2 --job
job 2: compare started (/job 2, /wait 2)
> /wait 2
job 2 (compare) is done: yesno: ... (/results compare)
> /job 2
...
> /compare off | now --job Hi
error: --metric, --limit, --images, --shots and --job need --data FILE
> /compare off | now --job --data $work/none.json
error: cannot open '$work/none.json': No such file or directory
> /compare off | prune.keep=0.25,0.5 --job --data $work/world/yesno.json
error: side B: prune.keep cannot increase (0.5 after 0.25): dropped tokens do not come back
> /compare off | now --job --csv x --data $work/world/yesno.json
error: --csv cannot be used with --job: run /results N --csv FILE when the job is done
E
check "settings of side B" 'select(.event=="table").rows[] | select(.[0]=="B")[1]' 'prune.score=attention'

# A job reads the adapter that the settings name, which holds IRA's parameters.
rm -f "$work"/vlmsh.db*
jq -n --arg picture "$PWD/$scene" '[{image: $picture, question: "What?", answer: "red"}]' >"$work/one.json"
lines "/load $llava" '/set train.ira on' '/set train.steps 1' "/train $work/one.json $work/ira" /wait \
    "/adapter load $work/ira" '/set ira.on on' '/set sample.max_tokens 4' \
    "/compare ira.on=off | now --data $work/one.json --job" '/wait 2' '/job 2'
check "the job reads the adapter" 'select(.event=="table").rows[] | select(.[0]=="state")[1]' done
# The progress of one comparison has a time left, if any, and no more steps than the answers have tokens.
lines '/load demo/model' '/image demo/pictures/scene-1.png' '/set sample.ignore_eos on' '/set sample.max_tokens 300' \
    '/compare off | prune.score=contribution prune.keep=0.5 What is this?'
check "progress of a comparison" '[inputs, .] | map(select(.event=="progress" and .what=="comparing")) |
    length > 0 and all(.steps > 0 and .step <= .steps and (.eta_s == null or .eta_s < 1e6))' true
finish
