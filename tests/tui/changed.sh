# tests/tui/changed.sh -- stepping through changed questions in the full screen: picture beside
# question, reference and both answers.
set -eu
. tests/tui/tmux.bash
"$VLMSH" scenes 4 "$work/world" --seed 2 --kind yesno >/dev/null
pruned='prune.score=uniform prune.layer=input prune.keep=0.25'

shell_at 120 36
line "'$VLMSH' demo/model"
wait_for 'Type a question'
keys M-s
wait_for 'no data set has been compared yet'
keys Escape; sleep 0.2

# When the comparison ends, the panel shows the first changed question; JSON events of the same
# comparison list all.
line "/compare off | $pruned --data $work/world/yesno.json"
wait_for '─ flips ─'
events() { # COMMAND FIELD
    "$VLMSH" demo/model --json --db "$work/db" -c "/compare off | $pruned --data $work/world/yesno.json" -c "$1" |
        jq -r "select(.event==\"changed\") | $2"
}
count=$(events /changed .count)
[ "$count" -ge 3 ] || fail "only $count flips: the test needs three"
for n in 1 2 3; do
    wait_for "question $n of $count"
    wait_for "$(events "/changed $n" .id)"
    wait_for "$(events "/changed $n" .question)"
    wait_for 'A, score [01]\( (better)\)\?: off'
    wait_for 'B, score [01]\( (better)\)\?: prune.score=uniform'
    [ "$n" -gt 1 ] || { keys M-s; sleep 0.2; }
    keys Right
done
wait_for "question 4 of $count\|question 3 of 3"
keys Home
wait_for "question 1 of $count"
keys End
wait_for "question $count of $count"
keys w
wait_for "question 1 of [0-9]* that B answers worse"
wait_for 'reference'
# The picture is drawn: half blocks to the left of the question.
shown '▀.*000' || shown '▄.*000' || fail 'the picture beside the question is missing'
keys Escape
wait_gone '─ flips ─'
keys M-s
wait_for 'that B answers worse'
keys Escape; sleep 0.2

# Texts longer than the panel scroll.
reference=$(seq -f 'word%g' -s ' ' 300)
printf '{"id": "long", "image": "%s", "question": "What is this?", "answer": "%s"}\n' "$PWD/demo/pictures/scene-1.png" "$reference" >"$work/long.jsonl"
line "/compare off | $pruned --data $work/long.jsonl --metric loss"
wait_for 'question 1 of 1, PageDown: the rest'
keys M-s; sleep 0.2
shown 'B, score' && fail 'the text fits, so that scrolling is not tested'
keys PageDown PageDown PageDown PageDown
wait_for 'B, score'
wait_gone 'PageDown: the rest'
keys PageUp PageUp PageUp PageUp
wait_for 'What is this?'
keys Escape; sleep 0.2
line '/quit'
wait_for 'shell>'

# A small screen shows both answers, too, and the end of the settings.
shell_at 80 24
line "'$VLMSH' demo/model --db '$work/small'"
wait_for 'Type a question'
line "/compare off | $pruned --data $work/world/yesno.json"
wait_for '─ flips ─'
shown 'prune.keep=0.25  *│' || fail "the settings of side B are cut off"
tmux capture-pane -p | grep -A1 'prune.keep=0.25  *│' | grep -q ' \(yes\|no\)  *│$' || fail "the answer of side B is not visible"
line '/quit'
wait_for 'shell>'
echo ok
