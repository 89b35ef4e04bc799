# tests/commands/turns.sh -- /undo, /regen, /clear, /context: only new tokens are computed, and the
# answers are those of a fresh conversation.
. tests/commands/common.bash
setup=("/load $llava" '/set sample.max_tokens 6' '/set sample.ignore_eos on')

lines "${setup[@]}" "/image $scene" 'What is this?' 'And what else?' '/regen' '/undo' '/context' 'And what else?' \
    '/undo' '/undo' '/context' '/undo' '/regen'
answers=$(jq -c 'select(.event == "answer").ids' "$work/events")
same "regen gives the same" "$(sed -n 3p <<<"$answers")" "$(sed -n 2p <<<"$answers")"
same "after undo the same" "$(sed -n 4p <<<"$answers")" "$(sed -n 2p <<<"$answers")"
check "only new tokens are computed" \
    'select(.event == "answer") | .computed_tokens < .prompt_tokens' \
    $'false\ntrue\ntrue\ntrue'
check "the conversation is empty" 'select(.name == "context").rows[0] | .[0] + .[1] == 0' $'false\ntrue'
check "the notice on undone turns" 'select(.event == "notice").text | select(startswith("undone"))' \
    "undone: 'And what else?' and its answer
undone: 'And what else?' and its answer
undone: 'What is this?' with its picture scene.png and its answer"
check_has "why /regen repeats the answer" 'select(.event == "notice").text' "the same answer again: sample.temperature 0"
check "nothing to undo, nothing to give again" 'select(.event == "error").message | length > 0' $'true\ntrue'

lines "${setup[@]}" 'Something else.' '/clear' "/image $scene" 'What is this?'
same "clear starts again" "$(jq -c 'select(.event == "answer").ids' "$work/events" | tail -1)" "$(sed -n 1p <<<"$answers")"
lines "${setup[@]}" '/answer' '/set ctx.max 20' "/image $scene" 'What is this?' '/context'
check "which lines succeed" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\ntrue\ntrue\nfalse\ntrue'
check_has "error of a prompt that is too long" 'select(.event == "error").message' "ctx.max"
check "nothing was added" 'select(.name == "context").rows[0][0]' 0

# Plain output has no leading space; the text of --json is exactly that of its tokens.
lines "/load demo/model" "/image demo/pictures/scene-1.png" "What colour is the background?"
check "text of tokens" 'select(.event == "answer").text' " grey"
same "plain text" "$(vlmsh demo/model -c '/image demo/pictures/scene-1.png' -c 'What colour is the background?' 2>/dev/null)" grey
lines "/image demo/pictures/scene-1.png"
check "tokens of the model that a question would open" 'select(.event == "attached").visual_tokens' 144

# A line that begins with // is sent as text that begins with /.
lines "${setup[@]}" '//load x' '/undo' '/ask "/load x"'
same "text that begins with a slash" "$(jq -c 'select(.event == "answer") | [.ids, .prompt_tokens]' "$work/events" | sed -n 1p)" \
    "$(jq -c 'select(.event == "answer") | [.ids, .prompt_tokens]' "$work/events" | sed -n 2p)"
finish
