# tests/tui/events.sh -- programs: every event of --json is as docs/events.schema.json says, and carries
# the name of the line that it belongs to.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export VLMSH
"$VLMSH" demo/model --db "$work/db" --json >"$work/events" <<'LINES'
{"id":1,"line":"/image demo/pictures/scene-1.png"}
{"id":"two","line":"What is in the picture?"}
{"id":null,"line":"/attention"}
{"id":[4],"line":"/nosuch"}
{"id":5,"line":"\"\"\"\nWhere is\nthe red circle?\n\"\"\""}
{"id":6}
/norms
/tokenize red circle
/compare off | prune.score=contribution prune.layer=1 What is it?
/get prune.*
/help image
{"line":"/quit","id":9}
LINES
python3 - "$work/events" <<'END'
import json, sys

schema = json.load(open("docs/events.schema.json"))
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
            sys.exit("line %d: '%s' has another type: %s" % (number, name, line))
    seen.add(e["event"])
    if e["event"] == "done": requests.append(e.get("request", "none"))
    if e["event"] == "progress" and not requests and begun: continue # the model of the start
    # What is between two `done` belongs to one line.
    if begun: request = e.get("request", "none")
    if e.get("request", "none") != request: sys.exit("line %d: another request: %s" % (number, line))
    begun = e["event"] == "done"

want = [1, "two", None, [4], 5, "none", "none", "none", "none", "none", "none", 9]
if requests != want: sys.exit("requests: %r" % requests)
missing = {"token", "answer", "text", "ids", "table", "heatmap", "columns", "setting", "notice", "error", "done", "attached"} - seen
if missing: sys.exit("not seen: %r" % missing)
END
