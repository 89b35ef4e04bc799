# tests/tui/screen_keys.sh -- the full screen under random keys, pastes, clicks and resizes: it must
# not crash, hang or leave the terminal changed. KEYS=10000 SEED=3 MODEL=demo/model tests more; a
# failure names its seed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH MODEL="${MODEL:-tests/goldens/llava-1.5}" WORK="$work"
export PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS
python3 - <<'END'
import fcntl, os, random, re, select, struct, sys, termios, time
from terminal import Terminal, check

program, model, work = os.environ["VLMSH"], os.environ["MODEL"], os.environ["WORK"]
count, seed = int(os.environ.get("KEYS", "1500")), int(os.environ.get("SEED", "1"))
dice = random.Random(seed)

named = (["\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F", "\x1b[Z",
          "\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS", "\x1b[15~", "\x1b[17~", "\x1b[18~", "\x1b[19~",
          "\x1b[20~", "\x1b[3~", "\x1b", "\r", "\t", "\t", " ", "\x7f", "\x10", "\x0f", "\x12",
          "\x0c", "\x01", "\x05", "\x0b", "\x15", "\x17", "\x19", "\x1f", "\x03", "\x14", "\x16",
          "\x1b1", "\x1b2", "\x1b3", "\x1b4", "\x1bb", "\x1bf", "\x1bd", "\x1b.", "\x1b5",
          "\x1b\r", "\x1b\n", "\x18v", "\x18e", "\x1bp", "\x1bn", "\x1b<", "\x1b>", "\x1by", "\x1br", "\x1b_Gi=31;OK\x1b\\",
          "\x1b[?62;4c", "\x1b[6;20;10t", "\x1bP>|WezTerm 1\x1b\\", "\x1b_G"])
lines = ["What is this?", "/set sample.max_tokens 20", "/image tests/goldens/pictures/scene.png",
         "/norms", "/attention --layer all", "/help", "/settings", "/undo", "/regen", "/clear",
         "/session list", "/reset all", "/images", "/keys", "/nosuch", "/set screen.theme light",
         "/set screen.layout maps", "/set screen.graphics kitty", "/set screen.graphics sixel",
         "/set screen.graphics iterm", "/set screen.graphics sextants", "/set screen.graphics auto", "/load tests/goldens/qwen2", "/load " + model, "/unload", "/jobs",
         "/context", "/tour", "/stream", "/pruned", "/changed", "/sinks --figure " + work + "/s.svg",
         "/image demo/pictures/*.png", "/image --remove 1", "/set screen.markdown off",
         "/set screen.theme contrast", "/set screen.layout changed", "/align on", "/ira on", "/capa on",
         "/compare off | norm.align=on What is this?", "/attention --film " + work + "/f.gif", '"""', "/screen " + work + "/shot 30 90", "/tokenize \u732b caf\u00e9 \U0001f600"]
letters = "abcdefghijklmnopqrstuvwxyzGNY/ [](){}<>0123456789.-_~'\"\\$\u00e9\u732b\U0001f600\u0301"

def paste():
    text = dice.choice(["one\ntwo\nthree", "tests/goldens/pictures/wide.png", "\u732b" * 300,
                        "x" * 5000, "", "/set a\n/set b\n"])
    return "\x1b[200~" + text + ("\x1b[201~" if dice.random() < 0.95 else "")

def mouse():
    return "\x1b[<%d;%d;%dM" % (dice.choice([0, 0, 1, 2, 64, 65, 35]), dice.randint(1, 220),
                                 dice.randint(1, 70))

def some_key():
    n = dice.random()
    if n < 0.45: return dice.choice(named)
    if n < 0.75: return dice.choice(letters)
    if n < 0.83: return "\x1b\x05\x15" + dice.choice(lines) + "\r"
    if n < 0.86: return paste()
    if n < 0.94: return mouse()
    if n < 0.96: return "\x1b" + chr(dice.randint(1, 127))
    if n < 0.97: return dice.choice(["\x1b/one\r", "\x1bk", "\x1bcwx\x1b", "\x1bR.\x1b.", "\x1bP", "\x1bu"])
    return "".join(chr(dice.randint(1, 255)) for _ in range(dice.randint(1, 5)))

# Other tests cover keys that leave or stop the program or start an editor.
forbidden = ["\x04", "\x1a", "\x07", "\x1b[21~", "\x1b\x07"]

def resize(t):
    size = dice.choice([(24, 80), (60, 200), (36, 120), (10, 40), (5, 20), (2, 3), (1, 1),
                        (dice.randint(1, 80), dice.randint(1, 250))])
    cell = dice.choice([(0, 0), (20, 10), (1, 1), (37, 3)]) # in pixels
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, size[1] * cell[1], size[0] * cell[0]))

# The output without its escape sequences: the matches of a search are coloured within words.
def text(t):
    return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|\(B)", "", t.seen)

def alive(t, what):
    pid, status = os.waitpid(t.pid, os.WNOHANG)
    if pid:
        while t.read(0.2) and select.select([t.fd], [], [], 0.2)[0]: pass
        sys.exit("seed %d: it ended with status %d after %s\n%s" % (seed, status, what, t.all[-4000:]))

def drain(t, seconds=0):
    while select.select([t.fd], [], [], seconds)[0]:
        if not t.read(0): break
        t.all, t.seen, seconds = t.all[-20000:], t.seen[-20000:], 0

# Both of readline's modes, with keys that switch between them.
with open(work + "/inputrc", "w") as f:
    f.write('set keymap emacs\n"\\C-xv": vi-editing-mode\n'
            'set keymap vi-insert\n"\\C-xe": emacs-editing-mode\n'
            'set keymap vi-command\n"\\C-xe": emacs-editing-mode\n')
t = Terminal([program, model], env={"TERM": "xterm-256color", "INPUTRC": work + "/inputrc"}, size=(36, 120))
before = None
t.expect("F1 keys", 60)
print("seed", seed)
interrupts, last = 0, ""
for i in range(count):
    key = some_key()
    if any(f in key for f in forbidden) or (key == "\x03" and "\x03" in last): key = "x"
    if i % 40 == 0: resize(t)
    t.type(key)
    last = key
    drain(t, 0.002)
    alive(t, "%d keys, the last %r" % (i, key))
# The program is still alive: it reacts to its keys.
fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
time.sleep(1.5)  # an unfinished paste ends by itself
drain(t)
# Closes a list, and drops running and waiting lines and unfinished text. A letter precedes each Ctrl-C,
# because two of them read late would end the program.
for key in ["\x1b", " \x03", " \x03", " \x03"]:
    t.type(key)
    time.sleep(2.2)
    drain(t)
    alive(t, repr(key))
t.seen = ""
for _ in range(12):  # a slow build may still be processing keys
    t.type(" \x03")
    time.sleep(2.2)
    t.type("\x18e\x15/version\r")
    time.sleep(2)
    drain(t)
    if re.search(r"vlmsh \d", text(t)):
        break
else:
    sys.exit("seed %d: it does not answer /version\n%s" % (seed, t.all))
t.type("\x1b[21~")  # F10
status = t.wait(60)
check(status == 0, "seed %d: it leaves with %d" % (seed, status), t)
check("\x1b[?1049l" in t.all and "\x1b[?2004l" in t.all, "seed %d: the terminal is restored" % seed, t)
END
