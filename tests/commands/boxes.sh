# tests/commands/boxes.sh -- /boxes: the table, files, how numbers are read, and what is left out.
. tests/commands/common.bash

talk() { # ANSWER: a conversation about scene-1.png (96 x 96 pixels)
    jq -n --arg picture "$root/demo/pictures/scene-1.png" --arg answer "$1" '[
        {role: "user", content: [{type: "image", path: $picture}, {type: "text", text: "Where?"}]},
        {role: "assistant", content: $answer}]' >"$work/talk.json"
}
talk $'red circle: [0.25, 0.5, 0.75, 1]\n- H: [0, 0, 0.5, 0.5]\nor [12, 13, 14, 15]'
cd "$work"
session boxes "$root/demo/model" <<'S'
> /boxes
error: no answer about a picture: attach one with /image, then ask
> /messages talk.json
appended 2 messages and 1 picture from 'talk.json'
> /boxes
[boxes]
label       kind   x   y   w   h
red circle  box   24  48  48  48
H           box    0   0  48  48
picture 0, in its pixels; numbers read as llava: 0 to 1 of the square that the encoder sees (image.boxes)
left out: 1 box outside the picture
S
echo mine >other.csv
lines "/load '$root/demo/model'" "/messages talk.json" "/boxes other.csv" "/boxes other.csv --force"
check "another file is replaced only with --force" '[inputs, .] | map(select(.event=="done").ok) | map(tostring) | join(" ")' 'true true false true'
lines "/load '$root/demo/model'" "/messages talk.json" "/boxes boxes.csv" "/boxes boxes.png" "/boxes boxes.txt" \
    "/set image.boxes pixels" "/boxes"
same "the file that was replaced" "$(cat other.csv)" "$(cat boxes.csv)"
same "boxes in the saved CSV" "$(cat boxes.csv)" $'label,kind,x,y,w,h\n"red circle","box",24,48,48,48\n"H","box",0,0,48,48'
check "a box in pixels" 'select(.event == "table" and .name == "boxes").rows[2]' '[
  "",
  "box",
  12,
  13,
  2,
  2
]'
check "kinds of files written" 'select(.event == "written").what' $'csv\nfigure'
check_has "no such format" 'select(.event == "error").message' "boxes.txt"
# A picture of 96 pixels becomes a figure of 320 points, two pixels per point.
lines "/image boxes.png"
check "size of the figure" 'select(.event == "attached").width' 640
talk '[100, 100, 200, 200]'
lines "/set image.boxes pixels" "/load '$root/demo/model'" "/messages talk.json" "/boxes"
check "no box within the picture" 'select(.event == "error").message' "the last answer has no box within the picture; boxes left out: 1. \
Their numbers were read as pixels (pixels of the picture); image.boxes changes that"
talk 'nothing'
lines "/load '$root/demo/model'" "/messages talk.json" "/boxes"
check "error without a box" 'select(.event == "error").message' "the last answer has no boxes"
finish
