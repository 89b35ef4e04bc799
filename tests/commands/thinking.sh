# tests/commands/thinking.sh -- reasoning before answers: in events, lines, sessions, later turns, and evaluations.
. tests/commands/common.bash

model=$work/model
cp -r demo/model "$model"
python3 tests/commands/thinking.py "$model" || fail "thinking.py fails"

ask=("/load $model" "/image demo/pictures/scene-1.png" "What is in the picture?")
lines "${ask[@]}" "Where is the red circle?" "/dump ids $work/whole.safetensors" "/forward And?"
check "text and reasoning of the answer" 'select(.event == "answer") | [.text, .reasoning, .reasoning_tokens] | @json' \
    $'["a green letter H and a red circle","a green diamond",4]\n[" middle",null,null]\n["",null,null]'
check "a closing mark alone" 'select(.event == "token" and .id == 14) | [.text, .was_reasoning] | @json' '["",true]'
# The template drops the reasoning from later turns: "USER: ", the answer and the new question.
check "prompt tokens of later turns" 'select(.event == "answer").prompt_tokens' $'159\n178\n186'
# A resumed session has the same prompt, in another process.
lines "/load $model" "/session new thought" "${ask[@]:1}" "Where is the red circle?"
lines "/session resume thought" "/dump ids $work/resumed.safetensors" "/forward And?" "/session fork copied" \
    "/session export $work/thought.md"
cmp -s "$work/whole.safetensors" "$work/resumed.safetensors" || fail "the prompt of a resumed session differs"
lines "/session resume copied" "/session export $work/copied.md"
for f in thought copied; do
    grep -A2 -F '<details><summary>Reasoning (4 tokens)</summary>' "$work/$f.md" | grep -qx 'a green diamond' || fail "$f.md: reasoning"
    grep -qx 'a green letter H and a red circle' "$work/$f.md" || fail "$f.md: answer"
done

# The marks may be special tokens, which answers do not show.
cp -r "$model" "$work/special"
jq '.added_tokens[-1].special = true' "$model/tokenizer.json" >"$work/special/tokenizer.json"
lines "/load $work/special" "${ask[@]:1}" "Where is the red circle?"
check "special tokens" 'select(.event == "answer") | [.text, .reasoning, .prompt_tokens] | @json' \
    $'["a green letter H and a red circle","a green diamond",159]\n[" middle",null,178]'

# Lines: the answer is on standard output, the reasoning on standard error if screen.reasoning is show.
printf '%s\n' "${ask[@]}" | vlmsh --plain >"$work/out" 2>"$work/err"
same "answers on standard output" "$(cat "$work/out")" $'a green diamond\na green letter H and a red circle'

# If the prompt opens the reasoning, it is streamed as reasoning; if it does not end, the answer has no text.
lines "/set chat.template.thinking on" "/set sample.max_tokens 5" "${ask[@]}"
check "reasoning that is cut off" 'select(.event == "answer") | [.text, (.reasoning | length > 3), .reasoning_tokens, .stop] | @json' '["",true,5,"length"]'
same "streamed reasoning" "$(jq -rj 'select(.event == "token").reasoning' "$work/events")" "$(jq -rj 'select(.event == "answer").reasoning' "$work/events")"
check_has "notice of reasoning that is cut off" 'select(.event == "notice").text' "the reasoning was cut off before an answer: raise sample.max_tokens"
printf '%s\n' "/set chat.template.thinking on" "/set sample.max_tokens 5" "/set screen.reasoning show" "${ask[@]}" |
    vlmsh --plain >"$work/out" 2>"$work/err"
same "no answer on standard output" "$(cat "$work/out")" ""
grep -qF "$(jq -r 'select(.event == "answer").reasoning' "$work/events" | head -n 1)" "$work/err" || fail "the reasoning is not on standard error"
lines "/set chat.template.thinking on" "${ask[@]:0:2}" "Where is the red circle?"
check "reasoning without an end mark" 'select(.event == "answer") | [.text, .stop] | @json' '["","eos"]'
check_has "notice of no end" 'select(.event == "notice").text' "the model stopped within its reasoning, so the answer is empty"

# Reasoning is scored only with --thinking keep.
jq -nc '{id: "q", image: "scene-1.png", question: "What is in the picture?", answer: "diamond", metric: "contains"}' >"$work/data.jsonl"
score='select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "contains")[1]'
for thinking in strip keep; do
    lines "/load $model" "/eval $work/data.jsonl --images demo/pictures --here --thinking $thinking"
    check "thinking $thinking" 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "thinking")[1]' \
        "$([ $thinking = keep ] && echo 'seen by the rule in 1 answer' || echo 'removed from 1 answer')"
    jq -r "$score" "$work/events"
done
# --expect: the exit status of a script, in this process or with a job.
expect() { # STATUS CONDITION [OPTION...]
    local want=$1 condition=$2 got
    shift 2
    vlmsh "$model" -c "/eval $work/data.jsonl --images demo/pictures --expect \"$condition\" $*" -c /wait >"$work/out" 2>"$work/err"
    got=$?
    [ $got = "$want" ] || fail "--expect '$condition' $*: exit $got: $(tail -n 2 "$work/err")"
}
expect 0 'contains>=0.9,n=1, score > 0.5' --thinking keep
expect 1 'contains>=0.9'
grep -q 'expected contains >= 0.9, but it is 0' "$work/err" || fail "which condition: $(cat "$work/err")"
expect 1 'contains>=0.9' --here
grep -q 'expected contains >= 0.9, but it is 0' "$work/err" || fail "here: $(cat "$work/err")"
expect 1 'accuracy>0' --here
grep -q "no numeric result 'accuracy'; choose one of score, " "$work/err" || fail "known names: $(cat "$work/err")"
expect 1 'contains' --here
grep -q "takes NAME>=NUMBER" "$work/err" || fail "no condition: $(cat "$work/err")"
lines "/load $model" "/set chat.template.thinking on" "/set sample.max_tokens 5" \
    "/eval $work/data.jsonl --images demo/pictures --here"
check "unended in an evaluation" 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "thinking")[1]' "not ended in 1 answer"
lines "/load $model" "/ask --data $work/data.jsonl --images demo/pictures --out $work/answers.jsonl"
same "saved answers" "$(jq -c '[.answer, .reasoning]' "$work/answers.jsonl")" '["a green letter H and a red circle","a green diamond"]'
finish
