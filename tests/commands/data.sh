# tests/commands/data.sh -- /data: counts, token lengths, names of faulty samples; mixed sets.
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

# The counts are the tokens of a conversation.
cat >"$work/one.jsonl" <<'J'
{"id": "x", "image": "scene.png", "question": "What is in the picture?", "answer": "It shows a red circle above a blue rectangle."}
J
lines "/load $llava" "/data check $work/one.jsonl --images $pictures"
same "golden's tokens" "$(jq -r 'select(.name == "data tokens").rows[] | "\(.[1]) \(.[2])"' "$work/events" | tr '\n' ' ')" \
    "all 49 text 24 visual 25 trained 12 "

# A sample that would be truncated inside its picture; a model without vision.
lines "/load $llava" '/set ctx.max 20' "/data check $work/one.jsonl --images $pictures" "/load $llama" "/data check $work/one.jsonl --images $pictures"
check_has "inside a picture" 'select(.name == "data problems").rows[0][3]' "49 tokens, but the context holds 20 and would end inside a picture"
check_has "text only" 'select(.name == "data problems").rows[0] | "\(.[0]): \(.[3])"' "not readable: it has a picture, but the model"

# Nothing to train on: no text, or an empty one.
cat >"$work/answers.jsonl" <<'J'
{"id": "number", "question": "q", "answer": 7}
{"id": "true", "question": "q", "answer": true}
{"id": "list", "question": "q", "answers": ["a", "b"]}
{"id": "blank", "question": "q", "answer": " "}
J
lines "/load $llava" "/data check $work/answers.jsonl" '/set job.nice 0' "/eval $work/answers.jsonl --metric loss" /wait
check "no text" 'select(.name == "data problems").rows[] | "\(.[1]): \(.[3])"' "number: no answer is text
true: no answer is text
list: no answer is text
blank: every answer is empty"
check_has "nor a loss" '.. | strings' "sample number: no answer is text"

# /data check and training report turns marked as context and keys that nothing reads.
cat >"$work/marked.jsonl" <<'J'
{"messages": [{"role": "user", "content": "Sky?"}, {"role": "assistant", "content": "a green diamond", "weight": 0}, {"role": "user", "content": "No."}, {"role": "assistant", "content": "grey", "weight": 1}]}
{"messages": [{"role": "user", "content": "Sky?"}, {"role": "assistant", "content": "grey", "thinking": "It is cloudy."}], "tools": [{"type": "function"}], "source": "web"}
{"question": "Sky?", "answer": "grey", "history": [["Day?", "yes"]]}
{"question": "Sky?", "answer": "grey", "train": false}
J
lines "/load $llava" "/data check $work/marked.jsonl" '/set train.method norms' '/set train.steps 1' '/set train.validation none' '/set job.nice 0' "/train $work/marked.jsonl $work/marked" /wait \
    "/eval $work/marked.jsonl --metric exact --here" "/ask --data $work/marked.jsonl --out $work/marked.answers"
check_has "not used" 'select(.event == "notice").text' 'not used: "tools" (1 sample), "thinking" (1 sample), "history" (1 sample)'
check_has "context" 'select(.event == "notice").text' "2 answers are excluded from training: context only"
check_has "nothing left" 'select(.name == "data problems").rows[] | "\(.[0]): \(.[3])"' "no answer: every answer is empty or excluded from training"
check_has "so does an evaluation" 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "data")[1]' 'not used: "tools" (1 sample), "thinking" (1 sample), "history" (1 sample)'
check_has "and answering" 'select(.event == "notice").text' "4 answered, 0 with errors, 0 already there: '$work/marked.answers'; not used: "
check_has "training says it" 'select(.event == "notice").text' '; not used: "tools" (1 sample)'

# A question's choices are not trained on.
echo '{"question": "Sky?", "answer": "grey", "choices": ["grey", "blue"]}' >"$work/choices.jsonl"
lines "/load $llava" "/data check $work/choices.jsonl"
check_has "choices" 'select(.event == "notice").text' "not used: the choices, which only evaluations read (1 sample)"

# Special tokens in data are tokens in training and in evaluation, unless a setting says otherwise.
cat >"$work/boxes.jsonl" <<'J'
{"id": "box", "question": "Where is <|object_ref_start|>a dog<|object_ref_end|>?", "answer": "<|object_ref_start|>a dog<|object_ref_end|><|box_start|>(12,34),(56,78)<|box_end|>"}
J
lines "/load tests/goldens/qwen2.5-vl" "/data check $work/boxes.jsonl" "/eval $work/boxes.jsonl --metric loss --here" '/set data.special_tokens text' "/data check $work/boxes.jsonl" "/eval $work/boxes.jsonl --metric loss --here"
same "trained" "$(jq -r 'select(.name == "data tokens").rows[] | select(.[1] == "trained")[2]' "$work/events" | tr '\n' ' ')" "24 70 "
check_has "tokens" 'select(.event == "notice").text' "6 special tokens in the texts of 1 sample are read as tokens, as transformers does"
check_has "text" 'select(.event == "notice").text' "6 special tokens in the texts of 1 sample stay text (data.special_tokens)"
same "another loss" "$(jq -r 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "score")[1]' "$work/events" | sort -u | grep -c .)" 2

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
yes '{"question": "What is there to be seen?", "answer": "Nothing at all."}' | head -1000000 >"$work/long.jsonl" # words: ok
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

# --- /data mix: shares, repeats, kinds, paths, refusals -----------------------------------------------------------
mkdir -p "$work/lists/pictures"
cp $scene "$work/lists/pictures/a.png"
for i in $(seq 10); do echo "{\"id\": \"l$i\", \"kind\": \"list\", \"image\": \"pictures/a.png\", \"question\": \"<image>What?\", \"answer\": \"A scene.\"}"; done >"$work/lists/lists.jsonl"
echo '[{"id": 7, "kind": "talk", "question": "Who?", "answer": "I."}, {"kind": "talk", "question": "You?", "answer": "You."},
 {"question_id": "q", "kind": "odd", "messages": [{"role": "user", "content": [{"type": "image", "path": "lists/pictures/a.png"}, {"type": "text", "text": "What?"}]}, {"role": "assistant", "content": "A scene."}]}]' >"$work/a=b.json"
mix() { lines "/data mix $*"; }
ids() { jq -r .id "$1" | sort | paste -sd' '; }
whole=$(realpath "$work")
mix "$work/m.jsonl" "$work/lists/lists.jsonl=3" "$work/a=b.json=1"
check "table" 'select(.name == "data mix").rows[] | "\(.[1]) \(.[2])"' $'0.75 9\n0.25 3'
same "no sample twice" "$(ids "$work/m.jsonl" | tr ' ' '\n' | sort -u | wc -l)" 12
same "ids of all kinds" "$(ids "$work/m.jsonl" | grep -o '2/.*')" "2/#1 2/7 2/q"
same "paths" "$(jq -r '.image // (.messages // [])[0].content[0].path // "none"' "$work/m.jsonl" | sort | uniq -c | awk '{print $1, $2}' | paste -sd' ')" \
    "10 $whole/lists/pictures/a.png 2 none"
lines "/load $llava" "/data check $work/m.jsonl"
check_has "usable" 'select(.event == "notice").text' "12 of 12 samples are usable for training"
mix "$work/repeated.jsonl" "$work/lists/lists.jsonl=1" "$work/a=b.json=1" --count 15 --kind list,talk
same "repeats" "$(jq -r .id "$work/repeated.jsonl" | grep -c ^1) $(ids "$work/repeated.jsonl" | grep -o '2/.*')" \
    "8 2/#1 2/#1/2 2/#1/3 2/7 2/7/2 2/7/3 2/7/4"
mix "$work/tenths.jsonl" "$work/lists/lists.jsonl=0.7" "$work/a=b.json=0.2" "$work/one.jsonl=0.1"
check "all of the smallest file" 'select(.name == "data mix").rows[] | .[2]' $'7\n2\n1'
mix "$work/again.jsonl" "$work/lists/lists.jsonl=3" "$work/a=b.json=1"
mix "$work/other.jsonl" "$work/lists/lists.jsonl=3" "$work/a=b.json=1" --seed 7
cmp "$work/m.jsonl" "$work/again.jsonl" || fail "the same seed gives another mix"
! cmp -s "$work/m.jsonl" "$work/other.jsonl" || fail "another seed gives the same mix"
mix "$work/m.jsonl" "$work/lists/lists.jsonl=1"
check_has "exists" 'select(.event == "error").message' "already exists"
mix "$work/m.jsonl" "$work/lists/lists.jsonl=1" --once
check_has "once" 'select(.event == "notice").text' "nothing to do"
mix "$work/n.jsonl" "$work/lists/lists.jsonl=0"
check_has "no share" 'select(.event == "error").message' "the share must be a number"
mix "$work/n.jsonl" "$work/lists/lists.jsonl=1" --kind none
check_has "no such kind" 'select(.event == "error").message' "has no sample of these kinds"
mix "$work/n.jsonl" "$work/data.json"
check_has "no file with a share" 'select(.event == "error").message' "is not FILE=SHARE"
mix "$work/n.jsonl" "$work/data.json=1"
check_has "broken" 'select(.event == "error").message' "is not valid JSON"
[ ! -e "$work/n.jsonl" ] || fail "a refused mix leaves a file"


# --- text that is not UTF-8 ------------------------------------------------------------------------------------

# Refused in every text input, with position and byte; written files are valid UTF-8.
printf '[{"id": "good", "question": "q", "answer": "a"},\n {"id": "caf\351", "question": "q", "answer": "a"}]' >"$work/latin.json"
printf '{"id": "first", "question": "caf\351"}\n' >"$work/latin.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-16 >"$work/wide.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-16LE >"$work/wide2.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-32 >"$work/wide4.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-32BE >"$work/wide5.jsonl"
printf 'index\tquestion\tanswer\timage\n1\tcaf\351\ta\t\n' >"$work/table.tsv"
printf 'step,loss\n1,2\n2,\3773\n' >"$work/run.csv"
printf 'question,A,B,C,D,answer\nq,a,b,c,\351,A\n' >"$work/mmlu_test.csv"
printf '{{ "a\n  \351" }}' >"$work/latin.jinja"
printf 'x' >"$work/plain.jinja"
printf '[{"role": "user", "content": "\351"}]' >"$work/messages.json"
printf '# caf\351\n/version\n/system caf\351\n' >"$work/latin.vlmsh"
printf 'x \351' >"$work/text.md"
cp $scene "$work/$(printf 'caf\351').png"
lines "/load $llava" "/data check $work/latin.json" "/data check $work/latin.jsonl" "/data check $work/wide.jsonl" \
    "/data check $work/wide2.jsonl" "/data check $work/wide4.jsonl" "/data check $work/wide5.jsonl" "/eval $work/table.tsv --set mme --here" "/plot $work/run.csv step loss" \
    "/eval $work/mmlu_test.csv --set mmlu --here" "/render $work/latin.jinja $work/messages.json" \
    "/render $work/plain.jinja $work/messages.json" "/messages $work/messages.json" "/run $work/latin.vlmsh" \
    "/report $work/text.md" "/quantize $work/q.gguf --type f16 --text $work/text.md"
check "places" 'select(.event == "error").message | sub(".*/"; "") | sub(", which.*"; "") | sub(": convert.*"; "")' \
    "latin.jsonl': line 1, byte 33 is 0xE9
wide.jsonl' is UTF-16
wide2.jsonl' is UTF-16
wide4.jsonl' is UTF-32
wide5.jsonl' is UTF-32
no sample could be scored: sample 1: \"question\": byte 4 is 0xE9
run.csv': line 3, byte 3 is 0xFF
mmlu_test.csv': line 2, byte 9 is 0xE9
latin.jinja: line 2, byte 3 is 0xE9
messages.json': line 1, byte 31 is 0xE9
messages.json': line 1, byte 31 is 0xE9
latin.vlmsh:3: byte 12 is 0xE9
text.md': line 1, byte 3 is 0xE9
text.md': line 1, byte 3 is 0xE9"
check_has "of a sample" 'select(.name == "data problems").rows[0][3]' 'line 2, byte 12 is 0xE9'
printf '{"id": "\351", "line": "/version"}\ncaf\351?\n/image %s/caf\351.png\n/set sample.max_tokens 1\nHello\n/save %s/u.md\n/save %s/u.vlmsh\n' "$work" "$work" "$work" |
    vlmsh $llava --json >"$work/events"
check "of standard input" 'select(.event == "error").message | sub(", which.*"; "")' $'byte 9 is 0xE9\nbyte 4 is 0xE9'
for file in events u.md u.vlmsh; do iconv -f UTF-8 -t UTF-8 "$work/$file" >/dev/null || fail "$file is not UTF-8"; done

# --- pictures inside data sets, and data: URIs -------------------------------------------------------------------

python3 - "$work" "$scene" <<'P'
import base64, json, sys
work, scene = sys.argv[1:]
text = base64.b64encode(open(scene, "rb").read()).decode()
uri, path = "data:image/png;base64," + text, "file://" + work + "/pic%20ture.png"
samples = [{"id": "uri", "image": uri}, {"id": "file", "image": path}, {"id": "bytes", "image": {"path": "none.png", "bytes": text}},
           {"id": "plain", "images": ["pic ture.png"]}, {"id": "url", "images": [{"url": "pic ture.png"}]},
           {"id": "item", "messages": [{"role": "user", "content": [{"type": "image", "url": "pic ture.png"},
            {"type": "text", "text": "What is it?"}]}, {"role": "assistant", "content": "a scene"}]}, {"id": "bad", "image": uri[:-3] + "!!!"}, {"id": "bare", "image": text}, {"id": "lines", "images": [base64.encodebytes(open(scene, "rb").read()).decode()]},
           {"id": "noise", "image": "A" * 5000},
           {"id": "web", "image": "https://example.com/a.png"}, {"id": "xml", "image": "data:image/svg+xml,<svg/>"},
           {"id": "cut", "image": uri[:60]}, {"id": "part", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": uri}},
            {"type": "text", "text": "What is it?"}]}, {"role": "assistant", "content": "a scene"}]}]
for s in samples:
    if "messages" not in s: s.update(question="What is it?", answer="a scene")
json.dump(samples, open(work + "/uris.json", "w"))
json.dump([s for s in samples if s["id"] in ("uri", "file", "bytes", "plain", "url", "item", "part", "bare", "lines")], open(work + "/good.json", "w"))
open(work + "/nan.jsonl", "w").write('{"question": "q", "answer": "a"}\n{"question": "q", "answer": NaN}\n')
P
cp "$scene" "$work/pic ture.png" && mkdir "$work/elsewhere"
lines "/load $llava" '/set sample.max_tokens 1' "/data check $work/uris.json" "/ask --data $work/uris.json --out $work/uris.out" \
    "/eval $work/uris.json --metric loss --here" "/data mix $work/elsewhere/mixed.jsonl $work/good.json=1" "/data check $work/elsewhere/mixed.jsonl" \
    "/data check $work/nan.jsonl" "/image file://$work/pic%20ture.png" "$(jq -r '"/image " + .[0].image' "$work/uris.json")" 'Hi' \
    "/save $work/uris.md"
check "usable" 'select(.name == "data").rows | map(select(.[0] == "all")[2])[]' $'9\n9\n1'
check "refused" 'select(.name == "data problems").rows[] | .[0] + " " + .[1]' \
    $'picture missing web\npicture broken bad\npicture broken noise\npicture broken xml\npicture broken cut\nnot readable #1'
check_has "a URL" 'select(.name == "data problems").rows[] | .[3]' "'https://example.com/a.png' is a URL: vlmsh downloads nothing"
check_has "no base64" 'select(.name == "data problems").rows[] | .[3]' "it is not base64"
check_has "without its head" 'select(.name == "data problems").rows[] | .[3]' "is not a path: a picture in base64 needs"
check_has "NaN" 'select(.name == "data problems").rows[] | .[3]' "it has NaN, which Python writes"
check "no line holds a picture" 'select(tostring | length > 4000).event' ""
same "answers" "$(jq -c 'select(.error == null).pictures | length' "$work/uris.out" | sort | uniq -c | awk '{ print $1, $2 }')" "9 1"
same "the same picture" "$(jq -c 'select(.error == null).pictures[0]' "$work/uris.out" | sort -u | wc -l)" 1
same "errors are short" "$(jq -c 'select(.error).error | length < 300' "$work/uris.out" | sort -u)" true
[ "$(wc -c <"$work/uris.md")" -lt 4000 ] || fail "a transcript holds a whole data: URI"

# Only the first frame of an animation is read.
echo "[{\"image\": \"$PWD/tests/core/picture/pictures/animated.webp\", \"question\": \"What?\", \"answer\": \"A scene.\"}]" >"$work/moving.json"
lines "/load $llava" "/data check $work/moving.json"
check_has "an animation" 'select(.event == "notice").text' "1 picture file is animated: only the first frame is read"

# All other commands that read data give the same notice, once.
for name in one two; do cp tests/core/picture/pictures/animated.webp "$work/$name.webp"; done
cat >"$work/odd.jsonl" <<'J'
{"id": "a", "image": "one.webp", "question": "Where is <|object_ref_start|>a dog<|object_ref_end|>?", "answer": "<|box_start|>(1,2)<|box_end|>", "tools": [{}]}
{"id": "b", "image": "two.webp", "question": "And the cat?", "answer": "There.", "choices": ["Here.", "There."]}
{"id": "c", "question": "And the bird?", "answer": "There.", "weight": 0.5}
J
keys='not used: "tools" (1 sample), "weight" other than 0 and 1 (1 sample)'
choices='not used: "tools" (1 sample), the choices, which only evaluations read (1 sample), "weight" other than 0 and 1 (1 sample)'
rest='special tokens in the texts of 1 sample are read as tokens, as transformers does; /set data.special_tokens text keeps them text; 2 picture files are animated: only the first frame is read'
lines "/load tests/goldens/qwen2.5-vl" '/set sample.max_tokens 2' '/set job.nice 0' "/eval $work/odd.jsonl --metric exact --here" "/eval $work/odd.jsonl --metric loss" /wait \
    "/ask --data $work/odd.jsonl --out $work/odd.answers" "/compare off | off --data $work/odd.jsonl" "/compare data.special_tokens=text | now --data $work/odd.jsonl --limit 1" \
    "/compare off | off --data $work/odd.jsonl --job" /wait "/sinks --data $work/odd.jsonl" "/calibrate ffn $work/odd.jsonl $work/odd.safetensors" /wait "/eval $work/odd.jsonl --limit 1 --metric exact --here" "/eval $work/odd.jsonl --metric exact --answers $work/odd.answers --here"
check_has "by an evaluation" 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "data")[1]' "$keys; 2 $rest"
check_has "by a job" 'select(.event == "notice").text' "; $keys; 4 $rest"
check_has "by /ask" 'select(.event == "notice").text' "3 answered, 0 with errors, 0 already there: '$work/odd.answers'; $choices; 2 $rest"
check_has "by a comparison" 'select(.event == "notice").text' "data: $keys; 4 $rest"
check_has "by its job" 'select(.event == "notice").text' "(/results compare); $keys; 4 $rest"
check_has "by its first side" 'select(.event == "notice").text' 'data: A: not used: "tools" (1 sample); 4 special tokens in the texts of 1 sample stay text (data.special_tokens); 1 picture file is animated'
check_has "by its second side" 'select(.event == "notice").text' '; B: not used: "tools" (1 sample); 4 special tokens in the texts of 1 sample are read as tokens'
check_has "by a probe" 'select(.event == "notice").text' "data: $choices; 2 $rest"
check_has "by a calibration" 'select(.event == "notice").text' "over 3 samples; $choices; 2 $rest"
check_has "each once" '[inputs | select(.event == "notice").text | select(contains("animated"))] | length' 7
check "of the samples read" 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "data")[1] | contains("1 picture file is")' $'false\ntrue\nfalse'
finish
