# tests/tui/graphics.sh -- pictures on kitty, iTerm2 and sixel terminals: compares the picture
# decoded by tests/tui/graphics.py pixel by pixel with its file. LOOK=FOLDER keeps the screens.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH WORK="$work" PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS TMUX STY KITTY_WINDOW_ID TERM_PROGRAM
python3 - <<'END'
import os
from graphics import GraphicsTerminal, png_read
from terminal import check

program, look = os.environ["VLMSH"], os.environ.get("LOOK")
scene = "demo/pictures/scene-1.png"
width, height, source = png_read(open(scene, "rb").read())

def save(t, name):
    if look: t.save(os.path.join(look, name + ".png"))

# The share of pixels that equal those of the (enlarged) file; `near`: tolerance per channel (for a
# palette of 256 colours).
def equal(pixels, near=0):
    good = 0
    high, wide = len(pixels), max(sum(p[3] == 255 for p in row) for row in pixels)
    left = (len(pixels[0]) - wide) // 2
    for y in range(high):
        for x in range(wide):
            a, b = pixels[y][left + x], source[min(y * height // high, height - 1)][x * width // wide]
            good += all(abs(a[k] - b[k]) <= near for k in range(3))
    return good / (high * wide)

def start(kind, **more):
    t = GraphicsTerminal([program], kind, size=(36, 120), **more)
    t.wait_text("F1 keys")
    t.type("/image %s\r" % scene)
    t.wait_text("1 picture\\] vlmsh")
    return t

def leave(t):
    t.type("\x05\x15\x1b[21~")
    t.ends()

for kind in "kitty", "iterm", "sixel":
    t = start(kind)
    t.wait_for(lambda: t.pictures, "a picture")
    t.settle()
    save(t, kind + "-picture")
    check(len(t.pictures) == 1, kind + ": one picture")
    x, y, columns, lines, pixels, name = t.pictures[0]
    near = 6 if kind == "sixel" else 0
    check(equal(pixels, near) > 0.97, "%s: the picture's pixels: %.3f" % (kind, equal(pixels, near)))
    check((columns, lines) == (26, 13), "%s: it fills the panel's height" % kind)

    # A map over the picture leaves its colours where the map is low; `o` steps through the ways to show them.
    t.type("What is in the picture?\r")
    t.wait_text("12 tokens")
    t.settle()
    save(t, kind + "-map")
    share = equal(t.pictures[-1][4], near)
    check(len(t.pictures) == 1 and share < (0.75 if near else 0.5), "%s: the map lies over it: %.3f" % (kind, share))

    # Six hundred movements of the mouse, at once, write a few frames of one line each, and no picture again.
    x, y, columns, lines = t.pictures[-1][:4]
    before = len(t.all)
    t.type("".join("\x1b[<35;%d;%dM" % (x + 1 + i % columns, y + 1 + i // columns % lines) for i in range(600)))
    t.wait_text("token [0-9]+ \\([0-9]+, [0-9]+\\): [0-9.e-]+, [0-9.]+%")
    t.settle()
    written = t.all[before:]
    check(len(written) < 4000, "%s: movements of the mouse write %d bytes" % (kind, len(written)))
    check(len(t.pictures) == 1 and not any(s in written for s in ("\x1b_G", "\x1bP", "1337;")), kind + ": a picture is sent again")
    t.type("\x1bOR")
    t.wait_text("o: view")
    t.settle()
    t.type("o")
    t.wait_text("beside the picture")
    t.wait_for(lambda: len(t.pictures) == 2, "the picture beside its map")
    t.settle()
    save(t, kind + "-beside")
    check(equal(t.pictures[0][4], near) > 0.97 or equal(t.pictures[1][4], near) > 0.97, kind + ": beside: the picture")
    t.type("oo")
    t.wait_text("picture alone")
    t.settle()
    check(len(t.pictures) == 1 and equal(t.pictures[0][4], near) > 0.97, kind + ": the picture alone")

    # A list over the picture hides it; closing the list shows it again.
    t.type("\x10")
    t.wait_text("/help")
    t.settle()
    save(t, kind + "-list")
    check(not t.pictures or kind != "kitty", "%s: no picture under a list" % kind)
    t.type("\x1b")
    t.settle()
    check(len(t.pictures) >= 1 and equal(t.pictures[-1][4], near) > 0.97, kind + ": the picture is back")
    t.type("\x1b")
    t.settle()
    t.type("/set screen.graphics blocks\r")
    t.wait_text("graphics = blocks")
    t.settle()
    check(kind != "kitty" or not t.pictures, kind + ": no picture after screen.graphics blocks")
    check(any(c == "\u2580" for row in t.cells for c, _, _ in row), kind + ": blocks in its place")
    leave(t)
    check(not t.pictures, kind + ": nothing is left behind")

# Cells with other proportions: the half blocks that are drawn until the picture is ready leave nothing beside it.
for kind, cell in ("sixel", (11, 20)), ("kitty", (12, 20)), ("iterm", (8, 17)):
    t = start(kind, cell=cell)
    t.wait_for(lambda: t.pictures, "a picture")
    t.settle()
    for layout in "workbench", "maps", "workbench", "chat":
        t.type("/set screen.layout %s\r" % layout)
        t.wait_text("layout = " + layout)
        t.settle()
        t.wait_for(lambda: "\u2580" not in t.text(), "%s, %s: the picture without half blocks beside it" % (kind, layout))
    check(not t.pictures, kind + ": the picture is gone with its panel")
    leave(t)

# The same picture twice on a screen: both are visible.
for kind in "kitty", "iterm", "sixel":
    t = start(kind)
    t.type("/compare off | off What is in the picture?\r")
    t.wait_text("B: off")
    t.wait_for(lambda: len(t.pictures) == 2, kind + ": a map at either side")
    leave(t)

# A terminal that answers late, in pieces, while the user types: the typed text stays.
t = start("kitty", answers=False)
t.settle()
check(not t.pictures and any(c == "\u2580" for row in t.cells for c, _, _ in row), "blocks until it answers")
t.type("ab")
for piece in "\x1b_Gi=3", "1;O", "K\x1b", "\\\x1b[?6", "2;c": t.type(piece)
t.type("cd")
t.wait_for(lambda: t.pictures, "a picture after the late answer")
t.wait_text("vlmsh> abcd")
leave(t)

# Plain lines: a picture after /image, and maps; text typed during the query stays.
for kind in "kitty", "sixel":
    near = 6 if kind == "sixel" else 0
    t = GraphicsTerminal([program, "--plain"], kind, size=(60, 100))
    t.wait_text("model>")
    t.type("/image %s\r" % scene)
    t.type("What is")
    t.wait_text("144 visual tokens")
    t.settle()
    check(len(t.pictures) == 1 and t.pictures[0][2:4] == (32, 16), kind + ": plain lines: the picture's size")
    check(equal(t.pictures[0][4], near) > 0.97, kind + ": plain lines: the picture's pixels")
    t.type(" in the picture?\r")
    t.wait_text("12 tokens")
    check("> What is in the picture?" in t.text(), kind + ": what was typed early stays")
    t.type("/attention\r")
    t.wait_text("12 x 12, mean")
    t.settle()
    save(t, kind + "-plain")
    check(len(t.pictures) == 2 and equal(t.pictures[1][4], near) < (0.95 if near else 0.5), kind + ": plain lines: a map")
    check(equal(t.pictures[1][4], 40) > 0.5, kind + ": plain lines: the picture is visible under the map")
    t.type("/set screen.graphics ascii\r/attention\r")
    t.wait_text("'@' = ")
    t.type("/quit\r")
    t.ends()

# Block characters with four and six pixels.
for way, some in ("quadrants", "\u2596\u2597\u2598\u259d"), ("sextants", "\U0001fb00\U0001fb0f\U0001fb1e\U0001fb39"):
    t = start("none")
    t.type("/set screen.graphics %s\r" % way)
    t.wait_text("graphics = " + way)
    t.settle()
    save(t, way)
    used = {c for row in t.cells for c, _, _ in row}
    wanted = set("\u2596\u2597\u2598\u2599\u259a\u259b\u259c\u259d\u259e\u259f") if way == "quadrants" else {chr(c) for c in range(0x1fb00, 0x1fb3c)}
    check(used & wanted, way + " are drawn")
    leave(t)
END
