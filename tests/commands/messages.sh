# tests/commands/messages.sh -- /messages, /answer: the goldens' chats give the reference's ids; a
# wrong file appends nothing.
. tests/commands/common.bash

# Our form of a golden's chat, pictures beside it under a relative path.
mkdir "$work/chats"
cp tests/goldens/pictures/*.png tests/goldens/pictures/*.jpg "$work/chats"
suffix() { (cd "$work/chats" && ls "$1".*); }
for model in tests/goldens/*/golden.json; do
    folder=${model%/golden.json}
    jq -c '{chat}' "$model" >"$work/chats.golden" # the whole file is large
    model=$work/chats.golden
    for name in $(jq -r '.chat[] | select(.add_generation_prompt).name' "$model"); do
        jq --arg name "$name" '[.chat[] | select(.name == $name).messages[]
            | .content |= if type == "string" then . else
                map(if .type == "image" then {type, path: .picture} else . end) end]' "$model" >"$work/chats/$name.json"
        for picture in $(jq -r '.. | .path? // empty' "$work/chats/$name.json"); do
            sed -i "s/\"path\": \"$picture\"/\"path\": \"$(suffix "$picture")\"/" "$work/chats/$name.json"
        done
        lines "/load $folder" '/set chat.date 26 Jul 2024' '/set sample.max_tokens 1' \
            "/dump ids $work/ids.safetensors" "/messages $work/chats/$name.json" '/answer'
        check "$folder $name" 'select(.event == "answer").prompt_tokens' \
            "$(jq --arg name "$name" '.chat[] | select(.name == $name).input_ids | length' "$model")"
        same "$folder $name ids" "$(python3 - "$work/ids.safetensors" <<'P'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
begin, end = json.loads(data[8:8 + n])["ids"]["data_offsets"]
print(json.dumps(list(struct.unpack("<%di" % ((end - begin) // 4), data[8 + n + begin:8 + n + end])), separators=(",", ":")))
P
)" "$(jq -c --arg name "$name" '.chat[] | select(.name == $name).input_ids' "$model")"
        rm -f "$work/ids.safetensors"
    done
done

bad() { # NAME JSON PART-OF-MESSAGE
    printf '%s' "$2" >"$work/chats/bad.json"
    lines "/load $llava" "/image $scene" "/messages $work/chats/bad.json" '/images' '/context' '/answer'
    check_has "$1: message" 'select(.event == "error").message' "$3"
    check_has "$1: file" 'select(.event == "error").message' "bad.json"
    check "$1: nothing appended" 'select(.name == "context").rows[0] | .[0] + .[1], .[2]' $'0\n25'
    check "$1: the waiting picture stays" 'select(.name == "images").rows[][4]' 'next message'
}
text='{"role": "user", "content": "hello"}'
bad "no JSON" '[{"role":' "not valid JSON"
bad "role" "[$text, {\"role\": \"king\", \"content\": \"x\"}]" 'message 1: "role"'
bad "content" '[{"role": "user", "content": 5}]' 'message 0: "content"'
bad "missing picture" '[{"role": "user", "content": [{"type": "image", "path": "tall.jpg"}]},
    {"role": "user", "content": [{"type": "image", "path": "none.png"}]}]' "none.png"
finish
