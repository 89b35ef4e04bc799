# tests/tui/chips.sh -- the methods under the picture (tui/chips.c): what pruning and the FFN approximation
# would change agrees with /flops, a click or key switches a method, and its settings come first.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS TMUX STY KITTY_WINDOW_ID TERM_PROGRAM NO_COLOR
python3 - <<'END'
import json, os, re, subprocess
from graphics import GraphicsTerminal
from terminal import check

program = os.environ["VLMSH"]
# The answer is one token long, because it belongs to the next prompt but not to the one that /flops counts.
ask = ["/set sample.max_tokens 1", "/image demo/pictures/scene-1.png", "What is in the picture?"]

def share(*lines):
    """FLOPs of the prompt with methods, in percent of those without."""
    out = subprocess.run([program, "demo/model", "--json"], input="\n".join(ask + list(lines) + ["/flops"]) + "\n",
                         capture_output=True, text=True).stdout
    tables = [e for e in map(json.loads, out.splitlines()) if e["event"] == "table" and e["name"] == "flops"]
    return 100 * float([r for r in tables[0]["rows"] if r[0] == "all"][0][3])

def start(model, lines, end, size):
    t = GraphicsTerminal([program, model], "none", size=size, colours=1 << 24, env={"COLORTERM": "truecolor"})
    t.wait_text("F1 keys")
    for line in lines: t.type(line + "\r")
    t.wait_text(end)
    t.settle()
    return t

def forecast(t, name):
    found = re.search(name + r"[^○●]*[○●] ([+-]\d+)%", t.text())
    check(found, "%s has a forecast in %s" % (name, t.text()))
    return 100 + int(found.group(1))

pruned, both = share("/set prune.score contribution"), share("/toggle ffn.approx off hadamard", "/set prune.score contribution")
t = start("demo/model", ask, "Alt-2 CAPA .* FLOPs", (40, 120))
check(abs(forecast(t, "CAPA") - pruned) < 1.5, "CAPA: %d%%, /flops: %.1f%%" % (forecast(t, "CAPA"), pruned))
rows = t.text().split("\n")
y = [i for i, row in enumerate(rows) if "Alt-2 CAPA" in row][0]
x = rows[y].index("25%")
t.type("\x1b[<0;%d;%dM\x1b[<0;%d;%dm" % (x + 1, y + 1, x + 1, y + 1))
t.wait_text(r"CAPA 25% @\d ●")
t.settle()
check(abs(forecast(t, "FFN") - 100 * both / pruned) < 1.5, "FFN after CAPA: %d%%, /flops: %.1f%%" % (forecast(t, "FFN"), 100 * both / pruned))
first = re.search(r"─ settings ─+┐\n.*?││(\w+)", t.text()).group(1)
check(first == "prune", "settings begin with prune, not %s" % first)
t.type("\x1b2")
t.wait_text(r"CAPA 25% @\d ○ -")
t.type("\x1b[21~")
t.ends()

# A language model has no chips; a small panel has short ones.
t = start("tests/goldens/llama-3.2", ["/set sample.max_tokens 3", "hello"], "3 tokens", (40, 120))
check("Alt-2" not in t.text(), "no chips without pictures")
t.type("\x1b[21~")
t.ends()
t = start("demo/model", ask + ["\x1bOR"], "Alt-1 NORM ○ .*Alt-4 IRA ○|Alt-3 FFN auto ○.*Alt-4 IRA ○", (24, 80))
t.type("\x1b[21~")
t.ends()
END
