# tests/tui/events.sh -- the events of a dialogue with --json conform to docs/events.schema.json,
# and each has the id of its line.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export VLMSH
"$VLMSH" scenes 2 "$work/world" --seed 5 --kind questions >/dev/null
"$VLMSH" demo/model --db "$work/db" --json >"$work/events" <<LINES
{"id":1,"line":"/image demo/pictures/scene-1.png"}
{"id":"two","line":"What is in the picture?"}
{"id":null,"line":"/attention"}
{"id":[4],"line":"/nosuch"}
{"id":5,"line":"\"\"\"\\nWhere is\\nthe red circle?\\n\"\"\""}
{"id":6}
/norms
/tokenize red circle
/compare off | prune.score=contribution prune.layer=1 What is it?
/get prune.*
/help image
/info
/session
/session rename seen
/session list
/session export $work/seen.md
/redundancy --csv $work/r.csv --figure $work/r.svg
/ask --data $work/world/questions.json --out $work/answers.jsonl --limit 2 --job
/wait 1
/job 1
/jobs
/job 1 delete
/session delete seen
{"line":"/quit","id":9}
LINES
python3 - "$work/events" <<'END'
import json, os, subprocess, sys

schema = json.load(open("docs/events.schema.json"))

# The manual for programs names the same events and fields.
manual = json.loads(subprocess.run([os.environ["VLMSH"], "help", "--agent"], capture_output=True, text=True, check=True).stdout)
fields = {e["properties"]["event"]["const"]: [f for f in e["properties"] if f not in ("event", "request")] for e in schema["oneOf"]}
assert {e["event"]: e["fields"].split(", ") for e in manual["events"]} == fields, "help --agent: events"
assert any(c["usage"].startswith("/why") for c in manual["commands"]) and manual["rules"], "help --agent: commands"
kinds = {k["properties"]["event"]["const"]: k for k in schema["oneOf"]}
types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "null": type(None)}

def fits(value, kind):
    if "type" not in kind: return True
    names = kind["type"] if isinstance(kind["type"], list) else [kind["type"]]
    return any(isinstance(value, types[n]) and (n == "boolean" or not isinstance(value, bool)) for n in names)

seen, requests, begun = set(), [], True
for number, line in enumerate(open(sys.argv[1]), 1):
    e = json.loads(line)
    kind = kinds.get(e["event"]) or sys.exit("line %d: no event '%s' in the schema" % (number, e["event"]))
    for name in kind["required"]:
        if name not in e: sys.exit("line %d: '%s' is missing: %s" % (number, name, line))
    for name, value in e.items():
        if name not in kind["properties"]: sys.exit("line %d: '%s' is not in the schema: %s" % (number, name, line))
        if name not in ("event", "request") and not fits(value, kind["properties"][name]):
            sys.exit("line %d: '%s' has the wrong type: %s" % (number, name, line))
    seen.add(e["event"])
    if e["event"] == "done": requests.append(e.get("request", "none"))
    if e["event"] == "progress" and not requests and begun: continue # progress of the model loaded at the start
    # Events between two `done` belong to one line.
    if begun: request = e.get("request", "none")
    if e.get("request", "none") != request: sys.exit("line %d: the request differs: %s" % (number, line))
    begun = e["event"] == "done"

want = [1, "two", None, [4], 5, 6] + ["none"] * 17 + [9]
if requests != want: sys.exit("requests: %r" % requests)
missing = {"token", "answer", "text", "ids", "table", "heatmap", "columns", "setting", "notice", "error", "done", "attached", "job", "session",
           "model", "written"} - seen
if missing: sys.exit("not seen: %r" % missing)

# Fields of events have the values that tables and notices show.
events = [json.loads(line) for line in open(sys.argv[1])]
of = lambda kind: [e for e in events if e["event"] == kind]
def expect(what, got, wanted):
    if got != wanted: sys.exit("%s: %r, not %r" % (what, got, wanted))
expect("jobs", [(e["job"], e["change"], e["kind"]) for e in of("job")],
       [(1, c, "ask") for c in ("started", "ended", "shown", "listed", "deleted")])
shown = of("job")[2]
expect("a job that is done", (shown["state"], shown["message"], shown["eta_s"]), ("done", "", None))
if not shown["created"] <= shown["started"] <= shown["ended"]: sys.exit("times: %r" % shown)
if "--limit" not in shown["arguments"]: sys.exit("arguments: %r" % shown)
expect("sessions", [(e["change"], e["name"] == "seen") for e in of("session")],
       [("current", False), ("renamed", True), ("listed", True), ("exported", True)])
listed = of("session")[2]
if not 1.7e9 < listed["began"] <= listed["ended"]: sys.exit("times of a session: %r" % listed)
expect("a listed session", (listed["turns"], listed["pictures"], listed["title"]), (2, 1, "What is in the picture?"))
expect("a request without a line", ["needs \"line\"" in e["message"] for e in of("error") if e.get("request") == 6], [True])
model = of("model")[0]
table = dict(next(e["rows"] for e in of("table") if e["name"] == "model"))
expect("the model", (model["fingerprint"], model["device"], str(model["vocabulary"]), model["visual_tokens"]),
       (table["fingerprint"], table["device"], table["vocabulary"], 144))
total = next(r for e in of("table") if e["name"] == "parameters" for r in e["rows"] if r[0] == "total")
expect("its parameters", model["parameters"], total[1])
expect("files", [e["file"].rsplit("/", 1)[1] for e in of("written")], ["r.csv", "r.svg"])
END
