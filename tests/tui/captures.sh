# tests/tui/captures.sh -- compares screens with reviewed captures: text and attributes, with and
# without colours, at three sizes. UPDATE=1 rewrites the captures: review the difference.
set -eu
. tests/tui/tmux.bash
folder=tests/tui/captures
wrong=0

compare() { # NAME [LINES]
    local tries=40 # passes in the background, such as those of a strip of layers, still draw
    [ "${UPDATE:-}" != 1 ] || { tries=1 && sleep 5; }
    while sleep 0.3; do
        tmux capture-pane -e -p | python3 tests/tui/captured.py ${2:+"$2"} >"$work/$1"
        [ $((--tries)) -gt 0 ] || break
        ! python3 tests/tui/captured.py --compare "$folder/$1.txt" "$work/$1" >"$work/differs" || return 0
    done
    if [ "${UPDATE:-}" = 1 ]; then
        cp "$work/$1" "$folder/$1.txt"
    else
        cat "$work/differs"
        wrong=1
    fi
}

# A text longer than the screen, with difficult parts: wide characters, combining marks, code, long words.
{
    for i in $(seq 30); do
        echo "line $i of a text that was pasted, long enough to be wrapped where the panel is narrow"
    done
    printf '猫がマットの上に座っている。窓の外では雨が降り続き、庭の木々は静かに揺れている。遠くで鐘が鳴った。\n'
    printf 'cafe\xcc\x81, \xf0\x9f\x98\x80 and a word that is too long: %s\n' "$(printf 'x%.0s' $(seq 130))"
    printf '```\nfor (i = 0; i < n; i++)\n    sum += row[i] * row[i];   // code keeps its blanks\n```\nWhat is this?' # words: ok
} >"$work/text"

begin() { # COLUMNS LINES [VAR=VALUE]
    shell_at "$1" "$2" screen-256color "${3:-}"
    rm -rf "$work/state"
    line "'$VLMSH' $model"
    wait_for 'llava-1.5 cpu'
    line '/set sample.max_tokens 1'
    wait_for 'max_tokens = 1'
    line "/image $pictures/scene.png"
    wait_for '\[1 picture\] vlmsh>'
    tmux load-buffer -b text "$work/text"
    tmux paste-buffer -p -r -b text
    wait_for 'What is this'
    keys Enter
    wait_for ' s; 1 token,'
    wait_for '^vlmsh> *$'
}

looks="colour mono"
sanitized() { [[ $VLMSH == */san/* ]]; }
! sanitized || looks=colour # the same code draws both
for look in $looks; do
    variable=
    [ $look = colour ] || variable=NO_COLOR=1
    begin 80 24 $variable
    compare "chat-80x24-$look"
    line '/attention --layer 1'
    wait_for 'max at token'
    keys F3
    wait_for 'attention layer 1'
    compare "map-80x24-$look"
    keys F1
    wait_for 'keys: image'
    keys PageDown PageDown PageDown
    wait_for 'layout: chat, workbench, maps, compare, changed' 'a note of F1 is cut'
    compare "keys-80x24-$look"
    begin 120 40 $variable
    compare "workbench-120x40-$look"
    line '/attention --layer all'
    wait_for 'most attention to'
    keys F3 g
    wait_for 'mean [0-9]*%.*h0 [0-9]*%'
    keys Right
    wait_for 'head 0'
    compare "heads-120x40-$look"
    keys g
    wait_for '0\.[0-9] [0-9]*%'
    compare "heads-all-120x40-$look"
    keys Escape
    wait_gone '0\.[0-9] [0-9]*%'
    keys c
    wait_for 'token [0-9]* ('
    compare "values-120x40-$look"
    keys Escape
    wait_gone 'token [0-9]* ('
    keys F5 Left
    wait_for 'layer [0-9]: [0-9.]*%'
    compare "curves-120x40-$look"
    keys Escape # ends the cursor
    sleep 0.3
    keys Escape
    wait_gone 'Left Right: values'
    if [ $look = colour ] && ! sanitized; then
        # Two runs of a curve, without its outliers; the pointer over a map; without sinks; beside the picture.
        keys M-1
        wait_for 'norm.align = on'
        line '/attention --layer all'
        keys F5 z g
        wait_for '1 before *zoomed'
        compare zoomed-120x40-colour
        keys z g Escape
        wait_gone 'Left Right: values'
        keys M-1
        wait_for 'norm.align = off'
        line '/set sinks.tau 2.25'
        tmux send-keys -l "$(printf '\033[<35;95;8M')"
        wait_for 'token [0-9]* ('
        compare hover-120x40-colour
        keys F3 n
        wait_for 'left out (phi'
        compare sinks-120x40-colour
        keys n
        wait_gone 'left out (phi'
        keys o
        wait_for 'beside'
        compare beside-120x40-colour
        keys o o o Escape
        wait_gone 'o: view'
        keys -l '/set sample.top_'
        keys Tab Tab
        wait_for 'Top-k sampling'
        compare menu-120x40-colour
        keys C-u
        keys F9 F9 F9 F9
        wait_for '/set screen.theme contrast'
        compare contrast-120x40-colour
        keys F9
        wait_for '/set screen.theme default'
    fi
    line '/set sample.max_tokens 8'
    line '/compare off | prune.score=contribution prune.layer=1 What is it?'
    wait_for 'B: prune'
    keys F12 Left
    wait_for 'token 6 (of 8'
    compare "compare-120x40-$look" 26
    if [ $look = colour ]; then
        keys Escape
        wait_gone 'token 6 (of 8'
        line /clear # the table's columns depend on the digits of floats
        line '/set screen.tint entropy'
        wait_for 'tint: entropy'
        line 'What is it?'
        wait_for '8 tokens,'
        wait_for 'entropy (nats)  0 '
        compare "tint-120x40-$look" 26
    fi
    begin 200 60 $variable
    keys F7
    wait_for '─ jobs ─'
    keys C-l # the hint disappears
    wait_gone 'layout: maps'
    compare "maps-200x60-$look"
done

# The widest workbench; a text-only model, which has the whole width; the palette; the start.
absolute=$(realpath "$VLMSH") here=$PWD
fresh() { # COLUMNS LINES MODEL: a conversation without the lines that name this machine
    shell_at "$1" "$2" screen-256color "HF_HUB_CACHE='$work/hub'"
    rm -rf "$work/state"
    mkdir -p "$work/hub/models--org--tiny/snapshots"
    line "cd '$work' && '$absolute' ${3:-}"
    wait_for 'F1 keys'
    line '/set sample.max_tokens 1'
    wait_for 'max_tokens = 1'
    line '/clear'
    wait_for 'the conversation was cleared'
}
fresh 200 60 "'$here/$model'"
line "/image '$here/$pictures/scene.png'"
line 'What is this?'
wait_for ' s; 1 token,'
line '/clear'
wait_for 'no picture yet'
compare workbench-200x60-colour
fresh 120 40 "'$here/tests/goldens/llama-3.2'"
compare text-120x40-colour
keys C-p
keys -l 'norm.al'
wait_for 'norm.align = off'
compare palette-120x40-colour
# Jobs: columns, last values, curves of training and validation, a marked job beside the selected one.
shell_at 120 40 screen-256color
"$VLMSH" --db "$work/jobs.db" -c '/get sample.seed' >/dev/null 2>&1
mkfifo "$work/end"
python3 tests/tui/job_rows.py "$work/jobs.db" <"$work/end" >"$work/ready" &
exec 9>"$work/end"
until grep -q ready "$work/ready" 2>/dev/null; do sleep 0.1; done
for size in '80 24' '120 40'; do
    shell_at $size screen-256color
    line "'$VLMSH' --db '$work/jobs.db' $model"
    wait_for 'F1 keys'
    line /clear
    wait_for 'the conversation was cleared'
    keys F6
    wait_for '6  train  *running .*starting' 'a job without steps has no progress'
    keys Down Down Down Space Up
    wait_for '\*3  train  *paused'
    wait_for 'job 4: loss  validation_loss  job 3'
    compare "jobs-${size/ /x}-colour"
done
exec 9>&-
if ! sanitized; then
    # The questions of a data set that one side answers worse.
    fresh 120 40 "'$here/demo/model'"
    "$VLMSH" scenes 4 "$work/world" --seed 2 --kind yesno >/dev/null
    line '/set compute.matmul f32' # the answers then do not depend on the processor
    line '/compare off | prune.score=uniform prune.layer=input prune.keep=0.25 --data world/yesno.json'
    wait_for 'question 1 of [0-9]*'
    compare changed-120x40-colour 25
fi
fresh 80 24
line '/open start'
wait_for 'how to begin'
compare start-80x24-colour
exit $wrong
