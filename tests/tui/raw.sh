# tests/tui/raw.sh -- a terminal receives names and file contents only as text: in errors about
# words, options, devices and scripts, in JSON and in completion.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" VLMSH WORK="$work"
export MODEL=tests/goldens/llava-1.5 PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
python3 - <<'END_OF_PYTHON'
import os
from terminal import Terminal, check

program, work, model = os.environ["VLMSH"], os.environ["WORK"], os.environ["MODEL"]
evil = "x\x1b]0;title\x07\x9b31m\x7f"

def harmless(t, what):
    left = t.all.replace("\r\n", "")
    bad = [c for c in left if (ord(c) < 32 and c not in "\r\n\t") or 0x7f <= ord(c) < 0xa0]
    check(not bad, "%s: %r" % (what, left), t)
    check("title" in left, "%s says nothing of the name: %r" % (what, left), t)

for words in (["job", "run", evil],
              ["help", evil], ["scenes", evil, work], ["scenes", "3", work + "/none/" + evil],
              ["--device", evil], ["--" + evil],
              ["-f", work + "/" + evil], [work + "/" + evil, "-c", "/version"],
              ["-c", "/" + evil], ["--threads", evil],
              ["--json", "-c", "/load " + evil]):
    t = Terminal([program, *words], env={"TERM": "dumb"})
    t.wait()
    while t.read(0): pass
    harmless(t, words)

# Readline prints names unchanged, so names with control characters are not offered.
os.mkdir(work + "/names")
for name in "plain.png", "pl" + evil.replace("/", "") + ".png":
    open(os.path.join(work, "names", name), "w").close()
t = Terminal([program, "--plain", model], env={"TERM": "dumb"})
t.expect("vlmsh llava-1.5> ")
t.type("/image " + work + "/names/pl\t")
t.expect("/names/plain.png")
t.type("\x15\x04")
t.wait()
check("title" not in t.all, "a name with control characters is offered", t)
END_OF_PYTHON
