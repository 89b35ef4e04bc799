"""Measures the full screen's cost, in the real program on a terminal of its own: the speed of an answer
with the screen, without its live map, and without a screen, in turn; and the delay of letters typed
while the model reads its prompt, and, in another answer, while it generates. Prints Markdown.

    screen.py VLMSH MODEL PICTURE [TOKENS [ROUNDS]]
"""
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tui"))
sys.dont_write_bytecode = True
from terminal import Terminal

program, model, picture = sys.argv[1:4]
tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 96
rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 3
work = tempfile.TemporaryDirectory()
places = {"XDG_" + kind + "_HOME": work.name for kind in ("STATE", "CACHE", "CONFIG")}
lines = ["/set sample.max_tokens %d" % tokens, "/set sample.ignore_eos on", "/image " + picture]
question = "What is in the picture?"
escapes = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()].|[=>78]|\][^\x07]*\x07)")


def text_of(t):
    return escapes.sub("", t.seen)


def read_until(t, pattern, seconds=600, step=0.2):
    """The match in the output since t.seen was emptied."""
    end = time.time() + seconds
    while time.time() < end:
        found = re.search(pattern, text_of(t))
        if found:
            return found
        t.read(step)
    sys.exit("nothing shows %r:\n%s" % (pattern, text_of(t)))


def plain():
    """Tokens a second without a screen."""
    script = "\n".join(lines + [question]) + "\n"
    out = subprocess.run([program, model, "--json"], input=script, capture_output=True, text=True,
                         env=dict(os.environ, **places)).stdout
    answer = [e for e in map(json.loads, out.splitlines()) if e["event"] == "answer"][-1]
    return len(answer["ids"]) / answer["decode_s"]


def type_letters(t, going, least):
    """Delays of letters typed while going() holds, in seconds; at most 200."""
    delays, dice, letter = [], random.Random(1), ""
    while going() and len(delays) < least:
        letter = dice.choice([c for c in "qxzjQXZJ" if c != letter])  # the same letter might not be redrawn
        t.seen, began = "", time.time()
        t.type(letter)
        read_until(t, letter, 10, 0.005)
        waited = time.time() - began
        t.type("\x15")
        until = time.time() + 0.03 + 0.05 * dice.random()
        while time.time() < until:
            t.read(0.005)
        if going(): delays.append(waited)
    return delays


def screen(live, typing=False):
    """Tokens a second on the screen, and delays of letters typed while it reads and while it answers."""
    t = Terminal([program, model], env=dict(places, TERM="xterm-256color", COLORTERM="truecolor"),
                 size=(36, 120))
    t.expect("F1 keys", 300)
    for line in ["/set screen.live " + ("on" if live else "off")] + lines:
        t.type(line + "\r")
        time.sleep(0.3)
    read_until(t, r"1 picture\]")
    t.seen = ""
    t.type(question + "\r")
    read, answered = [], []
    if read_until(t, "reading|tok/s|stopped", step=0.01).group() == "reading":
        read = type_letters(t, lambda: not re.search("tok/s|stopped", text_of(t)), 200)
    if typing:
        answered = type_letters(t, lambda: "stopped" not in text_of(t), 200)
    # The status line a second after the end shows the measures of the whole answer.
    end, over = time.time() + 600, False
    while True:
        t.seen = ""
        t.type("\x15\x0c")  # redraws
        read_until(t, "F1 keys", 60)
        ended = "stopped" in text_of(t) and over
        over = "stopped" in text_of(t)
        if ended: break
        if time.time() > end: sys.exit("the answer does not end")
        time.sleep(1)
    rate = float(read_until(t, r"([0-9.]+) tok/s", 10).group(1))
    t.type("\x1b[21~")
    t.wait(60)
    return rate, read, answered


def say(delays, when):
    delays.sort()
    if delays:
        print("\nA letter typed while the model %s appears after %.1f ms (median), %.0f ms (95%%), %.0f ms "
              "(most) of %d." % (when, 1000 * statistics.median(delays),
              1000 * delays[int(0.95 * (len(delays) - 1))], 1000 * delays[-1], len(delays)))


speeds, reads = {"plain": [], "live": [], "off": []}, []
plain()  # reads the files into the page cache
for _ in range(rounds):
    speeds["plain"].append(plain())
    for name in "live", "off":
        rate, read, _ = screen(name == "live")
        speeds[name].append(rate)
        reads += read
_, read, answers = screen(True, typing=True)
middle = {name: statistics.median(values) for name, values in speeds.items()}
print("\n| %s, %d tokens | tokens/s (median of %d) | time of a token |\n|---|---|---|" %
      (os.path.basename(model.rstrip("/")), tokens, rounds))
for name, what in (("plain", "without a screen"), ("off", "full screen, screen.live off"),
                   ("live", "full screen, live map")):
    print("| %s | %.2f | %+.1f%% |" % (what, middle[name], 100 * (middle["plain"] / middle[name] - 1)))
say(reads + read, "reads its prompt")
say(answers, "answers, beside a live map,")
