# tests/tui/drafts.sh -- the full screen: unsent text returns at the next start if its shell has
# ended; Alt-Enter adds a line to a message; Ctrl-C in the editor goes to the editor.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
export VLMSH MODEL=tests/goldens/llava-1.5 WORK="$work"
export PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
unset COLORTERM LINES COLUMNS
python3 - <<'END_OF_PYTHON'
import os, signal, sqlite3, sys, time
from terminal import Terminal, check

program, model, work = os.environ["VLMSH"], os.environ["MODEL"], os.environ["WORK"]
history = os.path.join(work, "state/vlmsh/history")
database = os.path.join(work, "state/vlmsh/vlmsh.db")

def start(*more, env={}):
    t = Terminal([program, model, *more], env=dict(env, TERM="xterm-256color"), size=(36, 120))
    t.expect("Type a question", 60)
    return t

def leave(t):
    t.type("\x15\x04")
    check(t.wait() == 0, "ends with status 0", t)

def drafts():
    try:
        with sqlite3.connect(database, timeout=20) as db:
            return [row[0] for row in db.execute("SELECT text FROM drafts ORDER BY id")]
    except sqlite3.OperationalError:  # not made yet
        return []

def wait_kept(what):
    for _ in range(300):
        if drafts() == what: return
        time.sleep(0.1)
    sys.exit("kept are %r, not %r" % (drafts(), what))

def kill(t):
    t.signal(signal.SIGKILL)
    t.wait()

# Drafts of running shells are not offered to others; those of killed shells return, the newest
# first.
first, second = start("--session", "trip"), start()
first.type("/set sample.max_tokens 3\r")
first.expect("max_tokens = 3")
first.type("hello\r")
first.expect("3 tokens", 60)
first.type("the first one")
wait_kept(["the first one"])
second.type("the second one")
wait_kept(["the first one", "the second one"])
third = start()
third.type("x")
wait_kept(["the first one", "the second one", "x"])
check("first one" not in third.all and "second one" not in third.all,
      "a draft of a shell that lives appears", third)
leave(third)
wait_kept(["the first one", "the second one"])
kill(second)
kill(first)
t = start()
t.expect("the second one")
kill(t)  # at once: showing a draft does not lose it
t = start("--session", "trip")
t.expect("the first one")
wait_kept(["the second one", "the first one"])
t.type("\x03")  # drops the draft, which does not return
wait_kept(["the second one"])
leave(t)
t = start()
t.expect("the second one")
t.type("!\x1b[21~")  # F10
check(t.wait() == 0, "ends with status 0", t)
check(drafts() == ["the second one!"], "leaving keeps %r" % drafts())
t = start()
t.expect("the second one!")

# Both sequences that terminals send for Alt-Enter; emacs' keys still work.
t.type("\x15/version\x01#\x1b\r\x05\x1b\nend\r")
t.expect("prompt tokens|reading|tok/s|end")
wait_kept([])
leave(t)
check("#\\n/version\\nend" in open(history).read().split("\n"), "Alt-Enter inserts a line: %r" % open(history).read())

# Ctrl-C while the editor has the terminal goes to the editor; the typed text stays.
editor = os.path.join(work, "editor")
with open(editor, "w") as f:
    f.write("#!/bin/sh\ntrap 'printf /version >\"$1\"; exit 0' INT\necho editor runs\nwhile :; do sleep 0.1; done\n")
os.chmod(editor, 0o755)
t = start(env={"VISUAL": editor})
t.type("typed\x07")
t.expect("editor runs")
t.type("\x03")
t.expect("/version")
t.type("\r")
t.expect(r"vlmsh \d")
leave(t)
with open(editor, "w") as f:
    f.write("#!/bin/sh\necho editor runs\nexec sleep 100\n")
t = start(env={"VISUAL": editor})
t.type("typed\x07")
t.expect("editor runs")
t.type("\x03")
t.expect("the editor returned no text")
t.type("!")
wait_kept(["typed!"])
leave(t)
END_OF_PYTHON
