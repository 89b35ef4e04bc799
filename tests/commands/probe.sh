# tests/commands/probe.sh -- commands/probe.c and memory.c: output, files, stored results and
# refusals of measurements.
. tests/commands/common.bash

ask=("/load $llava" '/set sample.max_tokens 4' '/set sample.ignore_eos on' "/image $scene" 'What is this?')
lines "${ask[@]}" "/norms --csv $work/n.csv --figure $work/n.png" /redundancy /similarity \
    "/attention --layer all --figure $work/a.png" '/attention --layer 1 --head 2 --token 0' \
    /contribution "/sinks --figure $work/s.png" /curvature '/sink-ratio --threshold 0.01' \
    '/dice --box 0,0,20,20' "/dice --mask $scene" /flops "/memory --csv $work/m.csv" /regen
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..19})"
same "tables of the probes" "$(jq -r 'select(.event == "table").name' "$work/events" | sort -u | tr '\n' ' ')" \
    "attention attention.rows contribution curvature curvature.total dice flops flops.layers memory memory.layers norms.alignment norms.attention norms.cosines norms.interface norms.layers norms.steps norms.theory norms.turns redundancy similarity similarity.mean sink_ratio sink_ratio.total sinks sinks.tokens times "
same "a map of each layer, and one of a head" "$(jq -c 'select(.event == "heatmap" and .name == "attention") | [.layer, .head, .token, .rows, .cols, (.values | length)]' "$work/events" | tr '\n' ' ')" \
    "[0,-1,-1,5,5,25] [1,-1,-1,5,5,25] [2,-1,-1,5,5,25] [3,-1,-1,5,5,25] [1,2,0,5,5,25] "
check "the bounds are those of the values" 'select(.event == "heatmap") | ((.values | min) - .min | fabs) < 1e-6 and ((.values | max) - .max | fabs) < 1e-6' "$(printf 'true\n%.0s' {1..10})"
same "the answer is the same afterwards" "$(jq -c 'select(.event == "answer").ids' "$work/events" | sort -u | wc -l)" 1
for file in n.png n-norms.cosines.png a.png s.png s-sinks.tokens.png n-norms.layers.csv m-memory.layers.csv; do
    [ -s "$work/$file" ] || fail "$file is not written"
done
# Each table is written to a file that a message names; all its rows have as many columns as the
# first.
grep -q '^"4",' "$work/n-norms.layers.csv" || fail "the CSV has no last layer: $(head -3 "$work/n-norms.layers.csv")"
same "a file for each table" "$(cd "$work" && ls n-*.csv | wc -l)" \
    "$(jq -r 'select(.event == "table" and (.name | startswith("norms."))).name' "$work/events" | wc -l)"
for file in "$work"/n-*.csv "$work"/m-*.csv; do
    grep -qF "written to '$file'" "$work/events" || fail "$file is not named"
    python3 -c 'import csv, sys; sys.exit(len({len(r) for r in csv.reader(open(sys.argv[1]))}) != 1)' "$file" ||
        fail "$file has rows of different widths"
done
same "measurements are kept with the session" "$(python3 - "$work/vlmsh.db" <<'P'
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("select session, name, json from results order by id").fetchall()
assert all(json.loads(r[2])["tables"] for r in rows)
print(len(rows), {r[0] for r in rows}, rows[0][1], rows[-1][1])
P
)" "13 {1} norms memory"

# Stored results are shown again unchanged.
session "stored results" <<E
> /results norms
[results]
result  time                 session  command
1       DATE  1        norms
> /results
[results]
result  time                 session  command
13      DATE  1        memory
12      DATE  1        flops
11      DATE  1        dice
10      DATE  1        dice
9       DATE  1        sink-ratio
8       DATE  1        curvature
7       DATE  1        sinks
6       DATE  1        contribution
5       DATE  1        attention
4       DATE  1        attention
3       DATE  1        similarity
2       DATE  1        redundancy
1       DATE  1        norms
> /results 1 --csv $work/again.csv
...
computed in ...
(written: csv $work/again-norms.interface.csv)
norms.interface written to '$work/again-norms.interface.csv'
(written: csv $work/again-norms.layers.csv)
norms.layers written to '$work/again-norms.layers.csv'
(written: csv $work/again-norms.cosines.csv)
norms.cosines written to '$work/again-norms.cosines.csv'
(written: csv $work/again-norms.steps.csv)
norms.steps written to '$work/again-norms.steps.csv'
(written: csv $work/again-norms.turns.csv)
norms.turns written to '$work/again-norms.turns.csv'
(written: csv $work/again-norms.theory.csv)
norms.theory written to '$work/again-norms.theory.csv'
(written: csv $work/again-norms.alignment.csv)
norms.alignment written to '$work/again-norms.alignment.csv'
(written: csv $work/again-norms.attention.csv)
norms.attention written to '$work/again-norms.attention.csv'
> /results 99
error: no result 99 (/results lists them)
> /results none
no results of none yet
[results]
result  time  session  command
> /results 1 x
error: unexpected 'x' after NAME
> /results x y
error: unexpected 'y' after NAME
E
same "the same tables" "$(cat "$work"/again-*.csv)" "$(cat "$work"/n-*.csv)"
lines '/results 4'
same "number of stored maps" "$(jq -c 'select(.event == "heatmap") | [.name, .layer, .rows]' "$work/events" | sort -u | wc -l)" 4

# Pruned tokens are marked, in text too.
out=$(vlmsh --plain $llava -c '/set sample.max_tokens 2' -c "/image $scene" -c 'What?' \
    -c '/set prune.score contribution' -c /contribution 2>&1) || fail "contribution: $out"
case $out in
*"19 dropped, 6 kept"*) ;;
*) fail "counts of dropped tokens: $out" ;;
esac

# --picture selects one picture: its 25 tokens follow those of the first.
lines "/load $llava" '/set sample.max_tokens 2' '/set sample.ignore_eos on' "/image $scene" \
    "/image $scene" 'What?' '/attention --picture 1' '/sink-ratio --picture 1'
same "the largest is in the picture" "$(jq -r 'select(.event == "table" and (.name == "attention" or .name == "sink_ratio")) | .rows[] | (if length == 4 then .[3] else .[2] end | tonumber >= 25)' "$work/events" | sort -u)" true
same "the share equals the sum of its map" "$(jq -rs '([.[] | select(.event == "table" and .name == "attention") | .rows[0][1] | tonumber][0] - ([.[] | select(.event == "heatmap") | .values | add][0]) | fabs) < 1e-5' "$work/events")" true

# The demo's sinks are layout text: they are counted separately, without a type. --data keeps the tokens of all
# samples.
demo=demo/model scene1=demo/pictures/scene-1.png
lines "/load $demo" "/image $scene1" 'What is in the picture?' /sinks
same "text is not a visual sink" "$(jq -rs 'map(select(.event == "table" and .name == "sinks"))[0].rows | map({(.[0]): .[1]}) | add |
    [.sinks, ."probability dumps (type I)", ."structural anchors (type II)", ."text tokens above tau"] | join(" ")' "$work/events")" "0 0 0 2"
same "text sinks have no type" "$(jq -rs '[map(select(.event == "table" and .name == "sinks.tokens"))[0].rows[] | select((.[3] // "") == "") | .[6]] | unique | join(" ")' "$work/events")" 0
printf '{"id": "%s", "image": "'"$PWD/$scene1"'", "conversations": [{"from": "human", "value": "<image> What is it?"}, {"from": "gpt", "value": "a"}]}\n' a b >"$work/sinks.jsonl"
lines "/load $demo" '/set sinks.tau 1' '/set sample.max_tokens 1' "/sinks --data $work/sinks.jsonl --csv $work/t.csv"
check "no error" 'select(.event == "error").message' ""
same "the tokens of both samples" "$(awk -F, 'NR == 1 { print $NF } $NF ~ /^[01]$/ { n[$NF]++; typed += $7 > 0 } END { print (n[0] == n[1]), (n[0] > 144), (typed > 1) }' "$work/t-sinks.tokens.csv")" $'"sample"\n1 1 1'

# Positions of objects: a COCO box equals --box, whatever else the file holds.
printf '{"images": [{"id": 1, "file_name": "scene-1.png", "width": 96, "height": 96}], "annotations": [{"id": 1, "image_id": 1, "category_id": 7, "bbox": [8, 16, 40, 24], "segmentation": [[8, 16, 48, 16, 48, 40]]}, {"id": 2, "image_id": 1, "category_id": 8, "bbox": [0, 0, 4, 4], "segmentation": []}], "categories": [{"id": 7, "name": "thing"}, {"id": 8, "name": "kite"}]}' >"$work/coco.json"
printf '{"image": "%s", "conversations": [{"from": "human", "value": "<image> Where is the thing?"}, {"from": "gpt", "value": "left"}]}\n' "$PWD/$scene1" >"$work/thing.jsonl"
lines "/load $demo" '/set sample.max_tokens 2' "/dice --data $work/thing.jsonl --box 8,16,40,24" \
    "/dice --data $work/thing.jsonl --objects $work/coco.json --boxes" "/dice --data $work/thing.jsonl --objects $work/coco.json" \
    '/set dice.space pixels' "/dice --data $work/thing.jsonl --objects $work/coco.json --boxes" \
    '/set dice.space tokens' "/dice --pixels --data $work/thing.jsonl --box 8,16,40,24"
check "no error of --objects" 'select(.event == "error").message' ""
same "the same box, and its half" "$(jq -rs '[.[] | select(.event == "table" and .name == "dice").rows | map({(.[0]): .[1]}) | add |
    [."soft Dice", ."soft Dice, pixels", ."share of the map that is covered"]] | [.[0] == .[1], .[1] == .[3], .[1] != .[2], (.[2][2] | tonumber * 2 - 0.104 | fabs < 0.01)] | map(tostring) | join(" ")' "$work/events")" "true true true true"
same "dice.space, or the former --pixels: pixels first" "$(jq -rs '[.[] | select(.event == "table" and .name == "dice").rows[0][0]] | join(", ")' "$work/events")" \
    "soft Dice, soft Dice, soft Dice, soft Dice, pixels, soft Dice, pixels"

# Several conditions, here checkpoints: each as if loaded alone, with the correlation over all of them.
lora=$llava/adapters/lora
lines "${ask[@]}" "/sink-ratio now $lora $llava" '/set adapter' "/curvature now | $lora --given --data none.json" \
    "/sink-ratio now | $llama" "/sink-ratio $lora $work/none" '/adapter list' /regen "/adapter load $lora" /sink-ratio
check "lines that fail" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..7}; printf 'false\n%.0s' {1..3}; printf 'true\n%.0s' {1..4})"
check_has "the condition that fails" 'select(.event == "error").message' "$llama: the conversation has pictures, but the model '$llama' is text-only"
check "no adapter is left" '[inputs, .] | map(select(.event == "setting" and .key == "adapter").value)[0]' none
check "no adapter is kept" 'select(.event == "table" and .name == "adapters").rows | length' 0
check "nothing is changed" '[inputs, .] | map(select(.event == "answer").ids) | .[0] == .[1]' true
same "each condition as if alone" "$(jq -rs --arg lora "$lora" 'map(select(.event == "table" and .name == "sink_ratio").rows) | .[0] as $all | .[-1] as $alone |
    def of(c): $all | map(select(.[0] == c)[1:]); (of($lora) == $alone), (of("now") == of($all[-1][0])), (of("now") == of($lora))' "$work/events" | tr '\n' ' ')" "true true false "
same "rank correlation" "$(python3 - "$work/events" <<'P'
import json, sys
t = {}
for e in map(json.loads, open(sys.argv[1])):
    if e["event"] == "table": t.setdefault(e["name"], e["rows"])
def ranks(x): return [sum(b < a for b in x) + (sum(b == a for b in x) - 1) / 2 for a in x]
x, y = ([float(r[k]) for r in t["sink_ratio"]] for k in (2, 5))
a, b = ranks(x), ranks(y)
m = (len(a) - 1) / 2
dot = lambda p, q: sum((u - m) * (v - m) for u, v in zip(p, q))
got = float(t["sink_ratio.correlation"][0][2])
print(abs(got - dot(a, b) / (dot(a, a) * dot(b, b)) ** .5) < 1e-5, t["sink_ratio.correlation"][-1])
P
)" "True ['all', 'points', 12]"

# For a model with a different vocabulary of the same size, the answers' text is tokenised again.
cp -rL "$llava" "$work/swapped"
python3 - "$work/swapped/tokenizer.json" <<'P'
import json, sys
t = json.load(open(sys.argv[1]))
v = t["model"]["vocab"]
a, b = [k for k in v if len(k) == 1 and k.isalpha()][:2]
v[a], v[b] = v[b], v[a]
json.dump(t, open(sys.argv[1], "w"))
P
lines "${ask[@]}" "/norms now | $work/swapped" "/norms '$PWD/build/goldens/quantised/mlx-vlm-4bit'"
check_has "another vocabulary of the same size" '[select(.event == "notice").text] | join(" ")' "swapped: answers are tokenised again"
check_has "a folder with a quantised embedding" 'select(.event == "error").message' "embed_tokens.weight is quantised: /load the folder"

# Conditions over a data set: one table, file and figure of all of them, and differences paired by
# sample. The maps of a pair share one scale.
for name in scene square wide; do
    echo '{"image": "'"$PWD/tests/goldens/pictures/$name.png"'", "conversations": [{"from": "human", "value": "<image>\n'"Is it $name?"'"}, {"from": "gpt", "value": "A star."}]}'
done >"$work/three.jsonl"
each="--data $work/three.jsonl"
lines "${ask[@]}" "/norms off | \"with norm:\" norm.align=on $each --csv $work/both.csv --figure $work/both.svg" '/set norm.align' \
    "/norms $each --csv $work/off.csv" '/set norm.align on' "/norms $each --csv $work/on.csv" '/set norm.align off' \
    "/attention off | norm.align=on --layer 1 --figure $work/pair.svg" "/redundancy off --model $llava,demo/model $each --csv $work/models.csv" \
    '/norms off | ' "/attention off | now --film $work/x.gif" '/norms x: prune.keep=2 | off'
check "errors of wrong conditions" 'select(.event == "error").message' "a condition is empty: write 'now' for the settings as they are
--film shows one condition: give it without other settings
row x: prune.keep cannot be '2': write numbers from 0 to 1 as 0.5,0.25"
check "norm.align is unchanged" 'select(.event == "setting" and .key == "norm.align").value' $'off\non\noff'
check "a map of each condition" 'select(.event == "heatmap") | .condition' $'off\nnorm.align=on'
same "labels of one scale" "$(grep -o '>[0-9.e+-]*</text>' "$work/pair.svg" | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')" "2 2 "
for text in 'off: visual' 'with norm: visual' 'off: text'; do
    grep -qF ">$text</text>" "$work/both-norms.cosines.svg" || fail "no line '$text' in the figure"
done
[ -s "$work/both-norms.cosines.difference.svg" ] || fail "the differences are not drawn"
stored=$(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("select min(id) from results where json like ?", ("%with norm%",)).fetchone()[0])' "$work/vlmsh.db")
python3 - "$work" <<'P' || fail "the tables of several conditions are wrong"
import csv, math, sys
def read(name): return list(csv.DictReader(open(sys.argv[1] + "/" + name)))
def close(a, b): return math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-7)
for table in "layers", "cosines", "attention":
    both = read(f"both-norms.{table}.csv")
    alone = [dict(condition=c, **r) for c, f in (("off", "off"), ("with norm", "on")) for r in read(f"{f}-norms.{table}.csv")]
    assert both == alone, table
# The mean of paired differences is the difference of the means, and its interval contains it.
off, on = (read(f"{f}-norms.cosines.csv") for f in ("off", "on"))
inside = 0
for a, b, d, i in zip(off, on, read("both-norms.cosines.difference.csv"), read("both-norms.cosines.difference.interval.csv")):
    assert d["condition"] == "with norm" and close(d["text"], float(b["text"]) - float(a["text"]))
    inside += float(i["text low"]) <= float(d["text"]) <= float(i["text high"])
assert inside == len(off)
# B.4: singular values of E[u v^T] over three prompts are sorted and add up to the stated sum. The
# trace is the mean of the prompts' traces and at most that sum.
cross, attention = read("off-norms.cross.csv"), read("off-norms.attention.csv")
assert len(cross) == len(attention)
for c, a in zip(cross, attention):
    s = [float(c[k]) for k in ("largest", "second", "third")]
    assert s[0] >= s[1] >= s[2] > 0 and close(sum(s), c["sum"]) and close(c["trace"], a["input products, all pairs"])
    assert float(c["trace"]) <= sum(s) and s[0] <= float(a["singular value"]) and float(c["sum, centred"]) < sum(s)
assert {r["condition"] for r in read("models-redundancy.csv")} == {"off, llava-1.5", "off, model"}
P
lines "/results $stored --csv $work/again.csv"
check "stored with the conditions" 'select(.event == "table" and .name == "norms.layers").rows | map(.[0]) | unique | length' 2
cmp "$work/again-norms.cosines.csv" "$work/both-norms.cosines.csv" || fail "a stored result of several conditions is not written again"
# Seeds are repetitions of a condition; differences pair them.
lines "/load $llava" "/redundancy off | drawn: prune.score=random prune.seed={seed} prune.layer=1 --seeds 1,2 $each --csv $work/seeds.csv" \
    "/redundancy one: prune.score=random prune.seed=1 prune.layer=1 | two: prune.score=random prune.seed=2 prune.layer=1 $each --csv $work/apart.csv" \
    "/redundancy off --seeds 1,2" "/sinks drawn: prune.score=random prune.seed={seed} prune.layer=1 --seeds 1,2 $each"
check "error without {seed}" 'select(.event == "error").message' "seeds: no row contains {seed}"
check_has "a table without a mean" '[select(.event == "notice").text] | join(" ")' "sinks.tokens has no mean"
python3 - "$work" <<'P' || fail "the means over seeds are wrong"
import csv, sys
def read(name): return list(csv.DictReader(open(sys.argv[1] + "/" + name)))
def at(rows, condition): return [float(r["visual"]) for r in rows if r["condition"] == condition]
apart, seeds = read("apart-redundancy.csv"), read("seeds-redundancy.csv")
off, drawn = at(seeds, "off"), at(seeds, "drawn")
assert len(drawn) == len(off) == 4 and at(apart, "one") != at(apart, "two")
assert all(abs((a + b) / 2 - c) < 1e-6 for a, b, c in zip(at(apart, "one"), at(apart, "two"), drawn))
assert all(abs(c - o - d) < 1e-6 for c, o, d in zip(drawn, off, at(read("seeds-redundancy.difference.csv"), "drawn")))
low = [r for r in read("seeds-redundancy.interval.csv") if r["condition"] == "drawn"]
assert all(float(r["visual low"]) <= d <= float(r["visual high"]) for r, d in zip(low, drawn))
P

# Singular values of prompts that occur several times, from those of two prompts once each.
head -2 "$work/three.jsonl" >"$work/ab.jsonl"
(head -1 "$work/ab.jsonl"; cat "$work/ab.jsonl") >"$work/aab.jsonl"
(cat "$work/ab.jsonl"; tail -1 "$work/ab.jsonl") >"$work/abb.jsonl"
lines "/load $llava" '/set compute.matmul f32' "/norms --data $work/ab.jsonl --csv $work/ab.csv" "/norms --data $work/aab.jsonl --csv $work/aab.csv" \
    "/norms --data $work/abb.jsonl --csv $work/abb.csv"
python3 - "$work" <<'P' || fail "the singular values of the cross-covariance are wrong"
import csv, math, sys
def read(name): return list(csv.DictReader(open(f"{sys.argv[1]}/{name}-norms.cross.csv")))
for ab, aab, abb in zip(*map(read, ("ab", "aab", "abb"))):
    a, b, c = ([float(x[k]) for k in ("largest", "second", "sum, centred")] for x in (ab, aab, abb))
    close = lambda x, y: math.isclose(x, y, rel_tol=1e-4)
    # With weights p, q of the two products: s1 s2 is proportional to p q, and so is the centred one.
    assert close(b[0] * b[1] / (a[0] * a[1]), 8 / 9) and close(c[0] * c[1] / (a[0] * a[1]), 8 / 9), (a, b, c)
    assert close(b[2] / a[2], 8 / 9)
P

session "refused" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /image $scene
...
> What is this?
(an answer to 25 visual tokens)
> /attention --layer 4
error: --layer 4: the model has layers 0 to 3
> /attention --layer x
error: --layer takes a layer, counted from 0, or all, not 'x'
> /attention --head 99
error: --head 99: the layers have heads 0 to 3
> /attention --token 77
error: --token 77 does not exist: the answer has 4 tokens, the sequence 42 rows
> /attention --token each --data x.json
error: --token each shows the answer of the conversation: give it without --data
> /attention --picture 3
error: --picture 3: the conversation has only 1 picture, counted from 0
> /attention here
error: row here: 'here' is neither a setting (KEY=VALUE, @PRESET, off, now) nor the folder of an adapter or model
> /attention --colour
error: unknown option '--colour': options are --model, --checkpoints, --seeds, --layer, --head, --token, --picture, --data, --set, --rule, --columns, --images, --limit, --given, --csv, --figure, --film
> /sinks --dims 9999
error: --dims 9999: the residual stream has dimensions 0 to 63
> /sinks --dims a
error: --dims takes up to 8 dimensions separated by commas, not 'a'
> /dice
error: /dice needs the object's position: --box LEFT,TOP,WIDTH,HEIGHT, --mask FILE, or, with --data, --objects FILE
> /dice --box 1,2,3
error: --box needs LEFT,TOP,WIDTH,HEIGHT in pixels, not '1,2,3'
> /dice --box 0,0,9,9 --head 99
error: --head 99: the layers have heads 0 to 3
> /dice --box 0,0,9,9 --mask $scene
error: give either --box or --mask
> /norms --layer 2
error: unknown option '--layer': options are --model, --checkpoints, --seeds, --data, --set, --rule, --columns, --images, --limit, --given, --csv, --figure
> /redundancy --box 0,0,9,9
error: unknown option '--box': options are --model, --checkpoints, --seeds, --data, --set, --rule, --columns, --images, --limit, --given, --csv, --figure
> /curvature --head 1
error: unknown option '--head': options are --model, --checkpoints, --seeds, --picture, --data, --set, --rule, --columns, --images, --limit, --given, --csv, --figure
> /norms $llava --data none.json
error: give either 'tests/goldens/llava-1.5' or --data
> /dice --box 0,0,nan,2
error: --box needs LEFT,TOP,WIDTH,HEIGHT in pixels, not '0,0,nan,2'
> /dice --mask none.png
error: cannot open 'none.png': No such file or directory
> /sink-ratio --threshold 2
error: --threshold must be a number from 0 to 1, not '2'
> /kl
error: /kl measures IRA, which is off: /adapter load DIR with trained IRA parameters, then /set ira.on on
> /dice --box 0,0,9,9 --boxes
error: --boxes needs --objects FILE
> /norms --data none.json
error: cannot open 'none.json': No such file or directory
> /norms --given
error: --images, --objects, --limit and --given need --data FILE
> /norms --limit 3
error: --images, --objects, --limit and --given need --data FILE
> /norms nowhere
error: no folder 'nowhere': give the path of a model folder or GGUF file, or the name of a model in the hub cache, as in ORGANIZATION/NAME
> /norms --csv $work/no/x.csv
error: cannot write '$work/no/x.csv': No such file or directory
> /memory --csv
error: --csv needs FILE
E
session "text models" $llama <<E
> /norms
error: the conversation is empty: ask something first
> /attention
error: the conversation is empty: ask something first
> Hello
(an answer to 0 visual tokens)
> /norms
...
> /attention
error: the model '$llama' is text-only: /attention needs a picture
E

# In bf16, keys and values take half the memory (after /regen computes them again).
lines "${ask[@]}" /memory '/set kv.dtype bf16' /regen /memory '/set kv.dtype f16' '/set kv.dtype f32' /regen /memory
sizes=$(jq -r 'select(.event == "table" and .name == "memory") | .rows[] | select(.[0] == "keys and values") | .[1]' "$work/events" | tr '\n' ' ')
half='function half(a, b) { return b > 0 && a / b > 0.4999 && a / b < 0.5001 }'
same "bf16 keys and values take half the memory" "$(awk "$half"' { print (half($2, $1) && half($2, $3)) }' <<<"$sizes")" 1
layers=$(jq -r 'select(.event == "table" and .name == "memory.layers") | .rows[0][2:] | join(" ")' "$work/events" | tr '\n' ' ')
same "half the memory in each layer" "$(awk "$half"' { print (half($3, $1) && half($4, $2)) }' <<<"$layers")" 1
check "another dtype is refused" 'select(.event == "done" and (.ok | not)).ok' false
check_has "names the dtypes" 'select(.event == "error").message' "f32, bf16"

# /stream equals the dump of the same pass for each visual token; /pruned counts the tokens of each layer.
lines "/load $llava" '/set sample.max_tokens 2' "/image $scene" "/dump ids,layer.*.in,layer.out $work/pass.safetensors" \
    'What is this?' '/stream --layer all' '/stream --layer 1' '/stream --picture 3' /pruned \
    '/set prune.score uniform' '/set prune.layer 1,2' '/set prune.keep 0.4,0.2' /pruned
check "refused lines" '[inputs, .] | map(select(.event=="done").ok) | map(tostring) | join(" ")' \
    'true true true true true true true false false true true true true'
same "norms and cosines are those of the pass" "$(python3 - "$work/events" "$work/pass.safetensors" <<'P'
import array, json, struct, sys
raw = open(sys.argv[2], "rb").read()
n, = struct.unpack_from("<Q", raw)
head = json.loads(raw[8:8 + n])
def tensor(name, kind):
    a, b = head[name]["data_offsets"]
    return array.array(kind, raw[8 + n + a:8 + n + b])
ids = tensor("ids", "i")
seen = [i for i, t in enumerate(ids) if list(ids).count(t) == 25]  # the placeholder's rows
def rows(l):
    name = "layer.%d.in" % l if "layer.%d.in" % l in head else "layer.out"
    x, d = tensor(name, "f"), head[name]["shape"][1]
    return [x[i * d:(i + 1) * d] for i in seen]
dot = lambda a, b: sum(x * y for x, y in zip(a, b))
maps, worst, count = {}, 0, 0
for e in map(json.loads, open(sys.argv[1])):
    if e["event"] != "heatmap" or not e["name"].startswith("stream."):
        continue
    a, b = rows(e["layer"]), rows(e["layer"] + 1)
    want = [dot(x, x) ** .5 for x in a] if e["name"] == "stream.norms" else [
        dot(x, y) / (dot(x, x) * dot(y, y)) ** .5 for x, y in zip(a, b)]
    worst = max([worst] + [abs(x - y) / max(1, abs(y)) for x, y in zip(e["values"], want)])
    count += 1
print(len(seen), count, worst < 1e-5)
P
)" "25 10 True"
check "layers that compute each token: 15 leave after layer 1, 5 after layer 2" \
    'select(.event=="heatmap" and .name=="pruned.layers").values | [map(select(. == 2)), map(select(. == 3)), map(select(. == 4))] | map(length) | tostring' '[15,5,5]'
check "tokens of each layer" 'select(.event=="table" and .name=="pruned").rows | map(.[1]) | tostring' '[25,25,10,5]'

finish
