# tests/commands/data.sh -- /data check: counts, token lengths, and the names of what is wrong.
. tests/commands/common.bash
pictures=$PWD/tests/goldens/pictures
cp $scene tests/goldens/pictures/tall.jpg "$work"
printf 'no picture' >"$work/broken.png"
head -c 700 $scene >"$work/cut.png"
mkfifo "$work/pipe.png"
long=$(printf 'word %.0s' {1..40})
cat >"$work/data.json" <<J
[{"id": "a", "kind": "conversation", "image": "scene.png", "conversations": [{"from": "human", "value": "<image>\nOne?"}, {"from": "gpt", "value": "Yes."}, {"from": "human", "value": "Two?"}, {"from": "gpt", "value": "No."}]},
 {"id": "b", "kind": "detail", "image": "tall.jpg", "question": "What?", "answer": "A scene."},
 {"id": "c", "kind": "detail", "image": "none.png", "question": "What?", "answer": "A scene."},
 {"id": "d", "image": "broken.png", "question": "What?", "answer": "A scene."},
 {"id": "e", "image": "cut.png", "question": "What?", "answer": "A scene."},
 {"id": "f", "image": "pipe.png", "question": "What?", "answer": "A scene."},
 {"id": "g", "images": ["scene.png", "tall.jpg"], "question": "<image>What?", "answer": "A scene."},
 {"id": "h", "question": "<image>What?", "answer": "A scene."},
 {"id": "i", "question": "What?"},
 {"id": "j", "question": "What?", "answer": " "},
 {"id": "k", "question": "$long", "answer": "A scene."},
 {"id": "b", "question": "What?", "answer": "A scene."},
 {"question": 5},
 {broken}]
J
# Columns of the one row of a table.
row() { echo "select(.name == \"$1\").rows[] | select(.[0] == \"$2\") | @csv"; }

lines "/load $llava" '/set ctx.max 60' "/data check $work/data.json" "/data check $work/data.json --kind conversation,detail --no-decode"
check "no error" 'select(.event == "error").message' ""
named='select(.name == "data problems").rows | map("\(.[0]): \(.[1]) \(.[2])") | join("; ")'
same "names" "$(jq -r "$named" "$work/events" | head -1)" \
    "not readable: #12 13; not readable: #13 14; marks differ: g 7; marks differ: h 8; picture missing: c 3; picture broken: d 4; picture broken: e 5; picture broken: f 6; too long: k 11; no answer: i 9; no answer: j 10; same id: b 12"
same "names of two kinds" "$(jq -r "$named" "$work/events" | tail -1)" \
    "not readable: #13 14; picture missing: c 3"
same "counts" "$(jq -r "$(row data all)" "$work/events" | head -1 | tr -d '"' | cut -d, -f2-5)" "14,3,11,8"
same "one kind" "$(jq -r "$(row data conversation)" "$work/events" | head -1 | tr -d '"' | cut -d, -f2-5)" "1,1,2,1"
same "visual tokens" "$(jq -r 'select(.name == "data tokens").rows[] | select(.[0] == "conversation" and .[1] == "visual") | .[2:] | map(. + 0) | join(" ")' "$work/events" | head -1)" "25 25 25 25 25"
check_has "summary" 'select(.event == "notice").text' "3 of 14 samples are usable for training; 6 picture files"
check_has "summary of kinds" 'select(.event == "notice").text' "2 of 4 samples are usable for training (the rest are of other kinds); 3 picture files, headers only"

# What is counted is what a conversation costs.
cat >"$work/one.jsonl" <<'J'
{"id": "x", "image": "scene.png", "question": "What is in the picture?", "answer": "It shows a red circle above a blue rectangle."}
J
lines "/load $llava" "/data check $work/one.jsonl --images $pictures"
same "golden's tokens" "$(jq -r 'select(.name == "data tokens").rows[] | "\(.[1]) \(.[2])"' "$work/events" | tr '\n' ' ')" \
    "all 49 text 24 visual 25 trained 12 "

# A sample that would be cut inside its picture; the model that does not see.
lines "/load $llava" '/set ctx.max 20' "/data check $work/one.jsonl --images $pictures" "/load $llama" "/data check $work/one.jsonl --images $pictures"
check_has "inside a picture" 'select(.name == "data problems").rows[0][3]' "49 tokens, but the context holds 20 and would end inside a picture"
check_has "text only" 'select(.name == "data problems").rows[0] | "\(.[0]): \(.[3])"' "not readable: it has a picture, but the model"

# Twenty names, all of them in the file.
for i in $(seq 30); do echo "{\"id\": \"n\\\"$i,\", \"image\": \"gone$i.png\", \"question\": \"q\", \"answer\": \"r\"}"; done >"$work/many.jsonl"
lines "/load $llava" "/data check $work/many.jsonl --out $work/all.csv" "/data check $work/many.jsonl --out $work/all.csv"
check "twenty" 'select(.name == "data problems").rows | length' $'20\n20'
check_has "the rest" 'select(.event == "notice").text' "picture missing: and 10 more"
same "CSV" "$(wc -l <"$work/all.csv") $(sed -n 31p "$work/all.csv" | cut -d, -f1-5)" '31 "picture missing","n""30,",30,"'"'$work/gone30.png': No such file or directory\""
same "written again" "$(grep -c . "$work/all.csv")" 31
check "nothing usable" 'select(.event == "done").ok' $'true\nfalse\nfalse'
check_has "why" 'select(.event == "error").message' "no sample of '$work/many.jsonl' is usable for training: 30 pictures are missing; --images DIR sets"
echo '{"question": "q"}' >"$work/none.jsonl"
vlmsh $llava -c "/data check $work/none.jsonl" >"$work/out" 2>"$work/errors"
same "status" "$?, $(grep -c 'no sample of .* is usable for training$' "$work/errors")" "1, 1"

lines "/load $llava" '/data' '/data chek x' '/data check' "/data check $work/none.json" "/data check $work/broken.png" "/data check $work/one.jsonl --kind detail" \
    "/data check $work/one.jsonl --kind" "/data check $work/one.jsonl --kind ," "/data check $work/one.jsonl --what 5" "/data check a b"
check "refused" 'select(.event == "done").ok' $'true\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse'
check_has "no such kind" 'select(.event == "error").message' "has no sample of this kind"
# Ctrl-C stops it.
yes '{"question": "What is there to be seen?", "answer": "Nothing at all."}' | head -1000000 >"$work/long.jsonl"
"$VLMSH" --db "$work/vlmsh.db" $llava --json -c "/data check $work/long.jsonl" >"$work/events" 2>"$work/said" &
child=$!
for _ in $(seq 200); do
    grep -q '"checking"' "$work/events" && break
    sleep 0.1
done
kill -INT $child
wait $child
same "stopped" $? 130
check "nothing is shown then" 'select(.event == "table").name' ""

printf '%s\n' "/unload" "/data check $work/one.jsonl" | vlmsh $llava --json >"$work/events"
check_has "needs a model" 'select(.event == "error").message' "model"
finish
