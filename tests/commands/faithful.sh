# tests/commands/faithful.sh -- /faithful (core/interventions/faithful.c): scores, controls, curves, data sets.
. tests/commands/common.bash

vlmsh scenes 2 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
world=$work/world
lines '/load demo/model' '/set compute.matmul f32' "/image $world/pictures/000000.png" 'What is in the picture?' \
    "/faithful --by gradient --box 0,0,48,48 --csv $work/f.csv" /regen \
    "/faithful --by attention --others $world/pictures --data $world/questions.json --objects $world/objects.jsonl --limit 2 --given --csv $work/g.csv"
check "no error" 'select(.event == "error").message' ""
same "the answer is the same afterwards" "$(jq -c 'select(.event == "answer").ids' "$work/events" | sort -u | wc -l)" 1
check "the scoreboard has controls" 'select(.event == "table" and .name == "faithful") | [.rows[] | .[0]] | join("; ")' \
    "gradient; a random map; the object itself
attention; corrected attention; a random map; the object itself"
check "regions are exchanged" 'select(.event == "table" and .name == "faithful.causes") | [.rows[] | .[0]] | contains(["the whole picture", "the rest"])' true
same "the object finds itself" "$(awk -F, '/the object itself/ { print $2, $3, $4 }' "$work/f-faithful.csv")" "1 1 1"
same "without and with all tokens" "$(awk -F, 'NR == 2 { a = $2 } END { print (a != $2), ($2 == $3) }' "$work/f-faithful.deletion.csv")" "1 1"
[ -s "$work/g-faithful.interval.csv" ] || fail "no intervals"

# If a sample has two pictures, --picture names the one to which the objects belong.
jq -c '[.[0] | .images = ["pictures/000001.png", "pictures/000000.png"] | del(.image) |
    .conversations[0].value = "<image>\n<image>\nWhere is the yellow circle?"]' "$world/questions.json" >"$world/two.json"
head -1 "$world/objects.jsonl" >"$work/first.jsonl"
lines '/load demo/model' "/faithful --by attention --picture 1 --data $world/two.json --objects $work/first.jsonl --given --csv $work/t.csv"
check "the second picture's objects" 'select(.event == "error").message' ""
check_has "objects of the second picture are exchanged" 'select(.event == "table" and .name == "faithful.causes") | [.rows[] | .[0]] | join(";")' "red star"

# If a folder has more files than are tried, a notice says so.
mkdir "$work/crowd" "$work/crowd/pictures" && cp "$world/pictures/000000.png" "$work/crowd/pictures"
for i in {1..69}; do echo x >"$work/crowd/pictures/$i.txt"; done
jq -c '[.[0]]' "$world/questions.json" >"$work/crowd/questions.json"
lines '/load demo/model' "/faithful --by attention --data $work/crowd/questions.json --objects $work/first.jsonl --given"
check_has "a large folder" '.text? // empty' "only 64 of the 70 files in '$work/crowd/pictures/' were tried: "
check_has "the path of a file" '.text? // empty' ": '$work/crowd/pictures/66.txt' is a text file"

session "a text-only model" tests/goldens/qwen2 <<E
> Hello
...
> /faithful --box 0,0,9,9
error: the model 'tests/goldens/qwen2' is text-only: /faithful needs a picture
> /knockout picture > answer
error: the model 'tests/goldens/qwen2' is text-only: its prompts have no picture
E

session "refusals" demo/model <<E
> /image demo/pictures/scene-1.png
...
> Where is the red circle?
...
> /faithful --layer all --box 0,0,9,9
error: /faithful measures a single layer: --layer K, not all
> /faithful
error: /faithful needs the location of the object that the question asks about: --box LEFT,TOP,WIDTH,HEIGHT, --mask FILE, or, with --data, --objects FILE
> /faithful --by saliency --box 0,0,9,9
error: --by takes gradient, integrated, gradcam, occlusion, attention, contribution, rollout, direct, or all, not 'saliency'
E
finish
