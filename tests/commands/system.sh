# tests/commands/system.sh -- /system: set, shown, replaced, removed.
. tests/commands/common.bash

count() { # LINE...: prompt tokens of the last answer
    lines "/load $llava" '/set sample.max_tokens 1' '/set sample.ignore_eos on' "$@"
    jq 'select(.event == "answer").prompt_tokens' "$work/events" | tail -1
}
with=$(count '/system You are a careful assistant.' 'hello')
without=$(count 'hello')
[ "$with" -gt "$without" ] || fail "a system message adds no tokens: $with, $without"
same "tokens after it is removed" "$(count '/system You are careful.' '/system ""' 'hello')" "$without"
same "tokens after it is replaced" "$(count '/system x' '/system "You are a careful assistant."' 'hello')" "$with"
lines '/system' '/system You are "careful".' '/system' $'/system """' 'two' 'lines' '"""' '/system'
check_has "no system message" 'select(.event == "text").text' "no system message"
check_has "shown as typed" 'select(.event == "text").text' 'You are "careful".'
check_has "several lines" 'select(.event == "text").text' $'two\nlines'
finish
