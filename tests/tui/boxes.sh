# tests/tui/boxes.sh -- boxes of the last answer are drawn on the picture and follow image.boxes.
set -eu
. tests/tui/tmux.bash
shell_at 100 30
here=$PWD
line "cd '$here' && '$(realpath "$VLMSH")' --db '$work/db' demo/model"
wait_for 'Type a question'
jq -n --arg picture "$here/demo/pictures/scene-1.png" '[
    {role: "user", content: [{type: "image", path: $picture}, {type: "text", text: "Where?"}]},
    {role: "assistant", content: "circle: [0.2, 0.2, 0.7, 0.7]"}]' >"$work/talk.json"
red() { # cells in the colour of a box over the grey picture
    tmux capture-pane -pe | grep -o '[34]8;5;95m' | wc -l
}
wait_red() { # OPERATOR NUMBER
    for _ in $(seq 50); do
        [ "$(red)" "$1" "$2" ] && return
        sleep 0.1
    done
    fail "$(red) red cells, not $1 $2"
}
line "/messages $work/talk.json"
wait_for 'appended 2 messages'
wait_red -gt 8
line '/set image.boxes pixels'
wait_for 'image.boxes = pixels'
wait_red -lt 8
line '/set image.boxes auto'
wait_for 'image.boxes = auto'
wait_red -gt 8
line /quit
