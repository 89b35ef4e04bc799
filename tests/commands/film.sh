# tests/commands/film.sh -- --film: an animated GIF with one frame per token. The test decodes the
# frames and compares one with the figure of its token, which shows the same map.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export WORK="$work" PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
$VLMSH --json >"$work/out" <<END
/image demo/pictures/scene-1.png
What is in the picture?
/attention --layer 4 --film $work/film.gif
/attention --layer 4 --token 3 --figure $work/one.png
/attention --layer 4 --token 3
/contribution --film $work/contribution.gif
END
grep -q "film of 12 tokens written to '$work/film.gif'" "$work/out"
grep -q "film of 12 tokens written to '$work/contribution.gif'" "$work/out"
python3 - <<'END'
import json, os, struct
from graphics import png_read
from terminal import check
work = os.environ["WORK"]

# GIF89a: frames of (delay, rows of rgb), and whether it repeats.
def gif_read(data):
    check(data[:6] == b"GIF89a", "GIF89a")
    width, height, flags = struct.unpack("<HHB", data[6:11])
    at = 13 + (3 * 2 << (flags & 7) if flags & 128 else 0)
    frames, delay, loops = [], 0, False
    while data[at] != 0x3b:
        if data[at] == 0x21:
            kind, at = data[at + 1], at + 2
            if kind == 0xf9: delay = struct.unpack("<H", data[at + 2:at + 4])[0]
            if kind == 0xff: loops = data[at + 1:at + 12] == b"NETSCAPE2.0" and data[at + 13:at + 16] == b"\x01\0\0"
            while data[at]: at += data[at] + 1
            at += 1
            continue
        check(data[at] == 0x2c, "an image")
        x, y, w, h, flags = struct.unpack("<HHHHB", data[at + 1:at + 10])
        check((x, y, w, h) == (0, 0, width, height) and flags & 128, "a whole frame with its colours")
        size = 2 << (flags & 7)
        table, at = data[at + 10:at + 10 + 3 * size], at + 10 + 3 * size
        bits, at, packed = data[at], at + 1, b""
        while data[at]: packed, at = packed + data[at + 1:at + 1 + data[at]], at + 1 + data[at]
        at += 1
        pixels = unpack(packed, bits)
        check(len(pixels) == w * h, "all pixels of a frame")
        frames.append((delay, [[tuple(table[3 * p:3 * p + 3]) for p in pixels[r * w:r * w + w]] for r in range(h)]))
    return frames, loops

def unpack(packed, bits):  # LZW
    clear, out, value, have, at = 1 << bits, bytearray(), 0, 0, 0
    words, width, last = [bytes([i]) for i in range(clear)] + [b"", b""], bits + 1, None
    while True:
        while have < width: value, have, at = value | packed[at] << have, have + 8, at + 1
        code, value, have = value & (1 << width) - 1, value >> width, have - width
        if code == clear: words, width, last = words[:clear + 2], bits + 1, None
        elif code == clear + 1: return out
        else:
            word = words[code] if code < len(words) else last + last[:1]
            if last is not None and len(words) < 4096: words.append(last + word[:1])
            out += word
            last = word
            if len(words) == 1 << width and width < 12: width += 1

frames, loops = gif_read(open(work + "/film.gif", "rb").read())
check(len(frames) == 12 and loops, "12 frames that begin again")
check([d for d, _ in frames] == [50] * 11 + [200], "half a second each, two for the last")
check(len(gif_read(open(work + "/contribution.gif", "rb").read())[0]) == 12, "the other film")

# Frame 3 and the figure of token 3 have title and map at the same position. The figure has its own
# scale, so the order of the patches' green values is compared.
width, height, one = png_read(open(work + "/one.png", "rb").read())
three = frames[3][1]
left, side = 24, 320
top = next(y for y in range(height) if one[y][left + 5][:3] not in ((255, 255, 255),) and one[y][left + side - 2][:3] != (255, 255, 255))
maps = [json.loads(l) for l in open(work + "/out") if '"heatmap"' in l]
token = [m for m in maps if m["token"] == 3][-1]["values"]
best = max(range(144), key=lambda i: token[i])
def patch(rows, i):
    y, x = top + (i // 12 * side + side // 2) // 12, left + (i % 12 * side + side // 2) // 12
    return rows[y][x][:3]
back = patch(three, 143)
check(all(abs(a - b) < 24 for a, b in zip(back, patch(one, 143))), "the picture's ground: %s %s" % (back, patch(one, 143)))
check(sum(abs(a - b) for a, b in zip(patch(three, best), back)) > 40, "the strongest patch of token 3 stands out")
# Compares only the map: the word marked below it always differs.
def map_of(rows): return [row[left:left + side] for row in rows[top:top + side]]
for i in (0, 6, 11): check(sum(a != b for p, q in zip(map_of(frames[i][1]), map_of(three)) for a, b in zip(p, q)) > 500, "frame %d differs" % i)
# On the common scale most frames show a patch that differs from its usual colour, although one token's
# maximum is far above the others'.
patches = [[patch(rows, i) for i in range(144)] for _, rows in frames]
usual = [[sorted(p[i][k] for p in patches)[6] for k in range(3)] for i in range(144)]
most = [max(sum(abs(a - b) for a, b in zip(p[i], usual[i])) for i in range(144)) for p in patches]
check(sum(m > 100 for m in most) >= 8, "frames look empty: %r" % most)
events = [json.loads(l) for l in open(work + "/out")]
check([(e["what"], e["file"]) for e in events if e["event"] == "written" and e["what"] == "film"] ==
      [("film", work + "/film.gif"), ("film", work + "/contribution.gif")], "the files for programs")
steps = [e for e in events if e["event"] == "progress" and e["what"] == "drawing" and e["step"] == e["steps"] == 12]
check([e["what"] for e in steps] == ["drawing"] * 2, "progress of both films: %r" % steps)
END
fails() { if $VLMSH -c "$1" >"$work/no" 2>&1; then echo "accepted: $1"; exit 1; fi; grep -q "$2" "$work/no" || { cat "$work/no"; exit 1; }; }
fails '/attention --film a.png' 'ends in .gif'
fails '/attention --film a.gif --data x.json' 'without --data'
