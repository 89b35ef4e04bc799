# tests/tui/fields.sh -- input fields of the full screen: pastes, keys that leave a field, the frame
# that names its keys, and the completion menu.
set -eu
. tests/tui/tmux.bash
shell_at 120 36
line "'$VLMSH' --db '$work/db' $model"
wait_for 'Type a question'
paste() { # TEXT
    tmux set-buffer "$1"
    tmux paste-buffer -p
}

# Only the first line of a paste goes into the field. Keys that the field does not know leave it
# open.
keys F4
wait_for 'Esc: back  Up Down: choose'
keys End Left Right # the group of sampling is last
wait_for 'sample.temperature: 0..100'
keys Enter C-u
wait_for 'Esc: cancel  Enter: accept' 'the frame does not name the keys of the field'
paste $'0.25\nnot this'
wait_for 'temperature  *0\.25' 'a paste does not go into the field'
keys Left Tab Enter
wait_for 'set sample.temperature 0\.25' 'a key that the field does not know closes it'
wait_for 'Esc: back  Up Down: choose'
shown 'not this' && fail 'the second line of a paste appears'

# A field without focus takes no keys.
keys Enter 9
wait_for 'temperature  *0\.259'
keys C-c
wait_gone '0\.259'
keys F4
wait_for 'Esc: back  Up Down: choose' 'the field is still open'
keys d
wait_for 'sample.temperature = 0 ' 'the field is still open'
keys Escape; sleep 0.2

# The search in the conversation behaves like such a field.
keys F2 /
wait_for 'Esc: cancel  Enter: accept'
paste 'question'
wait_for 'search: question' 'a paste does not go into the search'
keys Left x
wait_for 'search: questionx' 'a key that the search does not know closes it'
keys C-c; sleep 0.2
keys F2
wait_for '/: search' 'the search is still open'
keys Escape; sleep 0.2

# Tab steps through the menu, and the chosen word is marked.
menu() { tmux capture-pane -pe | tail -3 | head -1; } # above the status line
tmux send-keys -l '/set sample.ignore_eos '
keys Tab
wait_for '^ off  *on'
plain=$(menu)
keys Tab
wait_for '> /set sample.ignore_eos off *$' 'Tab does not step through the menu'
[ "$(menu)" != "$plain" ] || fail 'the chosen word is not marked'
keys Tab
wait_for '> /set sample.ignore_eos on *$'
keys C-c; sleep 0.2
line /quit
wait_for 'shell> *$'
