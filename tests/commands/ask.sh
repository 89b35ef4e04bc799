# tests/commands/ask.sh -- /ask --data: many questions, resuming, broken samples; the user's
# conversation does not change.
. tests/commands/common.bash
setup=("/load $llava" '/set sample.max_tokens 4' '/set sample.ignore_eos on')
cp $scene tests/goldens/pictures/tall.jpg "$work"
cat >"$work/data.json" <<'J'
[{"id": "a", "image": "scene.png", "conversations": [{"from": "human", "value": "<image>\nWhat is this?"}, {"from": "gpt", "value": "A scene."}]},
 {"id": "b", "image": "none.png", "question": "What is this?"},
 {"id": "c", "images": ["tall.jpg", "scene.png"], "question": "Compare."},
 {"id": "a", "question": "No picture."},
 {"question": 5},
 {"id": 7, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]}]
J
results() { jq -c "$1" "$work/out.jsonl" | tr '\n' ' '; }

lines "${setup[@]}" 'First words.' "/image $scene" "/ask --data $work/data.json --out $work/out.jsonl" '/images' 'Second words.' '/session list'
check "no error" 'select(.event == "error").message' ""
same "ids" "$(results .id)" '"a" "b" "c" "a" 4 7 '
same "answers and errors" "$(results 'has("answer") != has("error")')" 'true true true true true true '
same "which fail" "$(results 'has("error")')" 'false true false false true false '
same "fields" "$(jq -c 'select(.id == "c") | [.question, (.ids | length), .visual_tokens, (.prefill_s >= 0), .stop]' "$work/out.jsonl")" \
    '["Compare.",4,50,true,"length"]'
same "reference" "$(jq -r 'select(.reference).reference' "$work/out.jsonl")" 'A scene.'
check_has "summary" 'select(.event == "notice").text' "4 answered, 2 with errors"
check_has "progress" 'select(.event == "progress" and .what == "answering") | "\(.step) of \(.steps)"' "6 of 6"
check "the answers are not shown" 'select(.event == "answer").ids | length' $'4\n4'
check "the waiting picture still waits" 'select(.name == "images").rows[0][4]' "next message"
check "the session has the person's turns only" 'select(.name == "sessions").rows[0][4]' 2
check "their second turn uses the cache" 'select(.event == "answer") | .computed_tokens < .prompt_tokens' $'false\ntrue'

# The same question typed gives the same answer.
lines "${setup[@]}" "/image $scene" 'What is this?'
same "same as typed" "$(jq -c 'select(.event == "answer").ids' "$work/events")" "$(jq -c .ids "$work/out.jsonl" | head -1)"

# Again: nothing to do. With the last lines lost and one truncated: the same file again.
stable() { jq -c 'del(.vision_s, .prefill_s, .decode_s)' "$1"; }
cp "$work/out.jsonl" "$work/whole.jsonl"
lines "${setup[@]}" "/ask --data $work/data.json --out $work/out.jsonl"
cmp "$work/out.jsonl" "$work/whole.jsonl" || fail "a finished run is left as it is"
head -3 "$work/whole.jsonl" >"$work/out.jsonl"
sed -n 4p "$work/whole.jsonl" | head -c 40 >>"$work/out.jsonl"
lines "${setup[@]}" "/ask --data $work/data.json --out $work/out.jsonl --limit 2" "/ask --data $work/data.json --out $work/out.jsonl"
same "resumed" "$(stable "$work/out.jsonl")" "$(stable "$work/whole.jsonl")"
check_has "limit" 'select(.event == "notice").text' "1 answered, 1 with errors, 3 already there"

# Each line names its model state; answers of another state are not continued.
lora=$llava/adapters/lora
same "provenance" "$(jq -c '.provenance | [(.model | length), .adapter, .["sample.max_tokens"], .["prune.keep"]]' "$work/out.jsonl" | sort -u)" '[64,null,"4",null]'
cp "$work/out.jsonl" "$work/mine.jsonl"
again=("/ask --data $work/data.json --out $work/mine.jsonl")
lines "${setup[@]}" "/set prune.keep 0.5" '/set screen.live off' '/set train.lr 0.1' '/set job.nice 3' "${again[@]}"
check_has "what changes no answer" 'select(.event == "notice").text' "0 answered, 0 with errors, 6 already there"
lines "${setup[@]}" "/set adapter $lora" "${again[@]}" '/set adapter none' "/set prune.score uniform" "${again[@]}" \
    '/reset prune.score' '/set sample.temperature 0.5' "${again[@]}" '/reset sample.temperature' '/system Be kind.' "${again[@]}" \
    "/load $llama" "${again[@]}"
check "refused" 'select(.event == "done").ok | tostring' "$(printf '%s\n' true true true true false true true false true true false true true false true false)"
check_has "the adapter" 'select(.event == "error").message' "mine.jsonl' line 1 was answered with other settings: adapter was none, now lora@"
check_has "a setting" 'select(.event == "error").message' "prune.score was off, now uniform"
check_has "the sampler" 'select(.event == "error").message' "sample.temperature was 0, now 0.5"
check_has "the system message" 'select(.event == "error").message' "system message was none, now Be kind."
check_has "the model" 'select(.event == "error").message' "model differs, or its files have changed: "
cmp "$work/mine.jsonl" "$work/out.jsonl" || fail "a refused file is left as it is"
# Nor are those of the same weights with another template, preprocessor or tokenizer; the error names the file.
for file in chat_template.json processor_config.json tokenizer.json; do
    rm -rf "$work/m" && cp -r $llava "$work/m" && chmod -R u+w "$work/m" && echo >>"$work/m/$file"
    lines "/load $work/m" "${setup[@]:1}" "${again[@]}"
    check_has "$file" 'select(.event == "error").message' "its files have changed: $file; restore them"
done
# Lines without provenance, lines of other questions; --again replaces them, also in a new process.
jq -c 'del(.provenance)' "$work/out.jsonl" >"$work/old.jsonl"
jq -c 'if .id == "c" then .question = "Else?" else . end' "$work/out.jsonl" >"$work/else.jsonl"
lines "${setup[@]}" "/ask --data $work/data.json --out $work/old.jsonl" "/ask --data $work/data.json --out $work/else.jsonl" \
    "/ask --again --data $work/data.json --out $work/old.jsonl" "/set adapter $lora" "${again[0]} --again" "${again[0]}" \
    "/ask --data $work/data.json --again --out $work/data.json"
check "refused" 'select(.event == "done").ok | tostring' "$(printf '%s\n' true true true false false true true true true false)"
check_has "no provenance" 'select(.event == "error").message' "line 1 does not say which model and settings gave the answer"
check_has "another question" 'select(.event == "error").message' 'line 3 answers "Else?", but sample "c" of the data asks "Compare."'
check_has "anew" 'select(.event == "notice").text' "4 answered, 2 with errors, 0 already there"
check_has "then they are there" 'select(.event == "notice").text' "0 answered, 0 with errors, 6 already there"
same "anew" "$(stable "$work/old.jsonl")" "$(stable "$work/whole.jsonl")"
same "with the adapter" "$(jq -r .provenance.adapter "$work/mine.jsonl" | cut -c1-5 | uniq -c | awk '{print $1, $2}')" "6 lora@"
same "other answers" "$(jq -c .ids "$work/mine.jsonl" | head -1 | cmp -s - <(jq -c .ids "$work/out.jsonl" | head -1); echo $?)" 1

# A data set with answers is not accepted as output, not even with --again, and its last line is not taken for a
# truncated one.
for form in '%s\n' '%s'; do
    printf "$form" '{"id": 1, "question": "One?", "answer": "1"}' | tee "$work/kept" >"$work/trained.jsonl"
    for word in "" --again; do
        lines "${setup[@]}" "/ask --data $work/data.json --out $work/trained.jsonl $word"
        check_has "a data set" 'select(.event == "error").message' "is not an output file of /ask"
        cmp -s "$work/kept" "$work/trained.jsonl" || fail "a data set was changed: /ask $word"
    done
done

# A setting that changes during the run ends it: every line has one state, the one it names.
three=$work/three.json
printf '[{"id":1,"question":"One?"},{"id":2,"question":"Two?"},{"id":3,"question":"Three?"}]' >"$three"
lines "/load $llava" '/set sample.max_tokens 6' '/set sample.ignore_eos on' '/later 3 sample.max_tokens=4 prune.score=uniform' \
    "/ask --data $three --out $work/later.jsonl"
same "a setting changed under the run" "$(jq -s length "$work/later.jsonl") $(jq -c 'select(.event == "done").ok' "$work/events" | tail -1)" "0 false"
check_has "which" 'select(.event == "error").message' "stopped because a setting changed during the run: sample.max_tokens was 6, now 4"
check_has "reports the change" 'select(.event == "setting") | "\(.key) \(.value)"' "prune.score uniform"

# --again loses nothing: the old answers stay until all new ones exist.
lines "${setup[@]}" "/ask --data $three --out $work/three.jsonl" '/set sample.max_tokens 3' "/ask --data $three --out $work/three.jsonl --again --limit 1"
same "the old ones stay" "$(jq -c '.ids | length' "$work/three.jsonl" | tr '\n' ' ')" "4 4 4 "
check_has "names the new file" 'select(.event == "notice").text' "three.jsonl.again' holds the new answers"
lines "${setup[@]}" '/set sample.max_tokens 2' "/ask --data $three --out $work/three.jsonl --again" '/set sample.max_tokens 3' "/ask --data $three --out $work/three.jsonl --again"
check_has "begun under others" 'select(.event == "error").message' "sample.max_tokens was 3, now 2; restore them, or delete that file"
check_has "it resumed" 'select(.event == "notice").text' "2 answered, 0 with errors, 1 already there"
same "in their place" "$(jq -c '.ids | length' "$work/three.jsonl" | tr '\n' ' ')" "3 3 3 "
[ ! -e "$work/three.jsonl.again" ] || fail "a temporary file is left"

# The same questions on other pictures; existing errors; a full context; an option alone.
printf '[{"id":1,"image":"p.png","question":"What is this?"},{"id":2,"image":"q.png","question":"And this?"}]' >"$work/seen.json"
cp $scene "$work/p.png"
mkdir "$work/others"
cp tests/goldens/pictures/tall.jpg "$work/others/p.png"
lines "${setup[@]}" "/ask --data $work/seen.json --out $work/seen.jsonl" "/ask --data $work/seen.json --out $work/seen.jsonl" \
    "/ask --data $work/seen.json --out $work/seen.jsonl --images $work/others" '/ask --again' '/ask --out'
check "refused" 'select(.event == "done").ok | tostring' "$(printf '%s\n' true true true true true false false false)"
same "the pictures of an answer" "$(jq -r 'select(.answer).pictures[0]' "$work/seen.jsonl")" "$(sha256sum <$scene | cut -d' ' -f1)"
check_has "another picture" 'select(.event == "error").message' "seen.jsonl' line 1 was answered for other pictures than sample 1"
check_has "errors that are there" 'select(.event == "notice").text' "2 already there (1 with errors: delete"
lines "${setup[@]}" '/set sample.max_tokens 60' '/set ctx.max 60' "/ask --data $work/seen.json --out $work/full.jsonl"
check_has "a full context" 'select(.event == "notice").text' "; 1 hit the context limit (ctx.max)"
lines "${setup[@]}" '/set sample.max_tokens 1' "/ask --data $work/seen.json --out $work/short.jsonl"
check_has "an answer that is cut off" 'select(.event == "notice").text' "; 1 reached sample.max_tokens"

# A long question is cut between characters.
printf '[{"id":1,"question":"%s"}]' "$(printf 'a%.0s' {1..59})ää" >"$work/umlauts.json"
lines "${setup[@]}" "/ask --data $work/umlauts.json --out $work/umlauts.jsonl"
sed -i 's/"question":"a/"question":"b/' "$work/umlauts.jsonl"
lines "${setup[@]}" "/ask --data $work/umlauts.json --out $work/umlauts.jsonl"
check_has "cut" 'select(.event == "error").message' "$(printf 'a%.0s' {1..59})\": "

# JSON lines, one of them broken; pictures elsewhere.
mkdir "$work/elsewhere"
jq -c '.[]' "$work/data.json" | sed '2s/.*/{broken/' >"$work/elsewhere/data.jsonl"
lines "${setup[@]}" "/ask --data $work/elsewhere/data.jsonl --out $work/lines.jsonl --images $work"
same "JSON lines" "$(jq -c 'select(.error | not) | del(.vision_s, .prefill_s, .decode_s)' "$work/lines.jsonl")" \
    "$(stable "$work/whole.jsonl" | jq -c 'select(.error | not)')"
check_has "JSON lines: summary" 'select(.event == "notice").text' "4 answered, 2 with errors"
same "broken line" "$(jq -r 'select(.id == 1).error' "$work/lines.jsonl")" "line 2 of the data is not valid JSON"

# Files that are not answer files are not changed.
cp "$work/data.json" "$work/mine.json"
printf 'my notes' >"$work/notes"
lines "${setup[@]}" "/ask --data $work/data.json --out $work/mine.json" "/ask --data $work/data.json --out $work/notes" \
    "/ask --data $work/notes --out $work/x.jsonl" "/ask --data $work/none.json --out $work/x.jsonl" "/ask --data $work/data.json" "/ask --data $work/data.json --out $work" \
    "/ask --data $work/data.json --out $work/x.jsonl --limit 0" '/ask --nothing "x"'
check "refused" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse'
cmp "$work/mine.json" "$work/data.json" || fail "another file is changed"
same "notes" "$(cat "$work/notes")" "my notes"

# As a job: the same lines, with the shell's system message; truncated answers are computed again.
jobs=("${setup[@]}" '/set job.nice 0')
lines "${jobs[@]}" "/ask --data $work/data.json --out $work/job.jsonl --job" /wait "/ask --data $work/data.json --out $work/job.jsonl"
same "answered by a job" "$(stable "$work/job.jsonl")" "$(stable "$work/whole.jsonl")"
check_has "its outcome" 'select(.event == "notice").text' "is done: 4 answered, 2 with errors, 0 already there: '"
check_has "the shell finds them there" 'select(.event == "notice").text' "0 answered, 0 with errors, 6 already there"
sed -i '4,$d' "$work/job.jsonl"
(cd "$work" && cp data.json own.json && lines "/load $OLDPWD/$llava" '/set sample.max_tokens 4' '/set sample.ignore_eos on' '/set job.nice 0' \
    "/ask --data data.json --out job.jsonl --limit 2 --job" /wait \
    "/ask --data $work/data.json --out job.jsonl --job" /wait '/system Be kind.' '/ask --data own.json --job' /wait)
same "resumed by a job" "$(jq -c .id "$work/job.jsonl" | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')" "$(jq -c .id "$work/whole.jsonl" | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')"
same "a name of its own, and the system message" "$(jq -r '.provenance["system message"]' "$work/own.answers.jsonl" | sort -u)" "Be kind."
lines "${setup[@]}" "/ask --data $work/data.json --out $work/x.jsonl --limit 0 --job" "/ask --data $work/none.json --job" '/ask --job' \
    "/ask --data $work/data.json --out $work/x.jsonl --job" '/job 5 cancel' "/ask --data $work/data.json --out $work/notes --job" /wait
check "refused" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\nfalse\nfalse\ntrue\ntrue\ntrue\nfalse'

# Numbers that are only copied keep their text: ids beyond 15 digits, and other notations.
ids='9007199254740992 9007199254740993 1234567890123456789 8999999999999999 -8999999999999999 1.0 123456789012345678901 7'
for id in $ids; do printf '{"id": %s, "question": "q", "answer": "%s"}\n' "$id" "$id"; done >"$work/big.jsonl"
sed 's/"question": "q"/"text": "x"/; s/"id": 1.0/"id": 1/; s/"id"/"question_id"/; s/"text": "x", "answer"/"text"/' "$work/big.jsonl" |
    tac >"$work/given.jsonl"
lines "${setup[@]}" "/ask --data $work/big.jsonl --out $work/big.out" "/ask --data $work/big.jsonl --out $work/big.out" \
    "/data check $work/big.jsonl" "/data mix $work/mixed.jsonl $work/big.jsonl=1" \
    "/eval $work/big.jsonl --metric exact --answers $work/given.jsonl --here"
check "read back" 'select(.event == "notice").text | capture("0 with errors, (?<n>[0-9]) already").n' $'0\n8'
same "written" "$(grep -o '"id":[^,]*' "$work/big.out" | cut -d: -f2 | paste -sd' ')" "$ids"
same "mixed" "$(jq -r .id "$work/mixed.jsonl" | sort | paste -sd' ')" "$(printf '1/%s\n' $ids | sort | paste -sd' ')"
check "different" 'select(.name == "data problems").rows | length' ""
check "each its own answer" 'select(.name == "answers").rows | map(.[3]) | add' 8
printf '{"id":1234567890123456789,"line":"/quit"}\n' | vlmsh --json | grep -q '"request":1234567890123456789}' || fail "a request's id"

# Ids of questions and annotations in VQAv2's two files that differ by one.
mkdir "$work/vqa"
printf '{"data_subtype": "val2014", "questions": [{"question_id": 9007199254740992, "image_id": 1, "question": "a"}, {"question_id": 9007199254740993, "image_id": 1, "question": "b"}]}' >"$work/vqa/q.json"
printf '{"annotations": [{"question_id": 9007199254740993, "answer_type": "x", "answers": [{"answer": "second"}]}, {"question_id": 9007199254740992, "answer_type": "x", "answers": [{"answer": "first"}]}]}' >"$work/vqa/v2_mscoco_val2014_annotations.json"
printf '[{"question_id": 9007199254740993, "answer": "second"}, {"question_id": 9007199254740992, "answer": "first"}]' >"$work/vqa/given.json"
lines "${setup[@]}" "/eval $work/vqa/q.json --set vqav2 --answers $work/vqa/given.json --here"
check "joined" 'select(.name == "answers").rows[] | "\(.[1]) \(.[4]) \(.[5])"' \
    $'9007199254740992 first first\n9007199254740993 second second'
# A file with errors only has no answers, in the run that wrote it and later.
printf '[{"id": "a", "image": "none.png", "question": "hi"}]' >"$work/none.json"
lines "${setup[@]}" "/ask --data $work/none.json --out $work/none.jsonl" "/ask --data $work/none.json --out $work/none.jsonl"
check "nothing answered" 'select(.event == "error").message | .[:40]' "no question could be answered, 1 with er
no question is answered: all 1 lines of "
# Notices about the data cover all samples, including those answered by an earlier run.
printf '{"question": "Is it %s?", "answer": "yes", "context": "a story"}\n' red blue >"$work/odd.jsonl"
lines "/load demo/model" '/set sample.max_tokens 2' "/ask --data $work/odd.jsonl --out $work/odd.out --limit 1" \
    "/ask --data $work/odd.jsonl --out $work/odd.out"
check_has "notices of all" 'select(.event == "notice").text' 'not used: "context" (2 samples)'
finish
