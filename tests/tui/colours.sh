# tests/tui/colours.sh -- maps on terminals of 256 and of 8 colours: the colours of the cells are
# compared with those that the values of the map (from --json) should have. One notice says which terminals
# could show more.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH WORK="$work" PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS TMUX STY KITTY_WINDOW_ID TERM_PROGRAM NO_COLOR
python3 - <<'END'
import json, os, re, subprocess, time
from graphics import GraphicsTerminal, palette
from terminal import check

program, look = os.environ["VLMSH"], os.environ.get("LOOK")
lines = ["/image demo/pictures/scene-1.png", "What is in the picture?"]
out = subprocess.run([program, "--json"], input="\n".join(lines + ["/attention --layer 4 --token 11"]) + "\n",
                     capture_output=True, text=True).stdout
maps = [e for e in map(json.loads, out.splitlines()) if e["event"] == "heatmap"]
check(len(maps) == 1 and (maps[0]["rows"], maps[0]["cols"]) == (12, 12), "one map of 12 x 12")
low, high = maps[0]["min"], maps[0]["max"]
share = [[(maps[0]["values"][12 * r + c] - low) / (high - low) for c in range(12)] for r in range(12)]

# matplotlib's viridis at nine points, and the nearest colour of the 6 x 6 x 6 cube.
viridis = [(68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140), (40, 174, 128),
           (94, 201, 98), (173, 220, 48), (253, 231, 37)]
def ramp(s):
    i = min(int(s * 8), 7)
    return tuple(a + (b - a) * (s * 8 - i) for a, b in zip(viridis[i], viridis[i + 1]))
def cube(rgb):
    return tuple(min((0, 95, 135, 175, 215, 255), key=lambda step: abs(step - v)) for v in rgb)
# The colours that a share may have: the program's ramp has 256 shades.
def colours(s): return {cube(ramp(min(max(s + d / 256, 0), 1))) for d in (-1, -0.5, 0, 0.5, 1)}

def start(**env):
    t = GraphicsTerminal([program], "none", size=(41, 120), env=dict({"COLORTERM": ""}, **env))
    t.wait_text("F1 keys")
    for line in lines: t.type(line + "\r")
    t.wait_text("12 tokens")
    t.settle()
    t.type("\x0c\x1bOR")
    t.wait_text("(live|attention) layer 4 token 11")
    t.settle()
    return t

def save(t, name):
    if look: t.save(os.path.join(look, name + ".png"))

# Cells of a patch: two columns, one line of two pixels.
def patch(t, r, c):
    return [t.cells[1 + r][82 + 2 * c + k] for k in range(2)]

t = start()
save(t, "colours-256")
status = {cell[1:] for cell in t.cells[39]} # times shift the text
high_ones = low_ones = 0
for r in range(12):
    for c in range(12):
        inks = [ink for _, ink, _ in patch(t, r, c)] + [paper for _, _, paper in patch(t, r, c)]
        right = sum(ink in colours(share[r][c]) for ink in inks)
        if share[r][c] >= 0.5:
            high_ones += 1
            check(right == 4, "256: patch %d, %d is covered: %s" % (r, c, inks))
        elif 0.22 < share[r][c] < 0.48: check(right >= 2, "256: patch %d, %d is half covered: %s" % (r, c, inks))
        low_ones += share[r][c] < 0.18
check(high_ones >= 5 and low_ones >= 20, "values of all sizes")
check(t.text().count("the map has 256 colours here") == 1, "one notice on COLORTERM")
t.type("oo")
t.wait_text("map alone")
t.settle()
save(t, "colours-256-alone")
for r in range(12):
    for c in range(12):
        for _, ink, paper in patch(t, r, c):
            check(ink in colours(share[r][c]) and paper in colours(share[r][c]), "256, alone: %d, %d: %s %s, not %s" % (r, c, ink, paper, colours(share[r][c])))
t.type("\x1b[21~")
t.ends()

t = start(TERM="xterm")
save(t, "colours-8")
papers = [None, palette(4), palette(6), palette(2), palette(3)]
for r in range(12):
    for c in range(12):
        place = share[r][c] * 5
        if abs(place - round(place)) < 0.02: continue  # between two steps
        for _, _, paper in patch(t, r, c):
            check(paper == papers[min(int(place), 4)], "8: patch %d, %d of %.3f is %s" % (r, c, share[r][c], paper))
check(t.text().count("the map has four colours here") == 1, "one notice on TERM")
check(any(ink == palette(2) for row in t.cells[1:13] for ch, ink, paper in row[82:106] if not paper),
      "8: the green diamond is green where the map is low")
t.type("\x1b[21~")
t.ends()

# TERM promises eight colours, and the terminal's reply 256 or true colour; the reply may come in pieces, over a
# slow line, while the user types.
def asked(has, **env):
    t = GraphicsTerminal([program], "none", size=(41, 120), colours=has, env=dict({"COLORTERM": "", "TERM": "xterm"}, **env))
    t.wait_text("F1 keys")
    for line in lines: t.type(line + "\r")
    t.wait_text("12 tokens")
    t.settle()
    return t
for has, code in (256, r"38;5;63m"), (1 << 24, r"38;2;\d+;\d+;\d+m"):
    t = asked(has)
    save(t, "colours-asked-%d" % has)
    check("\u2580" in t.text() and re.search(code, t.all), "%d colours, asked: half blocks in its colours" % has)
    check("four colours here" not in t.text(), "%d colours, asked: nothing is missing" % has)
    check(re.search("^vlmsh> *$", t.text(), re.M), "%d colours, asked: nothing was typed" % has)
    t.type("\x1b[21~")
    t.ends()
t = GraphicsTerminal([program], "none", size=(41, 120), answers=False, env={"COLORTERM": "", "TERM": "xterm"})
t.wait_text("F1 keys")
t.type("ab")
for piece in "\x1b]4;25", "5;rgb:ee", "ee/eeee/eeee\x07", "\x1bP1$r48", ":2:1:2:3m\x1b", "\\\x1b[?6", "2;c":
    t.type(piece)
    time.sleep(0.1)
t.type("cd")
t.wait_text("vlmsh> abcd *$")
check(re.search(r"38;5;63m", t.all), "the colours of a late answer")
t.type("\x05\x15\x1b[21~")
t.ends()

# Eight colours and sixels: the terminal draws the picture; with NO_COLOR it does not.
t = GraphicsTerminal([program], "sixel", size=(41, 120), env={"COLORTERM": "", "TERM": "xterm"})
t.wait_text("F1 keys")
t.type(lines[0] + "\r")
t.wait_for(lambda: t.pictures, "a picture")
check(any(ink == palette(6) for ch, ink, _ in t.cells[0] if ch == "p"), "eight colours: titles have one")
t.type("\x1b[21~")
t.ends()
t = GraphicsTerminal([program], "sixel", size=(41, 120), env={"NO_COLOR": "1", "TERM": "xterm"})
t.wait_text("F1 keys")
t.type(lines[0] + "\r")
t.wait_text("1 picture")
t.settle()
check(not t.pictures and not re.search(r"\x1b\[[34]\d[;\d]*m", t.all.replace("\x1b[48;2;1;2;3m", "")), "NO_COLOR: no colours")
t.type("\x1b[21~")
t.ends()

# A terminal whose colour numbers are RGB (xterm-direct): all colours, and a status line as with 256.
direct = r"""direct-test|numbers from 8 on are RGB,
	colors#0x1000000, pairs#0x7fff, RGB,
	setaf=\E[%?%p1%{8}%<%t3%p1%d%e38;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%d%;m,
	setab=\E[%?%p1%{8}%<%t4%p1%d%e48;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%d%;m,
	use=xterm-256color,
"""
types = os.path.join(os.environ["WORK"], "types")
subprocess.run(["tic", "-x", "-o", types, "-"], input=direct, text=True, check=True)
def drawn(t): # all colour numbers of the map, after it is drawn
    cells = lambda: [cell for r in range(12) for c in range(12) for cell in patch(t, r, c)]
    t.wait_for(lambda: all(ink and paper for _, ink, paper in cells()), "the map")
    return [v for _, ink, paper in cells() for v in ink + paper]
t = start(COLORTERM="truecolor")
wanted = drawn(t)
t.type("\x1b[21~")
t.ends()
t = start(TERM="direct-test", TERMINFO=types)
save(t, "colours-direct")
# The live map of an answer and the measured one differ by rounding.
far = max(abs(a - b) for a, b in zip(drawn(t), wanted))
check(far <= 6, "direct: a colour of the map is %d off that of COLORTERM=truecolor" % far)
check({cell[1:] for cell in t.cells[39]} == status, "direct: the status line: %s" % t.cells[39])
check("COLORTERM" not in t.text(), "direct: nothing is missing")
t.type("\x1b[21~")
t.ends()

# Plain lines: letters on the same backgrounds with eight colours, half blocks with 256.
def plain(has=8, **env):
    t = GraphicsTerminal([program, "--plain"], "none", size=(60, 100), colours=has, env=dict({"COLORTERM": ""}, **env))
    t.wait_text("model>")
    for line in lines: t.type(line + "\r")  # the second line is sent before the first has run, and must not be lost
    t.wait_text("12 tokens")
    t.type("/attention --layer 4 --token 11\r")
    t.wait_text("12 x 12, mean")
    t.settle()
    rows = t.text().split("\n")
    title = max(i for i, row in enumerate(rows) if row.startswith("attention, layer 4"))
    t.type("/quit\r")
    t.ends()
    return t, title

t, title = plain(TERM="xterm")
save(t, "plain-8")
check(not re.search(r"[34]8;5;", t.all), "8, plain: none of 256 colours")
letters = " .:-=+*#%@"
for r in range(12):
    for c in range(12):
        place = share[r][c] * 5
        if abs(place - round(place)) < 0.02: continue
        for ch, ink, paper in t.cells[title + 1 + r][2 * c:2 * c + 2]:
            check(paper == papers[min(int(place), 4)], "8, plain: patch %d, %d of %.3f is %s" % (r, c, share[r][c], paper))
            check(ch == letters[int(share[r][c] * 9 + 0.5)], "8, plain: patch %d, %d: '%s'" % (r, c, ch))
t, title = plain()
check("\u2580" in t.text() and re.search(r"48;5;", t.all), "256, plain: half blocks")
t, title = plain(256, TERM="xterm")
check("\u2580" in t.text() and re.search(r"48;5;", t.all), "256 when it is asked, plain: half blocks")
t, title = plain(1 << 24, TERM="xterm")
check("\u2580" in t.text() and t.all.count("\x1b[48;2;") > 100, "all colours when it is asked, plain")
t, title = plain(TERM="vt100")
check("\u2580" not in t.text() and not re.search(r"\x1b\[[34]", t.all), "no colours, plain: letters alone")
END
