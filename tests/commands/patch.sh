# tests/commands/patch.sh -- /patch (core/interventions/patch.c): tables, maps, data sets, refusals.
. tests/commands/common.bash

vlmsh scenes 2 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
world=$work/world
lines '/load demo/model' '/set compute.matmul f32' '/image demo/pictures/scene-1.png' 'What is in the picture?' \
    "/patch demo/pictures/scene-2.png --csv $work/p.csv --figure $work/p.png" '/patch noise --at head --layers 5-7' /regen \
    "/patch mean --layers 4,7 --data $world/questions.json --limit 2 --given"
check "no error" 'select(.event == "error").message' ""
same "the answer is the same afterwards" "$(jq -c 'select(.event == "answer").ids' "$work/events" | sort -u | wc -l)" 1
same "patching the whole stream restores everything" "$(tail -n +2 "$work/p-patch.layers.csv" | cut -d, -f7 | sort -u)" 1
same "in the last layer, the answer's position has the effect" "$(awk -F, 'END { print ($2 == 0), ($5 > 0.9) }' "$work/p-patch.layers.csv")" "1 1"
check "a map of heads" 'select(.event == "heatmap") | [.name, (.values | map(select(. != null)) | length)] | tojson' '["patch.heads",18]'
[ -s "$work/p.png" ] || fail "no figure"

# Run B is the other picture's conversation with this answer (without the space that begins it), even when the
# encoder's scores prune tokens.
lines '/load demo/model' '/set compute.matmul f32' '/set prune.score cls' '/set prune.layer input' \
    '/image demo/pictures/scene-1.png' 'What is in the picture?' "/patch demo/pictures/scene-2.png --layers 0 --csv $work/b.csv"
answer=$(jq -r 'select(.event == "answer").text | ltrimstr(" ")' "$work/events")
echo '[{"image": "demo/pictures/scene-2.png", "conversations": [{"from": "human", "value": "<image>\nWhat is in the picture?"}, {"from": "gpt", "value": "'"$answer"'"}]}]' >"$work/b.json"
lines '/load demo/model' '/set compute.matmul f32' '/set prune.score cls' '/set prune.layer input' \
    "/knockout picture > answer --window 8 --data $work/b.json --images . --given --csv $work/c.csv"
same "run B as /knockout computes it" "$(awk -F, '/run B/ { printf "%.4f", $2 }' "$work/b-patch.csv")" "$(awk -F, '/"the answer"/ { printf "%.4f", $2 }' "$work/c-knockout.csv")"

# /patch question: run B is the conversation with the other question and this answer.
lines '/load demo/model' '/set compute.matmul f32' '/image demo/pictures/scene-1.png' 'What colour is the circle?' \
    "/patch question What colour is the letter? --layers 0,7 --csv $work/q.csv" \
    "/patch replace picture[0,0,50%,50%] > picture[50%,50%,50%,50%] --layers 0 --csv $work/r.csv" /regen
check "no error" 'select(.event == "error").message' ""
same "the answer is the same afterwards" "$(jq -c 'select(.event == "answer").ids' "$work/events" | sort -u | wc -l)" 1
answer=$(jq -r 'select(.event == "answer").text | ltrimstr(" ")' "$work/events" | head -1)
echo '[{"image": "demo/pictures/scene-1.png", "conversations": [{"from": "human", "value": "<image>\nWhat colour is the letter?"}, {"from": "gpt", "value": "'"$answer"'"}]}]' >"$work/d.json"
lines '/load demo/model' '/set compute.matmul f32' \
    "/knockout picture > answer --window 8 --data $work/d.json --images . --given --csv $work/e.csv"
same "run B has the other question" "$(awk -F, '/run B/ { printf "%.4f", $2 }' "$work/q-patch.csv")" "$(awk -F, '/"the answer"/ { printf "%.4f", $2 }' "$work/e-knockout.csv")"
same "the question has the difference first, the last position last" "$(tail -n +2 "$work/q-patch.layers.csv" | awk -F, '{ print ($3 > 0.9), ($4 > 0.9), ($7 > 0.999 && $7 < 1.001) }' | paste -sd ' ')" "1 0 1 0 1 1"
same "other tokens of the picture" "$(tail -n +2 "$work/r-patch.layers.csv" | cut -d, -f7)" 1

session "refusals" demo/model <<E
> /patch
error: /patch takes noise, mean or replace, then names of positions, or question TEXT, or the FILE of another picture
> /patch object star
error: write noise or mean before the positions to corrupt: /patch mean object star (no picture has this name)
> /patch noise nowhere
error: 'nowhere' is not a position: use picture, picture:I, picture[X,Y,W,H], object NAME, system, question, last, answer, text, sinks, all, N, N-M
> /patch question
error: /patch question takes the text of another question
> /patch replace picture
error: write the tokens to replace and those that take their place as POSITIONS > POSITIONS: /patch replace object star > object circle
> What colour is it?
...
> /patch noise
error: the prompt has no picture: /image FILE, then ask
> /clear
...
> /image demo/pictures/scene-1.png
...
> Where is the red circle?
...
> /patch question Where?
error: the prompt has 156 tokens with this question, 160 with the conversation's: positions would differ (/tokenize TEXT counts tokens)
> /patch replace picture > question
error: 'question' names text: only visual tokens can replace others
> /patch replace picture[0,0,50%,50%] > picture[0,0,50%,50%]
error: run B changes the answer's log-probability by only 0: there is nothing to restore
> /patch demo/pictures/scene-1.png
error: run B changes the answer's log-probability by only 0: there is nothing to restore
> /patch noise --token 3
error: --token 3: the answer has tokens 0 to 0
E
finish
