# tests/commands/knockout.sh -- /knockout (core/interventions/knockout.c): output, names of positions,
# data sets, refusals.
. tests/commands/common.bash

vlmsh scenes 2 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
world=$work/world
lines '/load demo/model' '/set compute.matmul f32' "/image $world/pictures/000000.png" \
    'What is in the picture?' \
    "/knockout picture > answer --csv $work/k.csv --figure $work/k.png" \
    "/knockout object star>all --objects $world/objects.jsonl --layers 2-5 --heads" \
    '/knockout question > last --token 1 --layers 3' '/knockout sinks, 0-1 > answer' /regen \
    "/knockout picture > answer --data $world/questions.json --limit 3 --given" \
    "/knockout object star > answer --data $world/questions.json --limit 2 --objects $world/objects.jsonl"
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..11})"
same "tables of a measurement" "$(jq -r 'select(.event == "table").name' "$work/events" | sort -u | tr '\n' ' ')" \
    "knockout knockout.data knockout.samples knockout.std knockout.tokens knockout.windows knockout.windows.std "
check "a map of layers by heads" 'select(.event == "heatmap") | [.name, .rows, .cols, (.values | map(select(. != null)) | length)] | tojson' \
    '["knockout.heads",8,6,24]'
same "an answer needs its picture" "$(jq -r 'select(.event == "table" and .name == "knockout") | .rows[0][1] | tonumber' "$work/events" |
    awk 'NR == 1 { print ($1 < -10) } NR == 2 { print ($1 < -1) } NR == 5 { print ($1 < -1) }')" $'1\n1\n1'
same "the answer is the same afterwards" "$(jq -c 'select(.event == "answer").ids' "$work/events" | sort -u | wc -l)" 1
[ -s "$work/k.png" ] || fail "no figure"
same "layers in the CSV of windows" "$(cut -d, -f1 "$work/k-knockout.windows.csv" | tr '\n' ' ')" '"layer" "0" "1" "2" "3" "4" "5" "6" '

# A script of the session has other names for the pictures, and still finds their objects.
vlmsh demo/model --plain >/dev/null 2>&1 <<E
/set compute.matmul f32
/image $world/pictures/000000.png
What is in the picture?
/knockout object star > all --objects $world/objects.jsonl --window 8 --csv $work/first.csv
/save $work/s.vlmsh
/quit
E
sed -i 's|^/knockout.*|& --csv '"$work"'/again.csv|' "$work/s.vlmsh"
vlmsh -f "$work/s.vlmsh" >/dev/null || fail "the session's script fails"
cmp -s "$work/first-knockout.csv" "$work/again-knockout.csv" || fail "the session's script gives another knockout"

echo '[{"conversations": [{"from": "human", "value": "Where?"}, {"from": "gpt", "value": ""}]}]' >"$work/empty.json"
session "refusals" demo/model <<E
> /knockout question > answer --data $work/empty.json --given
error: no sample of '$work/empty.json' could be measured: no answer to measure: ask something first
> /knockout picture
error: write the positions whose attention to cut as FROM > TO: /knockout picture > answer
> /knockout picture > nowhere
error: 'nowhere' is not a position: use picture, picture:I, picture[X,Y,W,H], object NAME, system, question, last, answer, text, sinks, all, N, N-M
> /knockout picture > answer
error: the conversation is empty: ask something first
> /knockout picture > answer --limit 2
error: --images, --objects, --limit and --given need --data FILE
E
finish
