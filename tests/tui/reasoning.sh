# tests/tui/reasoning.sh -- the reasoning before an answer: folded and dim, opened by a key and by a click, even in a
# resumed session. UPDATE=1 rewrites the capture.
set -eu
. tests/tui/tmux.bash
capture=tests/tui/captures/reasoning-80x24-colour.txt
cp -r demo/model "$work/llava-1.5" # the name whose status line captured.py leaves out
python3 tests/commands/thinking.py "$work/llava-1.5"
cp demo/pictures/scene-1.png "$work"

shell_at 80 24
line "cd '$work'; '$VLMSH' llava-1.5"
wait_for 'Type a question'
line '/image scene-1.png'
wait_for '\[1 picture\] vlmsh>'
line 'What is in the picture?'
folded='▸ reasoning: 4 tokens (F2 r opens it)'
wait_for 'tokens (4 reasoning), '
wait_for "$folded"
wait_for '^[│ ]*a green letter H and a red circle'
wait_for '^vlmsh> *$'
sleep 0.3
tmux capture-pane -e -p | python3 tests/tui/captured.py | sed '1s/.*/ the machine/' >"$work/screen"
if [ "${UPDATE:-}" = 1 ]; then cp "$work/screen" $capture; fi
python3 tests/tui/captured.py --compare $capture "$work/screen" || fail "the screen differs from the capture"

keys F2
sleep 0.2
keys r
wait_for '^[│ ]*a green diamond'
wait_gone 'F2 r opens it'
keys r
wait_for "$folded"
row=$(tmux capture-pane -p | grep -n -F "$folded" | cut -d: -f1)
tmux send-keys -l $'\033[<0;6;'"${row}M"$'\033[<0;6;'"${row}m"
wait_for '^[│ ]*a green diamond' 'a click does not open the reasoning'
keys r
wait_for "$folded"
keys Escape; sleep 0.2
line '/set screen.reasoning show'
wait_for 'screen.reasoning = show'
line '/regen'
wait_for '^[│ ]*a green diamond'
line '/set screen.reasoning fold'
wait_for 'screen.reasoning = fold'
line '/session rename thought'
wait_for "renamed to 'thought'"
line '/quit'
wait_for 'shell>'
line clear
line "'$VLMSH' --session thought"
wait_for "▸ reasoning (F2 r opens it)"
wait_for '^[│ ]*a green letter H and a red circle'
line '/quit'
wait_for 'shell>'
