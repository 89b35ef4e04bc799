# tests/commands/session.sh -- /session, /save: sessions are saved automatically, resumed, copied,
# exported, replayed.
. tests/commands/common.bash
setup=("/load $llava" '/set sample.max_tokens 5' '/set sample.ignore_eos on')

lines '/session'
check_has "before the first message" 'select(.event == "text").text' "no session yet"
lines '/session new trip' '/session'
check "a name before the first message" 'select(.event == "text" or .event == "notice").text' \
    "the next message starts session 'trip'
session 'trip' starts with the first message, in $work/vlmsh.db"
lines "${setup[@]}" "/image $scene" 'What is this?' 'And "that"?' '/session rename first' '/session' '/session list'
answers=$(jq -c 'select(.event == "answer").ids' "$work/events")
check_has "name of the current session" 'select(.event == "text").text' "'first'"
check_has "turns in the list of sessions" 'select(.name == "sessions").rows[] | select(.[0] == "first") | "\(.[4]) turns"' "2 turns"

lines '/session resume first' '/context' '/regen'
same "answer in the resumed session" "$(jq -c 'select(.event == "answer").ids' "$work/events")" "$(tail -1 <<<"$answers")"
lines '/session resume first' '/session fork second' '/undo' '/undo' '/session list' '/session resume first' '/context'
check "the original stays" 'select(.name == "context").rows[0][1]' '25'
check_has "the copy is there" 'select(.name == "sessions").rows[][0]' second

lines '/session resume first' "/session export $work/replay.vlmsh" "/save $work/talk.md" "/save $work/talk.md"
check "nothing is overwritten" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse'
vlmsh --json -f "$work/replay.vlmsh" >"$work/events" || fail "replay: exit status"
same "replayed to the same answers" "$(jq -c 'select(.event == "answer").ids' "$work/events")" "$answers"
grep -q 'What is this?' "$work/talk.md" || fail "the transcript lacks the question"
lines '/session resume first' "/save $work/TALK.MD"
same "a transcript by an ending in capitals" "$(head -1 "$work/TALK.MD")" '# first'
lines "/load demo/model" '/session new' '/set sample.max_tokens 1' "/image demo/pictures/scene-1.png" 'What colour is the background?' "/save $work/one.md"
grep -q '; 1 token in' "$work/one.md" && grep -q '^grey$' "$work/one.md" || fail "transcript: $(cat "$work/one.md")"

lines '/session resume first' '/session new third' '/context' '/session delete second' '/session resume second' \
    '/session nothing' '/session rename' '/session resume nobody'
check "new is empty" 'select(.name == "context").rows[0] | .[0] + .[1]' 0
check "which lines succeed" 'select(.event == "done").ok' \
    $'true\ntrue\ntrue\ntrue\nfalse\nfalse\nfalse\nfalse'
lines '/session resume first' '/context'
check "new did not clear the old one" 'select(.name == "context").rows[0][1]' 25

# A session with a picture that ended with a text-only model is restored unchanged.
lines "${setup[@]}" "/image $scene" 'What is this?' "/load $llama" '/session rename blind'
lines "${setup[@]}" 'Something else' '/session resume blind' '/session' '/regen' "/load $llava" '/regen'
check "only /regen with the text-only model fails" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\ntrue\ntrue\nfalse\ntrue\ntrue'
check_has "blind: notice" 'select(.event == "notice").text' 'text-only'
check_has "blind: current" 'select(.event == "text").text' "'blind'"
check "blind: it sees its picture again" 'select(.event == "answer").visual_tokens' $'0\n25'

# Token ids outlast /unload, but not the loading of another model; a raw question stays as a message, so that /undo
# removes the same turn.
lines "${setup[@]}" '/raw 5 6 7 8' /unload "/load $llava" '/context' hello "/load $llama" '/session rename ids' '/regen' '/undo' '/regen' '/context'
check "tokens before and after another model" 'select(.name == "context").rows[0][0]' $'9\n'"$(jq -r 'select(.name == "context").rows[0][0]' "$work/events" | tail -1)"
check "no raw question of another model" 'select(.event == "error").message' \
    "the last question was token ids of another model, which '$llama' cannot read: /undo removes it"
live=$(jq -c 'select(.name == "context").rows[0][0]' "$work/events" | tail -1)
lines '/session resume ids' '/context' '/undo' '/context'
check "ids: resumed" 'select(.name == "context").rows[0][0]' "$live"$'\n0'

# If the database cannot be opened, sessions cannot be listed; other commands work.
printf '/version\n/session list\n/version\n' | "$VLMSH" --db /proc/x.db --json >"$work/events"
check "without a database" 'select(.event == "done").ok' $'true\nfalse\ntrue'

# Two programs start a session with the same name: the second reports its new name.
mkfifo "$work/in"
"$VLMSH" --db "$work/vlmsh.db" --session twice --json $llava <"$work/in" >"$work/first" &
other=$!
exec 7>"$work/in"
echo /version >&7
for _ in $(seq 600); do grep -q '"done"' "$work/first" && break; sleep 0.1; done
vlmsh --session twice --json $llava -c '/set sample.max_tokens 1' -c Hello >"$work/events"
check "the first one has the name" 'select(.event == "notice").text | select(test("twice"))' \
    "session 'twice' is new: it starts with the first message"
printf '/set sample.max_tokens 1\nHello\n' >&7
exec 7>&-
wait $other || fail "the other program fails"
cp "$work/first" "$work/events"
check "the second one gets another name" 'select(.event == "notice").text | select(test("twice"))' \
    "session 'twice' is new: it starts with the first message
another program has started a session 'twice' meanwhile: this one continues as 'twice-2'"
finish
