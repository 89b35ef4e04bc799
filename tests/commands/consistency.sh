# tests/commands/consistency.sh -- /consistency (core/probes/consistency.c): tables, data sets, files.
. tests/commands/common.bash

vlmsh scenes 2 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
world=$work/world
lines '/load demo/model' '/set compute.matmul f32' "/image $world/pictures/000000.png" \
    'What is in the picture?' "/consistency --samples 3 --temperature 0.5 --csv $work/c.csv" \
    "/consistency --samples 2 --data $world/questions.json --limit 3 --csv $work/d.csv" 'What is in the picture?'
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..7})"
same "tables of a measurement" "$(jq -r 'select(.event == "table").name' "$work/events" | sort -u | tr '\n' ' ')" \
    "consistency consistency.answers consistency.bounds consistency.data consistency.distinct consistency.distinct.std consistency.samples consistency.std "
same "lines of the CSV of answers" "$(tail -n +2 "$work/c-consistency.answers.csv" | wc -l)" 14
same "most changes keep the answer" "$(awk -F, '/changes/ { print ($3 > 0.7) }' "$work/c-consistency.csv")" 1
[ -s "$work/d-consistency.interval.csv" ] || fail "no intervals over the samples"
finish
