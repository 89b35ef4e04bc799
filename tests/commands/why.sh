# tests/commands/why.sh -- /why (core/interventions/why.c) and the numbers of tokens in --json: data
# sets, numbers of answers, files, refusals.
. tests/commands/common.bash

vlmsh scenes 2 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
world=$work/world
lines '/load demo/model' '/set compute.matmul f32' '/set why.live on' "/image $world/pictures/000000.png" \
    'What is in the picture?' 'What colour is the background?' \
    "/why 1 --csv $work/w.csv --figure $work/w.png" /why \
    "/why --data $world/questions.json --limit 3 --csv $work/data.csv" '/set why.share contribution' /why
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..11})"
[ -s "$work/w.png" ] || fail "no figure"
same "tables of a measurement" "$(jq -r 'select(.event == "table").name' "$work/events" | sort -u | tr '\n' ' ')" \
    "why why.alternatives why.data why.objects why.samples why.summary why.summary.std "
check "tokens have numbers" 'select(.event == "token" and .id >= 0) |
    [.probability > 0 and .probability <= 1, .entropy >= 0, .picture_share > 0 and .picture_share < 1] | all' \
    "$(jq -r 'select(.event == "token" and .id >= 0) | true' "$work/events")"
# The table of the first answer has the numbers of its tokens.
same "the first answer" \
    "$(jq -r 'select(.event == "token" and .id >= 0) | .picture_share' "$work/events" | head -3 | cut -c 1-5)" \
    "$(tail -n +2 "$work/w-why.csv" | cut -d, -f4 | head -3 | cut -c 1-5)"
same "its objects need the picture" "$(tail -n +2 "$work/w-why.objects.csv" | awk -F, '{ print ($3 > 0.1) }' | sort -u)" 1
same "rows of all samples" "$(tail -n +2 "$work/data-why.csv" | awk -F, '{ print $NF }' | sort -u | wc -l)" 3
same "notices of the rule" "$(jq -r 'select(.event == "notice").text' "$work/events" | grep -c 'less than 0.1 nats')" 3

session "refusals" demo/model <<E2
> /why
error: the conversation is empty: ask something first
> /why last
error: /why takes the number of an answer, counted from 1 (default: the last), not 'last'
> /image $world/pictures/000001.png
attached $world/pictures/000001.png: 96 x 96 pixels, 144 visual tokens; 1904 of 2048 tokens left
> /set why.threshold -1
...
> /why 1 --data $world/questions.json
error: '1' is the number of an answer of the conversation: give it without --data
E2
finish
