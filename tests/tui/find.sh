# tests/tui/find.sh -- finding things in the full screen: Ctrl-P over everything, Tab's sentence on the
# chosen candidate, keys of focused panels (?, /, numbers), the line that does what a key does (/last),
# the remembered layout.
set -eu
. tests/tui/tmux.bash
here=$PWD
mkdir -p "$work/here/in/deep" "$work/hub/models--org--tiny/snapshots"
ln -s "$here/$model" "$work/hub/models--org--tiny/snapshots/abc123"
cp "$pictures/scene.png" "$work/here/in/deep/kitten.png"
echo '/get sample.seed' >"$work/here/in/steps.vlmsh"
shell_at 120 30 screen-256color "HF_HUB_CACHE='$work/hub'"
start() {
    line "cd '$work/here' && '$(realpath "$VLMSH")' '$here/$model' $*"
    wait_for 'vlmsh> *$'
    wait_for 'llava-1.5 cpu'
}
find() { # TEXT PATTERN: an item and its description
    keys C-p
    wait_for 'find: commands and settings'
    keys -l "$1"
    wait_for "$2"
}
start --session trip
line '/set sample.max_tokens 2'
line 'a question to find'
wait_for '; 2 tokens,'
find kitten 'in/deep/kitten.png *image .*in/deep/kitten.png'
keys Enter
wait_for '\[1 picture\] vlmsh>'
find steps.vl 'Enter runs /run in/steps.vlmsh'
keys Escape; sleep 0.2
find 'to find' 'a question to find *earlier line'
keys Enter
wait_for 'vlmsh> a question to find'
keys C-u
find trip 'Session trip'
keys Escape; sleep 0.2
find org/ti 'Model org/tiny, in the cache'
keys C-u; keys -l 'norm.align'
wait_for '  norm.align = off'
keys C-u; keys -l '/undo'
wait_for 'Removes the last question'
keys Escape; sleep 0.2

# The second Tab chooses a candidate.
keys -l '/con'; keys Tab Tab
wait_for 'How stable an answer' 'no sentence on the chosen command'
keys C-u
keys -l '/set sample.top_'; keys Tab Tab
wait_for 'Top-k sampling' 'no sentence on the chosen setting'
keys C-u

# Keys of a focused panel.
keys F3 3
wait_for 'Left Right: group'
keys / ; keys -l 'top_k'; keys Enter
wait_gone ' temperature '
keys Down Up Enter
keys BSpace; keys 7; keys Enter
wait_for '^ /set sample.top_k 7 ' 'the line of the key is not shown'
keys '?'
keys End
wait_for 'in every panel:'
keys Escape; sleep 0.2
keys Escape; sleep 0.2 # removes the filter
wait_for ' temperature '
keys 1
wait_for '/: search'
keys 5
wait_for 'no jobs yet'
keys 2
wait_for 'o: view'
keys Escape; sleep 0.2
keys -l '1+1'
wait_for 'vlmsh> 1+1'
keys C-u
line /last
wait_for 'copied, also to'
[ "$(cat "$work/state/vlmsh/copy.txt")" = '/set sample.top_k 7' ] || fail '/last copies another line'
keys M-1
wait_for '^ /toggle norm.align'
line 'What is this?'
wait_for 'visual), .* 2 tokens,'
keys F3 Up
wait_for '^ /attention --picture 0 --layer 3'
keys Escape; sleep 0.2

# In a list, ? before a search shows its keys.
keys C-o
wait_for 'attach a picture'
keys '?'
wait_for 'keys: list'
keys Escape; sleep 0.2

# The layout that F7 chose is there at the next start.
keys F7
wait_for '^ /set screen.layout maps'
keys F10
wait_for 'shell> *$'
start
wait_for '─ jobs ─' 'the layout is not remembered'
line '/set screen.layout auto'
wait_gone '─ jobs ─' # the setting takes precedence over F7's choice
keys C-p
wait_for 'find:'
keys -l trip
wait_for 'Session trip .*\|Session trip'
keys Enter
wait_for "resumed 'trip'"
keys F10
wait_for 'shell> *$'
