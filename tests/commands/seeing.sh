# seeing.sh -- demo/seeing.vlmsh at its smallest, on a language model with random weights: every line
# runs, a second run changes nothing, and every table and picture that the report names exists.
. tests/commands/common.bash
mkdir "$work/w" "$work/w/runs" "$work/out"
tiny=(-D LANGUAGE=tests/goldens/qwen2 -D WORK="$work/w" -D OUT="$work/out" -D SCENES=8 -D TEST=3 -D BATCH=2 -D PLACES=2 -D LISTS=2
    -D LESSONS=2 -D SMALL=2 -D FIND=2 -D FIRST=2 -D SECOND=2 -D LIMIT=1 -D DEEP=1 -D SEEDS=1,2 -D OTHERS=2 -D SCALES=0.1 -D RATES=1e-3 -D MIX=8
    -D LISTED=2 -D LAYERS=1 -D MIDDLE=1 -D KEEPS=0.5 -D STAGES=0.5 -D NORM=1 -D SHORT=1 -D HELD=1 -D FEW=1)
vlmsh -f demo/seeing.vlmsh "${tiny[@]}" >"$work/log" 2>&1 || fail "$(tail -5 "$work/log" | cut -c1-300)"
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
same "a list of each model" "$(cat "$work"/w/places-see*.jsonl "$work"/w/places-lora*.jsonl "$work"/w/places-small*.jsonl | wc -l)" 8
for run in frozen-places find-lora find-norms listed stage1-off-2 stage1-text-2 scale-0.1-1e-3-on-2 sight-lora \
    sight-connector-2 sight-full-2 ira-sft ira-ira; do
    grep -q '\\nadapter=none\\n' "$work/w/runs/$run/training.json" || fail "$run continues another training"
done
# One of two objects is found, with only its colour right; one of two empty places stays empty.
places='"reference":"top: small red star; left: nothing; right: large blue bar; bottom: nothing"'
printf '{"id":"1",%s,"answer":"top: large red circle; right: nothing; left: nothing; bottom: small red star"}\n' "$places" |
    awk -v run=x -f demo/seeing/places.awk | cut -d, -f1-3,6 >"$work/counted"
same "places counted" "$(cat "$work/counted")" "x,things found,0.5,2
x,empty places left empty,0.5,2
x,size,0,1
x,colour,1,1
x,shape,0,1"
sum=$(cat "$work"/out/*.csv | sha256sum)
vlmsh -f demo/seeing.vlmsh "${tiny[@]}" >"$work/log" 2>&1 || fail "again: $(tail -5 "$work/log" | cut -c1-300)"
same "done is done" "$(cat "$work"/out/*.csv | sha256sum)" "$sum"

# quick.vlmsh, from the adapter alone: the same questions give the same numbers.
mkdir "$work/quick"
vlmsh -f demo/seeing/quick.vlmsh "${tiny[@]}" -D WORK="$work/quick" -D OUT="$work/quick" -D ADAPTER="$work/w/runs/see" \
    >"$work/log" 2>&1 || fail "quick: $(tail -5 "$work/log" | cut -c1-300)"
same "none of its tables is empty" "$(grep -A1 '^<!-- table' "$work/quick/quick.md" | grep -c '^<!-- end')" 0
same "the same scores" "$(grep ^quick, "$work/quick/see_held.csv" | cut -d, -f2-5)" \
    "$(grep ^see, "$work/out/see_held.csv" | cut -d, -f2-5)"
finish
