# tests/commands/ablate.sh -- /ablate (core/interventions/ablate.c): rankings, maps, bar charts, data sets, refusals.
. tests/commands/common.bash

vlmsh scenes 2 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
world=$work/world
lines '/load demo/model' '/set compute.matmul f32' "/image $world/pictures/000000.png" 'What is in the picture?' \
    "/ablate heads --csv $work/a.csv --layers 3-4" "/ablate tokens object star --token 5 --objects $world/objects.jsonl" \
    '/ablate layers picture --resample' /regen \
    "/ablate ffn --mean --data $world/questions.json --limit 3 --given --csv $work/d.csv"
check "no error" 'select(.event == "error").message' ""
same "the answer is the same afterwards" "$(jq -c 'select(.event == "answer").ids' "$work/events" | sort -u | wc -l)" 1
tail -n +2 "$work/a-ablate.heads.csv" | cut -d, -f2 >"$work/heads"
same "the heads of two layers, ranked" "$(sort -g "$work/heads" | diff - "$work/heads" && wc -l <"$work/heads")" 12
check "head 4.0 is a text: as a number, head 10 of a layer would be head 1" 'select(.event == "table" and .name == "ablate.heads") | [.rows[][0]] | index("4.0") != null' true
check "tokens of the object" 'select(.event == "heatmap" and .name == "ablate.picture") | (.values | map(select(. != null)) | length) as $n | ($n > 4 and $n < 40)' true
same "a mean of each layer with an interval, ranked" "$(for file in d-ablate.ffn d-ablate.ffn.interval; do
    tail -n +2 "$work/$file.csv" | cut -d, -f1 | tr -d '"\n'; echo; done | sort -u | tr -d '\n' | wc -c)" 8
same "each mean is within its interval" "$(paste -d, "$work/d-ablate.ffn.csv" "$work/d-ablate.ffn.interval.csv" | awk -F, 'NR > 1 && !($4 <= $2 && $2 <= $5)')" ""

lines '/load demo/model' "/image $world/pictures/000000.png" 'What is in the picture?' "/ablate ffn --figure $work/ffn.svg" \
    "/consistency --samples 1 --figure $work/c.svg"
check "bars are drawn" 'select(.event == "written").file' "$work/ffn.svg
$work/c.svg"
same "a bar for each layer" "$(grep -o '>[0-7]</text>' "$work/ffn.svg" | sort -u | wc -l)" 8

session "refusals" demo/model <<E
> /ablate
error: /ablate takes heads, ffn, layers or tokens, then names of positions, not ''
> /ablate heads --mean --zero
error: give one of --zero, --mean and --resample
> /ablate heads
error: the conversation is empty: ask something first
E
finish
