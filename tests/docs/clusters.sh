# clusters.sh -- the table of docs/clusters.md matches its formulas.
set -eu
diff <(python3 tools/clusters.py) <(grep -A 9 '^| `train.method` | 4 P' docs/clusters.md)
