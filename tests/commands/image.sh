# tests/commands/image.sh -- /image, /images, /context: costs before sending, bad pictures, "-".
. tests/commands/common.bash

lines "/load $llava" "/image $scene tests/goldens/pictures/tall.jpg" '/images' '/context' \
    '/image --clear' '/images' '/context'
check_has "cost" 'select(.event == "notice").text' "25 visual tokens"
check "two pictures" 'select(.name == "images").rows | length' $'2\n0'
check "waiting" 'select(.name == "context").rows[0] | .[2] | tostring' $'50\n0'
check "left" 'select(.name == "context").rows[0] | .[4] - .[0] - .[1] - .[2] == .[5]' $'true\ntrue'

# The greedy answer to the golden's question.
lines "/load $llava" '/set sample.max_tokens 24' '/set sample.ignore_eos on' "/image $scene" \
    'What is in the picture?' '/images' '/context'
check "golden answer" 'select(.event == "answer").ids | tostring' "$(jq -c .forward.gen_ids build/${llava#tests/}/golden.json)"
check "visual tokens" 'select(.event == "answer") | .visual_tokens, .prompt_tokens' \
    "$(jq '.chat[] | select(.name == "single") | .image_tokens, (.input_ids | length)' build/${llava#tests/}/golden.json)"
check "where it is" 'select(.name == "images").rows[0][4]' "message 0"
check "context" 'select(.name == "context").rows[0][1]' 25

# More than the context holds is no negative number of tokens.
lines "/load $llava" '/set ctx.max 1' "/image $scene" '/set ctx.max 24' '/image --clear' "/image $scene" '/set ctx.max 25' \
    '/image --clear' "/image $scene"
check "too much" 'select(.event == "notice").text | capture("tokens; (?<x>.*)").x' \
    $'24 tokens too many for a context of 1\n1 token too many for a context of 24\n0 of 25 tokens left'

# Wildcards: all that match, in order; a file of that very name; none.
cp $scene "$work/a1.png"; cp $scene "$work/a2.png"; cp $scene "$work/b[1].png"
lines "/load $llava" "/image $work/a*.png" '/images' '/image --clear' "/image $work/b[1].png" '/images' "/image $work/z*.png"
check "wildcards" 'select(.name == "images") | [.rows[] | .[5] | split("/") | last] | join(" ")' $'a1.png a2.png\nb[1].png'
check_has "no match" 'select(.event == "error").message' "no file matches"

# One picture is taken back by its number; not one that a message has.
lines "/load $llava" "/image $scene $work/a1.png" '/image --remove 0' '/images' '/image --remove 0' '/image --remove x' \
    'Hi' '/image --remove 1'
check "the other stays" 'select(.name == "images").rows | map(.[0] | tostring) | join(" ")' 1
check "refused" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\nfalse\nfalse\ntrue\nfalse'
check_has "whose it is" 'select(.event == "error").message' "picture 1 belongs to message 0"

# A size that the family refuses: nowhere "0 visual tokens" and an answer without the picture.
python3 - "$work" <<'P'
import struct, sys, zlib
def png(name, width, height):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(3 * width) for _ in range(height))
    open(f"{sys.argv[1]}/{name}.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                                                 chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
png("thin", 1, 201), png("flat", 201, 1), png("okay", 1, 199)
P
printf '{"id": "%s", "image": "%s.png", "question": "q", "answer": "x"}\n' thin thin flat flat okay okay >"$work/thin.jsonl"
for model in qwen2.5-vl glm-4.1v; do
    lines "/load tests/goldens/$model" '/set sample.max_tokens 1' "/image $work/thin.png" "/image $work/flat.png" '/images' \
        "/data check $work/thin.jsonl" "/ask --data $work/thin.jsonl --out $work/thin-$model.out" \
        "/eval $work/thin.jsonl --metric loss --here" "/eval $work/thin.jsonl --metric exact --here"
    check "$model: attached" 'select(.event == "error").message | test("thin.png|flat.png") and test("200 times as long as wide")' \
        $'true\ntrue'
    check "$model: none is there" 'select(.name == "images").rows | length' 0
    check "$model: checked" 'select(.event == "table" and .name == "data problems").rows | map(.[0] + " " + .[1]) | join("; ")' \
        'picture broken thin; picture broken flat'
    check_has "$model: asked" 'select(.event == "notice").text' "1 answered, 2 with errors"
    same "$model: the answer" "$(jq -c 'select(.error == null).id' "$work/thin-$model.out")" '"okay"'
done
# One attached to another model.
lines "/load $llava" "/image $work/thin.png" 'Hi' '/load tests/goldens/qwen2.5-vl' 'Hi'
check_has "after /load" 'select(.event == "error").message' "thin.png': the model's processor refuses"

# The clipboard: of Wayland, of X11, without a picture, without its program, without a desktop.
mkdir "$work/bin"
printf '#!/bin/sh\n[ "$3" = image ] && exec cat %s\n' "$PWD/$scene" >"$work/bin/wl-paste"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/xclip"
chmod +x "$work/bin/"*
clipboard() { # VARIABLE PATH
    env -u WAYLAND_DISPLAY -u DISPLAY "$1" PATH="$2:$PATH" "$VLMSH" --json --db "$work/db" -c '/image --clipboard' \
        -c '/images' >"$work/events" 2>"$work/errors" </dev/null || true
}
clipboard WAYLAND_DISPLAY=wayland-0 "$work/bin"
check "from the clipboard" 'select(.name == "images").rows[0] | .[1], .[5]' \
    "$(printf '%s\nclipboard' "$(python3 -c "import struct; print(struct.unpack('>I', open('$scene', 'rb').read(20)[16:20])[0])")")"
clipboard DISPLAY=:0 "$work/bin"
check_has "no picture there" 'select(.event == "error").message' "the clipboard holds no picture"
# Where both can be asked and Wayland's program is missing, X11 is; the message names the first.
mkdir "$work/x11"
for program in jq env cat; do ln -s "$(command -v $program)" "$work/x11/$program"; done
printf '#!/bin/sh\nexec cat %s\n' "$PWD/$scene" >"$work/x11/xclip"
chmod +x "$work/x11/xclip"
both() {
    env WAYLAND_DISPLAY=wayland-0 DISPLAY=:0 PATH="$work/x11" "$VLMSH" --json --db "$work/db" \
        -c '/image --clipboard' >"$work/events" 2>"$work/errors" </dev/null || true
}
both
check_has "X11 is asked" 'select(.event == "notice").text' 'attached clipboard'
rm "$work/x11/xclip"
both
check_has "neither program" 'select(.event == "error").message' 'install wl-clipboard'

# Ctrl-C does not wait for a program that hangs.
printf '#!/bin/sh\nexec sleep 20\n' >"$work/bin/wl-paste"
began=$(date +%s%N)
env WAYLAND_DISPLAY=wayland-0 PATH="$work/bin:$PATH" "$VLMSH" --json --db "$work/db" -c '/image --clipboard' \
    >"$work/events" 2>"$work/errors" </dev/null &
sleep 1
kill -INT $!
wait $! || true
same "stopped at once" $((($(date +%s%N) - began) / 1000000 < 3500)) 1
clipboard A=b "$work/bin"
check_has "no desktop" 'select(.event == "error").message' "neither WAYLAND_DISPLAY nor DISPLAY is set"

head -c 200 $scene >"$work/cut.png"
printf 'RIFF\0\0\0\0WEBPVP8 ' >"$work/x.webp"
echo text >"$work/x.txt"
cp $scene "$work/my cat.png"
lines "/load $llava" "/image $work/cut.png" "/image $work/x.webp" "/image $work/x.txt" "/image $work/none.png" \
    "/image \"$work/my cat.png\"" "/image $work/my\\ cat.png" '/images' "/load $llama" "/image $scene"
check "bad pictures" 'select(.event == "done").ok' \
    $'true\nfalse\nfalse\nfalse\nfalse\ntrue\ntrue\ntrue\ntrue\nfalse'
check "only the good ones stay" 'select(.name == "images").rows | length' 2
for name in cut.png WebP x.txt none.png text-only; do
    check_has "message on $name" 'select(.event == "error").message' "$name"
done

# More than the context has room for is told as that.
lines "/load $llava" '/set ctx.max 1' "/image $scene"
check_has "no room" 'select(.event == "notice").text' "25 visual tokens; 24 tokens too many for a context of 1"

vlmsh --json -c "/load $llava" -c '/image -' -c '/images' <$scene >"$work/events"
check "standard input" 'select(.name == "images").rows[0] | .[1], .[5]' \
    "$(printf '%s\nstandard input' "$(python3 -c "import struct; print(struct.unpack('>I', open('$scene', 'rb').read(20)[16:20])[0])")")"

# Names with blanks that are files need no quotes; a question that only names a picture file gets a hint.
cp "$scene" "$work/photo (1).png"
cp "$scene" "$work/two  blanks   here.png"
lines "/load $llava" "/image $work/two  blanks   here.png" "/image $work/a1.png $work/two  blanks   here.png $work/photo (1).png" \
    "/image $work/two\\ \\ blanks   here.png" '/images'
check "several blanks" 'select(.name == "images").rows | map(.[5] | split("/") | last) | join(",")' \
    "two  blanks   here.png,a1.png,two  blanks   here.png,photo (1).png,two  blanks   here.png"
lines "/load $llava" '/set sample.max_tokens 1' "/image $work/photo (1).png" "/image $work/a1.png $work/photo (1).png" '/images' \
    "What is in $work/b[1].png ?" "And in '$work/photo (1).png'?" "(file://$work/a2.png)" "What of $work/none.png and scene.png?"
check "without quotes" 'select(.name == "images").rows | map(.[5] | split("/") | last) | join(" ")' "photo (1).png a1.png photo (1).png"
check "hints" 'select(.event == "notice").text | select(test("only its name")) | capture("/(?<n>[^/]*)\u0027 is a").n' $'b[1].png\na2.png'
finish
