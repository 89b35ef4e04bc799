# answers.sh -- /eval --answers: given answers are scored in place of the model's.
. tests/commands/common.bash
cat >"$work/data.jsonl" <<'END'
{"id": 7, "image": "absent.png", "question": "one?", "answer": "red", "metric": "exact", "kind": "a"}
{"id": "x", "question": "two?", "answer": "yes", "metric": "yesno"}
{"id": "x", "question": "three?", "answer": "no", "metric": "yesno"}
{"question": "four?", "choices": ["p", "q"], "answer": "q", "metric": "loglik"}
{"id": "none", "question": "five?", "answer": "red", "metric": "exact"}
END
cat >"$work/answers.jsonl" <<'END'
{"question_id": 7, "text": "Red."}
{"question_id": "x", "text": "yes"}
{"question_id": "x", "text": "yes"}
END
score="/eval $work/data.jsonl --answers $work/answers.jsonl"
lines "/load $llama" "$score --here" "/eval show --csv $work/here.csv" "$score" /wait "/eval show --csv $work/job.csv"
check "went through" 'select(.event=="done").ok' "$(yes true | head -6)"
# The picture is not looked for, the second `x` is the third line; likelihood still asks the model.
same "scores" "$(cut -d, -f2,4,5 "$work/here.csv" | tr -d '"' | head -4 | paste -sd' ')" "id,score,answer 7,1,Red. x,1,yes x,0,yes"
same "a job's are the same" "$(cat "$work/job.csv")" "$(cat "$work/here.csv")"
same "likelihood" "$(wc -l <"$work/here.csv")" 5
check "which file" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="answers")[1]' \
    "$work/answers.jsonl"
check_has "one has no answer" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="skipped")[1]' \
    "1 of 5 samples, the first: sample none: the file of --answers has no answer for it"

# What --submit writes is read back: the same scores. A list (VQAv2's upload) too.
python3 tests/core/sets/make.py "$work/sets"
lines "/load $llava" "/set sample.max_tokens 4" "/eval $work/sets/POPE.tsv --set pope --submit $work/pope.jsonl --here" \
    "/eval $work/sets/POPE.tsv --set pope --answers $work/pope.jsonl --here" \
    "/eval $work/sets/vqa/v2_OpenEnded_mscoco_val2014_questions.json --set vqav2 --images $work/sets/img --submit $work/vqa.json" /wait \
    "/eval $work/sets/vqa/v2_OpenEnded_mscoco_val2014_questions.json --set vqav2 --images $work/sets/img --answers $work/vqa.json --here"
for key in score F1 'no yes/no'; do
    same "$key, read back" "$(jq -r --arg k "$key" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]==$k)[1]' "$work/events" | head -2 | uniq | wc -l)" 1
done
check "done" 'select(.event=="done").ok' "$(yes true | head -7)"

# Other programs' numbers, from random answers.
python3 tests/core/sets/scores.py "$VLMSH" "$work/scores" || fail "scores differ"

# Submissions have the published fields, types and order.
python3 tests/core/sets/submit.py "$VLMSH" "$work/sets" || fail "submissions"

printf '{"text": "no id"}\n' >"$work/bad.jsonl"
refused() { # LINE REASON
    lines "/load $llama" "$1"
    check_has "refused: $1" 'select(.event=="error").message' "$2"
    check "not done: $1" 'select(.event=="done").ok' $'true\nfalse'
}
refused "/eval $work/data.jsonl --answers $work/absent" "--answers: cannot"
refused "/eval $work/data.jsonl --answers $work/bad.jsonl --here" 'needs "question_id" and "text"'
refused "/eval $work/data.jsonl --answers" "'--answers' needs a value"
refused "/compare off | now --data $work/data.jsonl --answers $work/answers.jsonl" "--answers"
finish
