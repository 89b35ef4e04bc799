# tests/docs/examples.sh -- the examples of the README and of docs/ print what stands there. UPDATE=1
# writes what they print: look at the difference.
set -eu
export VLMSH PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
# Their outputs are those of two threads.
export OMP_NUM_THREADS=2
exec python3 tests/docs/examples.py "${@:-README.md}" docs/*.md demo/README.md
