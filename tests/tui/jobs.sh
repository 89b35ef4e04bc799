# tests/tui/jobs.sh -- the full screen: starts and watches a job, pauses and cancels it with keys;
# leaves a session and resumes it in the picker, with its draft although the program was killed;
# compares two answers and goes back; sets a value with spaces in the middle of an answer.
set -eu
. tests/tui/tmux.bash
. tests/processes.bash
shell_at 120 36
"$VLMSH" scenes 12 "$work/scenes" --seed 3 >/dev/null 2>&1 || fail "vlmsh scenes fails"
line "'$VLMSH' $model --session first"
wait_for 'llava-1.5 cpu'

# A job has a row, a curve and a place in the status line; keys pause, resume and cancel it.
line '/set sample.max_tokens 8'
line '/set train.method layernorm'
line '/set train.batch 1'
line '/set train.steps 100000'
wait_for 'steps = 100000'
line "/train $work/scenes/dense.json $work/out"
wait_for 'job 1: train started'
wait_for '  F6 job 1 [0-9]*%' 'the status line does not show the job'
keys F6
wait_for '1  train  *running'
wait_for 'job 1: loss' 'there is no curve'
wait_for 'p: pause' 'the keys of the panel are not shown'
wait_for 'job  kind  *state .* left .* loss  memory' 'the columns have no titles'
wait_for '1  train  *running .*%.* MB'
wait_for 'grad_norm [0-9.]*  tokens_per_s' 'the last values of the series are not shown'
keys Space
wait_for '\*1  train' 'a marked job looks like any other'
keys Space
keys / ; keys -l 'eval'
wait_for "no job matches 'eval'"
keys Escape
wait_for '1  train  *running'
keys l
wait_for '❯ /job 1 log'
keys =
wait_for '❯ /plot 1 loss'
keys p
wait_for '1  train  *paused'
# The selected row is reversed, except its bar, which would be black on black.
tmux capture-pane -pe | grep '1  train' >"$work/row"
python3 - "$work/row" <<'END' || fail 'the bar of the selected job is reversed, or its row is not'
import re, sys
reverse, row, how = False, "", []
for sgr, character in re.findall(r"\x1b\[([0-9;]*)m|(.)", open(sys.argv[1]).read()):
    for code in re.sub(r"[34]8;5;\d+", "", sgr).split(";") if not character else []:
        reverse = code == "7" or (reverse and code not in ("", "0", "27"))
    row, how = row + character, how + [reverse] * len(character)
at = row.index("1  train")
sys.exit(not how[at] or how[row.index("\u2591", at)])
END
keys r
wait_for '1  train  *running'
keys c
wait_for '1  train  *cancelled'
keys Enter
wait_for '  \* loss' # the job's details
keys Escape; sleep 0.2
# A small screen still shows the output of a panel's key, although the panel covers the conversation.
line '/clear'
tmux resize-window -x 80 -y 24
wait_gone '  \* loss'
keys F6
wait_for 'p: pause'
keys Enter
wait_for '  \* loss' 'the panel hides what its key shows'
tmux resize-window -x 120 -y 36

# Two answers side by side; keys step through their tokens; Esc goes back.
line "/image $pictures/scene.png"
line 'What is this?'
wait_for '8 tokens, '
line '/compare off | prune.score=contribution prune.layer=1'
wait_for '─ compared ─'
wait_for 'A: off .*B: prune.score=contribution'
wait_for '» .*» ' 'the divergence is not marked'
wait_for 'token [0-9] (of 8 | 8)'
keys F12; sleep 0.2
keys Home
wait_for 'token 0 (of 8'
wait_for 'compare.A layer 2 token 0 .*compare.B layer 2 token 0'
keys Right Right
wait_for 'token 2 (of 8'
keys Escape
wait_gone '─ compared ─'
wait_for '─ picture ─'
keys F12
wait_for 'token 2 (of 8'
keys Escape; sleep 0.2

# A value with spaces applies from the next token on, not after the answer.
line '/set sample.ignore_eos on'
line '/set sample.max_tokens 1000000'
line '/set ctx.max 1000000'
wait_for 'ctx.max = 1000000'
line 'a slow question'
wait_for '❯ a slow question'
wait_for ' tok/s ' # the answer runs
line '/set chat.date 26 Jul 2024'
wait_for 'chat.date = 26 Jul 2024' 'a value with spaces waits for the end of the answer'
keys C-c
wait_for 'stopped  *│'

# Typed text is saved while typing: killing the program loses nothing.
keys -l 'typed and never sent'
wait_for 'vlmsh> typed and never sent'
sleep 2
shell_pid=$(tmux display-message -p '#{pane_pid}')
kill -KILL $(children_of "$shell_pid")
wait_for 'Killed'
line 'stty sane; reset'
wait_for 'shell> *$'
line "'$VLMSH' $model"
wait_for 'vlmsh> typed and never sent' 'the draft is lost'
keys F8
wait_for 'resume a session'
keys End; keys Down Down Down Down
keys -l 'sess'
keys Enter
wait_for 'resume a session *─'
wait_for 'first  *[0-9-]* .*What is this'
keys Enter
wait_for "resumed 'first'" 'the session is not resumed'
for _ in $(seq 100); do # the answer may be longer than the screen
    shown 'a slow question' && break
    keys PageUp
    sleep 0.1
done
shown 'a slow question' || fail 'the conversation is missing'
wait_for 'vlmsh> typed and never sent' 'the draft is lost'
keys C-c
keys F10
wait_for 'shell> *$'
