# tests/docs/papers.sh -- docs/papers.md quotes the reports in demo/report: each verdict, and numbers that are in the
# report before its plan (rounded, the sign may differ). Each report has its row.
set -eu
exec python3 - <<'END'
import pathlib
import re
import sys

REPORTS = pathlib.Path("demo/report")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\d)")
failed = 0


def fail(text):
    global failed
    failed += 1
    print(f"docs/papers.md: {text}")


def numbers(text):
    return NUMBER.findall(re.sub(r"\d+ (steps|tokens)", "", text))


def is_quoted(word, known):
    half = 0 if "e" in word else 0.5 * 10 ** -len(word.partition(".")[2])
    return any(abs(abs(float(word)) - abs(value)) <= half * 1.0001 for value in known)


def check(folder, verdict, said):
    report = REPORTS / folder / "report.md"
    if not report.exists():
        return fail(f"{report} is missing")
    measured = report.read_text().partition("\n## Plan")[0]
    found = re.search(r"\*\*Verdict: ([a-z ]+)\.\*\*", measured)
    if not found or found[1] != verdict:
        fail(f"{folder}: the verdict is '{found[1] if found else ''}', not '{verdict}'")
    known = [float(word) for word in numbers(measured)]
    for word in numbers(said):
        if not is_quoted(word, known):
            fail(f"{folder}: {word} is not in {report}: {said}")


page = pathlib.Path("docs/papers.md").read_text()
rows = re.findall(r"^\| \[[^]]*\]\(\.\./demo/report/([^/]+)/report\.md\) \|[^|]*\|[^|]*\| ([a-z ]+) \| (.*) \|$", page, re.M)
texts = re.findall(r"^\[`[^]]*\]\(\.\./demo/report/([^/]+)/report\.md\): \*([a-z ]+)\*\.(.*?)\n\n", page, re.M | re.S)
if len(rows) < 30:
    fail(f"{len(rows)} rows of reports")
for row in rows + texts:
    check(*row)
for folder in sorted(path.parent.name for path in REPORTS.glob("*/report.md")):
    if not any(folder == row[0] for row in rows + texts):
        fail(f"no row for demo/report/{folder}")
sys.exit(failed > 0)
END
