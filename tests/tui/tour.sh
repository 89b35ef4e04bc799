# tests/tui/tour.sh -- /tour in the full screen: fifteen steps, run by Enter and recorded in the history;
# other lines may be typed between steps or in place of one, and Esc ends the tour. Also the greeting:
# the demo model and what it knows.
set -eu
. tests/tui/tmux.bash

shell_at 140 50 screen-256color "TMPDIR=$work"
line "'$VLMSH' --db '$work/db'"
wait_for 'demo model, trained on'
shown 'HuggingFaceTB/SmolVLM-256M-Instruct --exclude' || fail 'the greeting names no real model'
shown '\.\./' && fail 'the path of the demo model contains ../'
line '/tour'
wait_for 'step 1 of 15'
wait_for '> /image ".*scene-1.png"'
keys Enter
wait_for 'step 2 of 15'
keys Enter
wait_for 'step 3 of 15'
line "$(printf '\025')/get sample.seed" # after another line the step is shown again
wait_for 'sample.seed = 0'
wait_for '> /attention'
keys Enter
wait_for 'step 4 of 15'
keys Enter
wait_for 'knockout.windows'
wait_for 'step 5 of 15'
keys Enter
wait_for 'prune.score = contribution'
wait_for 'step 6 of 15'
keys Enter
wait_for 'B: prune'
wait_for 'step 7 of 15'
keys Enter
wait_for 'B: @norm-alignment'
wait_for 'step 8 of 15'
keys Enter
wait_for 'step 9 of 15'
keys Enter
wait_for 'step 10 of 15'
keys C-u
line '/set train.steps 2'
wait_for 'step 11 of 15'
keys Enter
wait_for 'step 12 of 15'
keys Enter
for _ in $(seq 150); do # the job has low priority, so it may take long on a busy machine
    shown 'step 13 of 15' && break
    sleep 2
done
wait_for 'step 13 of 15'
keys Enter
wait_for 'step 14 of 15'
wait_for 'norms. applied'
keys Enter
wait_for '^│  \* loss'
wait_for 'step 15 of 15'
keys Enter
wait_for 'end of the tour'
wait_for 'checkup started'
keys Up
wait_for '> /checkup'
keys C-u
line '/tour'
wait_for 'step 1 of 15'
keys Escape
wait_for 'the tour has ended'
keys F10
wait_for 'shell>'

# A text-only model has a tour without pictures.
line "'$VLMSH' --db '$work/db3' tests/goldens/llama-3.2"
wait_for 'F1 keys'
line '/set sample.max_tokens 4'
line /tour
wait_for 'step 1 of 7'
wait_for 'vlmsh> Name three colours'
for step in 2 3 4 5 6; do
    keys Enter
    wait_for "step $step of 7"
done
keys Enter
wait_for ' /help training '
keys q
wait_for 'step 7 of 7'
keys Enter
wait_for 'end of the tour'
wait_for 'checkup started'
shown 'picture.*error\|^! ' && fail 'a step of the tour fails'
keys F10
wait_for 'shell>'

# The program without its data uses a small random model, which it does not call the demo model.
mkdir "$work/alone"
cp "$VLMSH" "$work/alone/vlmsh"
line "'$work/alone/vlmsh' --db '$work/db2'"
wait_for 'random weights'
wait_for 'HuggingFaceTB/SmolVLM-256M-Instruct --exclude'
wait_for 'Ctrl-P finds'
shown 'demo model, trained on' && fail 'the random model is called the demo model'
keys F10
wait_for 'shell>'
