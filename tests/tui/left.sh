# tests/tui/left.sh -- the time left for long work, on the status line (a comparison and a
# measurement over a data set) and in the panel of jobs (a training run). It disappears when the
# work ends.
set -eu
. tests/tui/tmux.bash
"$VLMSH" scenes 60 "$work/world" --seed 5 --kind yesno >/dev/null

shell_at 120 36
line "'$VLMSH' demo/model --db '$work/db'"
wait_for 'Type a question'
line "/compare off | prune.score=uniform prune.layer=input prune.keep=0.25 --data $work/world/yesno.json"
wait_for 'comparing .*[0-9]%, [0-9].* left' 'a comparison does not say how long it takes'
keys C-c
wait_for 'cancelled\|stopped'
wait_gone ' left '

line "/contribution --data $work/world/yesno.json"
wait_for '[0-9]%, [0-9].* left' 'a measurement does not say how long it takes'
keys C-c
wait_gone ' left '

line '/set train.method layernorm'
line '/set train.batch 1'
line '/set train.steps 1000'
wait_for 'steps = 1000'
line "/train $work/world/yesno.json $work/out"
wait_for 'job 1: train started'
keys F6
wait_for 'train  *running .*[0-9]%  *[0-9.]* \(s\|min\|h\) ' 'a job does not say how long it takes'
keys c
wait_for 'train  *cancelled'
wait_gone '[0-9]%  *[0-9.]* \(s\|min\|h\) '
keys Escape; sleep 0.2
line '/quit'
wait_for 'shell>'
