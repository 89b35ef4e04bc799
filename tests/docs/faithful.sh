# tests/docs/faithful.sh -- each `mean (low to high)` of demo/report/faithful/README.md, and of the guide's tables about
# it, is a row of the report's CSV files.
set -eu
exec python3 - <<'END'
import csv
import pathlib
import re
import sys

REPORT = pathlib.Path("demo/report/faithful")


def rows(path):
    with open(path) as f:
        return list(csv.DictReader(f))


def written(value, low, high):
    form = "%.1e" if 0 < abs(float(value)) < 0.001 else "%.2f"
    return "%s (%s to %s)" % tuple(form % float(word) for word in (value, low, high))


known = set()
for path in REPORT.glob("*-causes.csv"):
    known |= {written(row["change"], row["low"], row["high"]) for row in rows(path)}
for path in REPORT.glob("*-scores.csv"):
    for row, ends in zip(rows(path), rows(path.with_suffix(".interval.csv"))):
        known |= {written(row[name], ends[name + " low"], ends[name + " high"]) for name in row if row[name] and name != "map"}

guide = pathlib.Path("docs/interventions.md").read_text().partition("### What the answers depend on")[2].partition("\n## ")[0]
tables = "\n".join(line for line in guide.splitlines() if line.startswith("|"))
quoted = {"demo/report/faithful/README.md": (REPORT / "README.md").read_text(), "docs/interventions.md": tables}
failed = 0
for name, text in quoted.items():
    found = re.findall(r"-?\d\S* \(-?\d\S* to -?\d[^\s)]*\)", re.sub(r"\s+", " ", text))
    if len(found) < 30:
        failed += 1
        print(f"{name}: {len(found)} intervals")
    for words in found:
        if words not in known:
            failed += 1
            print(f"{name}: no row of {REPORT}/*.csv has {words}")
sys.exit(failed > 0)
END
