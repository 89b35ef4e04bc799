# tests/tui/dialogue.sh -- tui/json.c and lines.c: a program holds a dialogue over pipes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" VLMSH WORK="$work"
python3 - <<'END'
import json, os, signal, subprocess, sys, time

program, work, model = os.environ["VLMSH"], os.environ["WORK"], "tests/goldens/llava-1.5"

def check(condition, what):
    if not condition:
        sys.exit("failed: %s" % (what,))

class Dialogue:
    def __init__(self, *arguments):
        self.p = subprocess.Popen([program, "--json", *arguments], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def send(self, line):
        self.p.stdin.write(line if isinstance(line, bytes) else line.encode() + b"\n")
        self.p.stdin.flush()

    def next(self):
        line = self.p.stdout.readline()
        check(line.endswith(b"\n"), "the program ends in the middle of the dialogue: %r" % line)
        event = json.loads(line.decode("utf-8", "strict"))
        check("event" in event, event)
        return event

    def until_done(self):
        events = []
        while not events or events[-1]["event"] != "done":
            events.append(self.next())
        return events

    def ask(self, line):
        self.send(line)
        return self.until_done()

    def end(self):
        self.p.stdin.close()
        rest = self.p.stdout.read()
        return self.p.wait(60), rest

d = Dialogue(model)
events = d.ask("/set sample.max_tokens 5")  # other events are those of loading the model
check(events[-2] == {"event": "setting", "key": "sample.max_tokens", "value": "5"}, events)
events = d.ask("Hello")
check(events[-1] == {"event": "done", "ok": True}, events)
tokens = [e for e in events if e["event"] == "token"]
answer = [e for e in events if e["event"] == "answer"][0]
check(answer["ids"] == [t["id"] for t in tokens][:len(answer["ids"])], "ids: %r" % events)
check(answer["text"] == "".join(t["text"] for t in tokens), "text: %r" % events)
check(answer["stop"] in ("eos", "length"), answer)
for key in ("prompt_tokens", "visual_tokens", "computed_tokens"):
    check(isinstance(answer[key], int), key)
for key in ("prefill_s", "decode_s", "vision_s"):
    check(isinstance(answer[key], (int, float)), key)

# An error does not end the dialogue. Each empty line and comment gets a `done`, continued lines get
# one in all.
events = d.ask("/nosuch")
check([e["event"] for e in events] == ["error", "done"] and not events[1]["ok"], events)
check(events[0]["where"] == "stdin:3" and "nosuch" in events[0]["message"], events)
check(d.ask("") == [{"event": "done", "ok": True}], "an empty line")
check(d.ask("# nothing") == [{"event": "done", "ok": True}], "a comment")
events = d.ask('/tokenize """a\nb"""')
check([e["event"] for e in events] == ["ids", "done"], events)
check(events[0]["ids"] == d.ask('/tokenize "a\\nb"')[0]["ids"], "two spellings of one text")
check(d.ask(b"a\0b\n")[0]["event"] == "error", "a zero byte")
check("zero byte" in d.ask(b'{"id": 1, "line": "a\\u0000b"}\n')[0].get("message", ""), "a zero byte in a request")
check(d.ask(b"/nosuch\xff\xfe\n")[0]["event"] == "error", "invalid UTF-8")
table = [e for e in d.ask("/context") if e["event"] == "table"]
for t in table:
    check(all(len(row) == len(t["columns"]) for row in t["rows"]), t)
check(d.ask("/settings")[0]["event"] == "table", "a table")
status, rest = d.end()
check(status == 0 and rest == b"", "the end of the input: %r %r" % (status, rest))

# SIGINT stops the answer, not the dialogue; sent twice when idle, it ends the dialogue with 130.
d = Dialogue(model)
for line in "/set sample.ignore_eos on", "/set ctx.max 1000000", "/set sample.max_tokens 1000000":
    d.ask(line)
d.send("a slow question")
while d.next()["event"] != "token":
    pass
d.p.send_signal(signal.SIGINT)
events = d.until_done()
check([e for e in events if e["event"] == "answer"][0]["stop"] == "cancelled", events[-2:])
check(d.ask("/version")[-1]["ok"], "after SIGINT")
d.p.send_signal(signal.SIGINT)
time.sleep(0.3)
d.p.send_signal(signal.SIGINT)
check(d.p.wait(20) == 130, "twice when idle")

# /quit ends the dialogue; later lines are not read. An unclosed text is an error.
d = Dialogue()
d.send("/quit")
check(d.until_done()[-1]["ok"], "/quit")
check(d.p.wait(20) == 0, "/quit")
d = Dialogue()
d.send('"""never closed')
status, rest = d.end()
events = [json.loads(line) for line in rest.splitlines()]
check(status == 0 and [e["event"] for e in events] == ["error", "done"], events)

# With -c and -f, an error or a missing model gives an event and ends the program with status 1.
script = os.path.join(work, "script")
with open(script, "w") as f:
    f.write("/version\n\n/nosuch\n/version\n")
r = subprocess.run([program, "--json", "-c", "/version", "-f", script], capture_output=True)
events = [json.loads(line) for line in r.stdout.splitlines()]
check(r.returncode == 1, r)
check([e["event"] for e in events if e["event"] != "text" and e["event"] != "notice"] ==
      ["done", "done", "done", "error", "done"], events)
check(events[-2]["where"] == script + ":3", events)
check(r.stderr == b"", r.stderr)
r = subprocess.run([program, "--json", os.path.join(work, "none"), "-c", "/version"],
                   capture_output=True)
check(r.returncode == 1 and json.loads(r.stdout.splitlines()[-1])["event"] == "error", r)
END
