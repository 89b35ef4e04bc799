# reproduce.sh -- demo/reproduce.vlmsh at its smallest, on a model with random weights: every line
# runs, and every table and picture that the report names exists.
. tests/commands/common.bash
mkdir "$work/w" "$work/w/runs" "$work/out"
vlmsh new --like demo "$work/model" --seed 1 >/dev/null || fail "no model"
tiny=(-D MODEL="$work/model" -D WORK="$work/w" -D OUT="$work/out" -D SCENES=8 -D TEST=3 -D CHOOSE=1
    -D STEPS=2 -D FIRST=2 -D GRID=1 -D BATCH=2 -D LIMIT=1 -D DEEP=1 -D KEEPS=0.5 -D RATES=1e-3)
vlmsh -f demo/reproduce.vlmsh "${tiny[@]}" >"$work/log" 2>&1 || fail "$(tail -5 "$work/log" | cut -c1-300)"
report=$work/out/README.md
for picture in $(grep -o '([a-z_.-]*\.\(png\|svg\))' "$report" | tr -d '()' | sort -u); do
    [ -s "$work/out/$picture" ] || fail "$picture is not drawn"
done
same "an end for each table" "$(grep -c '^<!-- table' "$report")" "$(grep -c '^<!-- end' "$report")"
same "no table is empty" "$(grep -A1 '^<!-- table' "$report" | grep -c '^<!-- end')" 0
for table in "$work"/out/*.csv; do
    awk 'tolower($0) ~ /(^|,)-?(nan|inf)/ { exit 1 }' "$table" || fail "$table: a number is not finite"
    [ "$(wc -l <"$table")" -gt 1 ] || fail "$table has no rows"
done
finish
