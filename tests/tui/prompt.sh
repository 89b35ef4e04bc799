# tests/tui/prompt.sh -- tui/input.c on a terminal: editing, history, completion, Ctrl-C, Ctrl-D.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" VLMSH MODEL=tests/goldens/llava-1.5
export PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1 WORK="$work"
python3 - <<'END'
import fcntl, os, signal, stat, struct, termios, time
from terminal import Terminal, check

program, model, work = os.environ["VLMSH"], os.environ["MODEL"], os.environ["WORK"]
prompt = r"vlmsh llava-1\.5> "

def start(*more, env=None):
    t = Terminal([program, "--plain", model, *more], env=env)
    t.expect(r"vlmsh \S+: .*on cpu")
    t.expect(prompt)
    t.expect(r"\x1b\[\?2004h|$")
    return t

# An answer with its measures; settings by completion; a prompt that shows the waiting picture.
t = start()
t.type("/set sample.max_tok\t4\r")
t.expect(r"sample\.max_tokens = 4")
t.expect(prompt)
for word in "exit", "quit", ":q":
    t.type(word + "\r")
    t.expect("was not sent to the model: to quit")
    t.expect(prompt)
t.type("Hello\r")
t.expect(r"\[\d+ prompt tokens.*; \d+ tokens, .*\]")
t.expect(prompt)
t.type("/ima\t tests/goldens/pictures/squ\t\r")
t.expect(r"tests/goldens/pictures/square\.png")
t.expect(r"\[1 picture\] " + prompt)
t.type("/nosuch\r")
t.expect("error: unknown command '/nosuch'")
t.expect(prompt)

# Text between """, and a continued line: one message each. Ctrl-C drops an unfinished text.
t.type('"""one\r')
t.expect(r"\.\.\. ")
t.type('two"""\r')
t.expect(r"prompt tokens")
t.expect(prompt)
t.type("three\\\r")
t.expect(r"\.\.\. ")
t.type("\x03")
t.expect(r"\^C")
t.expect(prompt)
t.type(" four")
t.expect(" four")
t.type("\x03")  # deletes text, so it is not the first of two
t.expect(r"\^C")
t.expect(prompt)

# A paste with newlines is one message.
t.type("\x1b[200~first line\nsecond line\n\x1b[201~")
t.expect("second line")
t.type("\r")
t.expect(r"prompt tokens")
t.expect(prompt)
check(t.all.count("prompt tokens") == 3, "three answers", t)
t.type(" not kept\x03")
t.expect(prompt)
t.type("\x04")
check(t.wait() == 0, "Ctrl-D leaves with 0", t)

# The history: private, with texts of several lines as one entry; lines with a leading space are not recorded.
file = os.path.join(work, "state/vlmsh/history")
check(stat.S_IMODE(os.stat(file).st_mode) == 0o600, "the history file is private")
lines = open(file).read().split("\n")
check("Hello" in lines and '"""one\\ntwo"""' in lines and "first line\\nsecond line" in lines,
      "the history holds %r" % lines)
check(not any("not kept" in l for l in lines), "a line with a space in front is kept")
t = start()
t.type("\x1b[A\x1b[A")
t.expect("one")
t.type("\x15\x04")
check(t.wait() == 0, "Ctrl-D", t)

# Ctrl-C during an answer stops the answer, and the shell stays; pressed twice at an idle prompt, it
# ends the shell with 130.
t = start()
t.type("/set sample.ignore_eos on\r")
t.expect(prompt)
t.type("/set ctx.max 1000000\r")
t.expect(prompt)
t.type("/set sample.max_tokens 1000000\r")
t.expect(prompt)
t.type("a slow question\r")
t.expect("a slow question\r?\n")
time.sleep(0.5)
t.type("\x03")
t.expect(r"; stopped\]")
t.expect(prompt)
t.type("/version\r")
t.expect(r"vlmsh \d")
t.expect(prompt)
t.type("\x03")
t.expect("Ctrl-C again")
t.expect(prompt)
t.type("\x03")
check(t.wait() == 130, "Ctrl-C twice leaves with 130", t)

# A paste that pauses continues: none of its lines runs before the text is sent. Ctrl-C ends a paste whose end
# was lost.
t = start()
t.type("\x1b[200~one\n/nosuch ")
t.expect("the paste has not ended yet; Ctrl-C discards it")
t.type("first\n/nosuch second\n\x1b[201~")
t.expect("/nosuch second")
t.type("\x15/version\r")
t.expect(r"vlmsh \d")
t.expect(prompt)
check("unknown command" not in t.all, "a line of a paste that paused is run", t)
t.type("\x1b[200~first\nsecond")
t.expect("the paste has not ended yet")
t.type("third\r")
t.type("\x03")
t.expect(r"\^C")
t.expect(prompt)
t.type("/version\r")
t.expect(r"vlmsh \d")
t.expect(prompt)
t.type("\x1b[200~a\x04")
t.signal(signal.SIGTERM)
check(t.wait() == 128 + signal.SIGTERM, "SIGTERM within a paste", t)

# SIGTERM at the prompt ends the shell cleanly.
t = start()
t.signal(signal.SIGTERM)
check(t.wait() == 128 + signal.SIGTERM, "SIGTERM", t)

# No colours with NO_COLOR; Ctrl-G edits the line.
editor = os.path.join(work, "editor")
with open(editor, "w") as f:
    f.write("#!/bin/sh\nprintf '/version' >\"$1\"\n")
os.chmod(editor, 0o755)
t = start(env={"NO_COLOR": "1", "VISUAL": editor})
t.type("/nosuch\r")
t.expect("error: unknown command")
check("\x1b[31m" not in t.all, "no colours", t)
t.type("draft\x07")
t.expect("/version")
t.type("\r")
t.expect(r"vlmsh \d")
t.expect(prompt)
t.type("/quit\r")
check(t.wait() == 0, "/quit", t)

# A model that cannot be opened is reported, and the shell opens without one.
t = Terminal([program, "--plain", os.path.join(work, "none")])
t.expect("error: ")
t.expect("vlmsh> ")
t.type("Hello\r")
t.expect("/load MODEL")
t.expect("vlmsh> ")
t.type("\x04")
check(t.wait() == 0, "ends with status 0", t)

# The user's start-up lines: each failing one is reported, the others apply.
os.makedirs(os.path.join(work, "config/vlmsh"))
with open(os.path.join(work, "config/vlmsh/config"), "w") as f:
    f.write("/set sample.temprature 1\n# a remark\n/set sample.max_tokens 4\n/nosuch\n"
            "/bind Ctrl-T \\\n/tables\n/set sample.seed 7\n\"\"\"never closed\n/set sample.top_k 3\n")
t = Terminal([program, "--plain", model], env={"XDG_CONFIG_HOME": os.path.join(work, "config")}, size=(24, 300))
t.expect(r"error: \S*/config:1: .*temprature")
t.expect(r"error: \S*/config:4: unknown command '/nosuch'")
t.expect(r"error: \S*/config:8: the file ends before the closing")
t.expect(r"vlmsh \S+: .*on cpu")
t.expect(prompt)
check("config:5" not in t.all, "a line that goes on", t)
for name, value in ("max_tokens", 4), ("seed", 7), ("top_k", 0):
    t.type("/set sample.%s\r" % name)
    t.expect(r"sample\.%s = %d\b" % (name, value))
    t.expect(prompt)
t.type("/quit\r")
check(t.wait() == 0, "ends with status 0", t)

# A dangling link is reported as well.
os.remove(os.path.join(work, "config/vlmsh/config"))
os.symlink("/nowhere", os.path.join(work, "config/vlmsh/config"))
t = Terminal([program, "--plain", model], env={"XDG_CONFIG_HOME": os.path.join(work, "config")}, size=(24, 300))
t.expect(r"config")
t.expect(prompt)
check("/config'" in t.all and "No such file" in t.all, "a link to nowhere", t)
t.type("/quit\r")
check(t.wait() == 0, "ends with status 0", t)

# Readline does not draw on an unknown terminal that is very narrow for a moment.
t = Terminal([program, "--plain", model], env={"TERM": "unknown"}, size=(24, 80))
t.expect(prompt)
fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 3, 0, 0))
for _ in range(10): t.read(0.1)
check(not t.seen, "readline draws in 3 columns: %r" % t.seen, t)
fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
t.expect(prompt)
t.type("/quit\r")
check(t.wait() == 0, "ends with status 0", t)
END
