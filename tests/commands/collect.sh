# collect.sh -- /collect, /plot FILE.csv, /report, /run with values: collecting numbers of commands in a file.
. tests/commands/common.bash
csv=$work/keep.csv
cat >"$work/one.vlmsh" <<EOF
/collect $csv layer=\${LAYER} keep=\${KEEP} "far=@Hellinger distance, mean" "full=@answer tokens:A" "less=@compare:visual tokens kept:B" : /compare off | prune.score=uniform prune.layer=\${LAYER} prune.keep=\${KEEP}
EOF

lines "/load $llava" "/set sample.max_tokens 3" "/image $scene" "What is this?" \
    "/run $work/one.vlmsh LAYER=0,1 KEEP=1,0.5"
check "all combinations ran" 'select(.event=="table" and .name=="compare").name' \
    $'compare\ncompare\ncompare\ncompare'
same "a row for each" "$(cut -d, -f1,2,4,5 "$csv" | tr '\n' ' ')" \
    "layer,keep,full,less 0,1,3,25 0,0.5,3,12 1,1,3,25 1,0.5,3,12 "
same "everything kept is no distance" "$(awk -F, '$2 == 1 { print $3 }' "$csv" | tr '\n' ' ')" "0 0 "

# Again: existing rows are not measured again, new ones are added.
lines "/load $llava" "/set sample.max_tokens 3" "/image $scene" "What is this?" \
    "/run $work/one.vlmsh LAYER=1,2 KEEP=0.5"
check "only the new one ran" 'select(.event=="table" and .name=="compare").name' compare
same "a row was added" "$(wc -l <"$csv")" 6

# Another model state gives other rows, which name it; --again leaves the new ones alone.
state() { # FILE: the values of a row and the state it names
    python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1])):
    print(r["run"], r["score"] if "score" in r else "", r["provenance.state"], len(r["provenance.model"]))' "$1" | sed 's/compute.matmul=[a-z0-9]*, kv.dtype=f32//; s/@[0-9a-f]*/@/'
}
one="/collect $work/state.csv run=a \"score=@norms.layers:1:visual\" : /norms"
lines "/load $llava" "/image $scene" "What is this?" "$one" "/set train.lr 0.1" "/set screen.live off" "$one" \
    "/set adapter $llava/adapters/lora" "$one" "$one" "/set adapter none" "$one" "/set sinks.tau 5" "$one"
check "done" '[inputs, .] | map(select(.event=="done").ok) | all' true
check "measured once for each state" '[inputs, .] | map(select(.event=="table" and .name=="norms.layers")) | length' 3
same "states" "$(state "$work/state.csv" | cut -d' ' -f3- | tr '\n' ';')" " 64;adapter=lora@,  64;, sinks.tau=5 64;"
check_has "reports rows of other states" 'select(.event=="notice").text' "state.csv' also has 1 row with these values from another model or state"
lines "/load $llava" "/image $scene" "What is this?" "/collect $work/state.csv run=a --again \"score=@norms.layers:1:visual\" : /norms"
same "again" "$(state "$work/state.csv" | cut -d' ' -f3-)" " 64"

# A row may have the settings in the order of an older version.
lines "/load $llava" "/image $scene" "What is this?" "/set sinks.tau 5" "/collect $work/order.csv run=a norms.layers : /norms"
python3 - "$work/order.csv" <<'END'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
for r in rows: r["provenance.state"] = ", ".join(reversed(r["provenance.state"].split(", ")))
out = csv.DictWriter(open(sys.argv[1], "w"), rows[0].keys(), lineterminator="\n")
out.writeheader()
out.writerows(rows)
END
lines "/load $llava" "/image $scene" "What is this?" "/set sinks.tau 5" "/collect $work/order.csv run=a norms.layers : /norms"
check "not measured again" '[inputs, .] | map(select(.event=="table" and .name=="norms.layers")) | length' 0

cut -d, -f1,2 "$work/state.csv" >"$work/unsaid.csv" # of an earlier version
cp "$work/unsaid.csv" "$work/unsaid"
lines "/load $llava" "/collect $work/unsaid.csv run=a \"score=@norms.layers:1:visual\" : /norms"
check_has "not a table of /collect" 'select(.event=="error").message' "add --force"
cmp -s "$work/unsaid.csv" "$work/unsaid" || fail "a foreign table was changed"
lines "/load $llava" "/image $scene" "What is this?" "/collect $work/unsaid.csv --force run=a \"score=@norms.layers:1:visual\" : /norms" \
    "/collect $work/unsaid.csv provenance.x=1 \"score=@norms.layers:1:visual\" : /norms"
check "measured, and a name refused" '[inputs, .] | [(map(select(.event=="table" and .name=="norms.layers")) | length), (map(select(.event=="done").ok) | last)] | tostring' '[1,false]'
same "in its place" "$(wc -l <"$work/unsaid.csv") $(head -1 "$work/unsaid.csv")" "2 run,score,provenance.model,provenance.state"

# A command that changes the model state is refused: its row would name another state than its numbers have.
printf '/set prune.score uniform\n/norms\n' >"$work/changes.vlmsh"
printf '/set screen.live off\n/norms\n' >"$work/same.vlmsh"
lines "/load $llava" "/image $scene" "What is this?" "/collect $work/changes.csv run=a norms.layers : /run $work/changes.vlmsh" \
    "/reset prune.score" "/collect $work/same.csv run=a norms.layers : /run $work/same.vlmsh"
check_has "refused" 'select(.event=="error").message' "nothing collected: the command changed the model or settings its tables come from (prune.score was off, now uniform)"
[ ! -e "$work/changes.csv" ] || fail "a refused row is not written"
[ -e "$work/same.csv" ] || fail "settings that change no number do not count"

# The rows of a table; new measurements replace old ones.
layers=$work/layers.csv
lines "/load $llava" "/image $scene" "What is this?" \
    "/collect $layers run=a norms.layers : /norms" "/collect $layers run=b \"norms.l*\" : /norms" \
    "/collect $layers run=a --again norms.layers : /norms" \
    "/collect $layers run=a : /norms" "/collect $layers run=c nothing : /norms" \
    "/collect $layers run=c x=@nothing : /norms" "/collect $layers run=c x=@all" \
    "/collect $layers run=c x=@all : norms" "/collect $layers run=c x=@all : /nonsense" "/collect" \
    "/run $work/one.vlmsh 1LAYER=2" "/run $work/one.vlmsh KEEP=1"
check "what is asked for must be there" 'select(.event=="done").ok | tostring' \
    $'true\ntrue\ntrue\ntrue\ntrue\ntrue\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse'
check_has "names of what was shown" 'select(.event=="error").message' "it showed: norms.interface"
same "rows of both, once" "$(cut -d, -f1 "$layers" | uniq -c | awk '{print $1 $2}' | tr '\n' ' ')" \
    "1run 5b 5a "

# One value for each column; nesting is limited.
deep=
for i in 1 2 3 4 5 6 7 8 9; do deep="$deep/collect $work/deep$i.csv x=@all : "; done
lines "/load $llava" "/image $scene" "What is this?" \
    "/collect $work/two.csv layer=1 norms.layers : /norms" "${deep}/norms" "/collect $work/two.csv run=a norms.layers : /norms"
check "refused, and the rest runs" 'select(.event=="done").ok | tostring' \
    $'true\ntrue\ntrue\nfalse\nfalse\ntrue'
check_has "a column of the table" 'select(.event=="error").message' "already has a column 'layer'"
check_has "too deep" 'select(.event=="error").message' "nested too deeply"

# Over a data set, means and standard deviations have tables with the same rows: the mean is used.
"$VLMSH" scenes 4 "$work/world" --seed 3 >/dev/null 2>&1 || fail "vlmsh scenes"
lines "/load $llava" "/collect $work/mean.csv \"text=@0:text\" \"deviation=@redundancy.std:0:text\" : /redundancy --data $work/world/yesno.json --limit 3"
same "mean and deviation" "$(tail -1 "$work/mean.csv" | cut -d, -f1,2)" "$(jq -r 'select(.event=="table" and (.name=="redundancy" or .name=="redundancy.std")).rows[0][2]' \
    "$work/events" | paste -sd,)"

# Drawings.
lines "/plot $csv keep less --by layer" "/plot $layers layer visual text --where run=b --figure $work/a.png" \
    "/plot $layers run visual --where layer=0 --log y --y L2" "/plot $csv keep nothing" "/plot $csv keep" \
    "/plot $csv keep less --where layer=9" "/plot $csv keep less --by none" "/plot $work/none.csv a b" \
    "/plot $csv keep less --by layer --by keep"
check "drawn or refused" 'select(.event=="done").ok | tostring' \
    $'true\ntrue\ntrue\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse'
check_has "both columns in one option" 'select(.event=="error").message' "--by layer,keep"
check_has "a line for each value" 'select(.event=="text").text' "* layer 0   o layer 1   + layer 2"
check_has "bars where x is no number" 'select(.event=="text").text' $'\na '
# Rows in any order make one curve; values that cannot be drawn are reported.
printf 'x,y,g\n3,1,a\n1,inf,a\n2,3,a\n1,2,a\n' >"$work/odd.csv"
printf 'x,y\n1,2\n2,3\n3,1\n' >"$work/even.csv"
{ echo x,y,g && seq -f 1,2,%g 1001; } >"$work/lines.csv"
{ echo x,y && seq -f t%g,2 10001; } >"$work/texts.csv"
lines "/plot $work/odd.csv x y" "/plot $work/even.csv x y" "/plot $work/lines.csv x y --by g" "/plot $work/texts.csv x y"
check "drawn or refused" 'select(.event=="done").ok | tostring' $'true\ntrue\nfalse\nfalse'
check "one curve" '[inputs, .] | map(select(.event=="text").text) | unique | length' 1
check_has "infinity" 'select(.event=="notice").text' "1 cell left out: no number, such as 'inf' in 'y'"
check_has "lines" 'select(.event=="error").message' "more than 1000 lines"
check_has "texts" 'select(.event=="error").message' "more than 10000 texts"
lines "/plot $layers layer visual text --by run"
check_has "columns and values" 'select(.event=="text").text' "visual (run b)   o text (run b)"
lines "/plot $layers run visual --where layer=0 --interval text,visual" \
    "/plot $layers run visual --interval text" "/plot $layers run visual text --interval text,visual" \
    "/plot $layers run visual --interval text,none"
check "intervals are drawn or refused" 'select(.event=="done").ok | tostring' $'true\nfalse\nfalse\nfalse'
check_has "the interval of a bar" 'select(.event=="text") | .text | test(" \\([-0-9.e]+ to [-0-9.e]+\\)\n")' true
check_has "one column" 'select(.event=="error").message' "needs two columns"
check_has "two values" 'select(.event=="error").message' "needs exactly one column Y, not 2"
check_has "no such column" 'select(.event=="error").message' "none"
same "a picture" "$(head -c 4 "$work/a.png" | tail -c 3)" PNG

# A report: tables are rewritten, the rest stays.
cat >"$work/r.md" <<'EOF'
# Title
before
<!-- table keep.csv keep layer less layer=0|2 -->
old
<!-- end -->
<!-- table keep.csv layer across keep less -->
<!-- end -->
after
EOF
lines "/report $work/r.md" "/report $work/r.md" "/report $work/r.md $work/copy.md"
check "written three times" 'select(.event=="done").ok | tostring' $'true\ntrue\ntrue'
same "the report" "$(cat "$work/r.md")" '# Title
before
<!-- table keep.csv keep layer less layer=0|2 -->
| keep | layer | less |
|---|---:|---:|
| 1 | 0 | 25 |
| 0.5 | 0 | 12 |
| 0.5 | 2 | 12 |
<!-- end -->
<!-- table keep.csv layer across keep less -->
| layer | 1 | 0.5 |
|---|---:|---:|
| 0 | 25 | 12 |
| 1 | 25 | 12 |
| 2 |  | 12 |
<!-- end -->
after'
same "the copy" "$(cat "$work/copy.md")" "$(cat "$work/r.md")"
# A copy in another folder copies missing pictures; existing ones stay.
mkdir "$work/elsewhere" "$work/in"
printf 'text ![a](a.png) ![b](b.png) ![c](in/c.png) ![d](none.png)\n' >"$work/p.md"
echo one >"$work/b.png" && echo two >"$work/elsewhere/b.png" && echo three >"$work/in/c.png"
lines "/report $work/p.md $work/elsewhere/p.md"
cmp "$work/a.png" "$work/elsewhere/a.png" || fail "the picture was not copied"
same "pictures" "$(cd "$work/elsewhere" && ls | tr '\n' ' ')$(cat "$work/elsewhere/b.png")" "a.png b.png p.md two"
printf 'a,b,c\n1,2,3\n' >"$work/abc.csv"
printf '<!-- table abc.csv -->\n<!-- end -->\n' >"$work/all.md"
lines "/report $work/all.md"
# Provenance columns are left out.
printf 'a,b,provenance.model,c\n1,2,x,3\n' >"$work/abc.csv"
lines "/report $work/all.md"
same "all columns where none is named" "$(sed -n 2,4p "$work/all.md")" $'| a | b | c |\n|---|---:|---:|\n| 1 | 2 | 3 |'
# Markers inside cells are text and do not end the table.
printf 'a,<!-- end -->\n"<!-- table abc.csv -->",2 < 3\n"x\n<!-- end -->",a|b\n' >"$work/marks.csv"
printf '<!-- table marks.csv -->\n<!-- end -->\nafter\n' >"$work/marks.md"
lines "/report $work/marks.md" "/report $work/marks.md" "/report $work/marks.md"
same "marks in cells" "$(cat "$work/marks.md")" '<!-- table marks.csv -->
| a | &lt;!-- end --> |
|---|---:|
| &lt;!-- table abc.csv --> | 2 < 3 |
| x &lt;!-- end --> | a\|b |
<!-- end -->
after'
# So are markers within a line, as an older version wrote them.
printf '<!-- table abc.csv -->\n| x | <!-- end --> |\n<!-- end -->\nafter\n' >"$work/marks.md"
lines "/report $work/marks.md"
same "within a line" "$(sed -n '4,$p' "$work/marks.md")" $'| 1 | 2 | 3 |\n<!-- end -->\nafter'
printf 'x\n<!-- table keep.csv -->\n' >"$work/open.md"
printf '<!-- table none.csv -->\n<!-- end -->\n' >"$work/none.md"
printf '<!-- table keep.csv dance -->\n<!-- end -->\n' >"$work/column.md"
lines "/report $work/open.md" "/report $work/none.md" "/report $work/column.md" "/report $work/nothing.md"
check "refused" 'select(.event=="done").ok | tostring' $'false\nfalse\nfalse\nfalse'
check_has "where" 'select(.event=="error").message' "open.md: line 2:"
same "a refused report stays" "$(cat "$work/open.md")" $'x\n<!-- table keep.csv -->'

# ${NAME:-VALUE}
lines '/tokenizer tests/goldens/llama-3.2' '/set sample.max_tokens ${NOT_THERE:-7}' '/set sample.max_tokens ${HOME:-7}'
check "a default for an unset variable" 'select(.event=="setting").value' 7
finish
