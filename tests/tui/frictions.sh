# tests/tui/frictions.sh -- details of the full screen that hindered users: keys, lists, tables wider
# than their panel, truncated or dropped text, crashes, Markdown, dropped picture files.
set -eu
. tests/tui/tmux.bash
. tests/processes.bash
start() { # COLUMNS LINES [ARGUMENT...]
    shell_at "$1" "$2"
    shift 2
    line "'$VLMSH' --db '$work/db' $model $*"
    wait_for 'Type a question'
}

start 120 36
# Messages of a panel's keys appear above the status line, not in the conversation.
keys F4 End Left Right # the group of sampling is last
wait_for 'sample.temperature: 0..100'
keys Down Enter BSpace 7 Enter
wait_for '^ /set sample.top_k 7 ' 'a panel key is not reported above the status line'
shown '❯ /set sample' && fail 'a panel key writes into the conversation'
keys Escape; sleep 0.2

# Every fast key press counts: seven presses go once around the five themes and two further.
keys F9 F9 F9 F9 F9 F9 F9
wait_for '^ /set screen.theme light'
line '/get screen.theme'
wait_for '│  screen.theme = light'
keys F9 F9
wait_for '^ /set screen.theme contrast'
# The whole screen has one background: no cell has the terminal's.
sleep 0.5
tmux capture-pane -pe | head -34 | grep -q '\[49m' && fail 'the theme contrast has boxes'
keys F9
wait_for '^ /set screen.theme default'

# Ctrl-P knows synonyms, lists the best match first, and says when nothing matches.
find() { # WORD WANT [first]
    keys C-p
    wait_for 'commands and settings'
    tmux send-keys -l "$1"
    wait_for "│ $2 " "'$1' does not find $2"
    [ -z "${3:-}" ] || tmux capture-pane -p | grep -m1 -E '│ (/|[a-z]+\.)[a-z]' | grep -q "│ $2 " || fail "$2 is not first"
    keys Escape
    wait_gone 'commands and settings'
}
find heatmap /attention first
find learning train.lr
find finetune /train
find exit /quit
find history /session
find creativity sample.temperature
find 'batch size' train.batch
find 'samples batch' train.batch # each word somewhere
# A large folder adds why to the message.
find zzzqq 'no match for .zzzqq.[; ].*'
find 'batch zzzqq' 'no match for .batch zzzqq.[; ].*'

# /help in groups, /help GROUP.
line /help
wait_for '│ conversation  */image'
keys q
wait_gone '/help ─'
line '/help sessions'
wait_for '│ /session  *Starts'
keys Escape
wait_gone '/help sessions ─'

# Markdown in an answer is rendered, or shown raw if the setting is off.
printf '[{"role": "user", "content": "q"}, {"role": "assistant", "content": "## A title\\n- one **bold** word\\n- `code`\\n\\n|a|bb|\\n|-|-|\\n|1|2|\\n\\u001b[31mred"}]' \
    >"$work/messages.json"
line "/messages $work/messages.json"
wait_for '• one bold word'
wait_for '│  A title'
wait_for '1 │ 2'
wait_for '\^\[\[31mred' 'an escape sequence of an answer is not made visible'
line '/set screen.markdown off'
wait_for '\- one \*\*bold\*\* word'
keys F2 y
wait_for 'copied'
grep -q '^- one \*\*bold\*\* word$' "$work/state/vlmsh/copy.txt" || fail 'the copy is not raw'
keys Escape; sleep 0.2
line '/set screen.markdown on'
line /clear

# A toggle in the middle of an answer is marked where it took effect; a truncated answer says so.
line '/set sample.ignore_eos on'
line '/set ctx.max 1000000'
line '/set sample.max_tokens 3'
line 'a short question'
wait_for 'cut off after 3 tokens'
line '/set sample.max_tokens 1000000'
wait_for 'max_tokens = 1000000'
line 'a slow question'
wait_for 'cpu [-|/\\] ' # the answer runs
sleep 1
keys M-1
wait_for 'cpu .* NORM '
# Ctrl-C names the lines it dropped.
line '/get sample.seed'
line '/wait'
wait_for '+2 waiting'
keys C-c
wait_for 'not run: /get sample.seed, /wait' 'Ctrl-C does not name the dropped lines'
wait_for '⟨stopped⟩'
keys F2 /
tmux send-keys -l '⟨norm.align'
keys Enter
wait_for '⟨norm.align' 'a toggle is not marked in the answer'
# n continues upwards, in the direction of the search; N goes back.
tmux send-keys -l '/max_tokens = '
keys Enter
keys n
sleep 0.3
shown "no more matches" && fail 'n does not continue upwards'
keys N
sleep 0.3
shown "no more matches" && fail 'N does not go back'
keys N
wait_for "no more matches for 'max_tokens = '"
keys Escape; sleep 0.2

# A question that begins with // is shown once, as it was sent.
line '/set sample.max_tokens 1'
line '//etc is a folder'
wait_for '❯ /etc is a folder'
shown '//etc is a folder' && fail 'a question that begins with // is shown twice'
line '/set sample.max_tokens 1000000'

# The scroll position has its own field on the status line.
keys PageUp
wait_for '^ llava.* lines below: PageDown' 'the position is not on the status line'
keys F2 End
wait_gone 'lines below'
keys Escape; sleep 0.2

# After a key that changed nothing, the panel still follows settings.
line 'another slow question'
wait_for 'cpu [-|/\\] ' # the answer runs
sleep 1
keys F4 End Left Right Down
wait_for 'sample.top_k: 0'
keys Up
wait_for 'sample.temperature: 0..100'
keys d; sleep 0.2
keys Escape; sleep 0.2
line '/set sample.temperature 0.5'
wait_for '│[* ] temperature  *0\.5 ' 'the panel no longer follows settings'
line '/set sample.temperature 0'
wait_for '│[* ] temperature  *0 '
keys C-c
wait_for '⟨stopped⟩'

# Columns with the same unit are drawn; a line names the others.
line '/set sample.max_tokens 4'
line "/image $pictures/scene.png"
line 'one more'
wait_for ' 4 tokens,'
line '/flops'
wait_for 'flops.layers  GFLOP full  GFLOP now' 'the curves are not those of figures'
wait_for 'press u for rows, FFN rows' 'curves of another unit are drawn, or not named'
keys F5 End
wait_for '┊│' 'End does not move the cursor to the last value'
keys Escape

# The next shell offers the session of a killed one.
shell=$(running "$work/db" | head -1)
kill -9 "$shell"
while [ -e "/proc/$shell" ]; do sleep 0.05; done # its lock ends with the process
start 80 24
wait_for 'did not end properly; its session is' 'the session of a crash is not offered'
wait_for '/session resume'
line /quit
wait_for 'shell> *$'
start 80 24
sleep 0.5
shown 'did not end properly' && fail 'a session that ended is offered'

# A table wider than the panel keeps one line per row and scrolls sideways. An attached picture is
# shown before it is sent, until the next lines appear.
line "/image $pictures/scene.png"
wait_for '─ attached ─' 'no thumbnail of an attached picture'
line /images
wait_gone '─ attached ─'
wait_for '^  *0  *64  *48  *25  next message .*›' 'the row is wrapped, or not marked'
keys F2 Right Right Right Right
wait_for '‹.*next message .*scene.png *[0-9a-f]*' 'the table does not scroll sideways'
keys Left Left Left Left
wait_gone '‹'
keys Escape; sleep 0.2

# A dropped file (a pasted path) is shown, too.
line '/image --clear'
cp $pictures/scene.png "$work/my scene.png"
tmux set-buffer "file://$work/my%20scene.png"
tmux paste-buffer -p
wait_for 'attached .*scene.png'
wait_for '─ attached ─' 'no thumbnail of a dropped picture'
tmux set-buffer "'$work/my scene.png' "
tmux paste-buffer -p
wait_for '─ attached (last of 2) ─'
line '/image --remove 1'
wait_for 'removed picture 1' # the second attached picture
line /quit
wait_for 'shell> *$'

# A removed picture leaves the panel.
shell_at 140 40
line "'$VLMSH' --db '$work/removed.db' demo/model"
wait_for 'F1 keys'
line '/image demo/pictures/scene-1.png'
wait_for 'scene-1.png 96x96'
line '/image demo/pictures/scene-2.png'
wait_for 'scene-2.png 96x96'
line '/image --remove 1'
wait_for 'removed picture 1'
wait_gone 'scene-2.png 96x96'
wait_for 'scene-1.png 96x96' 'the picture that stays is not shown'
line '/image --remove 0'
wait_for 'no picture yet' 'the removed picture is still shown'
line '/image demo/pictures/scene-3.png'
wait_for 'scene-3.png 96x96'
line '/image --clear'
wait_for 'no picture yet' '--clear leaves the picture'

# An empty list has no pages.
line '/reset all'
keys F4 c
wait_for 'all settings are at their defaults'
keys PageDown c
wait_for 'chat.template: '
keys Escape; sleep 0.2
line /quit
wait_for 'shell> *$'
