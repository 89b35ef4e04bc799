"""Random commands, keys, pastes, clicks, layouts and sizes; after each step the screen must equal a full redraw
(by SIGWINCH, which redraws as Ctrl-L does without being a key): characters, colours, attributes, the cursor, and
the visible part of every picture.

    VLMSH=./vlmsh python3 tests/tui/walk.py KIND STEPS [SEED]     KIND: blocks, sixel, kitty, iterm

LOOK=FOLDER keeps the screens of a difference, before and after the redraw.
"""
import base64
import fcntl
import os
import random
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
import tty
import unicodedata

from graphics import GraphicsTerminal, png_read, sixel_read
from terminal import Terminal

MODEL, PICTURES = "tests/goldens/llava-1.5", "tests/goldens/pictures/"
SESSION = 250 # steps with one process
FRAME = 40 # longest wait for a frame, or for the rest of a key, in milliseconds
BUSY = re.compile(r"^ \S+ (?:cpu|cuda)\S* [-|/\\] ", re.M) # the status line while a command runs


# --- the terminal --------------------------------------------------------------------------------

SGR = {1: "bold", 2: "dim", 3: "italic", 4: "under", 7: "reverse"}
OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("under",), 27: ("reverse",)}
widths, covers = {}, {}


def width(character):
    if character not in widths:
        wide = unicodedata.east_asian_width(character) in "WF"
        widths[character] = 0 if unicodedata.combining(character) else 2 if wide else 1
    return widths[character]


def cover(name, pixels, columns, lines, cell):
    """For each cell of a picture of that name (a hash of its bytes) its opaque pixels, as bits."""
    w, h = cell
    covers[name] = [[sum(1 << (y * w + x) for y, line in enumerate(pixels[top * h:(top + 1) * h])
                         for x, dot in enumerate(line[left * w:(left + 1) * w]) if dot[3])
                     for left in range(columns)] for top in range(lines)]


# The kernel delivers terminal output in order, but late: when a byte written to this second
# terminal has arrived, so has everything written before.
other = os.openpty()
tty.setraw(other[1])


def pass_through():
    for one, end in other, other[::-1]:
        os.write(one, b"x")
        os.read(end, 1)


class WalkTerminal(GraphicsTerminal):
    """`over` of a cell lists parts of pictures, the last on top: (name, opaque pixels, column, line)."""

    def clear(self):
        super().clear()
        self.over = [[()] * self.columns for _ in range(self.lines)]
        self.placed, self.looks, self.cursor, self.resized = {}, frozenset(), True, False

    def resize(self, size):
        if size == (self.lines, self.columns): return # no resize, so no signal
        super().resize(size)
        self.resized = True
        self.over = [[()] * self.columns for _ in range(self.lines)]

    def put(self, c):
        cells = width(c)
        if not cells:
            x = max(min(self.x, self.columns) - 1, 0)
            text, ink, paper = self.cells[self.y][x]
            self.cells[self.y][x] = text + c, ink, paper
            return
        if self.x + cells > self.columns: self.x, self.y = 0, min(self.y + 1, self.lines - 1)
        row, over, x = self.cells[self.y], self.over[self.y], self.x
        if not row[x][0]: row[x - 1] = " ", *row[x - 1][1:]  # half of a wide character is erased
        if x + cells < self.columns and not row[x + cells][0]: row[x + cells] = " ", *row[x + cells][1:]
        row[x] = c, (self.ink, self.looks), self.paper
        over[x] = ()
        if cells == 2:
            row[x + 1] = "", (self.ink, self.looks), self.paper
            over[x + 1] = ()
        self.last = c
        self.x += cells

    def wipe(self, x, y, width, height):
        for row in self.over[y:y + height]: row[x:x + width] = [()] * (min(x + width, self.columns) - x)

    def scroll(self, top, count):
        super().scroll(top, count)
        end, empty = self.bottom + 1, [[()] * self.columns for _ in range(abs(count))]
        region = self.over[top:end]
        region = region[count:] + empty if count > 0 else empty + region[:count]
        self.over[top:end] = region[:end - top]
        for name, (x, y, w, h, picture) in list(self.placed.items()):
            if top <= y and y + h <= end: self.placed[name] = x, y - count, w, h, picture

    def erase(self, kind):
        super().erase(kind)
        if kind == 2: self.placed = {}

    def colours(self, codes):
        looks = set(self.looks)
        rest, at = codes[:], 0
        while at < len(rest):
            c = rest[at]
            if c == 0: looks = set()
            elif c in SGR: looks.add(SGR[c])
            elif c in OFF: looks.difference_update(OFF[c])
            elif c in (38, 48): at += 2 if rest[at + 1] == 5 else 4
            at += 1
        self.looks = frozenset(looks)
        super().colours(codes)

    def csi(self, codes, final):
        if codes == "?25" and final in "hl": self.cursor = final == "h"
        super().csi(codes, final)

    def lay(self, name, columns, lines, seen):
        if self.x + columns > self.columns or self.y + lines > self.lines:
            if self.resized: return # sent before the size changed; everything is redrawn after that
            sys.exit("a picture beyond the edge: %d x %d cells at %d, %d" % (columns, lines, self.x, self.y))
        for y in range(lines):
            for x in range(columns):
                row, dots = self.over[self.y + y], seen[y][x]
                below = tuple(part for part in row[self.x + x] if part[1] & ~dots)  # not hidden
                row[self.x + x] = below + (((name, dots, x, y),) if dots else ())

    def dcs(self, text):
        self.told_colours(dcs=text)
        found = re.match(r"[0-9;]*q", text)
        if not found or self.kind != "sixel": return
        size = re.match(r'"1;1;(\d+);(\d+)', text[found.end():])
        columns, lines = -(-int(size[1]) // self.cell[0]), -(-int(size[2]) // self.cell[1])
        name = hash(text)
        if name not in covers: cover(name, sixel_read(text[found.end():])[2], columns, lines, self.cell)
        self.lay(name, columns, lines, covers[name])

    def osc(self, text):
        self.told_colours(osc=text)
        if not text.startswith("1337;File="): return
        head, _, body = text[10:].partition(":")
        keys = dict(k.split("=") for k in head.split(";"))
        columns, lines, name = int(keys["width"]), int(keys["height"]), hash(text)
        if name not in covers: cover(name, png_read(base64.b64decode(body))[2], columns, lines, self.cell)
        self.lay(name, columns, lines, covers[name])

    def kitty(self, text):
        if not text.startswith("G"): return
        head, _, body = text[1:].partition(";")
        keys = dict(k.split("=") for k in head.split(",") if "=" in k)
        if keys.get("a") == "q":
            if self.kind == "kitty": self.reply("\x1b_Gi=31;OK\x1b\\")
        elif keys.get("a") == "d":
            self.placed.pop(keys["i"], None)
        else:
            if "a" in keys: self.received = {"keys": keys, "body": ""}
            self.received["body"] += body
            if keys.get("m") == "1": return
            keys = self.received["keys"]
            self.placed[keys["i"]] = self.x, self.y, int(keys["c"]), int(keys["r"]), hash(self.received["body"])

    def screen(self):
        cells = [[(*cell, over) for cell, over in zip(row, above)] for row, above in zip(self.cells, self.over)]
        return cells, sorted(self.placed.values()), (self.x, self.y) if self.cursor else None

    # Waits until there is no output, no busy thread and no pending frame for longer than a frame
    # may take.
    def settle(self, seconds=0.05):
        pass_through()
        quiet = time.time()
        while True:
            before = len(self.all)
            if not self.read(0.01): return False
            if len(self.all) != before or self.runs() or self.frame_due(): quiet = time.time()
            if time.time() - quiet <= seconds or BUSY.search(self.text()): continue
            pass_through()
            if not self.runs() and not self.frame_due() and not select.select([self.fd], [], [], 0)[0]: break
        self.all = self.seen = ""  # otherwise the text would grow without limit
        self.resized = False
        return True

    def runs(self):
        tasks = "/proc/%d/task" % self.pid
        try:
            return any(open("%s/%s/stat" % (tasks, t)).read().rpartition(")")[2].split()[0] in "RD" for t in os.listdir(tasks))
        except OSError:
            return False

    # True if the program's main thread waits in poll() for at most FRAME: a frame is due. A frame that changes
    # nothing writes nothing, but may request the picture that the next frame shows. False if the kernel does not
    # show system calls (or numbers them differently): settle() then waits only for its fixed time.
    def frame_due(self):
        try:
            call = open("/proc/%d/syscall" % self.pid).read().split()
        except OSError:
            return False
        return len(call) > 3 and call[0] == "7" and int(call[3], 16) & 0xffffffff <= FRAME


# --- steps ---------------------------------------------------------------------------------------

COMMANDS = """/image {p}|/image {p}|/image {p}|/image {p} What is on it, in one sentence?|What is this?|What is in the picture?|Say more.
/attention --layer all|/attention --layer 1|/attention --head 0|/logit_lens|/help|/help prune|/help attention|/regen|/undo|/clear
/compare off ~ prune.score=contribution prune.layer=1 What is it?|/compare sample.seed=1 ~ sample.seed=2 What is it?
/set screen.layout chat|/set screen.layout workbench|/set screen.layout maps|/set screen.layout maps|/set screen.layout auto
/set screen.layout compare|/set screen.layout changed|/set screen.theme light|/set screen.theme contrast|/set screen.theme default
/set screen.map cividis|/set screen.map viridis|/set screen.graphics quadrants|/set screen.graphics blocks|/set screen.graphics ascii
/set screen.graphics auto|/set screen.graphics auto|/set screen.graphics auto|/set screen.graphics auto|/set screen.graphics auto|/set screen.graphics auto|/toggle norm.align|/set
/set prune.score contribution|/set prune.score off|/set sample.max_tokens 6|/nothing of the kind|/session list|/model"""
COMMANDS = COMMANDS.replace("\n", "|").split("|")
KEYS = ["\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOR", "\x1bOR", "\x1bOS", "\x1b[15~", "\x1b[17~", "\x1b[18~", "\x1b[18~", "\x1b[20~", "\x1b[24~", "\x1bs",
        "\x10", "\x0f", "\x1b[Z", "\t", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F",
        "\x1b", "\x1b", "\x1b", "o", "o", "o", "h", "k", "m", "s", "r", "[", "]", "w", "u", "n", "N", "g", "G", "/", "\x1b1"]
PASTES = ["\x1b[200~two lines\nof a pasted text\x1b[201~", "\x1b[200~" + "a long line that is wrapped " * 12 + "\x1b[201~",
          "\u732b\u304c\u5ea7\u3063\u3066\u3044\u308b", "cafe\u0301 \U0001f600", "# head\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"]
SIZES = [(24, 80), (40, 120), (36, 120), (50, 150), (30, 100), (60, 200), (40, 120), (15, 40)]


# Steps that once broke pictures: rows that scroll beside one, and changes of layout and graphics.
FIRST = [["\x1bOR"], ["o"], ["\x1b", None], ["/attention --layer all --figure %s/q.png\r"], ["\x1b[18~"], ["\x1b[18~"], ["\x1b[18~"],
         ["\x1b[18~"], ["\x1b[18~"], ["/compare off | prune.score=contribution prune.layer=1 What is it?\r"], ["\x1b[18~"], ["/clear\r"], ["/image " + PICTURES + "wide.png What is this?\r"], ["/set screen.layout auto\r"]]
FIRST += [["/set screen.%s\r" % setting] for layout in ("maps", "compare", "workbench")
          for setting in ("layout " + layout, "graphics ascii", "graphics auto", "map cividis", "map viridis", "theme contrast", "theme default")]


def steps(pick):
    """The input of one step: pieces, and sizes; None: a pause that makes an Esc a key."""
    kind = pick.random()
    if kind < 0.42:
        keys = [pick.choice(KEYS) for _ in range(pick.randint(1, 4))]
        return [piece for key in keys for piece in ([key, None] if key == "\x1b" else [key])]
    if kind < 0.50: return [pick.choice(KEYS[:8]), "".join(pick.choice(["o", "s", "\x1b[C", "\x1b[D", "\x1b[A", "m"]) for _ in range(6))]
    if kind < 0.80:
        line = pick.choice(COMMANDS[:7] if pick.random() < 0.3 else COMMANDS).replace("~", "|").format(p=PICTURES + pick.choice(["scene.png", "wide.png", "tall.jpg", "square.png", "tiny.png"]))
        return ["\x1b", None, "\x1b", None, "\x05\x15" + line + "\r"]
    if kind < 0.86: return ["\x1b", None, "\x1b", None, pick.choice(PASTES), pick.choice(["\r", "\x05\x15", ""])]
    if kind < 0.92: return [pick.choice(SIZES)]
    if kind < 0.95: return [pick.choice(SIZES), pick.choice(SIZES), pick.choice(KEYS), None]
    x, y, button = pick.randint(1, 100), pick.randint(1, 30), pick.choice([64, 65, 64, 65, 0, 35])
    return ["\x1b[<%d;%d;%dM" % (button, x, y)] + (["\x1b[<0;%d;%dm" % (x + 2, y + 1)] if not button else [])


def start(kind, pick, work):
    env = {"XDG_STATE_HOME": work + "/state", "XDG_CACHE_HOME": work + "/cache", "XDG_CONFIG_HOME": work + "/config"}
    colours = pick.choice([("xterm-256color", "truecolor", 8)] * 3 + [("xterm-256color", "", 8), ("xterm", "", 8), ("xterm", "", 256), ("xterm", "", 1 << 24)])
    env.update(TERM=colours[0], COLORTERM=colours[1])
    shutil.rmtree(work + "/state", ignore_errors=True)
    t = WalkTerminal([os.environ["VLMSH"], MODEL], "none" if kind == "blocks" else kind, env=env, size=pick.choice(SIZES[:5]), cell=(5, 9), colours=colours[2])
    t.environment = "TERM=%s COLORTERM=%s, %d colours" % colours
    t.settle(0.2)
    for line in "/set sample.max_tokens 3", "/image " + PICTURES + "scene.png", "What is this?":
        t.type(line + "\r")
        t.settle(0.2)
    return t


def finish(t):
    os.kill(t.pid, signal.SIGTERM)
    t.wait()
    os.close(t.fd)


def differences(a, b):
    found = []
    for y, (before, after) in enumerate(zip(a[0], b[0])):
        for x, (was, now) in enumerate(zip(before, after)):
            if was != now: found.append("line %d, column %d: %r, redrawn %r" % (y, x, was, now))
    if a[1] != b[1]: found.append("pictures: %r, redrawn %r" % (a[1], b[1]))
    if a[2] != b[2]: found.append("cursor: %r, redrawn %r" % (a[2], b[2]))
    return found


def text(screen):
    return "\n".join("".join(cell[0] if not cell[3] else "#" for cell in row) for row in screen[0])


def tell(t, done, wrong, pictures):
    print("after %s %r:" % (t.environment, done[-12:]))
    print("\n".join(wrong[:12]) + ("\n... %d differences" % len(wrong) if len(wrong) > 12 else ""))
    for when, shown in zip(("before", "after"), pictures):
        if os.environ.get("LOOK"): open(os.path.join(os.environ["LOOK"], when + ".txt"), "w").write(shown)
    sys.stdout.flush()


def walk(kind, count, seed, work):
    pick, t, done, faults, shown = random.Random(seed), None, [], 0, 0
    first = [[piece and piece.replace("%s", work) for piece in step] for step in FIRST]
    for number in range(count):
        if t and number % SESSION == 0: t = finish(t)
        if not t: t, done = start(kind, pick, work), []
        step = first.pop(0) if first else steps(pick)
        done.append(step)
        for piece in step:
            if piece is None: t.read(0.03), time.sleep(0.03)
            elif isinstance(piece, tuple): t.resize(piece)
            elif piece: t.type(piece)
        if not t.settle(): sys.exit("it ended after %r:\n%s" % (done[-12:], t.text()))
        before = t.screen()
        t.signal(signal.SIGWINCH)
        t.settle()
        after = t.screen()
        wrong = differences(before, after)
        shown += bool(t.placed) or any(part for row in t.over for part in row) or "\u2580" in t.text()
        if not wrong: continue
        faults += 1
        print("step %d:" % number)
        tell(t, done, wrong, (text(before), text(after)))
        if faults == 5: break
    finish(t)
    print("%s, seed %d: %d steps, %d with pictures, %d differences" % (kind, seed, number + 1, shown, faults))
    return faults


if __name__ == "__main__":
    work = tempfile.mkdtemp()
    for name in "LINES", "COLUMNS", "TMUX", "STY", "KITTY_WINDOW_ID", "TERM_PROGRAM": os.environ.pop(name, None)
    try:
        seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(10 ** 6)
        sys.exit(walk(sys.argv[1], int(sys.argv[2]), seed, work) > 0)
    finally:
        shutil.rmtree(work)
