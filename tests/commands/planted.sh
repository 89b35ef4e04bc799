# tests/commands/planted.sh -- demo/planted.vlmsh runs: data of each cause, an adapter that learns from it, scores.
. tests/commands/common.bash

vlmsh --json -f demo/planted.vlmsh -D WORK="$work" -D SCENES=4 -D ASKED=2 -D STEPS=2 >"$work/events" 2>"$work/out" ||
    fail "$(tail -2 "$work/out")"
for cause in background watermark question; do
    [ -s "$work/answers-$cause/adapter_model.safetensors" ] || fail "no adapter for $cause"
done
check "three scores" 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "n")[1]' "8
8
8"
session "a cause that does not exist" <<E
> /scenes 4 $work/x --cause sky
error: --cause must be background, watermark or question, not 'sky'
> /scenes 4 $work/background --seed 7 --cause background --once
$work/background already holds these scenes: nothing to do
> /scenes 4 $work/background --seed 7 --cause watermark --once
error: '$work/background' already exists: choose another folder
E
finish
