# tests/tui/graphics_tmux.sh -- pictures through a real tmux: tests/tui/graphics.py decodes the
# output for the outer terminal, in panes, after splits, resizes, lists and the end of the program;
# pictures and queries that tmux drops are sent again. LOOK=FOLDER keeps the screens.
set -eu
command -v tmux >/dev/null || { echo "tmux is missing"; exit 1; }
work=$(mktemp -d)
server=vlmsh-graphics-$$
trap 'tmux -L "$server" kill-server 2>/dev/null || true; rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH WORK="$work" SERVER="$server" PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS TMUX STY KITTY_WINDOW_ID TERM_PROGRAM
printf 'set -g allow-passthrough on\nset -g status off\nset -g escape-time 10\n' >"$work/conf"
printf 'set -g status off\nset -g escape-time 10\n' >"$work/closed"
printf 'set -g status off\nset -g escape-time 10\nset -ga terminal-features ",xterm*:sixel"\n' >"$work/sixel"
python3 - <<'END'
import os, re, subprocess, sys
from graphics import GraphicsTerminal, PLACEHOLDER, png_read
from terminal import check

program, work, server, look = (os.environ.get(k) for k in ("VLMSH", "WORK", "SERVER", "LOOK"))
program = os.path.abspath(program)
scene = "demo/pictures/scene-1.png"
width, height, source = png_read(open(scene, "rb").read())

def save(t, name):
    if look: t.save(os.path.join(look, "tmux-" + name + ".png"))

def tmux(*words):
    return subprocess.run(["tmux", "-L", server, *words], check=True, capture_output=True, text=True).stdout

def start(kind, conf="conf", command=program, size=(40, 140), driver=False):
    subprocess.run(["tmux", "-L", server, "kill-server"], capture_output=True)
    t = GraphicsTerminal(["tmux", "-L", server, "-f", os.path.join(work, conf), "new-session",
                          "env TERM=screen-256color " + command], kind, size=size, driver=driver)
    return t

def shown(t):
    try: return t.placeholders()
    except ValueError: return []  # not completely drawn

# True if the placeholders show the file's picture, enlarged, and only that: at the cell `at`, or anywhere.
def right(t, at=None):
    pictures = shown(t)
    if len(pictures) != 1: return False
    x, y, columns, lines, pixels, _ = pictures[0]
    if at and (x, y) != at: return False
    high, wide = len(pixels), max(sum(p[3] == 255 for p in row) for row in pixels)
    left, good = (len(pixels[0]) - wide) // 2, 0
    for line in range(0, high, 3):
        for dot in range(0, wide, 3):
            good += pixels[line][left + dot][:3] == source[line * height // high][dot * width // wide][:3]
    return wide > 0 and good > 0.97 * len(range(0, high, 3)) * len(range(0, wide, 3))

def fresh(t):
    return not any(c[0] == PLACEHOLDER for row in t.cells for c, _, _ in row)

# A pane that fills the window.
t = start("kitty")
t.wait_text("F1 keys")
t.type("/image %s\r" % scene)
t.wait_text("1 picture\\] vlmsh")
t.wait_for(lambda: right(t), "the picture in tmux")
save(t, "alone")
check(not t.pictures, "placeholders only: a picture at the cursor would stay behind")
alone = t.placeholders()[0][:2]

# A new pane to the left: the picture moves with its pane; tmux drops output while it redraws.
tmux("split-window", "-h", "-b", "-d", "-l", "20", "sh")
t.wait_for(lambda: right(t) and t.placeholders()[0][0] > 21, "the picture in the right pane")
t.settle(1)
save(t, "split")
check(right(t), "it stays in the right pane")
tmux("split-window", "-v", "-b", "-d", "-l", "8", "-t", "{right}", "sh")
t.wait_for(lambda: right(t) and t.placeholders()[0][1] >= 9, "the picture under a pane")
save(t, "nested")
tmux("kill-pane", "-t", "{left}")
tmux("kill-pane", "-t", "{top}")
t.wait_for(lambda: right(t, alone), "the picture where it was")

# A map over the picture, a list that hides it, another window, a smaller terminal.
t.type("What is in the picture?\r")
t.wait_text("12 tokens")
t.wait_for(lambda: len(shown(t)) == 1 and not right(t), "the map")
t.settle()
save(t, "map")
t.type("\x1bOR")
t.wait_text("o: view")
t.type("ooo")
t.wait_text("picture alone")
t.wait_for(lambda: right(t, alone), "the picture alone")
t.type("\x1b")
t.settle()
t.type("\x10")
t.wait_text("/help")
t.settle()
check(fresh(t), "a list takes the picture's place")
t.type("\x1b")
t.wait_for(lambda: right(t, alone), "it comes back")
tmux("new-window", "sh")
t.wait_for(lambda: fresh(t), "another window has no picture")
tmux("kill-window")
t.wait_for(lambda: right(t, alone), "the first window has its picture again")
for size in (30, 110), (44, 130):
    t.resize(size)
    t.wait_for(lambda: right(t), "the picture at %d x %d" % size)
    t.settle(1)
    check(right(t), "it stays at %d x %d" % size)
save(t, "resized")
check(len(t.sent) <= 6, "what is not shown is removed from the terminal: %r" % list(t.sent))
t.type("\x1b[21~")
t.ends()

# Plain lines: the picture scrolls with them.
t = start("kitty", command=program + " --plain", size=(24, 100))
t.wait_text("model>")
t.type("/image %s\r" % scene)
t.wait_text("144 visual tokens")
t.wait_for(lambda: right(t), "the picture among plain lines")
before = t.placeholders()[0][1]
t.type("/help capa\r")
t.wait_text("preset capa-auto")
t.settle()
pictures = t.placeholders()
check(pictures and pictures[0][1] < before, "it scrolls with the lines")
save(t, "plain")
t.type("/quit\r")
t.ends()

# Without pass-through, or on an outer terminal without graphics: half blocks only.
for kind, conf in ("kitty", "closed"), ("none", "conf"):
    t = start(kind, conf)
    t.wait_text("F1 keys")
    t.type("/image %s\r" % scene)
    t.wait_text("1 picture\\] vlmsh")
    t.settle(1)
    check(not t.sent and fresh(t) and any(c == "\u2580" for row in t.cells for c, _, _ in row), "half blocks: %s, %s" % (kind, conf))
    t.type("\x1b[21~")
    t.ends()

# Sixels that tmux draws itself (docs/chat.md has the line of its configuration): the picture appears once, in the right
# position, even after lines scroll below it, with a list over it and an answer beside it. If the outer terminal does not
# report its cells' size in pixels, vlmsh draws half blocks, so that tmux does not draw its own text.
t = start("sixel", "sixel", "bash -c 'printf \"\\033[c\"; IFS= read -rsd c -t 5 x; printf \"said %q end\" \"$x\"; read -t 1'")
t.wait_text("said .* end") # tmux's reply to DA1
if not re.search("said .*;4.* end", t.text()):
    print("SKIPPED: sixels in tmux: this tmux is built without them")
    sys.exit()
t = start("sixel", "sixel", driver=True)
t.wait_text("F1 keys")

def stands(t):
    if len(t.pictures) != 1 or t.pictures[0][:4] != place: return False
    high = len(t.pictures[0][4])
    if map_shown: return True # a map changes the picture's pixels
    near = 0
    for line in range(0, high, 3):
        for dot in range(0, side, 3):
            got, want = t.pictures[0][4][line][dot], source[line * height // side][dot * width // side]
            near += all(abs(g - w) <= 6 for g, w in zip(got[:3], want[:3]))
    return near > 0.95 * len(range(0, high, 3)) * len(range(0, side, 3))

# Fills the panel but for its caption; cells have 10 x 20 pixels.
place, side, map_shown = (95, 1, 30, 15), 300, False
t.type("/image %s\r" % scene)
t.wait_for(lambda: stands(t), "the picture in sixels")
save(t, "sixel")
for line in "/settings", "/settings prune": # output longer than the panel scrolls
    t.type(line + "\r")
    t.settle(1)
    check(stands(t), "it stays beside the output of %s: %r" % (line, [p[:4] for p in t.pictures]))
place, map_shown = (99, 1, 22, 11), True # above the strip of layers
t.type("What is in the picture?\r")
t.wait_text("12 tokens")
t.settle(1)
check(stands(t), "one map in its place: %r" % [p[:4] for p in t.pictures])
save(t, "sixel-map")
t.type("\x10")
t.wait_for(lambda: not stands(t), "a list lies over it")
t.type("\x1b")
t.wait_for(lambda: stands(t), "it comes back")
t.type("\x1b[21~")
t.ends()

t = start("sixel", "closed") # the size of a cell is unknown
t.wait_text("F1 keys")
t.type("/image %s\r" % scene)
t.wait_text("1 picture\\] vlmsh")
t.settle(1)
check(not t.pictures and "SIXEL" not in t.text() and "\u2580" in t.text(), "half blocks where tmux cannot show sixels")
t.type("\x1b[21~")
t.ends()
END
