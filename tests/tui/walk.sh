# tests/tui/walk.sh -- random walks over the screen (tests/tui/walk.py) on four kinds of terminals in
# parallel. WALK_STEPS: steps on each terminal (90); WALK_SEED: a number (1), or `random`;
# LOOK=FOLDER keeps screens that differ. `make test-screen-walk` takes more steps with a new seed
# each time.
set -eu
export VLMSH PYTHONDONTWRITEBYTECODE=1 OMP_WAIT_POLICY=passive
seed=${WALK_SEED:-1}
[ "$seed" != random ] || seed=$RANDOM
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kind in blocks sixel kitty iterm; do
    python3 tests/tui/walk.py $kind "${WALK_STEPS:-90}" "$seed" >"$work/$kind" 2>&1 &
    pids+=($!)
done
wrong=0
for pid in "${pids[@]}"; do wait "$pid" || wrong=1; done
cat "$work"/*
exit $wrong
