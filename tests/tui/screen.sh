# tests/tui/screen.sh -- the full screen in tmux: start, load, attach, ask, toggle, resize, lists,
# user-defined keys, suspend, quit; screens are compared as text.
set -eu
. tests/tui/tmux.bash
. tests/processes.bash
mkdir -p "$work/config/vlmsh"
printf '# keys of my own\n/set sample.max_tokens 12\n/bind Ctrl-T /toggle ira.gate\n' >"$work/config/vlmsh/config"

mkdir -p "$work/hub/models--org--tiny/snapshots" # as huggingface_hub stores models
ln -s "$PWD/$model" "$work/hub/models--org--tiny/snapshots/abc123"

shell_at 120 36
line "HF_HUB_CACHE='$work/hub' '$VLMSH' $model"
wait_for 'llava-1.5 cpu'
wait_for 'Type a question'
wait_for 'max_tokens = 12' # the config file was read
wait_for '─ picture ─'

# A picture and a question; the answer, its measures, a map of its tokens.
line "/image $pictures/scene.png"
wait_for 'scene.png 64x48, 25 tokens'
wait_for '\[1 picture\] vlmsh>'
line 'What is this?'
wait_for '12 tokens, .*stopped at'
wait_for 'layer 2 token 10'
wait_for '^.vlmsh> *$\|^vlmsh> *$'

# With the picture in focus, keys step through the tokens.
keys F3
keys Left; keys Left
wait_for 'token 8'
keys Home
wait_for 'token 0'
keys Up
wait_for 'attention layer 3 token 0'
keys Down
wait_for 'layer 2 token 0'
keys Down
wait_for 'attention layer 1 token 0'
keys Escape; sleep 0.2

# Settings through the panel, by a user-defined key, and by Alt-1.
keys F4
keys End Left Right # the group of sampling is last
wait_for 'sample.temperature: 0..100'
keys Down Enter
keys BSpace; keys 5; keys Enter
wait_for '\* top_k *5'
keys d
wait_gone '\* top_k'
keys Escape; sleep 0.2
keys C-t
wait_for 'ira.gate = off'
keys C-t
wait_for 'ira.gate = on'
keys M-1
wait_for 'norm.align = on'
wait_for 'cpu .* NORM '
wait_for 'stale'
keys M-1
wait_for 'norm.align = off'

# Toggling and typing during an answer; Ctrl-C stops the answer, and the screen stays.
line '/set sample.ignore_eos on'
line '/set ctx.max 1000000'
line '/set sample.max_tokens 1000000'
wait_for 'max_tokens = 1000000'
line "/image $pictures/scene.png"
line 'a slow question'
wait_for '1 picture. a slow question'
wait_gone '\[1 picture\] vlmsh>' # the question has taken the picture
wait_for 'tok/s'
shown '⟨stopped⟩' && fail 'the answer stopped before the toggle'
keys M-1
wait_for 'cpu .* NORM ' 'a setting is not changed in the middle of an answer'
keys M-1
wait_gone 'cpu .* NORM '
line '/align'
wait_for 'cpu .* NORM ' '/align waits for the end of the answer'
line '/capa'
wait_for 'with ffn.approx=off: ' '/capa waits for the end of the answer'
wait_for ' CAPA 25% @2 ' # not "auto"
line '/baseline'
wait_gone 'cpu .* CAPA '
line '/preset load capa-prune'
wait_for 'cpu .* CAPA ' '/preset load waits for the end of the answer'
line '/ira'
wait_for 'not changed: .*ira'
line '/preset list' # the line changes nothing, so it waits
wait_for '+1 waiting'
keys 'typed meanwhile'
wait_for 'vlmsh> typed meanwhile'
keys C-c
wait_for 'stopped  '
wait_for 'vlmsh> typed meanwhile' 'the typed text is lost'
keys C-u
line '/reset all'
wait_gone 'cpu .* NORM '
line '/set sample.max_tokens 12'
wait_for '= 12'

# The palette and the help, the pickers, completion, search in the history.
keys C-p
wait_for 'commands and settings'
keys -l 'nrmalgn'
wait_for 'norm.align *= off'
keys Enter
wait_for 'vlmsh> /set norm.align'
wait_for '^ norm.align: on' 'the values of the setting are not shown'
keys C-u
keys F1
wait_for 'keys: input'
keys Escape; sleep 0.2
wait_gone 'keys: input'
# The list of keys is a menu: Enter or a click presses the key.
keys F1
wait_for 'Enter or a click presses the key'
keys -l 'curves over'
wait_for '1/[0-9]* *│'
keys Enter
wait_for 'Left Right: values' 'F5 is not pressed'
keys F1
wait_for 'keys: dynamics'
row=$(tmux capture-pane -p | awk '/│ Esc  /{print NR}')
keys -l $'\e[<0;40;'"${row}M"$'\e[<0;40;'"${row}m"
wait_gone 'Left Right: values' 'a click on Esc does not leave the panel'
keys C-o
wait_for 'attach a picture'
for part in tests goldens pictures; do
    keys -l "$part"
    wait_for "> $part"
    wait_for " $part/ *folder" # another thread lists the folder
    keys Enter
    wait_for "$part *─"
done
keys -l wide
wait_for 'wide.png'
keys Enter
wait_for 'wide.png [0-9]*x[0-9]*, '
line '/open model'
wait_for 'org/tiny  *model in the Hugging Face cache'
wait_for 'tests/  *folder'
keys -l 'tiny'; keys Enter
wait_for "loaded 'org/tiny'"
keys -l '/load or'; keys Tab
wait_for '/load org/tiny'
keys C-u
line "/load $model"
wait_for "loaded '$model'"
keys -l '/toke'; keys Tab
wait_for '/tokenize .*/tokenizer'
keys C-u
keys C-r; keys -l slow
wait_for 'reverse-i-search.*slow'
keys C-x '\\' # not a key sequence: readline alone would crash
keys -l ' and on'
wait_for 'vlmsh> .* and on'
keys C-c
keys -l $'\e[200~tests/goldens/pictures/tall.jpg\e[201~' # a dropped file
wait_for 'tall.jpg [0-9]*x[0-9]*, '

# Every change of size redraws everything, even on a tiny screen.
for size in '80 24' '200 60' '40 10' '20 5' '3 2' '120 36'; do
    set -- $size
    tmux resize-window -x "$1" -y "$2"
    sleep 0.3
done
wait_for '─ picture ─'
wait_for 'F1 keys'
tmux resize-window -x 80 -y 24
wait_for '─ attached' # redrawn for this width, not truncated
wait_gone '─ picture ─' # the layout with only the conversation
keys F7
wait_for '─ picture ─'
keys F7; keys F7
wait_gone '─ picture ─'

# /screen writes the screen as text, at any size.
line '/clear'
wait_for 'the conversation was cleared'
sleep 0.5
for taken in a\ 24\ 80 b\ 10\ 40; do # one at a time, because waiting lines appear in the status line
  line "/screen $work/$taken"
  for _ in $(seq 50); do [ -s "$work/${taken%% *}" ] && break; sleep 0.1; done
done
[ "$(wc -l <"$work/a")" = 24 ] || fail "/screen writes $(wc -l <"$work/a") lines"
[ "$(wc -L <"$work/b")" -le 40 ] || fail "/screen is wider than 40 columns"
grep -q '^ llava-1.5 cpu.* MB' "$work/a" || fail "the status line is not in /screen's file: $(tail -3 "$work/a")"
grep -q 'the conversation was cleared' "$work/a" || fail "the conversation is not in /screen's file"

# A click gives the focus.
tmux resize-window -x 120 -y 36
wait_for 'F1 keys'
keys F7 # workbench again
wait_for '─ conversation ─'
keys -l $'\e[<0;10;10M'$'\e[<0;10;10m'
keys n # a key of the panel: nothing is typed
sleep 0.3
shown 'vlmsh> n' && fail "a click does not give the focus to the conversation"
keys Escape; sleep 0.2

# Suspending and resuming; leaving with a draft, which returns.
keys C-z
wait_for 'shell>'
line 'fg'
wait_for 'llava-1.5 cpu'
keys -l 'my draft'
wait_for 'vlmsh> my draft'
shell_pid=$(tmux display-message -p '#{pane_pid}')
kill -TERM $(children_of "$shell_pid")
wait_for 'shell> *$'
line "stty -a | grep -o -e '-*icanon'"
wait_for '^icanon' 'the terminal is not as it was'
line "'$VLMSH' --session test $model"
wait_for 'vlmsh> my draft' # a session without messages gets the draft that belongs to none
keys C-a; keys C-k
wait_for '^.vlmsh> *$\|^vlmsh> *$'
line "/image $pictures/square.png"
line 'Remember'
wait_for '12 tokens'
keys -l 'half a sent'
wait_for 'vlmsh> half a sent'
keys C-a; keys C-k
line '/quit'
wait_for 'shell> *$'
line "'$VLMSH' $model --session test"
wait_for 'Remember'
wait_for 'square.png' # the session's picture has returned
keys -l 'half a sent'
wait_for 'vlmsh> half a sent'
keys F10
wait_for 'shell> *$'
line "'$VLMSH' $model --session test"
wait_for 'vlmsh> half a sent' 'the draft is lost'
keys C-c # drops the draft
keys C-c; keys C-c
wait_for 'shell> *$'
line 'echo status $?'
wait_for 'status 130'

# After a crash (a signal here) the terminal is restored, and the exit status shows the crash.
line 'clear'
line "ASAN_OPTIONS=handle_segv=0 '$VLMSH' $model"
wait_for '─ conversation ─'
shell_pid=$(tmux display-message -p '#{pane_pid}')
kill -SEGV $(children_of "$shell_pid")
wait_for 'shell> *$' 'a crash does not end it'
line 'echo status $?'
wait_for 'status 139'
line "stty -a | grep -o -e '-*icanon'"
wait_for '^icanon' 'the terminal is not as it was'

# If no locale is set, UTF-8 is shown nevertheless.
line "LC_ALL=C '$VLMSH' $model"
wait_for '─ conversation ─'
keys -l '猫 é'
wait_for 'vlmsh> 猫 é'
keys C-u F10
wait_for 'shell> *$'

# Linux's console has no braille and no decorative signs, GNU screen no true colour.
line "TERM=linux '$VLMSH' $model"
wait_for '─ conversation ─'
line 'What is this?'
wait_for '12 tokens, '
line '/norms'
wait_for '^│> /norms\|^│ *layer '
wait_for '[*][*]' 'curves are not drawn with stars'
tmux capture-pane -p | LC_ALL=C grep -q $'\xe2[\xa0-\xa3]' && fail 'braille is drawn on the console'
keys F10
wait_for 'shell> *$'
line "clear; STY=1.test COLORTERM=truecolor '$VLMSH' $model"
wait_for '─ conversation ─'
line "/image $pictures/scene.png"
wait_for '▀▀▀'
tmux capture-pane -e -p | grep -q '48;2;' && fail 'true colour is used in GNU screen'
keys F10
wait_for 'shell> *$'

# An old terminal without colours, and one without cursor addressing.
line "TERM=vt100 LC_ALL=C '$VLMSH' $model"
wait_for 'F1 keys'
wait_for '+- conversation -'
line "/image $pictures/scene.png"
wait_for 'scene.png 64x48'
keys F10
wait_for 'shell> *$'
line "TERM=dumb '$VLMSH' $model"
wait_for 'vlmsh llava-1.5>'
line '/quit'
wait_for 'shell> *$'
