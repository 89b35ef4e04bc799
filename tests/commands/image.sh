# tests/commands/image.sh -- /image, /images, /context: token costs before sending, wildcards, the clipboard, bad
# pictures, hostile animations, standard input, names with spaces.
. tests/commands/common.bash

session "costs" $llava <<E
> /image $scene tests/goldens/pictures/tall.jpg
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
attached tests/goldens/pictures/tall.jpg: 45 x 80 pixels, 25 visual tokens; 4046 of 4096 tokens left
> /images
[images]
picture  width  height  tokens  where         file                              sha256
0        64     48      25      next message  tests/goldens/pictures/scene.png  2113ec7aabcb
1        45     80      25      next message  tests/goldens/pictures/tall.jpg   742f916c5156
> /context
[context]
text  visual  waiting  cached  limit  left  percent
0     0       50       0       4096   4046  1.2
> /image --clear
removed tests/goldens/pictures/scene.png, tests/goldens/pictures/tall.jpg
> /images
[images]
picture  width  height  tokens  where  file  sha256
> /context
[context]
text  visual  waiting  cached  limit  left  percent
0     0       0        0       4096   4096  0
E

# The greedy answer equals the golden's.
lines "/load $llava" '/set sample.max_tokens 24' '/set sample.ignore_eos on' "/image $scene" \
    'What is in the picture?' '/images' '/context'
check "golden answer" 'select(.event == "answer").ids | tostring' "$(jq -c .forward.gen_ids build/${llava#tests/}/golden.json)"
check "visual tokens" 'select(.event == "answer") | .visual_tokens, .prompt_tokens' \
    "$(jq '.chat[] | select(.name == "single") | .image_tokens, (.input_ids | length)' build/${llava#tests/}/golden.json)"
check "the message of the picture" 'select(.name == "images").rows[0][4]' "message 0"
check "visual tokens in /context" 'select(.name == "context").rows[0][1]' 25

# A prompt beyond the context does not give a negative number of free tokens.
session "too much" $llava <<E
> /set ctx.max 1
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 24 tokens too many for a context of 1
> /set ctx.max 24
> /image --clear
removed tests/goldens/pictures/scene.png
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 1 token too many for a context of 24
> /set ctx.max 25
> /image --clear
removed tests/goldens/pictures/scene.png
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 0 of 25 tokens left
E

# Wildcards: all matches in order; a file with exactly that name; no match.
cp $scene "$work/a1.png"; cp $scene "$work/a2.png"; cp $scene "$work/b[1].png"
session "wildcards" $llava <<E
> /image $work/a*.png
attached $work/a1.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
attached $work/a2.png: 64 x 48 pixels, 25 visual tokens; 4046 of 4096 tokens left
> /images
[images]
picture  width  height  tokens  where         file                        sha256
0        64     48      25      next message  $work/a1.png  2113ec7aabcb
1        64     48      25      next message  $work/a2.png  2113ec7aabcb
> /image --clear
removed $work/a1.png, $work/a2.png
> /image --remove 0 --clear
error: give either files or one option: /image [FILE...|-|--clipboard|--remove N|--clear]
> /image --clear
no picture is attached to the next message
> /image $work/b[1].png
attached $work/b[1].png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> /images
[images]
picture  width  height  tokens  where         file                          sha256
2        64     48      25      next message  $work/b[1].png  2113ec7aabcb
> /image $work/z*.png
error: no file matches '$work/z*.png'
E

# /image removes a waiting picture by its number, but not one of a sent message.
session "removed" $llava <<E
> /image '$scene' $work/a1.png
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
attached $work/a1.png: 64 x 48 pixels, 25 visual tokens; 4046 of 4096 tokens left
> /image --remove 0
removed picture 0, tests/goldens/pictures/scene.png
> /images
[images]
picture  width  height  tokens  where         file                        sha256
1        64     48      25      next message  $work/a1.png  2113ec7aabcb
> /image --remove 0
error: no picture 0: /images lists them
> /image --remove x
error: no picture x: /images lists them
> Hi
(an answer to 25 visual tokens)
> /image --remove 1
error: picture 1 belongs to message 0: /undo removes messages with their pictures
E

# A picture size that the family refuses is an error everywhere, never "0 visual tokens" or an answer without the picture.
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
    check "$model: refused by /image" 'select(.event == "error").message | test("thin.png|flat.png") and test("200 times as long as wide")' \
        $'true\ntrue'
    check "$model: no picture is attached" 'select(.name == "images").rows | length' 0
    check "$model: /data check" 'select(.event == "table" and .name == "data problems").rows | map(.[0] + " " + .[1]) | join("; ")' \
        'picture broken thin; picture broken flat'
    check_has "$model: /ask" 'select(.event == "notice").text' "1 answered, 2 with errors"
    same "$model: the answer" "$(jq -c 'select(.error == null).id' "$work/thin-$model.out")" '"okay"'
done
# A picture attached before another model is loaded.
session "after /load" $llava <<E
> /image $work/thin.png
attached $work/thin.png: 1 x 201 pixels, 25 visual tokens; 4071 of 4096 tokens left
> Hi
(an answer to 25 visual tokens)
> /load tests/goldens/qwen2.5-vl
generation_config.json asks for repetition_penalty 1.05, which vlmsh does not apply (transformers does, even to greedy answers): /set sample.repeat_penalty 1.05
loaded 'tests/goldens/qwen2.5-vl': qwen2_5_vl, 0.2285 million parameters, with vision, N s
> Hi
error: '$work/thin.png': the model's processor refuses pictures more than 200 times as long as wide: crop it
E

# The clipboard: Wayland, X11, no picture in it, a missing program, no desktop.
mkdir "$work/bin"
printf '#!/bin/sh\n[ "$3" = image ] && exec cat "%s"\n' "$PWD/$scene" >"$work/bin/wl-paste"
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
# With both desktops and Wayland's program missing, X11 is used; if both are missing, the message names the first.
mkdir "$work/x11"
for program in jq env cat; do ln -s "$(command -v $program)" "$work/x11/$program"; done
printf '#!/bin/sh\nexec cat "%s"\n' "$PWD/$scene" >"$work/x11/xclip"
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

# Ctrl-C stops a program that hangs.
printf '#!/bin/sh\nexec sleep 20\n' >"$work/bin/wl-paste"
began=$(date +%s%N)
env WAYLAND_DISPLAY=wayland-0 PATH="$work/bin:$PATH" "$VLMSH" --json --db "$work/db" -c '/image --clipboard' \
    >"$work/events" 2>"$work/errors" </dev/null &
sleep 1
kill -INT $!
wait $! || true
same "stopped at once" $((($(date +%s%N) - began) / 1000000 < 3500)) 1
clipboard A=b "$work/bin"
check_has "error without a desktop" 'select(.event == "error").message' "neither WAYLAND_DISPLAY nor DISPLAY is set"

head -c 200 $scene >"$work/cut.png"
printf 'RIFF\0\0\0\0WEBPVP8 ' >"$work/x.webp"
echo text >"$work/x.txt"
cp $scene "$work/my cat.png"
session "bad pictures" $llava <<E
> /image $work/cut.png
error: cannot read '$work/cut.png': the PNG is truncated; export it again as PNG or JPEG
> /image $work/x.webp
error: cannot read '$work/x.webp': the WebP is truncated; export it again as PNG or JPEG
> /image $work/x.txt
error: '$work/x.txt' is a text file, not a picture; supported formats are PNG, JPEG, WebP, GIF, BMP and PPM
> /image $work/none.png
error: cannot open '$work/none.png': No such file or directory
> /image "$work/my cat.png"
attached $work/my cat.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> /image $work/my\\ cat.png
attached $work/my cat.png: 64 x 48 pixels, 25 visual tokens; 4046 of 4096 tokens left
> /images
[images]
picture  width  height  tokens  where         file                            sha256
0        64     48      25      next message  $work/my cat.png  2113ec7aabcb
1        64     48      25      next message  $work/my cat.png  2113ec7aabcb
> /load $llama
loaded 'tests/goldens/llama-3.2': llama, 0.1844 million parameters, text only, N s
> /image $scene
error: the model 'tests/goldens/llama-3.2' is text-only: it cannot see 'tests/goldens/pictures/scene.png'
E

# Hostile animations: counts, sizes and positions of frames, canvases, truncated files. /image and the parallel decoder
# read or refuse each by name, quickly and in little memory.
mkdir "$work/webp"
python3 - "$work/webp" <<'P'
import struct, sys
out = sys.argv[1]
raw = open("tests/core/picture/pictures/animated.webp", "rb").read()
def chunk(kind, data, size=None):
    return kind + struct.pack("<I", len(data) if size is None else size) + data + b"\0" * (len(data) % 2)
def le(n, bytes): return n.to_bytes(bytes, "little")
def file(name, body, size=None):
    body = b"WEBP" + body
    open(f"{out}/{name}.webp", "wb").write(b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body)
# The first frame's pixels: 9 x 7.
still = raw[raw.index(b"VP8 "):]
still = still[:8 + struct.unpack_from("<I", still, 4)[0]]
still += b"\0" * (len(still) % 2)
def canvas(w, h, flags=2): return chunk(b"VP8X", le(flags, 4) + le(w - 1, 3) + le(h - 1, 3))
anim = chunk(b"ANIM", le(0xffffffff, 4) + le(0, 2))
def frame(x=0, y=0, w=9, h=7, data=still, size=None, time=100):
    return chunk(b"ANMF", le(x // 2, 3) + le(y // 2, 3) + le(w - 1, 3) + le(h - 1, 3) + le(time, 3) + b"\0" + data, size)
good = canvas(9, 7) + anim + frame() + frame()
file("good", good)
file("many", canvas(9, 7) + anim + frame() * 100000)
file("none", canvas(9, 7) + anim)
file("no-anim-chunk", canvas(9, 7) + frame() + frame())
file("unflagged", canvas(9, 7, 0) + anim + frame() + frame())
file("flagged-still", canvas(9, 7) + still)
file("anim-last", canvas(9, 7) + frame() + anim)
file("two-canvases", canvas(9, 7) + canvas(16384, 6000) + anim + frame())
file("wide-frame", canvas(9, 7) + anim + frame(w=20) + frame())
file("wide-second", canvas(9, 7) + anim + frame() + frame(w=1 << 24, h=1 << 24))
file("outside", canvas(9, 7) + anim + frame(x=8))
file("far-outside", canvas(9, 7) + anim + frame(x=(1 << 25) - 2, y=(1 << 25) - 2))
file("wrong-size", canvas(40, 40) + anim + frame(w=18, h=14))
file("tiny-frame", canvas(40, 40) + anim + frame(x=10, y=10))
file("empty-frame", canvas(9, 7) + anim + frame(data=b""))
file("no-pixels", canvas(9, 7) + anim + frame(data=chunk(b"ALPH", b"\0\0\0\0")))
file("junk-pixels", canvas(9, 7) + anim + frame(data=chunk(b"VP8 ", b"\xff" * 200)))
file("long-frame", canvas(9, 7) + anim + frame(size=0xffffffff))
file("long-frame-2", canvas(9, 7) + anim + frame(size=0xfffffffe))
file("short-frame", canvas(9, 7) + anim + frame(size=8))
file("zero-frames", canvas(9, 7) + anim + chunk(b"ANMF", b"") * 200000)
file("long-file", good, 0xfffffffe)
file("odd-size", good, len(good) + 3)
file("small-size", good, 40)
file("zero-size", good, 0)
file("huge", canvas(10000, 10000) + anim + frame())
file("largest", canvas(16384, 6100) + anim + frame())
file("too-large", canvas(1 << 24, 1 << 24) + anim + frame())
file("padded-huge", canvas(10000, 10000) + anim + frame() + chunk(b"XMP ", bytes(2000000)))
file("many-huge", canvas(8000, 8000) + anim + frame() + frame(x=100, y=100) * 20000)
for n in range(20, len(raw), 26):
    open(f"{out}/cut-{n}.webp", "wb").write(raw[:n])
    open(f"{out}/resized-{n}.webp", "wb").write(raw[:4] + struct.pack("<I", n - 8) + raw[8:n])
P
(cd "$work/webp" && ls -- *.webp) | sed 's/.*/{"id": "&", "image": "&", "question": "q", "answer": "a"}/' >"$work/webp/data.jsonl"
python3 - "$VLMSH" "$work" $llava >"$work/events" <<'P' || fail "$(tail -1 "$work/events")"
import glob, resource, subprocess, sys
vlmsh, work, model = sys.argv[1:]
lines = ["/load " + model] + ["/image " + f for f in sorted(glob.glob(work + "/webp/*.webp"))] + [f"/data check {work}/webp/data.jsonl"]
print(subprocess.run([vlmsh, "--json", "--db", work + "/vlmsh.db"], input="\n".join(lines), text=True, stdout=subprocess.PIPE, timeout=100).stdout)
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
if most > 600: sys.exit(print(f"{most} MB for pictures of few bytes"))
P
same "animations that are read" "$(jq -r 'select(.event == "notice").text | capture("^attached .*/(?<f>[^/]*).webp:").f' "$work/events" | tr '\n' ' ')" \
    "good many tiny-frame wide-frame wrong-size "
same "the others are named" "$(jq -r 'select(.event == "error").message' "$work/events" | grep -c '/webp/[a-z0-9-]*.webp.*\(damaged\|truncated\|first frame\|limit\)')" \
    $(($(ls "$work/webp/"*.webp | wc -l) - 5))
check_has "usable animations of a data set" 'select(.event == "notice").text' "5 of $(ls "$work/webp/"*.webp | wc -l) samples are usable"
rm -r "$work/webp"

# Pictures that exceed the context are reported as such.
session "no room" $llava <<E
> /set ctx.max 1
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 24 tokens too many for a context of 1
E

vlmsh --json -c "/load $llava" -c '/image -' -c '/images' <$scene >"$work/events"
check "standard input" 'select(.name == "images").rows[0] | .[1], .[5]' \
    "$(printf '%s\nstandard input' "$(python3 -c "import struct; print(struct.unpack('>I', open('$scene', 'rb').read(20)[16:20])[0])")")"

# File names with spaces need no quotes; a question that only names a picture file gets a hint.
cp "$scene" "$work/photo (1).png"
cp "$scene" "$work/scan (2).png"
cp "$scene" "$work/a3.png"
cp "$scene" "$work/two  spaces   here.png"
session "several spaces" $llava <<E
> /image $work/two  spaces   here.png
attached $work/two  spaces   here.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> /image $work/a1.png $work/two  spaces   here.png $work/photo (1).png
attached $work/a1.png: 64 x 48 pixels, 25 visual tokens; 4046 of 4096 tokens left
attached $work/two  spaces   here.png: 64 x 48 pixels, 25 visual tokens; 4021 of 4096 tokens left
attached $work/photo (1).png: 64 x 48 pixels, 25 visual tokens; 3996 of 4096 tokens left
> /image $work/two\\ \\ spaces   here.png
attached $work/two  spaces   here.png: 64 x 48 pixels, 25 visual tokens; 3971 of 4096 tokens left
> /images
[images]
picture  width  height  tokens  where         file                                        sha256
0        64     48      25      next message  $work/two  spaces   here.png  2113ec7aabcb
1        64     48      25      next message  $work/a1.png                  2113ec7aabcb
2        64     48      25      next message  $work/two  spaces   here.png  2113ec7aabcb
3        64     48      25      next message  $work/photo (1).png           2113ec7aabcb
4        64     48      25      next message  $work/two  spaces   here.png  2113ec7aabcb
E
session "without quotes" $llava <<E
> /set sample.max_tokens 1
> /image $work/photo (1).png
attached $work/photo (1).png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> /image $work/a1.png $work/photo (1).png
attached $work/a1.png: 64 x 48 pixels, 25 visual tokens; 4046 of 4096 tokens left
attached $work/photo (1).png: 64 x 48 pixels, 25 visual tokens; 4021 of 4096 tokens left
> /images
[images]
picture  width  height  tokens  where         file                               sha256
0        64     48      25      next message  $work/photo (1).png  2113ec7aabcb
1        64     48      25      next message  $work/a1.png         2113ec7aabcb
2        64     48      25      next message  $work/photo (1).png  2113ec7aabcb
> What is in $work/b[1].png ?
'$work/b[1].png' is a picture file, but the model gets only its name: /image $work/b[1].png attaches it
(an answer to 75 visual tokens)
> And in '$work/photo (1).png'?
(an answer to 75 visual tokens)
> (file:$work/a2.png)
'$work/a2.png' is a picture file, but the model gets only its name: /image $work/a2.png attaches it
(an answer to 75 visual tokens)
> [a scan]($work/a3.png)
'$work/a3.png' is a picture file, but the model gets only its name: /image $work/a3.png attaches it
(an answer to 75 visual tokens)
> And in $work/scan (2).png?
'$work/scan (2).png' is a picture file, but the model gets only its name: /image $work/scan (2).png attaches it
(an answer to 75 visual tokens)
> What of $work/none.png and scene.png?
(an answer to 75 visual tokens)
E
finish
