"""A captured screen (tmux capture-pane -e) in a comparable form: the text, then the attributes of
each line as runs, without parts that depend on the machine.

    tmux capture-pane -e -p | captured.py [LINES] >screen.txt
    captured.py --compare stored.txt screen.txt

Maps are sums of floats, which differ in their last digits between machines: one in fifty half
blocks may differ from the stored colour.
"""
import difflib, re, sys, unicodedata


def step(state, codes):
    """The state after these SGR codes: a dictionary of attributes that are not default."""
    state = dict(state)
    codes = [int(c or 0) for c in re.split("[;:]", codes)]
    while codes:
        c = codes.pop(0)
        if c == 0: state = {}
        elif c in (1, 2, 4, 7): state[{1: "bold", 2: "dim", 4: "under", 7: "reverse"}[c]] = True
        elif c == 22: state.pop("bold", 0), state.pop("dim", 0)
        elif c == 24: state.pop("under", 0)
        elif c == 27: state.pop("reverse", 0)
        elif c in (38, 48):
            count = 1 if codes.pop(0) == 5 else 3
            state["ink" if c == 38 else "paper"] = ",".join(map(str, codes[:count]))
            del codes[:count]
        elif c == 39: state.pop("ink", 0)
        elif c == 49: state.pop("paper", 0)
        elif 30 <= c <= 37: state["ink"] = str(c - 30)
        elif 40 <= c <= 47: state["paper"] = str(c - 40)
        elif 90 <= c <= 97: state["ink"] = str(c - 82)
        elif 100 <= c <= 107: state["paper"] = str(c - 92)
    return state


def name(state):
    words = [k for k in ("bold", "dim", "under", "reverse") if k in state]
    words += [k + " " + state[k] for k in ("ink", "paper") if k in state]
    return " ".join(words)


def width(character):
    if unicodedata.combining(character): return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cells(line, state):
    out = []
    for part in re.split("(\x1b\\[[0-9;:]*m)", line):
        if part.startswith("\x1b["):
            state = step(state, part[2:-1])
            continue
        for character in part:
            out.append((character, name(state), width(character)))
    # Drops invisible trailing spaces, which tmux versions print differently.
    while out and out[-1][0] == " " and not re.search("under|reverse|paper", out[-1][1]): out.pop()
    return out, state


def runs(line):
    text, at, begin, now = [], 0, 0, ""
    for character, look, cell in line + [("", "", 0)]:
        if look != now:
            if now: text.append("%d-%d %s" % (begin, at - 1, now))
            begin, now = at, look
        at += cell
    return "; ".join(text)


def capture(lines):
    state, screen = {}, []
    for raw in sys.stdin.read().split("\n"):
        line, state = cells(raw, state)
        screen.append(line)
    if lines: screen = screen[:int(lines[0])]
    texts = ["".join(c for c, _, _ in line) for line in screen]
    volatile = [bool(re.match(" (llava-1.5|llama-3.2|model) cpu ", t)) for t in texts]
    texts = [re.sub(r" *\d+/\d+(?= +│)", " #/#", t) for t in texts] # how many items a list has
    texts = [re.sub(r"\d+ MB", lambda m: "#" * len(m.group()), t) for t in texts] # of processes
    # Times of a comparison.
    texts = [re.sub(r"(?<= decode s)[^│]*", lambda m: "#" * len(m.group()), t) for t in texts]
    # Sums of floats with all their digits, of which "%.6g" leaves out zeros at the end.
    texts = [re.sub(r" +\d+\.\d{4,}", lambda m: "#" * len(m.group()), t) for t in texts]
    print("\n".join(" llava-1.5 cpu" if v else re.sub(r"\b\d+\.\d s\b", "#.# s", t)
                    for t, v in zip(texts, volatile)).rstrip("\n"))
    print("-- attributes")
    for number, line in enumerate(screen):
        if not volatile[number] and runs(line): print("%d: %s" % (number, runs(line)))


def attributes_of(text):
    """{(line, column): look} of a stored screen, and its lines of text."""
    body, looks = text.split("-- attributes\n")
    found = {}
    for line in looks.splitlines():
        number, parts = line.split(": ", 1)
        for part in parts.split("; "):
            place, look = part.split(" ", 1)
            begin, end = map(int, place.split("-"))
            for column in range(begin, end + 1): found[int(number), column] = look
    return body.splitlines(), found


def columns(line):
    """A character for each column of the terminal."""
    return "".join(c + " " * (width(c) - 1) for c in line if width(c))


def compare(stored, screen):
    old, new = open(stored).read(), open(screen).read()
    old_text, old_looks = attributes_of(old)
    new_text, new_looks = attributes_of(new)
    drawn = [columns(line) for line in old_text]
    blocks = sum(line.count("\u2580") for line in old_text)
    places = [p for p in set(old_looks) | set(new_looks) if old_looks.get(p) != new_looks.get(p)]
    other = [p for p in places if p[0] >= len(drawn) or drawn[p[0]][p[1]:p[1] + 1] != "\u2580"]
    if old_text == new_text and not other and len(places) <= blocks / 50: return
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), stored,
                                               "now", n=0))
    sys.exit(1)


if sys.argv[1:2] == ["--compare"]:
    compare(*sys.argv[2:])
else:
    capture(sys.argv[1:])
