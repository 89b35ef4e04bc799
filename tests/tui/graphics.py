"""A terminal that shows pictures: it answers queries as a terminal of its kind does (kitty, iterm,
sixel, none), keeps the cells that the program writes, and decodes the three picture protocols. Its
screen can be saved as a PNG.

    t = GraphicsTerminal(["./vlmsh"], "kitty", size=(36, 120), cell=(10, 20))
    t.wait_text("F1 keys"); t.type("/image a.png\\r")
    t.wait_for(lambda: t.pictures, "a picture")
    t.save("screen.png")

Pictures are a list of (x, y, columns, lines, pixels, id): cells from 0; pixels are rows of (r, g, b, a).
t.placeholders() returns those that kitty shows at placeholders (inside tmux), in the same form.
"""
import base64
import fcntl
import re
import struct
import sys
import termios
import time
import unicodedata
import zlib

from terminal import Terminal


# --- PNG -----------------------------------------------------------------------------------------

def png_read(data):
    """Width, height and rows of (r, g, b, a); eight bits, colour or colour with alpha."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6)
            size = 4 if colour == 6 else 3
        if kind == b"IDAT": packed += body
        at += 12 + length
    raw, before, rows = zlib.decompress(packed), bytearray(width * size), []
    for y in range(height):
        kind, line = raw[y * (width * size + 1)], bytearray(raw[y * (width * size + 1) + 1:(y + 1) * (width * size + 1)])
        for i in range(len(line)):
            a = line[i - size] if i >= size else 0
            b, c = before[i], before[i - size] if i >= size else 0
            if kind == 1: line[i] = (line[i] + a) & 255
            elif kind == 2: line[i] = (line[i] + b) & 255
            elif kind == 3: line[i] = (line[i] + (a + b) // 2) & 255
            elif kind == 4:
                p = a + b - c
                near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
                line[i] = (line[i] + near) & 255
        before = line
        rows.append([tuple(line[i:i + size]) + ((255,) if size == 3 else ()) for i in range(0, len(line), size)])
    return width, height, rows


def png_write(path, rows):
    def part(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    raw = b"".join(b"\0" + bytes(v for p in row for v in p[:3]) for row in rows)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)) +
                part(b"IDAT", zlib.compress(raw)) + part(b"IEND", b""))


# --- sixel ---------------------------------------------------------------------------------------

def sixel_read(text):
    """Width, height, rows of (r, g, b, a) of the data between DCS q and ST."""
    found = re.match(r'"1;1;(\d+);(\d+)', text)
    width, height = int(found[1]), int(found[2])
    rows = [[(0, 0, 0, 0)] * width for _ in range(height)]
    colours, colour, x, top, repeat = {}, None, 0, 0, 1
    for part in re.finditer(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)|([?-~])|(\$)|(-)", text[found.end():]):
        number, r, g, b, count, sixel, back, down = part.groups()
        if number and r is not None:
            assert max(int(r), int(g), int(b)) <= 100
            colours[int(number)] = tuple((int(v) * 255 + 50) // 100 for v in (r, g, b)) + (255,)
        elif number: colour = colours[int(number)]
        elif count: repeat = int(count)
        elif back: x = 0
        elif down: x, top = 0, top + 6
        else:
            for _ in range(repeat):
                for bit in range(6):
                    if ord(sixel) - 63 >> bit & 1: rows[top + bit][x] = colour
                x += 1
            repeat = 1
    return width, height, rows


# --- the terminal --------------------------------------------------------------------------------

PLACEHOLDER = "\U0010eeee"
ROW_MARKS = [0x305, 0x30d, 0x30e, 0x310, 0x312, 0x33d, 0x33e, 0x33f, 0x346, 0x34a, 0x34b, 0x34c, 0x350,
             0x351, 0x352, 0x357, 0x35b, 0x363, 0x364, 0x365, 0x366, 0x367, 0x368, 0x369, 0x36a, 0x36b,
             0x36c, 0x36d, 0x36e, 0x36f, 0x483, 0x484, 0x485, 0x486, 0x487, 0x592, 0x593, 0x594]

REPLIES = {  # replies to kitty's query, to the query of the name, to DA1
    "kitty": ("\x1b_Gi=31;OK\x1b\\", "\x1bP>|kitty(0.35.2)\x1b\\", "\x1b[?62;c"),
    "iterm": ("", "\x1bP>|iTerm2 3.5.4\x1b\\", "\x1b[?62;22c"),
    "sixel": ("", "\x1bP>|XTerm(388)\x1b\\", "\x1b[?63;1;2;4;6;22c"),
    "none": ("", "", "\x1b[?1;2c"),
}
SEQUENCE = re.compile(
    r"\x1b_(?P<apc>[^\x1b]*)\x1b\\|\x1bP(?P<dcs>(?:[^\x1b]|\x1b\x1b|\x1b(?!\\))*?)\x1b\\|"
    r"\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)|\x1b\[(?P<csi>[0-9;:?>=!$]*)(?P<final>[@-~])|"
    r"\x1b[()*+].|\x1b(?P<esc>[78=>MDEHc])|(?P<control>[\x00-\x1a\x1c-\x1f])|(?P<text>[^\x00-\x1f]+)", re.S)


class GraphicsTerminal(Terminal):
    def __init__(self, argv, kind, env=None, size=(36, 120), cell=(10, 20), answers=True, driver=False, colours=8,
                 background=None):
        self.background = background  # as in the reply to OSC 11: "0000/0000/0000"
        self.kind, self.cell, self.answers = kind, cell, answers
        self.has = colours # colours that its replies report: 256 or 1 << 24; 8: they report none
        self.driver = driver # the terminal driver reports the size in pixels, too
        self.lines, self.columns = size
        self.rest, self.received = "", {}
        self.clear()
        super().__init__(argv, dict({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, **(env or {})), size, self.extent(size))

    def extent(self, size):
        return (size[1] * self.cell[0], size[0] * self.cell[1]) if self.driver else (0, 0)

    def clear(self):
        self.cells = [[(" ", None, None)] * self.columns for _ in range(self.lines)]
        self.top, self.bottom, self.sent = 0, self.lines - 1, {}
        self.pictures, self.x, self.y, self.saved = [], 0, 0, (0, 0)
        self.ink = self.paper = self.number = None
        self.last, self.wiped = " ", False

    def resize(self, size):
        """Clears the screen; the program draws it again."""
        self.lines, self.columns = size
        self.cells = [[(" ", None, None)] * self.columns for _ in range(self.lines)]
        self.top, self.bottom, self.x, self.y = 0, self.lines - 1, 0, 0
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, *self.extent(size)))

    def read(self, seconds):
        before = len(self.all)
        alive = super().read(seconds)
        self.rest += self.all[before:]
        self.take()
        return alive

    def wait_for(self, ready, what, seconds=30):
        end = time.time() + seconds
        while not ready():
            if time.time() > end or not self.read(0.2):
                sys.exit("not seen: %s\n%s" % (what, self.text()))

    def wait_text(self, pattern, seconds=30):
        self.wait_for(lambda: re.search(pattern, self.text()), pattern, seconds)

    def settle(self, seconds=0.25):
        """Waits until no output has arrived for a while."""
        at = time.time()
        while time.time() - at < seconds:
            before = len(self.all)
            self.read(0.05)
            if len(self.all) != before: at = time.time()

    def text(self):
        return "\n".join("".join(c for c, _, _ in row).rstrip() for row in self.cells)

    # The output, up to an incomplete sequence.
    def take(self):
        at = 0
        while at < len(self.rest):
            found = SEQUENCE.match(self.rest, at)
            if not found:
                if self.rest[at] != "\x1b" or (len(self.rest) - at > 8 and self.rest[at + 1] not in "_P]["):
                    at += 1
                    continue
                break
            self.one(found)
            at = found.end()
        self.rest = self.rest[at:]
        if self.wiped: # a fully overwritten picture is deleted
            self.pictures = [p for p in self.pictures if any(dot[3] for row in p[4] for dot in row)]
            self.wiped = False

    def one(self, found):
        kind = found.lastgroup
        text = found[kind] if kind else ""
        if kind == "text":
            for character in text: self.put(character)
        elif kind == "final": self.csi(found["csi"], text)
        elif kind == "control": self.control(text)
        elif kind == "apc": self.kitty(text)
        elif kind == "dcs": self.dcs(text)
        elif kind == "osc": self.osc(text)
        elif text == "7": self.saved = self.x, self.y
        elif text == "8": self.x, self.y = self.saved
        elif text == "M" and self.y == self.top: self.scroll(self.top, -1)
        elif text == "M": self.y -= 1

    def put(self, character):
        if unicodedata.combining(character):
            x = min(self.x, self.columns) - 1
            before, ink, paper = self.cells[self.y][x]
            if before[0] == PLACEHOLDER: self.cells[self.y][x] = before + character, ink, paper
            return
        if self.x >= self.columns: self.x, self.y = 0, min(self.y + 1, self.lines - 1)
        self.wipe(self.x, self.y, 1, 1)
        # A placeholder's foreground colour is the id of its picture.
        self.cells[self.y][self.x] = character, self.number if character == PLACEHOLDER else self.ink, self.paper
        self.last = character
        self.x += 1

    def control(self, c):
        if c == "\r": self.x = 0
        elif c == "\n" and self.y == self.bottom: self.scroll(self.top, 1)
        elif c == "\n": self.y += 1
        elif c == "\b": self.x = max(0, self.x - 1)
        elif c == "\t": self.x = min(self.columns - 1, (self.x // 8 + 1) * 8)

    # Moves lines from `top` to the bottom of the region up by count (down: count < 0); pictures move
    # only with the whole screen.
    def scroll(self, top, count):
        end = self.bottom + 1
        region, empty = self.cells[top:end], [[(" ", None, self.paper)] * self.columns for _ in range(abs(count))]
        region = region[count:] + empty if count > 0 else empty + region[:count]
        self.cells[top:end] = region[:end - top]
        if top == 0 and end == self.lines:
            self.pictures = [(x, y - count, w, h, p, i) for x, y, w, h, p, i in self.pictures if y >= count]

    def csi(self, codes, final):
        n = [int(v) if v.isdigit() else 0 for v in re.split("[;:]", codes.lstrip("?>=!"))]
        one = n[0] or 1
        if final == "H":
            self.y = min(one, self.lines) - 1
            self.x = min(n[1] if len(n) > 1 and n[1] else 1, self.columns) - 1
        elif final == "A": self.y = max(0, self.y - one)
        elif final == "B": self.y = min(self.lines - 1, self.y + one)
        elif final == "C": self.x = min(self.columns - 1, self.x + one)
        elif final == "D": self.x = max(0, self.x - one)
        elif final == "G": self.x = one - 1
        elif final == "d": self.y = min(one, self.lines) - 1
        elif final == "b":
            for _ in range(one): self.put(self.last)
        elif final == "J": self.erase(n[0])
        elif final == "K" and n[0] == 0: self.blank(self.x, self.y, self.columns - self.x, 1)
        elif final == "K" and n[0] == 1: self.blank(0, self.y, self.x + 1, 1)
        elif final == "K": self.blank(0, self.y, self.columns, 1)
        elif final == "X": self.blank(self.x, self.y, one, 1)
        elif final == "P": self.shift(one)
        elif final == "@": self.shift(-one)
        elif final == "m": self.colours(n)
        elif final == "h" and codes == "?1049": self.erase(2)
        elif final == "c" and codes[:1] not in ("?", ">", "="): self.reply(REPLIES[self.kind][2])
        elif final == "q" and codes.startswith(">"): self.reply(REPLIES[self.kind][1])
        elif final == "t" and n[0] == 14 and self.driver: self.reply("\x1b[4;%d;%dt" % (self.lines * self.cell[1], self.columns * self.cell[0]))
        elif final == "t" and n[0] == 16: self.reply("\x1b[6;%d;%dt" % (self.cell[1], self.cell[0]))
        elif final == "r": self.top, self.bottom = one - 1, min(n[1] if len(n) > 1 and n[1] else self.lines, self.lines) - 1
        elif final in "LM": self.scroll(self.y, one if final == "M" else -one)
        elif final in "ST" and not codes.startswith("?"): self.scroll(self.top, one if final == "S" else -one)

    def reply(self, text):
        if self.answers and text: self.send(text)

    def erase(self, kind):
        if kind != 2:
            self.blank(self.x, self.y, self.columns - self.x, 1)
            for y in range(self.y + 1, self.lines): self.blank(0, y, self.columns, 1)
            return
        self.pictures = []
        self.blank(0, 0, self.columns, self.lines)

    def blank(self, x, y, width, height):
        for row in range(y, y + height):
            for column in range(x, min(x + width, self.columns)):
                self.cells[row][column] = " ", None, self.paper
        self.wipe(x, y, width, height)

    def shift(self, count):
        row = self.cells[self.y]
        if count > 0: row[self.x:] = row[self.x + count:] + [(" ", None, self.paper)] * count
        else: row[self.x:] = ([(" ", None, self.paper)] * -count + row[self.x:])[:self.columns - self.x]
        self.wipe(self.x, self.y, self.columns - self.x, 1)

    def colours(self, codes):
        while codes:
            c = codes.pop(0)
            if c == 0 or c == 38 or c == 39: self.number = None
            if 30 <= c <= 37: self.number = c - 30
            elif 90 <= c <= 97: self.number = c - 82
            if c == 0: self.ink = self.paper = None
            elif c in (38, 48):
                colour = palette(codes[1]) if codes[0] == 5 else tuple(codes[1:4])
                if c == 38 and codes[0] == 5: self.number = codes[1]
                codes = codes[2:] if codes[0] == 5 else codes[4:]
                if c == 38: self.ink = colour
                else: self.paper = colour
            elif c == 39: self.ink = None
            elif c == 49: self.paper = None
            elif 30 <= c <= 37: self.ink = palette(c - 30)
            elif 40 <= c <= 47: self.paper = palette(c - 40)
            elif 90 <= c <= 97: self.ink = palette(c - 82)
            elif 100 <= c <= 107: self.paper = palette(c - 92)

    # Text erases the pixels under it, except in kitty, whose pictures lie above text.
    def wipe(self, x, y, width, height):
        if self.kind == "kitty": return
        for px, py, w, h, pixels, _ in self.pictures:
            for row in range(max(y, py), min(y + height, py + h)):
                for column in range(max(x, px), min(x + width, px + w)):
                    self.wiped = True
                    for line in range((row - py) * self.cell[1], min((row - py + 1) * self.cell[1], len(pixels))):
                        for dot in range((column - px) * self.cell[0], min((column - px + 1) * self.cell[0], len(pixels[line]))):
                            pixels[line][dot] = (0, 0, 0, 0)

    # --- pictures --------------------------------------------------------------------------------

    def place(self, width, height, pixels, columns=None, lines=None, name=None):
        columns = columns or -(-width // self.cell[0])
        lines = lines or -(-height // self.cell[1])
        if self.x + columns > self.columns or self.y + lines > self.lines:
            sys.exit("a picture beyond the edge: %d x %d cells at %d, %d" % (columns, lines, self.x, self.y))
        missing = lines * self.cell[1] - height # inside tmux, sixels end with a complete band
        if width != columns * self.cell[0] or not 0 <= missing < (6 if self.kind == "sixel" else 1):
            sys.exit("a picture of %d x %d pixels for %d x %d cells" % (width, height, columns, lines))
        self.pictures = [p for p in self.pictures if p[:2] != (self.x, self.y) or self.kind == "kitty"]
        self.pictures.append((self.x, self.y, columns, lines, pixels, name))

    def kitty(self, text):
        if not text.startswith("G"): return
        head, _, body = text[1:].partition(";")
        keys = dict(k.split("=") for k in head.split(",") if "=" in k)
        if keys.get("a") == "q":
            if self.kind == "kitty": self.reply(REPLIES["kitty"][0])
            return
        if self.kind != "kitty": sys.exit("a picture for kitty, on another kind of terminal")
        if keys.get("a") == "d":
            self.pictures = [p for p in self.pictures if p[5] != keys["i"]]
            self.sent.pop(keys["i"], None)
            return
        if len(body) > 4096: sys.exit("kitty takes at most 4096 bytes at once")
        if "a" in keys: self.received = {"keys": keys, "body": ""}
        self.received["body"] += body
        if keys.get("m") == "1": return
        keys = self.received["keys"]
        width, height, pixels = png_read(base64.b64decode(self.received["body"]))
        self.pictures = [p for p in self.pictures if p[5] != keys["i"]]
        if keys.get("U") == "1": # placeholders determine the position
            if keys.get("q") != "2": self.reply("\x1b_Gi=%s;OK\x1b\\" % keys["i"])
            self.sent[keys["i"]] = width, height, pixels, int(keys["c"]), int(keys["r"])
            return
        self.place(width, height, pixels, int(keys["c"]), int(keys["r"]), keys["i"])

    def placeholders(self):
        """The pictures at placeholder cells; pixels outside these cells are transparent. ValueError
        while the cells of a picture do not fit together (yet)."""
        found, w, h = {}, *self.cell
        for y, row in enumerate(self.cells):
            for x, (c, name, _) in enumerate(row):
                if c[0] != PLACEHOLDER: continue
                if str(name) not in self.sent: raise ValueError("a placeholder of no picture: %r" % name)
                before = row[x - 1] if x else None
                marks = [ROW_MARKS.index(ord(m)) for m in c[1:]]
                if not marks: raise ValueError("a placeholder without its row")
                follows = before and before[0][0] == PLACEHOLDER and before[1] == name
                if len(marks) < 2 and not follows: raise ValueError("a row of placeholders without its beginning")
                column = marks[1] if len(marks) > 1 else found[name][-1][3] + 1
                found.setdefault(name, []).append((x, y, marks[0], column))
        shown = []
        for name, cells in found.items():
            width, height, pixels, columns, lines = self.sent[str(name)]
            left, top = cells[0][0] - cells[0][3], cells[0][1] - cells[0][2]
            for x, y, r, c in cells:
                if (x - c, y - r) != (left, top): raise ValueError("placeholders of picture %s are torn" % name)
            pixels = [[pixels[y * height // (lines * h)][x * width // (columns * w)] for x in range(columns * w)]
                      for y in range(lines * h)]  # kitty stretches the picture over its cells
            seen = [[(0, 0, 0, 0)] * (columns * w) for _ in range(lines * h)]
            for _, _, r, c in cells:
                for dot in range(r * h, r * h + h): seen[dot][c * w:c * w + w] = pixels[dot][c * w:c * w + w]
            shown.append((left, top, columns, lines, seen, name))
        return shown

    def told_colours(self, dcs=None, osc=None):
        """Answers colour queries."""
        if osc == "11;?" and self.background: self.reply("\x1b]11;rgb:%s\x1b\\" % self.background)
        if osc == "4;255;?" and self.has >= 256: self.reply("\x1b]4;255;rgb:eeee/eeee/eeee\x1b\\")
        if dcs == "$qm" and self.has > 256 and self.paper == (1, 2, 3): self.reply("\x1bP1$r0;48:2::1:2:3m\x1b\\")
        elif dcs == "$qm" and self.has >= 256: self.reply("\x1bP1$r0;48:5:16m\x1b\\")
        elif dcs == "$qm": self.reply("\x1bP0$r\x1b\\")

    def dcs(self, text):
        self.told_colours(dcs=text)
        found = re.match(r"[0-9;]*q", text)
        if not found and text.startswith("tmux;"): sys.exit("wrapped for tmux, but outside tmux")
        if not found: return
        if self.kind != "sixel": sys.exit("a picture in sixels, on another kind of terminal")
        self.place(*sixel_read(text[found.end():]))

    def osc(self, text):
        self.told_colours(osc=text)
        if not text.startswith("1337;File="): return
        if self.kind != "iterm": sys.exit("a picture for iTerm2, on another kind of terminal")
        head, _, body = text[10:].partition(":")
        keys = dict(k.split("=") for k in head.split(";"))
        data = base64.b64decode(body)
        assert len(data) == int(keys["size"])
        self.place(*png_read(data), int(keys["width"]), int(keys["height"]))

    # --- to look at ------------------------------------------------------------------------------

    def pixels(self):
        """The whole screen; characters other than blocks become a bar of their colour."""
        w, h = self.cell
        rows = [[(16, 16, 16)] * (self.columns * w) for _ in range(self.lines * h)]
        for y, row in enumerate(self.cells):
            for x, (c, ink, paper) in enumerate(row):
                if c[0] == PLACEHOLDER: c, ink = " ", None
                glyph(rows, x * w, y * h, w, h, c, ink or (220, 220, 220), paper or (16, 16, 16))
        for x, y, _, _, pixels, _ in self.pictures + self.placeholders():
            for line, dots in enumerate(pixels):
                for dot, (r, g, b, a) in enumerate(dots):
                    if a: rows[y * h + line][x * w + dot] = r, g, b
        return rows

    def save(self, path):
        png_write(path, self.pixels())


def palette(n):
    named = [(0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205),
             (229, 229, 229), (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255),
             (255, 0, 255), (0, 255, 255), (255, 255, 255)]
    steps = [0, 95, 135, 175, 215, 255]
    if n < 16: return named[n]
    if n >= 232: return (8 + 10 * (n - 232),) * 3
    return steps[(n - 16) // 36], steps[(n - 16) // 6 % 6], steps[(n - 16) % 6]


QUADRANTS = dict(zip(" \u2598\u259d\u2580\u2596\u258c\u259e\u259b\u2597\u259a\u2590\u259c\u2584\u2599\u259f\u2588", range(16)))


def sextant(code):
    mask = code - 0x1fb00 + 1
    mask += mask >= 21
    return mask + (mask >= 42)


def glyph(rows, left, top, w, h, c, ink, paper):
    code = ord(c)
    for y in range(h):
        for x in range(w):
            if c in QUADRANTS: full = QUADRANTS[c] >> (2 * y // h * 2 + 2 * x // w) & 1
            elif 0x1fb00 <= code <= 0x1fb3b: full = sextant(code) >> (3 * y // h * 2 + 2 * x // w) & 1
            else: full = h // 3 < y < h - h // 4 and 0 < x < w - 1
            rows[top + y][left + x] = ink if full else paper
