"""Compares what vlmsh prints with a test's text: session.py EVENTS COMMAND... <TEXT

COMMAND gets the lines of TEXT that begin with "> "; below each, TEXT has the output of that line. The line "..." in TEXT
matches any lines, and "..." within a line anything there. EVENTS gets the JSON events.

Tables are aligned below "[NAME]" ("-": no value); errors begin with "error: ". Times and dates are masked (MASKS).
Progress, jobs, tokens and the text of answers are left out, because they vary; so is a setting that gets the typed value.

UPDATE=SCRIPT:LINE:FILE appends a differing output to FILE; `session.py --update FILE` then writes it into SCRIPT.
"""
import difflib, json, os, re, subprocess, sys

MASKS = [(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?", "DATE"), (r"\b\d+(\.\d+)?(e-\d+)? (s|ms|per second)\b", r"N \3")]
LEFT_OUT = {"token", "progress", "job", "attached"}  # a notice describes the attached picture, too


def masked(line):
    for pattern, text in MASKS: line = re.sub(pattern, text, line)
    return line.rstrip()


def cell(value):
    return "%.10g" % value if isinstance(value, float) else "-" if value in (None, "") else str(value)


def shown(event, typed):
    """The output of an event of the typed line."""
    kind = event["event"]
    if kind in LEFT_OUT or kind == "setting" and typed == "/set {key} {value}".format(**event): return ""
    if kind == "table":
        rows = [[cell(value) for value in row] for row in [event["columns"]] + event["rows"]]
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join([f"[{event['name']}]"] + ["  ".join(map(str.ljust, row, widths)) for row in rows])
    if kind == "error":
        where = event.get("where") or "stdin:"
        return "error: " + ("" if where.startswith("stdin:") else where + ": ") + event["message"]
    if kind == "setting": return "{key} = {value}".format(**event)
    if kind == "answer": return "(an answer to {visual_tokens} visual tokens)".format(**event)
    if kind == "ids": return " ".join(map(str, event["ids"]))
    if kind == "heatmap": return "[map {name}: {rows} x {cols}]".format(**event)
    if kind == "written": return "(written: {what} {file})".format(**event)
    return event.get("text") or f"({kind})"


def transcript(typed, events):
    """Each typed line with its output; the event `done` ends a line's events."""
    lines = []
    for line in typed:
        lines.append("> " + line)
        failed = False
        while events and events[0]["event"] != "done":
            failed |= events[0]["event"] == "error"
            lines += [masked(text) for text in filter(None, shown(events.pop(0), line).split("\n"))]
        if not events: return lines + ["(the end)"]
        if events.pop(0)["ok"] == failed: lines.append("(succeeds)" if failed else "(fails)")
    return lines


def pattern(line):
    """A regular expression for a line of the text; the widths of columns may differ."""
    if line == "...": return r"(?:.*\n)*?"
    return re.sub(r"(\\ ){2,}", " {2,}", ".*".join(map(re.escape, line.split("...")))) + "\n"


def with_wildcards(want, got):
    """The lines of got, with those of want that fit them."""
    plain = [line for line in want if line != "..."]
    got = [next((line for line in plain if re.fullmatch(pattern(line), text + "\n")), text) for text in got]
    lines = []
    for _, i, i_end, j, j_end in difflib.SequenceMatcher(None, want, got, False).get_opcodes():
        lines += ["..."] if want[i:i_end] == ["..."] else got[j:j_end]
    return lines


def update(path):
    with open(path) as file: changes = [json.loads(line) for line in file]
    with open(changes[0]["script"]) as file: lines = file.read().split("\n")
    for change in sorted(changes, key=lambda change: -change["line"]):
        first = change["line"]
        end = lines.index(re.search(r"<<(\w+)", lines[first - 1])[1], first)
        old = [line for line in lines[first:end] if line.startswith("> ")]
        lines[first:end] = [old.pop(0) if line.startswith("> ") else line for line in change["text"]]
    with open(changes[0]["script"], "w") as file: file.write("\n".join(lines))


def main():
    if sys.argv[1] == "--update": return update(sys.argv[2])
    want = sys.stdin.read().split("\n")[:-1]
    typed = [line[2:] for line in want if line.startswith("> ")]
    done = subprocess.run(sys.argv[2:], input="".join(line + "\n" for line in typed), text=True, stdout=subprocess.PIPE)
    with open(sys.argv[1], "w") as file: file.write(done.stdout)
    got = transcript(typed, [json.loads(line) for line in done.stdout.split("\n")[:-1]])
    if re.fullmatch("".join(map(pattern, want)), "".join(line + "\n" for line in got)): return 0
    got = with_wildcards(want, got)
    if os.environ.get("UPDATE"):
        script, line, path = os.environ["UPDATE"].split(":")
        text = [re.sub(r"([\\$`])", r"\\\1", line) for line in got]
        for folder, name in ((os.path.dirname(sys.argv[1]), "$work"), (os.getcwd(), "$PWD")):
            text = [line.replace(folder, name) for line in text]
        with open(path, "a") as file: file.write(json.dumps({"script": script, "line": int(line), "text": text}) + "\n")
        return 0
    print("\n".join(difflib.unified_diff(want, got, "the test", "vlmsh", lineterm="")))
    return 1


sys.exit(main())
