# tests/tui/tint.sh -- answers as heat maps (tui/tint.c): the colour of each word is that of its token's
# number in --json; the legend; text models; no colours.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH WORK="$work" PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS TMUX STY KITTY_WINDOW_ID TERM_PROGRAM NO_COLOR
python3 - <<'END'
import json, os, re, subprocess
from graphics import GraphicsTerminal
from terminal import check

program = os.environ["VLMSH"]
ask = ["/image demo/pictures/scene-1.png", "What is in the picture?"]
alt_t = "\x1bt"

def numbers(lines, model):
    out = subprocess.run([program, model, "--json"], input="\n".join(["/set why.live on"] + lines) + "\n",
                         capture_output=True, text=True).stdout
    return [e for e in map(json.loads, out.splitlines()) if e["event"] == "token" and e["id"] >= 0]

def start(model, lines, end, size=(24, 80), **env):
    t = GraphicsTerminal([program, model], "none", size=size, colours=1 << 24, env=dict({"COLORTERM": "truecolor"}, **env))
    t.wait_text("F1 keys")
    for line in lines: t.type(line + "\r")
    t.wait_text(end)
    t.settle()
    return t

def line_of(t, text):
    rows = [i for i, row in enumerate(t.cells) if text in "".join(c[0] or " " for c in row)]
    check(rows, "'%s' is on the screen" % text)
    return t.cells[rows[0]], "".join(c[0] or " " for c in t.cells[rows[0]])

# matplotlib's viridis at nine points.
viridis = [(68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140), (40, 174, 128),
           (94, 201, 98), (173, 220, 48), (253, 231, 37)]
def ramp(s):
    i = min(int(s * 8), 7)
    return tuple(a + (b - a) * (s * 8 - i) for a, b in zip(viridis[i], viridis[i + 1]))
def near(a, b): return a and all(abs(x - y) <= 6 for x, y in zip(a, b))

def check_words(t, tokens, field, most, name):
    text = "".join(e["text"] for e in tokens).strip()
    cells, shown = line_of(t, text)
    at = shown.index(text)
    for e in tokens:
        word = e["text"].strip()
        if not word: continue
        at = shown.index(word, at)
        want = ramp(e[field] / most)
        paper = cells[at][2]
        check(near(paper, want), "%s: '%s' is on %s, not %s" % (name, word, paper, want))
        at += len(word)

tokens = numbers(ask, "demo/model")
answer = "".join(e["text"] for e in tokens).strip()
high = lambda field: max(e[field] for e in tokens)
t = start("demo/model", ["/set screen.tint picture"] + ask, "12 tokens")
t.wait_text("tint: share from the picture  0%% .* %.0f%%" % (100 * high("picture_share")))
check_words(t, tokens, "picture_share", high("picture_share"), "picture")
t.type(alt_t)
t.wait_text("tint: probability  0 .* 1  Alt-t: next")
t.settle()
check_words(t, tokens, "probability", 1, "probability")
t.type(alt_t)
t.wait_text(r"tint: entropy \(nats\)  0 .* %.3g" % high("entropy"))
t.settle()
check_words(t, tokens, "entropy", high("entropy"), "entropy")
t.type(alt_t)
t.wait_text("/set screen.tint off")
t.settle()
check("tint: " not in t.text(), "no legend")
cells, shown = line_of(t, answer)
check(not any(c[2] for c in cells[2:40]), "no tint")
# The key measures shares from the next answer on.
t.type(alt_t)
t.wait_text("share from the picture, from the next answer on|share from the picture  0%")
t.type("\x1b[21~")
t.ends()

# A text model has no shares.
t = start("tests/goldens/llama-3.2", ["/set sample.max_tokens 3", "hello"], "3 tokens")
t.type(alt_t)
t.wait_text("tint: probability  0 ")
t.type("\x1b[21~")
t.ends()

# Without colours there is no tint; the key says why.
t = start("demo/model", ["/set screen.tint probability"] + ask, "12 tokens", NO_COLOR="1")
check("tint: " not in t.text(), "no legend without colours")
t.type(alt_t)
t.wait_text("no colours to tint answers with")
t.type("\x1b[21~")
t.ends()
END
out=$("$VLMSH" demo/model --plain -c '/set screen.tint probability' -c '/image demo/pictures/scene-1.png' -c 'What is in the picture?' 2>/dev/null)
case $out in *$'\033'*) echo "--plain is tinted"; exit 1 ;; esac
