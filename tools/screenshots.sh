#!/bin/bash
# tools/screenshots.sh -- takes screens for README.md and docs/ from the real program in tmux:
# pictures (FOLDER/*.png), and the text of the first screen for docs/chat.md, between its <!-- screen
# --> lines.
#
#   tools/screenshots.sh VLMSH SHOT FONT MODEL FOLDER
set -eu
vlmsh=$(realpath "$1") shot=$(realpath "$2") font=$(realpath "$3") model=$(realpath "$4")
mkdir -p "$5"
folder=$(realpath "$5") root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
server=vlmsh-shot-$$
tmux() { command tmux -L "$server" -f /dev/null "$@"; }
trap 'tmux kill-server 2>/dev/null || true; rm -rf "$work"' EXIT
export HOME=$work XDG_STATE_HOME=$work/state XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config
export LC_ALL=C.UTF-8 INPUTRC=/dev/null
unset LINES COLUMNS NO_COLOR

line() { tmux send-keys -l "$1"; tmux send-keys Enter; }
keys() { tmux send-keys "$@"; }
wait_for() {
    for _ in $(seq 1200); do
        tmux capture-pane -p | grep -q -e "$1" && return
        sleep 0.1
    done
    echo "nothing shows '$1':" >&2
    tmux capture-pane -p >&2
    exit 1
}
picture() { sleep 0.5; rm -f "$folder/$1.png"; tmux capture-pane -e -p | "$shot" "$font" "$folder/$1.png"; echo "  $folder/$1.png"; }

# Makes a world for the pictures, and a short name for the model.
cd "$work"
ln -s "$model" demo
mkdir -p "$XDG_CONFIG_HOME/vlmsh"
echo '/set screen.theme dark' >"$XDG_CONFIG_HOME/vlmsh/config" # tmux does not report the background
"$vlmsh" scenes 40 world --seed 5 >/dev/null 2>&1

start() { # COLUMNS LINES [VAR=VALUE]
    tmux kill-server 2>/dev/null || true
    server=$server+
    rm -f "$XDG_STATE_HOME/vlmsh/layout" # F7's last choice
    tmux new-session -d -x "$1" -y "$2" "env TERM=screen-256color ${3:-} '$vlmsh' demo"
    wait_for 'Type a question'
}

# Asks two questions, enables pruning by a key, and shows how much FFNs change the tokens.
talk() {
    line '/image world/pictures/000003.png'
    wait_for '1 picture\]'
    line 'Describe the picture.'
    wait_for ' s; [0-9]* token'
    keys M-2
    wait_for 'prune.score = contribution'
    line '/set prune.layer 2'
    wait_for 'prune.layer = 2'
    line 'What colour is the background?'
    wait_for 'What colour'
    wait_for 'CAPA 25% @2 *[CF]' # no longer stale: answered
    line '/redundancy'
    wait_for '^│ *7 .*│' # the last layers
}

start 120 36 COLORTERM=truecolor
keys M-t # tints the answers
wait_for 'screen.tint picture'
talk
keys F3 Home
wait_for 'token 0'
picture workbench
keys Escape
sleep 0.3
line '/undo'
line '/undo'
line '/set prune.score off'
line '/image world/pictures/000003.png'
wait_for '1 picture\]'
line '/compare off | prune.score=contribution prune.layer=1 prune.keep=0.06 Describe the picture.'
wait_for 'B: prune'
keys F12
picture compare
keys Escape
sleep 0.3

# Watches a job.
line '/clear'
line '/set train.method layernorm-simple'
line '/set train.batch 4'
line '/set train.steps 60'
line '/train world/dense.json norms'
wait_for 'train started'
keys F7
wait_for '─ jobs ─'
line '/image world/pictures/000007.png'
wait_for '1 picture\]'
line 'How many objects are there?'
wait_for ' s; [0-9]* token'
line '/attention --layer 2'
wait_for 'max at token'
line '/norms'
wait_for 'norms.attention'
wait_for 'job 1: loss'
wait_for ' job 1 [4-9][0-9]%'
keys C-l
picture maps
line '/wait' # otherwise the job's message would appear in the next screen
wait_for '(train) is done'

# Takes the screen as text, without colours.
start 104 36 NO_COLOR=1
talk
sleep 0.5
tmux capture-pane -p | sed 's/ *$//' >"$work/screen"
awk -v screen="$work/screen" '
    /^<!-- screen -->$/ { print; print "```text"; while ((getline line < screen) > 0) print line; print "```"; skip = 1; next }
    /^<!-- end of screen -->$/ { skip = 0 }
    !skip' "$root/docs/chat.md" >"$work/chat.md"
cmp -s "$work/chat.md" "$root/docs/chat.md" || cp "$work/chat.md" "$root/docs/chat.md"
echo "  docs/chat.md"
