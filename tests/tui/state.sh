# tests/tui/state.sh -- the screen shows the actual conversation: turns removed by /undo and /clear
# disappear; words meant for the program do not go to the model; leaving and returning report what was
# kept.
set -eu
. tests/tui/tmux.bash
start() { # FOLDER [ARGUMENT...]
    line "cd '$1' && '$(realpath "$VLMSH")' --db '$work/db' ${*:2}"
    wait_for 'Type a question'
}
shell_at 100 30
here=$PWD picture=demo/pictures/scene-1.png
start "$here" demo/model

# An answer begins with a word, not with a space.
line "/image $picture"
wait_for 'attached .*scene-1.png'
line 'What colour is the background?'
wait_for '^│*  grey'
line '/system Be kind.'
wait_for '· system message: Be kind' '/system looks like a question'
line '/system ""'
wait_for '· no system message'
line 'Where is the red circle?'
wait_for '^│*  middle'
line /regen
wait_for 'the same answer again: sample.temperature 0'
line /undo
wait_for "undone: 'Where is the red circle?' and its answer"
shown '^│*  middle' && fail 'the answer removed by /undo is still shown'
shown '❯ Where is the red circle' && fail 'the question removed by /undo is still shown'
line /undo
wait_for "undone: 'What colour is the background?' with its"
wait_for 'picture scene-1.png and its answer'
wait_gone '^│*  grey'
wait_for 'no picture yet'
line /clear
wait_for 'the conversation was cleared'
wait_gone 'undone:'
shown 'Type a question' && fail '/clear leaves the screen full'

# Each table has its own scroll position: the next table starts at its left end.
line '/image demo/pictures/*.png'
line /images
wait_for '›'
keys F2 Right Right Right
wait_for '‹'
keys Escape
wait_gone 'Esc: back'
line '/get sample.seed'
line /images
keys C-l
sleep 0.3
[ "$(tmux capture-pane -p | grep -c '‹')" -lt "$(tmux capture-pane -p | grep -c '›')" ] || fail 'a later table is scrolled like the first'
line '/image --clear'
line /clear
wait_gone '›'

# Help without a slash; a command's name without one is sent, with a notice.
line 'help undo'
wait_for 'Removes the last question'
keys Escape; sleep 0.2
line '/set sample.max_tokens 2'
line undo
wait_for "'undo' was sent to the model; the command is /undo"
line 'help me with this'
wait_for '❯ help me with this'

# /undo ignores words that were not sent as a message.
line help
wait_for ' /help ─'
keys q
wait_gone ' /help ─'
line /undo
wait_for "undone: 'help me with this' and its answer"
shown '❯ help *│' || fail '/undo takes a word that was never sent'
line 'help me with this'
wait_for '❯ help me with this'

# Leaving names a picture that was not sent and says how to continue; an unsent line names its folder and model.
line "/image $here/$pictures/scene.png"
wait_for 'attached '
keys -l 'not sent'
sleep 1
keys F10
wait_for "^session '.*' is saved; to continue: *$"
wait_for 'no question followed: .*scene.png was not sent'
wait_for '^vlmsh --db ' 'the command does not begin its own line'
mkdir "$work/other"
start "$work/other" "'$here/$model'"
wait_for '· the input line holds unsent text, typed in'
# The length of the path decides where the notice wraps.
notice=$(tmux capture-pane -p | sed 's/^│\([^│]*\).*/\1/' | tr -d ' \n')
[[ $notice == *"typedin${here// /}withmodelmodel;Ctrl-C"* ]] ||
    fail 'the folder or the model of the unsent line is not named'
wait_for 'vlmsh> not sent'
keys C-c
sleep 1
line /quit
wait_for 'shell> *$'
start "$here" demo/model
shown 'not sent' && fail 'the dropped text returns'
line /quit
wait_for 'shell> *$'

# Plain lines report /clear and the saved session, too.
line "clear; '$VLMSH' --plain --db '$work/db' demo/model"
wait_for 'Type a question'
line '/set sample.max_tokens 2'
line 'hello'
wait_for '2 tokens'
line /clear
wait_for 'the conversation was cleared'
shown 'Type a question' && fail '/clear leaves plain lines'
line help
wait_for 'A line without'
line 'hello again'
wait_for '2 tokens'
line /quit
wait_for '^session .* is saved'
