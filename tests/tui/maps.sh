# tests/tui/maps.sh -- stepping through the maps of a finished answer: layers, heads, tokens and kinds are
# computed in the background; a click on the picture colours the words that attend to that patch, a
# click on a word shows its map.
set -eu
. tests/tui/tmux.bash

shell_at 140 40
line "'$VLMSH' --db '$work/db'"
wait_for 'F1 keys'
line '/image demo/pictures/scene-1.png'
wait_for '\[1 picture\]'
line 'What is in the picture?'
wait_for '12 tokens'
keys F3
wait_for ' layer 4 token 11' # live, or measured for an answer too fast for a map of each token

# The strip under the picture has a map of each layer; a click on one chooses its layer.
wait_for ' 0    1    2    3    4    5    6    7 '
wait_for '▀▀▀▀ ▀▀▀▀ ▀▀▀▀ ▀▀▀▀│▀▀▀▀│▀▀▀▀ ▀▀▀▀ ▀▀▀▀' 'the strip has not all layers'
wait_for ' 5[0-9]%  1[0-9]%  6[0-9]%  1[0-9]%  2[0-9]%  1[0-9]%  5[0-9]%  6[0-9]% ' 'the strip does not say how much each layer looks at the picture'
click() { tmux send-keys -l "$(printf '\033[<0;%d;%dM\033[<0;%d;%dm' "$1" "$2" "${3:-$1}" "${4:-$2}")"; }
layer() { # NUMBER
    at=$(tmux capture-pane -p | awk '/ 0    1    2    3 /{print NR}')
    click $((83 + 5 * $1)) "$at"
}
layer 6
wait_for 'layer 6 token 11'
layer 4
wait_for 'layer 4 token 11'

# All heads of the layer at once, then those of all layers, the most attention to the picture first.
keys g
wait_for 'mean [0-9]*%.* h[0-5] [0-9]*%'
keys Right
wait_for 'layer 4 head 0 token 11'
keys g
wait_for 'heads of all layers'
keys Home
wait_for '[0-7]\.[0-5] 9[0-9]%'
wait_for 'layer [0-7] head [0-5] token 11'
keys Enter
wait_gone '[0-7]\.[0-5] [0-9]*%'
for layer in 7 6 5 4 3 2 1 0; do # back to the mean, wherever the first head was
    ! shown "layer $layer head" || first=$layer
done
until shown 'layer [0-7] token 11'; do keys h; sleep 0.2; done
layer 4
wait_for "layer 4 token 11" "back from layer $first"

# Values of patches, by keys and by a click; the sinks of the layer.
keys c
most=$(tmux capture-pane -p | grep -o 'layer 4 token 11  *[0-9.e-]*  *[0-9.]*' | grep -o '[0-9.]*$')
wait_for "token [0-9]* (row [0-9]*, column [0-9]*): $most, [0-9.]*% of the map" 'the cursor begins elsewhere'
for _ in $(seq 12); do keys Left Up; done
wait_for 'token 0 (row 0, column 0)'
for _ in $(seq 5); do keys Right Down; done
wait_for 'token 65 (row 5, column 5)'
keys n
wait_for '[0-9] sinks* left out (phi >'
keys n Escape
wait_gone 'row 5, column 5'

# The mouse pointer over a patch shows its values in the line of the map's name, elsewhere nothing; the
# terminal reports movements only while a map is shown, and screen.hover is on.
moves() { [ "$(tmux display-message -p '#{mouse_all_flag}')" = "$1" ] || fail "$2"; }
point() { tmux send-keys -l "$(printf '\033[<35;%d;%dM' "$1" "$2")"; }
moves 1 'movements over a map are not reported'
point 105 8
wait_for 'token 87 (7, 3): [0-9.]*, [0-9.]*% .* [0-9.]*│' 'a patch under the pointer has no values'
point 30 8
wait_for 'layer 4 token 11' 'the values stay when the pointer leaves'
point 105 8
wait_for 'token 87 (7, 3)'
keys Escape # a key brings the map's name back
wait_gone 'token 87 (7, 3)'
keys C-p
wait_for 'find: commands'
moves 0 'movements are reported although a list covers the map'
keys Escape F3
wait_for 'o: view'

# A toggle measures the maps again: the line says whose settings they show.
keys M-2
wait_for '(changed settings)'
keys M-2
wait_for 'prune.score = off'
wait_gone '(changed settings)'

# Layers and heads change immediately; every fast key press counts.
keys Up
wait_for 'attention layer 5 token 11'
keys Down Down Down
wait_for 'attention layer 2 token 11'
keys h
wait_for 'attention layer 2 head 0 token 11'
keys h h h h h h
wait_for 'attention layer 2 token 11'
keys Left
wait_for 'attention layer 2 token 10'
keys Home
wait_for 'attention layer 2 token 0'
keys k
wait_for 'contribution layer 2 token 0'
keys k
wait_for 'stream.norms layer 2'
keys k
wait_for 'stream.similarity layer 2'
keys k
wait_for 'sinks.phi layer 2'
shown 'applies from the next answer' && fail 'a step waits for the next answer'

# Steps do not appear in the conversation.
shown '❯ /attention' && fail 'steps are written into the conversation'

# After a command, steps begin at the command's map.
keys Home Escape
wait_gone 'o: view'
line "/attention --layer 2 --token 0 --csv $work/map.csv"
wait_for 'maps written to' # the command has shown its map
keys F3
wait_for 'o: view'
keys Right
wait_for 'attention layer 2 token 1'

# Showing the picture alone hides the maps; the message says so.
keys o o o
wait_for 'picture alone'
keys Right
wait_for 'the picture is shown alone: o shows its maps'
keys o Right
wait_for 'attention layer 2 token 2'
keys Left

# A click on a word, a click on the picture. (Mouse sequences, as the terminal sends them.)
row=$(tmux capture-pane -p | grep -n 'a green diamond, a green letter' | head -1 | cut -d: -f1)
click 30 "$row"
wait_for 'attention layer 2 token 6'
click 105 8
wait_for 'coloured words attend here'
sleep 1
words() { tmux capture-pane -e -p | grep diamond | head -1 | grep -o '^[^▀]*' | grep -o '48;5;' | wc -l; } # counts backgrounds
[ "$(words)" -gt 4 ] || fail 'no words are coloured'
keys Escape
sleep 0.3
[ "$(words)" -lt 3 ] || fail 'the colours stay'

# A box drawn on the picture names positions in the command that is being typed.
keys Escape
wait_gone 'o: view'
tmux send-keys -l '/knockout '
wait_for '/knockout'
click 100 8 106 12
wait_for '/knockout picture\[[0-9.]*%,[0-9.]*%,[0-9.]*%,[0-9.]*%\]'
keys C-u F3
wait_for 'o: view'

# The maps are played from the first to the last.
keys Home
wait_for 'layer 2 token 0'
keys p
wait_for 'layer 2 token [1-9]'
wait_for 'layer 2 token 11'

# A command's map is shown, whatever the steps selected before.
keys Escape
wait_gone 'o: view'
line '/attention --layer 6'
wait_for 'attention layer 6'
keys F3
wait_for 'o: view'

# The curves: the cursor starts at the layer of the map; Enter shows the map of its layer.
keys Escape
wait_gone 'o: view'
line '/attention --layer all'
wait_for 'layer 7: [0-9.]*% '
keys F5 Left Left
wait_for 'layer 5: [0-9.]*% '
keys Enter
wait_for 'attention layer 5 '
keys z
wait_for 'zoomed'
keys z Escape # the cursor ends
wait_gone 'zoomed'
keys F3
wait_for 'o: view'

# A right click hides the token there, a second one shows it again; x hides the one of the map's highest value.
right_click() { tmux send-keys -l "$(printf '\033[<2;%d;%dM\033[<2;%d;%dm' "$1" "$2" "$1" "$2")"; }
right_click 105 8
wait_for 'HIDE 1 token'
right_click 105 8
wait_gone 'HIDE '
keys x
wait_for 'HIDE 1 token'
keys Escape
wait_gone 'o: view'
line '/hide off'
wait_gone 'HIDE '
keys F3
wait_for 'o: view'

# A narrow legend does not break its numbers.
keys Escape
wait_gone 'o: view'
line '/attention --layer 6 --token 11'
line '/set screen.layout workbench'
for width in 80 68; do
    tmux resize-window -x $width -y 24
    wait_for '─┐$'
    wait_for '[│ ]L6 t11 '
done
tmux resize-window -x 140 -y 40
wait_for 'attention layer 6 token 11'
keys F3
wait_for 'o: view'

# A line sent while maps are computed is answered. Without screen.hover, movements are not reported.
keys Up Escape
line 'Where is the red circle?'
wait_for '1 token,'
line '/set screen.hover off'
wait_for 'screen.hover = off'
moves 0 'movements are reported although screen.hover is off'
keys F10
wait_for 'shell>'
