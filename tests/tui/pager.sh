# tests/tui/pager.sh -- /help and /keys as pages: wrapped at word boundaries to the width of the screen,
# scrolled and searched as in less; words that name keys can be clicked.
set -eu
. tests/tui/tmux.bash
unset COLUMNS
click() { tmux send-keys -l "$(printf '\033[<0;%d;%dM\033[<0;%d;%dm' "$1" "$2" "$1" "$2")"; }
click_on() { # TEXT: clicks on the first letter of TEXT
    local at y x
    at=$(tmux capture-pane -p | grep -n -F -e "$1" | tail -1) || fail "nothing shows '$1'"
    y=${at%%:*}
    x=${at#*:}
    x=${x%%"$1"*}
    click $((${#x} + 1)) "$y"
}
place() { tmux capture-pane -p | grep -o ' [0-9]*-[0-9]*/[0-9]* ' | head -1; }
start() { # COLUMNS LINES
    shell_at "$1" "$2"
    line "'$VLMSH' --db '$work/db' $model"
    wait_for 'vlmsh>'
    wait_for 'cpu'
    sleep 0.5
}

for size in '80 24' '40 15' '120 40'; do
    start $size
    line '/help train'
    wait_for ' /help train ─'
    # From the first to the last line, the page has every word of the help, unbroken.
    "$VLMSH" help train | tr -s ' \n' '\n\n' | grep -E '^[a-zA-Z/.-]{2,}$' | sort -u >"$work/words"
    : >"$work/seen"
    for _ in $(seq 40); do
        tmux capture-pane -p | tr -d '│' | tr -s ' \n' '\n\n' >>"$work/seen"
        before=$(place)
        keys Space
        sleep 0.15
        [ "$(place)" != "$before" ] || break
    done
    sort -u "$work/seen" >"$work/sorted"
    comm -23 "$work/words" "$work/sorted" | grep -v -- - >"$work/missing" || true
    [ ! -s "$work/missing" ] || fail "at $size these words are cut: $(cat "$work/missing")"
    keys g
    wait_for ' 1-'
    # Search: forwards, next, no match; Esc leaves the search, not the page; backwards.
    keys /
    tmux send-keys -l 'SUBMITS the script'
    keys Enter
    wait_for 'submits the script'
    keys n
    sleep 0.2
    keys /
    tmux send-keys -l 'zzz'
    wait_for '/zzz'
    keys Enter
    wait_for "no match for 'zzz'"
    keys / Escape
    sleep 0.3
    shown ' /help train ' || fail 'Esc of a search closes the page'
    keys G
    sleep 0.2
    keys '?'
    tmux send-keys -l 'DATA is a file'
    keys Enter
    wait_for 'DATA is a file'
    # A new width wraps the page again.
    tmux resize-window -x 60 -y 20
    wait_for '┐$'
    sleep 0.5
    shown ' /help train ' || fail 'the page closes when the size changes'
    keys q
    wait_gone ' /help train '
    line '/version'
    wait_for '^│* *vlmsh [0-9]' 'the input line has the keys again'
    line /quit
    wait_gone 'vlmsh>'
done

start 100 30
# A short page is fully visible, so searching upwards finds text below the first line too.
line '/help changed'
wait_for ' /help changed ─'
keys '?'
tmux send-keys -l 'B answers better'
keys Enter
wait_for "no match for 'B answers better' above"
keys n
wait_gone 'no match for'
keys q
wait_gone ' /help changed ─'
# Help of a setting, a group, a topic; an error stays in the conversation.
for topic in sample.top_p measuring metrics sets taps lines; do
    line "/help $topic"
    wait_for " /help $topic ─"
    keys q
    wait_gone " /help $topic ─"
done
line '/help nosuchthing'
wait_for "no help on 'nosuchthing'"
line /keys
wait_for ' /keys ─'
keys /
tmux send-keys -l 'next colour map'
keys Enter
wait_for 'next colour map'
click_on 'Esc: close'
wait_gone ' /keys ─'

# Clicks on words that name keys: on a page, on the status line, on the frame of a panel, list or page.
click_on 'F4 settings'
wait_for 'Up Down: choose'
click_on 'Down: choose'
wait_for 'chat.date: text'
click_on 'Esc: back'
wait_gone 'Esc: back'
click_on 'Ctrl-P find'
wait_for 'commands and settings'
click_on 'Esc closes'
wait_gone 'commands and settings'
line '/help commands'
wait_for ' 1-'
sleep 0.3
click_on 'Space b'
wait_gone ' 1-'
keys q
line '/bind F4 /version'
wait_gone 'F4 settings' 'a hint of a key that is bound to something else'
click_on 'F1 keys'
wait_for 'keys: input'
keys Escape
wait_gone 'keys: input'
line /quit
wait_for 'shell> *$'
