# tests/commands/held.sh -- held-out questions of every set, in each of its formats, with random answers: prompts,
# scores and totals equal those of the suites' own functions (tests/core/sets/held.py).
. tests/commands/common.bash
python3 tests/core/sets/held.py "$VLMSH" "$work/held" || fail "scores differ"
finish
