# changed.sh -- /changed: the questions that one of two compared sides answers better, one by one.
. tests/commands/common.bash
pruned='prune.score=uniform prune.layer=input prune.keep=0.25'
vlmsh scenes 4 "$work/world" --seed 2 --kind yesno >/dev/null

# /changed lists the same questions as the table, in the table's order, with reference and answers.
compared=("/load demo/model" "/compare off | $pruned --data $work/world/yesno.json --csv $work/all.csv")
lines "${compared[@]}"
count=$(jq -r 'select(.name=="compare.changed").rows | length' "$work/events")
table=$(jq -r 'select(.name=="compare.changed").rows[] | [.[0],.[2],.[3],.[4],.[5],.[6],.[7]] | @tsv' "$work/events")
same "the CSV has all questions" "$(wc -l <"$work/all.csv")" 25
[ "$count" -ge 3 ] || fail "only $count flips"
mapfile -t shows < <(seq -f '/changed %g' "$count")
lines "${compared[@]}" "${shows[@]}" "/changed $((count + 1))"
same "every question" "$(jq -r 'select(.event=="changed") | [.id,.scores[0],.scores[1],.answers[0],.answers[1],.reference,.question] | @tsv' "$work/events")" "$table"
check "number, count and titles of each change" 'select(.event=="changed") | "\(.number) \(.count) \(.titles[0])"' "$(for i in $(seq "$count"); do echo "$i $count off"; done)"
check "pictures of each change" 'select(.event=="changed") | .pictures | map(test("world/pictures/00000[0-3].png$")) | all' "$(yes true | head -"$count")"
check_has "past the last question" 'select(.event=="error").message' "no question $((count + 1)): the last is $count"

# --worse lists the questions that B answers worse, in their order.
worse=$(jq -r 'select(.event=="changed" and .scores[1] < .scores[0]).id' "$work/events")
better=$(jq -r 'select(.event=="changed" and .scores[1] > .scores[0]).id' "$work/events")
mapfile -t shows < <(for i in $(seq "$(echo "$worse" | grep -c .)"); do echo "/changed --worse $i"; done)
lines "${compared[@]}" "${shows[@]}"
check "samples that --worse lists" 'select(.event=="changed") | .id' "$worse"
lines "${compared[@]}" "/changed --better"
[ -n "$better" ] || check_has "none is better" 'select(.event=="error").message' "no question is answered better by B"

# Examples in front of each sample, too.
jq -c '.[:1]' "$work/world/yesno.json" >"$work/world/shots.json"
lines "/load demo/model" "/compare off | $pruned --data $work/world/yesno.json --shots $work/world/shots.json" "/changed 1"
check "no error with --shots" 'select(.event=="error").message' ""
check "a question after examples" 'select(.event=="changed") | .number' 1

# The same questions after a job, even in another process.
lines "${compared[1]/--csv*/--job}" /wait
lines "/changed --job 1" "/changed 2" "/changed 2 --worse --job 1" "/changed --job 2"
check "questions of a job" 'select(.event=="changed") | .id' "$(echo "$table" | cut -f1 | sed -n '1p;2p')
$(echo "$worse" | sed -n 2p)"
lines /changed
check_has "nothing to show" 'select(.event=="error").message' "no data set has been compared yet"
for line in "/changed x" "/changed 0" "/changed 1 2" "/changed --wrong" "/changed --job" "/changed --job 99"; do
    lines "$line"
    check "refused: $line" 'select(.event=="done").ok' false
done
finish
