# tests/commands/lens.sh -- /lens (core/probes/lens.c): tables, maps with words, refusals.
. tests/commands/common.bash

lines '/load demo/model' '/set compute.matmul f32' '/image demo/pictures/scene-1.png' \
    'Where is the red circle?' "/lens --csv $work/l.csv --figure $work/l.png" \
    '/lens picture --word red --layer all' '/lens question,last --layer 7' '/lens --nearest --layer 2'
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..8})"
same "tables of a measurement" "$(jq -r 'select(.event == "table").name' "$work/events" | sort | uniq -c | awk '{ print $2 $1 }' | tr '\n' ' ')" \
    "lens2 lens.picture3 lens.words2 "
same "the last layer says the answer" "$(jq -r 'select(.event == "table" and .name == "lens.words") | .rows[] | select(.[0] | startswith("7.")) | .[0], .[4]' "$work/events" | sed -n 1,2p | tr '\n' ' ')" "7.159 middle 1 "
same "a map of each layer, with words" "$(jq -c 'select(.event == "heatmap") | [.name, .layer, (.words | length)]' "$work/events" | tr '\n' ' ')" \
    "$(printf '["lens",%d,144] ' 4 0 1 2 3 4 5 6 7)[\"lens.nearest\",2,144] "
[ -s "$work/l.png" ] && [ -s "$work/l-maps.csv" ] || fail "no figure or no maps"

printf 'a red circle\nWhere is the large blue star?\n' >"$work/corpus.txt"
lines '/load demo/model' '/set compute.matmul f32' '/image demo/pictures/scene-1.png' 'Where is the red circle?' \
    "/lens picture --nearest --layer 6 --corpus $work/corpus.txt" \
    "/lens picture --nearest --layer 6 --word circle --corpus $work/corpus.txt" "/save $work/s.vlmsh"
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..7})"
check "tokens with their texts" 'select(.event == "table" and .name == "lens.texts") | [(.rows | length), (.rows | all(.[0] | contains("»")))] | tojson' \
    $'[20,true]\n[20,true]'
check "a token of a text for each visual token" 'select(.event == "notice").text | select(startswith("lens.texts")) | sub(";.*"; "")' \
    $'lens.texts: the first 20 of 144 rows\nlens.texts: the first 20 of 144 rows'
grep -q "^/lens picture --nearest --layer 6 --corpus $work/corpus.txt$" "$work/s.vlmsh" || fail "the script lacks the corpus"

# Each sample of a data set finds that the corpus is empty.
: >"$work/none.txt"
for i in 1 2; do
    echo '{"id": "'$i'", "image": "'"$PWD"'/demo/pictures/scene-1.png", "question": "Where?", "answer": "right"}'
done >"$work/two.jsonl"
vlmsh -c '/load demo/model' -c "/lens picture --nearest --layer 6 --corpus $work/none.txt --data $work/two.jsonl" >"$work/out" 2>&1
grep -q "none.txt' has no text" "$work/out" || fail "an empty corpus: $(cat "$work/out")"
! grep -q LeakSanitizer "$work/out" || fail "leaks: $(cat "$work/out")"

session "refusals" demo/model <<E
> /lens nowhere
error: 'nowhere' is not a position: use picture, picture:I, picture[X,Y,W,H], object NAME, system, question, last, answer, text, sinks, all, N, N-M
> /lens
error: the conversation is empty: ask something first
> Where is it?
...
> /lens picture
error: the prompt has no picture: /image FILE, then ask
> /lens last --nearest
error: --nearest compares visual tokens: the prompt has no picture
> /lens last --corpus $work/corpus.txt
error: --corpus needs --nearest
> /lens last --token 0
error: give either positions ('last') or --token
> /lens --token each
error: --token takes answer or the number of a token of the answer here
E
finish
