# tests/tui/disk.sh -- leaving the full screen while the database cannot be written (sessions/rescue.c):
# a message below the screen and the exit status report unsaved turns, and a script keeps them.
set -eu
. tests/tui/tmux.bash
VLMSH=$(realpath "$VLMSH")
mkdir "$work/tmp"
shell_at 200 24
line "cd '$PWD'; export TMPDIR='$work/tmp'; ulimit -f 200; clear"
line "'$VLMSH' $model"
wait_for 'Type a question'
line '/set sample.max_tokens 2'
line '/set sample.ignore_eos on'
wait_for 'sample.ignore_eos = on'
for i in $(seq 20); do
    line "question $i"
    wait_for "question $i\$\|question $i  *│"
    wait_for '2 tokens'
    shown 'not saved yet' && break
done
wait_for 'not saved yet' 'a full disk is not reported'
line "/save $work/unsaved.md"
wait_for 'the session could not be saved' '/save hides that the disk is full'
line '/quit'
wait_for 'not saved (' 'no message below the screen'
line 'echo status $?'
wait_for 'status 1'
script=$(ls "$work"/tmp/vlmsh-unkept-*/*.vlmsh)
grep -q "^question $i\$" "$script" || fail "the script lacks the question: $(cat "$script")"
grep -q '^question 1$' "$script" || fail "the script lacks what was kept: $(cat "$script")"
