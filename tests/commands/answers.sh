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
# The picture is not opened. The question on the third line gets the second answer for `x`.
# Likelihoods still need the model.
same "scores" "$(cut -d, -f2,4,5 "$work/here.csv" | tr -d '"' | head -4 | paste -sd' ')" "id,score,answer 7,1,Red. x,1,yes x,0,yes"
same "scores of a job" "$(cat "$work/job.csv")" "$(cat "$work/here.csv")"
same "hashes the pictures that the model sees" "$(jq -r 'select(.pictures).metric' "$work"/vlmsh.db.jobs/*/scores.jsonl)" loglik
same "lines of the table by likelihood" "$(wc -l <"$work/here.csv")" 5
check "the file of answers is named" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="answers")[1]' \
    "$work/answers.jsonl"
check_has "one has no answer" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="skipped")[1]' \
    "1 of 5 samples, the first: sample none: the file of --answers has no answer for this question"

# A line that cannot be read counts towards --limit with --kind, too, so one reference is left: each word has idf 0.
printf '%s\n' '{broken' '{"id": 1, "kind": "a", "question": "?", "answer": "a red ball lies here"}' \
    '{"id": 2, "kind": "a", "question": "?", "answer": "two dogs run"}' >"$work/few.jsonl"
echo '{"question_id": 1, "text": "a red ball lies here"}' >"$work/few.answers"
lines "/load $llama" "/eval $work/few.jsonl --answers $work/few.answers --metric cider --kind a --limit 2 --here"
check "CIDEr over the samples that count" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="score")[1]' 0

# Ctrl-C stops matching many answers with their questions, which shows progress.
python3 - "$work" $(sanitized && echo 40000 || echo 200000) <<'P'
import json, sys
with open(sys.argv[1] + "/long.jsonl", "w") as q, open(sys.argv[1] + "/long.answers", "w") as a:
    for i in range(int(sys.argv[2])):
        print(json.dumps({"id": i, "question": f"{i}?" + "x" * 40, "answer": "a", "metric": "exact"}), file=q)
    print(json.dumps({"question_id": 0, "text": "a"}), file=a)
P
rm "$work/events" # the previous run shows such progress too
"$VLMSH" --db "$work/vlmsh.db" --json -c "/load $llama" -c "/eval $work/long.jsonl --answers $work/long.answers --here" >"$work/events" 2>&1 </dev/null &
for _ in $(seq 200); do grep -qs '"matching answers"' "$work/events" && break; sleep 0.05; done
kill -INT $!
wait $!
same "exit status of an interrupted run" $? 130
check "before an answer is scored" 'select(.event == "done" or .event == "table") | .ok' $'true\nfalse'
rm "$work"/long.*

# Thinking is removed for vlmsh's own rules and those of lmms-eval, which removes it; LLaVA's and VLMEvalKit's
# rules see it.
jq -nc '[["yesno","yes"],["pope-lmms-eval","yes"],["pope-llava","yes"],["exact","yes"],["yesno-vlmevalkit","yes"]] |
    to_entries[] | {id: "t\(.key)", question: "Is it?", metric: .value[0], answer: .value[1]}' >"$work/think.jsonl"
jq -nc 'range(5) | {question_id: "t\(.)", text: "<think> no or yes ?</think>Yes"}' >"$work/thought.jsonl"
thinking='select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="thinking")[1]'
scored='[inputs, .] | map(select(.event=="table" and .name=="answers").rows[][3]) | join(" ")'
for option in "" "--thinking keep" "--thinking strip"; do
    lines "/load $llama" "/eval $work/think.jsonl --answers $work/thought.jsonl $option --here"
    jq -r "$thinking" "$work/events" >>"$work/thinking"
    jq -rn "$scored" "$work/events" >>"$work/scored"
done
same "scores" "$(paste -sd'|' "$work/scored")" "1 1 0 1 0|0 0 0 0 0|1 1 1 1 1"
same "what is reported of thinking" "$(paste -sd'|' "$work/thinking")" "removed from 3 answers; seen by the rule in 2 answers|seen by the rule in 5 answers|removed from 5 answers"
lines "/load $llama" "/eval $work/think.jsonl --answers $work/thought.jsonl" /wait "/eval show"
check "a job reports it too" "$thinking" "removed from 3 answers; seen by the rule in 2 answers"

# A choice may be "None" or empty. VLMEvalKit's table loses it, and the result says how many.
printf 'index\timage\tquestion\tA\tB\tC\tD\tanswer\tcategory\n1\t%s\tHow many?\tNone\tTwo\tOne\t\tA\tx\n2\t1\tWhich?\tp\tq\t\t\tD\tx\n3\t1\tWhich?\t\tq\tr\ts\tA\tx\n' \
    "$(base64 -w0 demo/pictures/scene-0.png)" >"$work/none.tsv"
printf '{"question_id":1,"text":"A"}\n{"question_id":2,"text":"D"}\n{"question_id":3,"text":"A"}\n' >"$work/none.jsonl"
none="/eval $work/none.tsv --set seed --answers $work/none.jsonl --here --rule"
for way in vlmevalkit lmms-eval "vlmevalkit --metric letter"; do
    lines "/load $llava" "$none $way"
    jq -rn "$scored" "$work/events" >>"$work/none"
    jq -rn '[inputs | select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="choices lost")[1]] | join(" ")' "$work/events" >>"$work/none"
done
same "None" "$(paste -sd'|' "$work/none")" "0 0 0|4|1 1 1||1 1 1|4"
check_has "the question lacks the lost choice" 'select(.event=="table" and .name=="answers").rows[0][6]' "Options:
B. Two"
printf 'set lost: %s --set seed --rule vlmevalkit\nset whole: %s --set seed\nrow plain: off\n' "$work/none.tsv" "$work/none.tsv" >"$work/plan"
lines "/load $llava" "/set sample.max_tokens 2" "/eval --plan $work/plan $work/table" /wait "/job 3"
check "a table of scores counts lost choices" 'select(.event=="table" and .name=="job").rows[] | select(.[0]=="choices lost")[1]' \
    "in 1 of 2 cells, the first: plain, lost: 4"
printf '{"id":1,"question":"What?","answer":"x","colour":"red"}\n{"id":2,"question":"Why?","answer":"y"}\n' >"$work/keys.jsonl"
printf 'set keys: %s\nrow plain: off\n' "$work/keys.jsonl" >"$work/plan"
for run in first again; do # the second run finds all answers of the first
    lines "/load $llava" "/set sample.max_tokens 2" "/eval --plan $work/plan $work/keys" /wait "/job $work/keys log"
    check_has "notices on the data of a table, $run" 'select(.event=="notice").text' \
        'data: in 1 of 1 cell, the first: plain, keys: not used: "colour" (1 sample)'
    check_has "its log has them for each cell, $run" 'select(.event=="text").text' 'n 2; not used: "colour" (1 sample)'
done

# --answers reads what --submit writes, with the same scores; also a list (VQAv2's upload).
python3 tests/core/sets/make.py "$work/sets"
lines "/load $llava" "/set sample.max_tokens 4" "/eval $work/sets/POPE.tsv --set pope --submit $work/pope.jsonl --here" \
    "/eval $work/sets/POPE.tsv --set pope --answers $work/pope.jsonl --here" \
    "/eval $work/sets/vqa/v2_OpenEnded_mscoco_val2014_questions.json --set vqav2 --images $work/sets/img --submit $work/vqa.json" /wait \
    "/eval $work/sets/vqa/v2_OpenEnded_mscoco_val2014_questions.json --set vqav2 --images $work/sets/img --answers $work/vqa.json --here"
for key in score F1 'no yes/no'; do
    same "$key, read back" "$(jq -r --arg k "$key" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]==$k)[1]' "$work/events" | head -2 | uniq | wc -l)" 1
done
check "no line fails" 'select(.event=="done").ok' "$(yes true | head -7)"

# Random answers get the scores that the suites' own rules give.
python3 tests/core/sets/scores.py "$VLMSH" "$work/scores" || fail "scores differ"

# Submissions have the published fields, types and order.
python3 tests/core/sets/submit.py "$VLMSH" "$work/sets" || fail "submissions differ from the published forms"

# Questions that share an id: an answer belongs to the one with its prompt, in any order.
jq -nc '[["a","sky","grey"],["a","ball","red"],["a","letter","H"],["b","sky","blue"],["b","letter","V"]][] |
    {question_id: .[0], question: "What \(.[1])?\nAnswer in a word.", answer: .[2]}' >"$work/shared.jsonl"
jq -c '{question_id, prompt: .question, text: .answer}' "$work/shared.jsonl" >"$work/all"
row() { # KEY: of the last evaluation
    jq -r --arg k "$1" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]==$k)[1]' "$work/events"
}
shared() { # NAME SCORE-N, of the answers on standard input
    cat >"$work/shared.answers"
    lines "/load $llama" "/eval $work/shared.jsonl --answers $work/shared.answers --metric exact --here"
    same "$1" "$(row score) of $(row n)" "$2"
}
shared "in order" "1 of 5" <"$work/all"
shared "first missing" "1 of 4" < <(tail -n +2 "$work/all")
same "the question without an answer is named" "$(row skipped)" "1 of 5 samples, the first: sample a: the file of --answers has 2 lines for the 3 questions with its id, and no unique match for the question \"What sky?\""
shared "last first" "1 of 5" < <(tac "$work/all")
shared "one twice" "1 of 5" < <(cat "$work/all" <(sed -n 2p "$work/all"))
shared "another answer to one" "1 of 4" < <(sed -n '2s/red/green/p' "$work/all" | cat "$work/all" -)
same "both lines are unused" "$(row 'answers unused')" "2 of 6 lines, the first: line 2 (a)"
shared "of another suite" "1 of 5" < <(tac "$work/all" | sed 's/Answer in a word/Short answer/')
same "prompts of another suite are the same questions" "$(row 'other questions')" ""
jq -nc '{id: 1, question: "Which colour?", answer: "grey"}, {id: 2, question: "Which letter?", answer: "H"}' >"$work/apart.jsonl"
jq -nc '{id: 1, prompt: "How many?", text: "grey"}, {id: 2, prompt: "Question: Which letter?\nA word.", text: "H"}' >"$work/apart.answers"
lines "/load $llama" "/eval $work/apart.jsonl --answers $work/apart.answers --metric exact --here"
same "by their id alone" "$(row 'other questions')" '1 of 2 answers have a prompt that is not the question with their id, the first: line 1 (1), "How many?"'
shared "id of another picture" "1 of 5" < <(echo '{"question_id": "z", "text": "x"}' | cat - "$work/all")
same "the unused line is named" "$(row 'answers unused')" "1 of 6 lines, the first: line 1 (z)"
shared "without prompts" "1 of 5" < <(jq -c 'del(.prompt)' "$work/all")
shared "without prompts, one missing" "1 of 2" < <(tail -n +2 "$work/all" | jq -c 'del(.prompt)')
printf '[{"id": 1, "conversations": [{"from": "human", "value": "colour?"}, {"from": "gpt", "value": "grey"},
    {"from": "human", "value": "letter?"}, {"from": "gpt", "value": "H"}]}]' >"$work/shared.jsonl"
shared "turns" "1 of 2" < <(printf '{"question_id": 1, "prompt": "letter?", "text": "H"}\n{"question_id": 1, "prompt": "colour?", "text": "grey"}\n')
shared "one answer to two turns" "1 of 1" < <(printf '{"question_id": 1, "prompt": "letter?", "text": "H"}\n')

# A row that refers to another row's picture; an index that is duplicate or missing elsewhere does not matter.
picture=$(base64 -w0 demo/pictures/scene-0.png)
printf 'question\timage\tA\tB\tanswer\tcategory\tindex\n' >"$work/repeated.tsv"
printf "which?\t%s\tp\tq\tA\tx\t%s\n" "$picture" 1 "$picture" 1 "$picture" 2 2 3 1 4 >>"$work/repeated.tsv"
printf "which?\t%s\tp\tq\tA\tx\n" "$picture" >>"$work/repeated.tsv"
lines "/load $llava" "/set sample.max_tokens 1" "/eval $work/repeated.tsv --set mmbench --here"
same "only the ambiguous one" "$(row skipped)" "1 of 5 samples, the first: sample 4: row 4 takes its picture from index '1', which several rows share: number them differently"

printf '{"text": "no id"}\n' >"$work/bad.jsonl"
refused() { # LINE REASON
    lines "/load $llama" "$1"
    check_has "refused: $1" 'select(.event=="error").message' "$2"
    check "not done: $1" 'select(.event=="done").ok' $'true\nfalse'
}
refused "/eval $work/data.jsonl --answers $work/absent" "--answers: cannot"
refused "/eval $work/data.jsonl --answers $work/bad.jsonl --here" 'needs "question_id" and "text"'
refused "/eval $work/shared.jsonl --answers $work/shared.answers --here" 'sample 1 names none ("metric"): add --metric'
refused "/eval $work/data.jsonl --answers $work/answers.jsonl --metric loss --here" "--metric loss does not"
refused "/eval $work/data.jsonl --answers" "--answers needs FILE"
refused "/compare off | now --data $work/data.jsonl --answers $work/answers.jsonl" "--answers"
finish
