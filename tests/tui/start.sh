# tests/tui/start.sh -- the first minute: without a model, a list says how to begin; typed text goes to
# the input line; a text-only model has the whole width and no advice about pictures; on leaving, the
# session's name and how to continue it.
set -eu
. tests/tui/tmux.bash
here=$PWD
mkdir -p "$work/here" "$work/hub/models--org--tiny/snapshots"
ln -s "$here/$model" "$work/hub/models--org--tiny/snapshots/abc123"
cp -r "$here/tests/goldens/llama-3.2" "$work/here/talker"
shell_at 120 30 screen-256color "HF_HUB_CACHE='$work/hub'"
start() { line "cd '$work/here' && '$(realpath "$VLMSH")' $*"; }
start
wait_for 'how to begin'
wait_for '1  tour '
wait_for 'org/tiny *model in the Hugging Face cache'
wait_for 'talker *model'
keys -l 'hello'
wait_gone 'how to begin'
wait_for 'vlmsh> hello'
keys C-u
line /load # without a name, asks for one
wait_for 'open a model'
keys Escape; sleep 0.2
line '/open start'
wait_for '3  talker *model'
keys 3
wait_for 'talker cpu'
wait_gone '─ picture ─'
wait_gone 'Ctrl-O picture'
line '/set sample.max_tokens 2'
line 'Name a colour.'
wait_for '; 2 tokens,'
keys F10
wait_for "session '.*name-a-colour' is saved; to continue: vlmsh --session .*name-a-colour"
start
wait_for '2  .*name-a-colour *session'
keys 2
wait_for "resumed '.*name-a-colour'"
keys F10
wait_for 'shell> *$'
start talker
wait_for 'Type a question, /help for the commands.'
wait_gone 'picture' 'a text-only model gets advice about pictures'
keys F10
wait_for 'shell> *$'

# The list does not cover the welcome; without the full screen, the welcome names the models itself.
start
wait_for '  another model '
shown '^│  This is the demo model.* and *│' || fail 'the list covers the welcome'
keys F10
wait_for 'shell> *$'
line "clear; '$(realpath "$VLMSH")' --plain"
wait_for 'Models found: /load org/tiny, /load talker'
shown 'This is the demo model' || fail 'plain lines do not name the model'
line ".quit"
wait_for "'.quit' was not sent to the model"

# Plain lines that are longer than the terminal's end between words: notices and answers.
line '/quit'
wait_for 'shell> *$'
tmux resize-window -x 60 -y 40
line "clear; '$(realpath "$VLMSH")' --plain '$here/demo/model'"
wait_for 'Type a question'
line '/set compute.matmul f32' # processors round bf16 differently, which may change the answer
wait_for 'matmul = f32'
line "/image $here/demo/pictures/scene-1.png"
wait_for 'tokens left'
line 'What is at each place of the picture?'
wait_for '; 46 tokens,'
tmux capture-pane -p >"$work/screen"
grep -q ' top right: large green$' "$work/screen" || fail 'an answer is broken within a word'
grep -q '/help for$' "$work/screen" || fail 'a notice is broken within a word'

# So do the last lines with a session's name.
line '/session rename a-name-that-is-too-long-for-this-narrow-terminal'
wait_for "renamed"
line '/quit'
wait_for 'shell> *$'
shown '^is saved; to continue:' || fail 'the line about the session is broken within a word'
