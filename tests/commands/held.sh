# held.sh -- held-out sets in each of their formats, with at least 1000 random answers per rule: prompts, scores
# and totals equal those of the suites' own functions (tests/core/sets/held.py).
. tests/commands/common.bash
python3 tests/core/sets/held.py "$VLMSH" "$work/held" || fail "scores differ"
finish
