# tests/commands/attribute.sh -- /attribute (core/interventions/attribute.c): tables, maps, sink correction, conditions,
# data sets, quantised weights, refusals.
. tests/commands/common.bash

vlmsh scenes 3 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
world=$work/world
lines '/load demo/model' '/set compute.matmul f32' "/image $world/pictures/000000.png" 'What is in the picture?' \
    "/attribute question,picture[0,0,20%,20%] --by all --steps 5 --zero --token 1 --csv $work/a.csv --figure $work/a.png" \
    "/attribute --by attention --others $world/pictures" \
    '/attribute --by gradient --layer 2 now | prune.score=uniform prune.layer=3' /regen \
    "/attribute --by direct --data $world/questions.json --limit 2 --given --csv $work/d.csv" \
    '/clear' '/set weights.dtype q8_0' '/load demo/model' "/image $world/pictures/000000.png" 'What is in the picture?' \
    "/attribute --by integrated --token 5 --csv $work/q.csv"
check "no error" 'select(.event == "error").message' ""
same "the answer is the same afterwards" "$(jq -c 'select(.event == "answer").ids' "$work/events" | sort -u | wc -l)" 1
same "a row for each visual token" "$(grep -c picture "$work/q-attribute.rows.csv")" 144
same "integrated gradients sum to the change in log-probability" "$(awk -F, '/integrated/ { print ($2 / $3 < 1.01 && $2 / $3 > 0.99), ($3 > 1) }' "$work/q-attribute.kinds.csv")" "1 1"
same "the parts add up to the logit" "$({ tail -n +2 "$work/a-attribute.direct.csv"; grep embedding "$work/a-attribute.logit.csv"; echo; grep answer "$work/a-attribute.logit.csv"; } |
    awk -F, '/^$/ { getline; print ($2 - sum < 1e-3 && sum - $2 < 1e-3) } { sum += $2 + $3 + $4 }')" 1
check "maps of the kinds" 'select(.event == "heatmap" and .token == 1).name' \
    "$(printf 'attribute.%s\n' gradient integrated gradcam occlusion attention contribution rollout direct)"
check "corrected maps sum to 0" 'select(.event == "heatmap" and .name == "attribute.corrected.attention") | .values | add | . < 1e-4 and . > -1e-4' true
check "a map under each condition" '[select(.event == "heatmap" and .name == "attribute.gradient" and .layer == 2).condition] | select(. != [])[]' \
    "now
prune.score=uniform prune.layer=3"
same "a mean over the data" "$(tail -n +2 "$work/d-attribute.direct.interval.csv" | wc -l)" 8
[ -s "$work/a.png" ] || fail "no figure"

mkdir "$work/own" && cp demo/pictures/scene-1.png "$work/own"
session "refusals" demo/model <<E
> /attribute --by saliency
error: the conversation is empty: ask something first
> /attribute nowhere
error: 'nowhere' is not a position: use picture, picture:I, picture[X,Y,W,H], object NAME, system, question, last, answer, text, sinks, all, N, N-M
> /image demo/pictures/scene-1.png
...
> Where is the red circle?
...
> /attribute --by saliency
error: --by takes gradient, integrated, gradcam, occlusion, attention, contribution, rollout, direct, or all, not 'saliency'
> /attribute --layer all
error: /attribute measures a single layer: --layer K, not all
> /attribute --others $work/own
error: --others: no picture in '$work/own' can replace the prompt's: the folder has only that picture
> /attribute --others demo/report
error: --others: no picture in 'demo/report' can replace the prompt's: ...
E

# Outputs are checked before the measurement: after it, a refusal would lose its results.
echo mine >"$work/x-attribute.rows.csv"
cp "$work/x-attribute.rows.csv" "$work/y-maps.csv"
lines '/load demo/model' '/image demo/pictures/scene-1.png' 'Where is the red circle?' "/attribute --csv $work/x.csv"
check_has "a table's file is kept" 'select(.event == "error").message' "x-attribute.rows.csv' already exists"
check "nothing is measured" 'select(.event == "table").name' ""
lines '/load demo/model' '/image demo/pictures/scene-1.png' 'Where is the red circle?' "/attribute --csv $work/y.csv"
check_has "the maps' file is kept" 'select(.event == "error").message' "y-maps.csv' already exists"
check "nothing is measured if the file of maps exists" 'select(.event == "table").name' ""
finish
