# held.sh -- held-out sets with at least 1000 random answers a rule in each of their forms: prompts, scores
# and totals are those of the suites' own functions (tests/core/sets/held.py).
. tests/commands/common.bash
python3 tests/core/sets/held.py "$VLMSH" "$work/held" || fail "scores differ"
finish
