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
same "a row for each combination" "$(cut -d, -f1,2,4,5 "$csv" | tr '\n' ' ')" \
    "layer,keep,full,less 0,1,3,25 0,0.5,3,12 1,1,3,25 1,0.5,3,12 "
same "without pruning the distance is 0" "$(awk -F, '$2 == 1 { print $3 }' "$csv" | tr '\n' ' ')" "0 0 "

# If /collect runs again, existing rows are not measured again, and new ones are added.
lines "/load $llava" "/set sample.max_tokens 3" "/image $scene" "What is this?" \
    "/run $work/one.vlmsh LAYER=1,2 KEEP=0.5"
check "only the new combination ran" 'select(.event=="table" and .name=="compare").name' compare
same "a row was added" "$(wc -l <"$csv")" 6

# A different model state gives separate rows, which name it; --again replaces the rows of all states.
state() { # FILE: the values of a row and the state it names
    python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1])):
    print(r["run"], r["score"] if "score" in r else "", r["provenance.state"], len(r["provenance.model"]))' "$1" | sed 's/compute.matmul=[a-z0-9]*, kv.dtype=f32//; s/@[0-9a-f]*/@/'
}
one="/collect $work/state.csv run=a \"score=@norms.layers:1:visual\" : /norms"
lines "/load $llava" "/image $scene" "What is this?" "$one" "/set train.lr 0.1" "/set screen.live off" "$one" \
    "/set adapter $llava/adapters/lora" "$one" "$one" "/set adapter none" "$one" "/set sinks.tau 5" "$one"
check "no line fails" '[inputs, .] | map(select(.event=="done").ok) | all' true
check "measured once for each state" '[inputs, .] | map(select(.event=="table" and .name=="norms.layers")) | length' 3
same "model states of the rows" "$(state "$work/state.csv" | cut -d' ' -f3- | tr '\n' ';')" " 64;adapter=lora@,  64;, sinks.tau=5 64;"
check_has "reports rows of other states" 'select(.event=="notice").text' "state.csv' also has 1 row with these values, measured with another model or state"
lines "/load $llava" "/image $scene" "What is this?" "/collect $work/state.csv run=a --again \"score=@norms.layers:1:visual\" : /norms"
same "states after --again" "$(state "$work/state.csv" | cut -d' ' -f3-)" " 64"

# A cell without a value is measured once, too.
one="/collect $work/empty.csv run=a \"token=@sinks.tokens:0:token\" : /sinks"
lines "/load $llava" "/image $scene" What? "$one" "$one"
check "no error without a value" 'select(.event=="error").message' ""
check "measured once without a value" '[inputs, .] | map(select(.event=="table" and .name=="sinks.tokens")) | length' 1

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

cut -d, -f1,2 "$work/state.csv" >"$work/unsaid.csv" # as an earlier version wrote it
cp "$work/unsaid.csv" "$work/unsaid"
session "not a table of /collect" $llava <<E
> /collect $work/unsaid.csv run=a "score=@norms.layers:1:visual" : /norms
error: '$work/unsaid.csv' already exists, and vlmsh did not write it, or it has changed since: choose another name, or add --force to replace it
E
cmp -s "$work/unsaid.csv" "$work/unsaid" || fail "a foreign table was changed"
session "foreign tables" $llava <<E
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> What is this?
(an answer to 25 visual tokens)
> /collect $work/unsaid.csv --force run=a "score=@norms.layers:1:visual" : /norms
...
> /collect $work/unsaid.csv provenance.x=1 "score=@norms.layers:1:visual" : /norms
error: 'provenance.x=1': columns named provenance.* are reserved for /collect
E
check "measured, and a name refused" '[inputs, .] | [(map(select(.event=="table" and .name=="norms.layers")) | length), (map(select(.event=="done").ok) | last)] | tostring' '[1,false]'
same "in its place" "$(wc -l <"$work/unsaid.csv") $(head -1 "$work/unsaid.csv")" "2 run,score,provenance.model,provenance.state"

# A command that changes the model state is refused: its row would name a state that differs from
# that of its numbers.
printf '/set prune.score uniform\n/norms\n' >"$work/changes.vlmsh"
printf '/set screen.live off\n/norms\n' >"$work/same.vlmsh"
session "a changed state" $llava <<E
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> What is this?
(an answer to 25 visual tokens)
> /collect $work/changes.csv run=a norms.layers : /run $work/changes.vlmsh
prune.score = uniform
prune.score changed: the next answer recomputes the conversation
...
error: nothing collected: the command changed the model or settings its tables come from (prune.score was off, now uniform); run /load and /set before /collect
> /reset prune.score
prune.score = off
> /collect $work/same.csv run=a norms.layers : /run $work/same.vlmsh
screen.live = off
...
E
[ ! -e "$work/changes.csv" ] || fail "a refused row was written"
[ -e "$work/same.csv" ] || fail "a setting that changes no number refuses the row"

# The rows of a table; new measurements replace old ones.
layers=$work/layers.csv
session "rows of a table" $llava <<E
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> What is this?
(an answer to 25 visual tokens)
> /collect $layers run=a norms.layers : /norms
...
> /collect $layers run=b "norms.l*" : /norms
...
> /collect $layers run=a --again norms.layers : /norms
...
> /collect $layers run=a : /norms
error: nothing to collect: add NAME=@ROW for a number that the command shows, or the name of a table
> /collect $layers run=c nothing : /norms
...
error: the command showed no table 'nothing'; it showed: norms.interface, norms.layers, norms.cosines, norms.steps, norms.turns, norms.theory, norms.alignment, norms.attention
> /collect $layers run=c x=@nothing : /norms
...
error: no table shown so far has 'nothing': write @ROW, @ROW:COLUMN or @TABLE:ROW:COLUMN with the names shown
> /collect $layers run=b x=@nothing : /norms
error: '$layers' has a row with these values, but without 'x': collect into another file, add a NAME=VALUE that tells the measurements apart, or replace the row with --again
> /collect $layers run=c x=@score : /get train.lr
...
error: the command showed no table: if it started a job, add --here, or wait and collect from what shows its results (/eval show, /results)
> /collect $layers run=c x=@all
error: give ' : ' and a command: /collect FILE.csv score=@score : /eval DATA --here
> /collect $layers run=c x=@all : norms
error: give ' : ' and a command: /collect FILE.csv score=@score : /eval DATA --here
> /collect $layers run=c x=@all : /nonsense
error: unknown command '/nonsense': /help lists the commands
> /collect
error: usage: /collect FILE.csv [NAME=VALUE]... [NAME=@CELL]... [TABLE [TABLE.interval]] [--again] : COMMAND (/help collect)
> /run $work/one.vlmsh 1LAYER=2
error: '1LAYER=2' is not NAME=VALUE[,VALUE...]
> /run $work/one.vlmsh KEEP=1
error: $work/one.vlmsh:1: unknown variable 'LAYER': set it with -D LAYER=VALUE or in the environment, or write \$\${LAYER} for a literal \${
E
same "the new rows of a, and those of b" "$(cut -d, -f1 "$layers" | uniq -c | awk '{print $1 $2}' | tr '\n' ' ')" \
    "1run 5b 5a "

# Names of columns must differ, and nesting is limited.
deep=
for i in 1 2 3 4 5 6 7 8 9; do deep="$deep/collect $work/deep$i.csv x=@all : "; done
session "columns and nesting" $llava <<E
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> What is this?
(an answer to 25 visual tokens)
> /collect $work/two.csv layer=1 norms.layers : /norms
...
error: table 'norms.layers' already has a column 'layer': rename 'layer=...'
> ${deep}/norms
error: /collect is nested too deeply: '$work/deep5.csv'
> /collect $work/two.csv run=a norms.layers : /norms
...
E

# Over a data set, means and standard deviations have tables with the same rows: the mean is used.
"$VLMSH" scenes 4 "$work/world" --seed 3 >/dev/null 2>&1 || fail "vlmsh scenes fails"
lines "/load $llava" "/collect $work/mean.csv \"text=@0:text\" \"deviation=@redundancy.std:0:text\" : /redundancy --data $work/world/yesno.json --limit 3"
same "mean and deviation" "$(tail -1 "$work/mean.csv" | cut -d, -f1,2)" "$(jq -r 'select(.event=="table" and (.name=="redundancy" or .name=="redundancy.std")).rows[0][2]' \
    "$work/events" | paste -sd,)"
# With the intervals of the means, a curve is drawn with its band; a table without means has none.
lines "/load $llava" "/collect $work/band.csv run=a redundancy redundancy.interval low=@redundancy.interval:0:visual* : /redundancy --data $work/world/yesno.json --limit 3" \
    "/plot $work/band.csv layer visual --interval \"visual low,visual high\" --figure $work/band.svg" \
    "/collect $work/band.csv run=b redundancy sinks.interval : /redundancy" "/image $scene" What? \
    "/collect $work/band.csv run=b redundancy redundancy.interval : /redundancy"
same "columns" "$(head -1 "$work/band.csv")" \
    "run,low,layer,visual,text,visual low,visual high,text low,text high,provenance.model,provenance.state"
same "around the means" "$(awk -F, 'NR > 1 && $6 <= $4 && $4 <= $7 && $8 < $5 && $5 < $9 && ($3 > 0 || $2 == $6) { n++ } END { print n, NR }' "$work/band.csv")" "4 5"
[ -s "$work/band.svg" ] || fail "no figure"
check "refused" 'select(.event=="error").message' "only one table can be collected: 'redundancy' or 'sinks.interval'
the command showed no table 'redundancy.interval'; it showed: redundancy"

# Drawings.
session "drawn or refused" <<E
> /plot $csv keep less --by layer
   |                                                                          *
24 +                                                                      ****
   |                                                                  ****
   |                                                             *****
22 +                                                         ****
   |                                                     ****
   |                                                *****
20 +                                            ****
   |                                        ****
18 +                                   *****
   |                               ****
   |                           ****
16 +                      *****
   |                  ****
14 +              ****
   |         *****
   |     ****
12 +*****
   +---------------------------------------------------------------------------
   0.5            0.6            0.7           0.8            0.9           1.0
* layer 0   o layer 1   + layer 2
> /plot $layers layer visual text --where run=b --figure $work/a.png
(written: figure $work/a.png)
plot written to '$work/a.png'
> /plot $layers run visual --where layer=0 --log y --y L2
b      41.88 *****************************************************************
a      41.88 *****************************************************************
* visual
> /plot $csv keep nothing
error: '$work/keep.csv' has no column 'nothing'; columns: layer, keep, far, full, less, provenance.model, provenance.state
> /plot $csv keep
error: /plot FILE.csv X Y... needs at least two columns
> /plot $csv keep less --where layer=9
error: '$work/keep.csv' has no matching rows
> /plot $csv keep less --by none
error: '$work/keep.csv' has no column 'none'; columns: layer, keep, far, full, less, provenance.model, provenance.state
> /plot $work/none.csv a b
error: cannot open '$work/none.csv': No such file or directory
> /plot $csv keep less --by layer --by keep
error: --by is given twice: --by layer,keep means both
E
# Rows in any order make one curve; values that cannot be drawn are reported.
printf 'x,y,g\n3,1,a\n1,inf,a\n2,3,a\n1,2,a\n' >"$work/odd.csv"
printf 'x,y\n1,2\n2,3\n3,1\n' >"$work/even.csv"
{ echo x,y,g && seq -f 1,2,%g 1001; } >"$work/lines.csv"
{ echo x,y && seq -f t%g,2 10001; } >"$work/texts.csv"
session "values that cannot be drawn" <<E
> /plot $work/odd.csv x y
left out 1 cell without a number, such as 'inf' in 'y'
3.0 +                                     ***
    |                                 ****   **
    |                            *****         **
    |                        ****                **
2.5 +                   *****                      **
    |              *****                             **
    |          ****                                    **
    |     *****                                          **
2.0 +*****                                                 ***
    |                                                         **
    |                                                           **
    |                                                             **
    |                                                               **
1.5 +                                                                 **
    |                                                                   **
    |                                                                     **
    |                                                                       **
1.0 +                                                                         *
    +--------------------------------------------------------------------------
    1.0               1.5                2.0               2.5              3.0
* y
> /plot $work/even.csv x y
3.0 +                                     ***
    |                                 ****   **
    |                            *****         **
    |                        ****                **
2.5 +                   *****                      **
    |              *****                             **
    |          ****                                    **
    |     *****                                          **
2.0 +*****                                                 ***
    |                                                         **
    |                                                           **
    |                                                             **
    |                                                               **
1.5 +                                                                 **
    |                                                                   **
    |                                                                     **
    |                                                                       **
1.0 +                                                                         *
    +--------------------------------------------------------------------------
    1.0               1.5                2.0               2.5              3.0
* y
> /plot $work/lines.csv x y --by g
error: '$work/lines.csv' gives more than 1000 curves, which cannot all be drawn: choose rows with --where COLUMN=VALUE, or other columns for --by
> /plot $work/texts.csv x y
error: column 'x' has more than 10000 different texts, which cannot all be drawn: choose rows with --where COLUMN=VALUE
E
check "the same curve in any order of rows" '[inputs, .] | map(select(.event=="text").text) | unique | length' 1
lines "/plot $layers layer visual text --by run"
check_has "columns and values" 'select(.event=="text").text' "visual (run b)   o text (run b)"
session "intervals" <<E
> /plot $layers run visual --where layer=0 --interval text,visual
b      41.88 ******************************************* (4.289 to 41.88)
a      41.88 ******************************************* (4.289 to 41.88)
* visual
> /plot $layers run visual --interval text
error: --interval needs two columns, LOW,HIGH, not 'text'
> /plot $layers run visual text --interval text,visual
error: --interval needs exactly one column Y, not 2
> /plot $layers layer visual --mean --smooth 3
error: --mean and --smooth cannot be combined for a CSV file
> /plot $layers run visual --interval text,none
error: '$work/layers.csv' has no column 'none'; columns: run, layer, visual, visual std, text, text std, text but first, text but first std, provenance.model, provenance.state
E
same "the figure is a PNG" "$(head -c 4 "$work/a.png" | tail -c 3)" PNG

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
session "reports" <<E
> /report $work/r.md
(written: report $work/r.md)
2 tables written to '$work/r.md'
> /report $work/r.md
(written: report $work/r.md)
2 tables written to '$work/r.md'
> /report $work/r.md $work/copy.md
(written: report $work/copy.md)
2 tables written to '$work/copy.md'
E
same "text of the report" "$(cat "$work/r.md")" '# Title
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
same "text of the copied report" "$(cat "$work/copy.md")" "$(cat "$work/r.md")"
# Means over rows that differ in other columns, such as seeds, with Student's t intervals; and plots.
printf 'method,set,seed,score\nfull,a,1,0.5\nfull,a,2,0.7\nfull,b,1,1\nnorms,a,1,0.25\nnorms,b,1,2\nnorms,b,2,4\nnorms,b,3,6\n' >"$work/seeds.csv"
printf '<!-- table seeds.csv method set mean score -->\n<!-- end -->\n<!-- table seeds.csv method across set mean score -->\n<!-- end -->\n<!-- plot seeds.svg seeds.csv seed score --by method --mean -->\nold\n<!-- end -->\n<!-- plot "two words.svg" seeds.csv seed score -->\n<!-- end -->\nafter\n' >"$work/m.md"
printf '<!-- table seeds.csv method mean -->\n<!-- end -->\n' >"$work/bad.md"
printf '<!-- plot seeds.svg -->\n<!-- plot a.svg b -->\n<!-- end -->\n' >"$work/worse.md"
lines "/report $work/m.md" "/report $work/bad.md" "/report $work/worse.md"
check "errors of wrong marks" 'select(.event == "error").message' "$work/bad.md: line 1: 'mean' needs a column
$work/worse.md: line 1: no line '<!-- end -->' follows this one"
same "table of means" "$(sed 1d "$work/m.md")" '| method | set | score |
|---|---:|---:|
| full | a | 0.6 (-0.6706 to 1.871) |
| full | b | 1 |
| norms | a | 0.25 |
| norms | b | 4 (-0.9683 to 8.968) |
<!-- end -->
<!-- table seeds.csv method across set mean score -->
| method | a | b |
|---|---:|---:|
| full | 0.6 (-0.6706 to 1.871) | 1 |
| norms | 0.25 | 4 (-0.9683 to 8.968) |
<!-- end -->
<!-- plot seeds.svg seeds.csv seed score --by method --mean -->
![seeds.svg](seeds.svg)
<!-- end -->
<!-- plot "two words.svg" seeds.csv seed score -->
![two words.svg](<two words.svg>)
<!-- end -->
after'
grep -q '>norms</text>' "$work/seeds.svg" || fail "the plot of the report lacks its name"
# A document from someone else writes nothing outside its folder, and nothing but its figures; long
# files take no quadratic time.
mkdir "$work/given"
printf 'a,b\n1,2\n2,3\n' >"$work/given/d.csv"
(echo k,v && seq 20000 | sed 's/$/,1/') >"$work/given/long.csv"
(echo k,c,v && seq 2000 | sed 's/.*/&,&,1/') >"$work/given/wide.csv"
number=0
ln -s .. "$work/given/up"
for words in "../a.svg d.csv a b" "/tmp/a.svg d.csv a b" "a.svg d.csv a b --csv ../b.csv" \
    "a.svg --force d.csv a b" "up/a.svg d.csv a b"; do
    printf '<!-- plot %s -->\n<!-- end -->\n' "$words" >"$work/given/p$((++number)).md"
done
printf '<!-- table long.csv k mean v -->\n<!-- end -->\n' >"$work/given/long.md"
printf '<!-- table wide.csv k across c v -->\n<!-- end -->\n' >"$work/given/wide.md"
lines "/report $work/given/p1.md" "/report $work/given/p2.md" "/report $work/given/p3.md" \
    "/report $work/given/p4.md" "/report $work/given/p5.md" "/report $work/given/wide.md"
check "marks of foreign documents" 'select(.event == "error").message | sub(".*: line 1: "; "")' \
    "the figure '../a.svg' must lie in the folder of the document
the figure '/tmp/a.svg' must lie in the folder of the document
'--csv' cannot be used in a document, whose plots write only their figures: use /plot
'--force' cannot be used in a document, whose plots write only their figures: use /plot
the figure 'up/a.svg' must lie in the folder of the document
'across c' would make 2000 columns; a table has at most 256"
timeout 10 "$VLMSH" -c "/report $work/given/long.md" >"$work/out" 2>&1 || fail "a long table: $(cat "$work/out")"
same "lines of a long table" "$(grep -c '^|' "$work/given/long.md")" 20002
# A copy in another folder copies missing pictures; existing ones stay.
mkdir "$work/elsewhere" "$work/in"
printf 'text ![a](a.png) ![b](b.png) ![c](in/c.png) ![d](none.png)\n' >"$work/p.md"
echo one >"$work/b.png" && echo two >"$work/elsewhere/b.png" && echo three >"$work/in/c.png"
lines "/report $work/p.md $work/elsewhere/p.md"
cmp "$work/a.png" "$work/elsewhere/a.png" || fail "the picture was not copied"
same "pictures copied beside the report" "$(cd "$work/elsewhere" && ls | tr '\n' ' ')$(cat "$work/elsewhere/b.png")" "a.png b.png p.md two"
printf 'a,b,c\n1,2,3\n' >"$work/abc.csv"
printf '<!-- table abc.csv -->\n<!-- end -->\n' >"$work/all.md"
lines "/report $work/all.md"
# Provenance columns are left out.
printf 'a,b,provenance.model,c\n1,2,x,3\n' >"$work/abc.csv"
lines "/report $work/all.md"
same "all columns if none is named" "$(sed -n 2,4p "$work/all.md")" $'| a | b | c |\n|---|---:|---:|\n| 1 | 2 | 3 |'
# A mean and its interval become one column.
printf 'a,x,x low,x high,y,low,high\nr,0.51234,0.4,0.6123456,2,1,3\ns,7,,,5,,\n' >"$work/ends.csv"
printf '<!-- table ends.csv -->\n<!-- end -->\n' >"$work/ends.md"
lines "/report $work/ends.md"
same "intervals" "$(sed -n 2,5p "$work/ends.md")" $'| a | x | y |\n|---|---:|---:|
| r | 0.5123 (0.4 to 0.6123) | 2 (1 to 3) |\n| s | 7 | 5 |'
# A count may stand between a score and its interval, even within it; what could be the interval of two scores
# stays apart.
ends() { # NAME CSV TABLE
    printf "$2" >"$work/ends.csv"
    lines "/report $work/ends.md"
    same "$1" "$(sed '1d;/<!-- end/d' "$work/ends.md")" "$(printf "$3")"
}
ends "a count and ends" 'score,n,low,high\n0.5,20,0.4,0.61\n' '| score | n |\n|---|---:|\n| 0.5 (0.4 to 0.61) | 20 |'
ends "a count within percentages" 'score,n,low,high\n52.5,50,40,61\n50,50,39,60\n' \
    '| score | n |\n|---|---:|\n| 52.5 (40 to 61) | 50 |\n| 50 (39 to 60) | 50 |'
ends "two scores within ends" 'a,b,low,high\n0.5,0.55,0.4,0.61\n' \
    '| a | b | low | high |\n|---|---:|---:|---:|\n| 0.5 | 0.55 | 0.4 | 0.61 |'
ends "none within ends" 'n,low,high\n20,0.4,0.61\n' '| n | low | high |\n|---|---:|---:|\n| 20 | 0.4 | 0.61 |'
# Rows that differ only in their interval stay apart.
printf 'x,low,high,v\n1,0,2,3\n1,0.5,2,4\n' >"$work/ends.csv"
printf '<!-- table ends.csv x low high mean v -->\n<!-- end -->\n' >"$work/ends.md"
lines "/report $work/ends.md"
same "rows with different intervals" "$(sed -n 2,5p "$work/ends.md")" $'| x | v |\n|---|---:|\n| 1 (0 to 2) | 3 |\n| 1 (0.5 to 2) | 4 |'
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
# Markers within a line, as an older version wrote them, are text, too.
printf '<!-- table abc.csv -->\n| x | <!-- end --> |\n<!-- end -->\nafter\n' >"$work/marks.md"
lines "/report $work/marks.md"
same "within a line" "$(sed -n '4,$p' "$work/marks.md")" $'| 1 | 2 | 3 |\n<!-- end -->\nafter'
printf 'x\n<!-- table keep.csv -->\n' >"$work/open.md"
printf '<!-- table none.csv -->\n<!-- end -->\n' >"$work/none.md"
printf '<!-- table keep.csv dance -->\n<!-- end -->\n' >"$work/column.md"
session "refused reports" <<E
> /report $work/open.md
error: $work/open.md: line 2: no line '<!-- end -->' follows this one
> /report $work/none.md
error: $work/none.md: line 1: cannot open '$work/none.csv': No such file or directory
> /report $work/column.md
error: $work/column.md: line 1: '$work/keep.csv' has no column 'dance'; columns: layer, keep, far, full, less, provenance.model, provenance.state
> /report $work/nothing.md
error: cannot open '$work/nothing.md': No such file or directory
E
same "a refused report is unchanged" "$(cat "$work/open.md")" $'x\n<!-- table keep.csv -->'

# ${NAME:-VALUE}
session "a default of a variable" <<E
> /tokenizer tests/goldens/llama-3.2
tokenizer 'tests/goldens/llama-3.2': 569 tokens
> /set sample.max_tokens \${NOT_THERE:-7}
sample.max_tokens = 7
> /set sample.max_tokens \${HOME:-7}
error: sample.max_tokens cannot be '$work': use a whole number from 1 to 1000000000
E

# Rows that another process adds while this one writes its own are kept.
mkdir "$work/both"
both() { lines "/load $llava" "/image $scene" "/forward What is this?" "/collect $work/both/t.csv run=$1 \"x=@keys and values\" : /memory"; }
both a
mv "$work/both/t.csv" "$work/both/other.csv"
flock "$work/both" sh -c 'echo held >"$1/held"; sleep 1; cp "$1/other.csv" "$1/t.csv"' sh "$work/both" &
until [ -e "$work/both/held" ]; do sleep 0.02; done
both b
wait
same "rows of two processes" "$(cut -d, -f1 "$work/both/t.csv" | paste -sd' ')" "run a b"
finish
