# tests/tui/toggles.sh -- a fresh start with the demo model: Alt-1 to Alt-4 switch the four methods
# on and off without typing; then steps reach the kinds of maps of an answer; five legends show the
# smallest and the largest value of the map that the command of that kind makes.
set -eu
. tests/tui/tmux.bash

shell_at 160 44
line "'$VLMSH' --db '$work/db'"
wait_for 'F1 keys'

keys M-1
wait_for 'norm.align = on'
shown 'adapter = .*demo/model/methods/adapter' || fail 'Alt-1 loads no adapter'
shown 'without trained parameters' && fail 'the adapter has no norm alignment'
keys M-2
wait_for 'prune.score = contribution'
keys M-3
wait_for 'ffn.approx = hadamard'
shown 'ffn.calibration = .*demo/model/methods/ffn.safetensors' || fail 'Alt-3 loads no calibration'
keys M-4
wait_for 'ira.on = on'
shown 'NORM *CAPA 25% @3 *FFN auto *IRA *ADAPTER' || fail 'the badges of the four methods are missing'
line '/set adapter.when pictures'
wait_for 'IRA *ADAPTER pictures'
line '/set adapter.when always'
wait_gone 'ADAPTER pictures'
line '/image demo/pictures/scene-1.png'
wait_for '\[1 picture\]'
line 'Where is the red circle?'
wait_for 'tokens\?, '

# The legend shows the range of the command's map.
keys F3
wait_for ' layer 4 token 0'
keys k
wait_for 'contribution layer 4'
range() { # MAP: prints the smallest and largest value shown
    tmux capture-pane -p | grep -a -o "$1 .*│" | sed 's/[^0-9.e+ -]/ /g' | awk '{ print $(NF - 1), $NF }'
}
step() { # MAP LEGEND COMMAND...
    local map=$1 legend=$2 shown
    shift 2
    keys k
    wait_for "$legend"
    shown=$(range "$legend")
    "$VLMSH" --db "$work/db2" --json -f "$work/state.vlmsh" -c "$*" | jq -r --arg map "$map" \
        'select(.event == "heatmap" and .name == $map) | "\(.min) \(.max)"' |
        awk '{ printf "%.3g %.3g\n", $1, $2 }' >"$work/want"
    [ -s "$work/want" ] && [ "$shown" = "$(cat "$work/want")" ] || fail "$legend shows $shown, the command $(cat "$work/want")"
}
keys Escape
wait_gone 'o: view'
line "/save $work/state.vlmsh"
wait_for ' written to'
keys F3
wait_for 'o: view'
step stream.norms 'stream.norms layer 4' /stream --layer 4
step stream.similarity 'stream.similarity layer 4' /stream --layer 4
step sinks.phi 'sinks.phi layer 4' /sinks --layer 4
step kl 'kl layer 5' /kl --layer 5 # the nearest layer that has IRA
keys Up
sleep 0.5
shown 'kl layer 5' || fail 'a step leaves the layers of IRA'
step pruned.layers 'pruned.layers' /pruned
keys k
wait_for 'lens layer 5'
keys k
wait_for 'attention layer 5'

# The methods are switched off again, one by one: the badge and the method's maps disappear.
keys M-1 M-2 M-3 M-4
wait_gone '●' 'a method stays on'
keys Escape
wait_gone 'o: view'
line 'What is in the picture?'
wait_for 'a green diamond, a green letter H and a red circle'
keys F3
wait_for ' layer 4 token'
keys k k k k
wait_for 'sinks.phi layer 4'
keys k
wait_for 'lens layer 4'
keys k
wait_for ' layer 4 token'
keys F10
wait_for 'shell>'
