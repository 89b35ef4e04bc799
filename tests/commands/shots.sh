# tests/commands/shots.sh -- /eval --shots: the answers are those after the same turns in the data; examples with and
# without pictures, a file without answers, and the report.
. tests/commands/common.bash

python3 - "$root/demo/pictures" "$work" <<'P'
import json, sys
pictures, work = sys.argv[1:]
shots = [{"question": "What is the opposite of left?", "answer": "right"},
         {"image": f"{pictures}/scene-0.png", "conversations": [{"from": "human", "value": "<image>\nHow many circles are there?"},
                                                               {"from": "gpt", "value": "2"}]}]
asked = [("scene-1.png", "Where is the red circle?", "middle"), ("scene-2.png", "What is in the picture?", "nothing")]
turns = lambda q, a: [{"from": "human", "value": q}, {"from": "gpt", "value": a}]
data = [{"image": f"{pictures}/{f}", "metric": "exact", "conversations": turns("<image>\n" + q, a)} for f, q, a in asked]
for count in 1, 2:
    front = turns(shots[0]["question"], "right") + (shots[1]["conversations"] if count == 2 else [])
    whole = [{"images": [f"{pictures}/scene-0.png"] * (count - 1) + [d["image"]], "metric": "exact", "conversations": front + d["conversations"]}
             for d in data]
    json.dump(whole, open(f"{work}/whole-{count}.json", "w"))
    with open(f"{work}/shots-{count}.jsonl", "w") as f:
        f.writelines(json.dumps(s) + "\n" for s in shots[:count])
json.dump(data, open(f"{work}/data.json", "w"))
P
answers() { # LINE: the answers to the questions of the data
    lines "/load demo/model" "$1 --here" "/eval show --csv $work/answers.csv --force"
    python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1])):
    if "red circle?" in r["question"] or "in the picture" in r["question"]: print(r["answer"], r["score"])' "$work/answers.csv"
}
for count in 1 2; do
    same "$count examples" "$(answers "/eval $work/data.json --shots $work/shots-$count.jsonl")" "$(answers "/eval $work/whole-$count.json")"
done
lines "/load demo/model" "/eval $work/data.json --shots $work/shots-2.jsonl --here" "/eval $work/data.json --shots $work/shots-2.jsonl" "/wait" \
    "/eval show" "/eval $work/data.json --shots $work/data.json --metric loss --here" "/eval $work/data.json --metric loss --here"
check "all lines succeed" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue'
check "examples are not scored" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="n")[1]' $'2\n2\n2\n2'
check "examples are not excluded answers" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="data")[1]' ""
same "examples change the loss" "$(jq -r 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="score")[1]' "$work/events" | tail -2 | uniq | wc -l)" 2
jq -c '. + {tools: [1]}' "$work/shots-1.jsonl" >"$work/tools.jsonl"
lines "/load demo/model" "/eval $work/data.json --shots $work/tools.jsonl --metric loss --here"
check "a key that nothing reads" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="data")[1]' \
    'not used: "tools" of --shots (2 samples)'
# /compare uses the examples as well.
lines "/load demo/model" "/compare off | off --data $work/data.json --shots $work/shots-1.jsonl --csv $work/compared.csv" \
    "/compare off | off --data $work/data.json --shots $work/shots-1.jsonl --metric loss --job" "/wait" "/compare off | off --shots $work/shots-1.jsonl Why?"
check "which comparisons succeed" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue\nfalse'
check_has "error without --data" 'select(.event=="error").message' "--shots and --job need --data FILE"
same "compared answers" "$(python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1])): print(r["answer_a"], r["score_a"])' "$work/compared.csv")" "$(answers "/eval $work/whole-1.json")"
echo '{"question": "Why?"}' >"$work/open.jsonl"
lines "/load demo/model" "/eval $work/data.json --shots $work/open.jsonl --here"
check_has "error of an example without an answer" 'select(.event=="error").message' "open.jsonl', line 1: it has no answer"
finish
