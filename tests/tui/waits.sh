# tests/tui/waits.sh -- the full screen and pipes: a pipe in place of a file does not block it, and
# Ctrl-C ends waiting for a script from a pipe.
set -eu
. tests/tui/tmux.bash
mkdir -p "$work/config/vlmsh" "$work/state/vlmsh"
mkfifo "$work/config/vlmsh/config" "$work/state/vlmsh/history" "$work/state/vlmsh/copy.txt" "$work/pipe" "$work/pipe.png"
shell_at 200 40
line "'$VLMSH' $model"
wait_for 'Type a question'
wait_for 'is a pipe, not a file'

line "/image $work/pipe.png"
wait_for "pipe.png'"
line '/image -'
wait_for 'standard input is the terminal'
line '/run -'
wait_for 'standard input is your terminal'

# A pipe without a writer; then one whose writer stops.
line "/run $work/pipe"
sleep 0.5
keys C-c
wait_for 'cancelled'
line '/set sample.max_tokens 5'
wait_for 'max_tokens = 5'
exec 8<>"$work/pipe"
line "/run $work/pipe"
printf '/set sample.max_tokens 6\n/set' >&8
wait_for 'max_tokens = 6'
keys C-c
wait_for 'pipe:2: cancelled'

# Ctrl-C ends the whole script, not only one of its answers.
printf '/set sample.ignore_eos on\n/set ctx.max 1000000\n/set sample.max_tokens 100000\nHi\n/set sample.max_tokens 8\n' \
    >"$work/script"
line "/run $work/script"
wait_for 'max_tokens = 100000'
sleep 0.5
keys C-c
wait_for "stopped after line 4 of"
shown 'max_tokens = 8' && fail 'the script continues after Ctrl-C'

# A pipe in place of the file for copied text does not block copying.
keys F2 Y
wait_for 'copied'
keys C-c
line /quit
wait_for 'shell> *$'
