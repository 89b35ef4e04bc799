# paper.sh -- /paper: lists, plans, refusals, forecasts; two tables from plan to report on a tiny model.
. tests/commands/common.bash
export OMP_WAIT_POLICY=passive

"$VLMSH" new --like tiny "$work/tiny" >/dev/null 2>&1 || fail "vlmsh new fails"
sed -i 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 120/' "$work/tiny/config.json" # short answers
"$VLMSH" new --like llava-1.5-7b --zeros "$work/7b" >/dev/null 2>&1 || fail "vlmsh new --zeros fails"
mkdir "$work/sets" && printf '[{"question": "Is it?", "answer": "yes"}]' >"$work/sets/pope.json"
cp "$work/sets/pope.json" "$work/sets/own.json"

lines "/paper" "/paper ira"
check "papers that /paper lists" '[., inputs] | map(select(.event=="table" and .name=="papers").rows) | .[0] | map(.[0]) | unique | join(" ")' \
    "capa ira layernorm norm-alignment"
check "tables of one paper" '[., inputs] | map(select(.event=="table" and .name=="papers").rows) | .[1] | map(.[1]) | join(" ")' \
    "table2 table3 table4 table5 table6 figure3 figure7 figure4 figure5 figure1 figure8 figure6"
session "refused" <<E
> /paper nope
error: no paper 'nope': norm-alignment, layernorm, capa, ira
> /paper capa table99
error: capa has no 'table99': table1, table2, figure2, figure3 (figure4), figure5, figure6, figure7, figure8, figure9
> /paper capa table1
error: capa table1 needs --model FOLDER: --sets with files of VQAv2, MMBench, TextVQA, SEED-Bench, MMMU; or try it with --demo
> /paper norm-alignment table3 --model $work/tiny --sets $work/sets --data $work/sets/own.json
error: norm-alignment table3 needs --data FILE,FILE: --model: a joined model (vlmsh new --encoder siglip --decoder Llama-3.2-3B-Instruct OUT), --data STAGE1.json,STAGE2.json (LLaVA-558K, LLaVA-NeXT), --sets; or try it with --demo
> /paper capa table1 --demo --as GPT-4
error: table1 has no numbers of 'GPT-4': L LLaVA-1.5-7B|Q Qwen2.5-VL-7B|I InternVL3-8B
> /paper ira table4 --small
error: ira table4 trains models, which --small does not: use --demo
> /paper layernorm tuned --demo
error: layernorm tuned trains the model of --small, not the demo model: use --small (make real)
> /paper capa figure3 --demo --out "$work/a b"
error: '$work/a b': a path in a plan of commands cannot have spaces or any of "'|#; make a link without them
> /paper capa figure3 --demo --data "1,2,a b"
--data is not used by capa figure3 --demo
error: 'a b': a path in a plan of commands cannot have spaces or any of "'|#; make a link without them
> /paper capa figure3 --model $work/tiny --data $work/none.json
error: --data: cannot open '$work/none.json': No such file or directory
> /paper layernorm table1 --model $work/tiny --sets $work/sets --data $work/sets/own.json,$work/sets/own.json,pope/nosuch:$work/sets/own.json
error: --data: no suite 'nosuch' for the set 'pope': choose one of llava, lmms-eval, vlmevalkit
> /paper capa table1 --demo --readings
error: --readings: no reading changes capa table1
> /paper capa table1 --demo --out $work/sets
error: '$work/sets' holds other files: choose another folder with --out
E

# A forecast for a model of real size, from its shape alone; what cannot run is refused before it runs.
costs() { jq -r 'select(.event=="table" and .name=="paper.forecast").rows[] | "\(.[0] | split("/") | last) \(.[1])"' "$work/events" | paste -sd' '; }
lines "/paper capa table1 --model $work/7b --sets $work/sets --out $work/dry --dry"
same "13 rows of two sets" "$(costs)" "scores 26"
check_has "the memory is forecast" 'select(.event=="notice").text' "at most 14.1 GB of memory"
check_has "the table's other sets" 'select(.event=="notice").text' \
    "lacks sets of this table: vqav2, mmbench, textvqa, seed, mmmu"
echo "set vqav2: $work/sets/own.json" >"$work/my.sets"
lines "/paper capa table1 --model $work/7b --sets $work/my.sets --out $work/dry18 --dry"
same "sets that a file names" "$(costs)" "scores 13"
lines "/paper capa table2 --model $work/7b --sets $work/sets --data $work/sets/own.json --out $work/dry5 --dry"
same "rows that need the calibration count too" "$(costs)" "calibrate 1 scores 12"
lines "/paper capa figure3 --demo --model $work/tiny --sets $work/sets --data x --limit 2 --steps 3 --out $work/dry6 --dry"
same "options that do nothing here" "$(jq -r 'select(.event=="notice").text' "$work/events" | grep -c '^--[sd].* is not used by capa figure3 --demo$')" 3
lines "/paper capa figure3 --model $work/tiny --data $work/sets/own.json,$work/sets/pope.json --limit 2 --out $work/dry7 --dry"
check_has "a second file" 'select(.event=="notice").text' "the second file of --data is not used by capa figure3"
lines "/paper capa table1 --model $work/7b --sets $work/nowhere --out $work/dry2 --dry"
check "error without the sets" 'select(.event=="error").message' "$work/dry2/capa-table1/scores.plan:1: cannot read '$work/nowhere': No such file or directory"

# The forecast finds pictures that are not where the data says, and models that take none; it keeps settings that
# change no result, with which a plan may also be continued.
echo '[{"image": "no.jpg", "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "x"}]}]' >"$work/gone.json"
mkdir -p "$work/gone" && cp "$work/gone.json" "$work/gone/own.json"
lines "/set job.ranks 3" "/set job.pause_while_answering on" "/paper ira table3 --model $work/tiny --data $work/sets/own.json --sets $work/gone --out $work/dry13 --dry" "/get job.ranks"
check "a set without its pictures" 'select(.event=="error").message' "set own: cannot open '$work/gone/no.jpg': No such file or directory"
same "kept settings" "$(grep -A2 '^/reset all' "$work/dry13/ira-table3/plan.vlmsh" | paste -sd' ')" \
    "/reset all /set job.ranks 3 /set job.pause_while_answering on"
touch "$work/dry13/ira-table3/measured.csv"
lines "/paper ira table3 --model $work/tiny --data $work/gone.json --sets $work/sets --out $work/dry14 --dry" \
    "/paper capa table1 --model tests/goldens/llama-3.2 --sets $work/gone --out $work/dry15 --dry" \
    "/paper ira table3 --model $work/tiny --data $work/sets/own.json --sets $work/gone --limit 2 --out $work/dry13 --dry" \
    "/paper ira table3 --model $work/tiny --data $work/sets/own.json --sets $work/gone --out $work/dry13 --dry"
check "error of a missing picture" 'select(.event=="error").message | sub(" \\(model.*"; "")' "$work/gone.json: cannot open '$work/no.jpg': No such file or directory
set own has pictures, but the model is text-only
'$work/dry13/ira-table3' has results of a different plan
set own: cannot open '$work/gone/no.jpg': No such file or directory"
mkdir -p "$work/frames/mvbench" && echo '[{"video":"v.mp4","question":"Which?","candidates":["x","y"],"answer":"x"}]' >"$work/frames/mvbench/action_count.json"
lines "/paper ira table3 --model $work/tiny --data $work/sets/own.json --sets $work/frames --out $work/dry17 --dry"
check "a set of which no sample can be read" 'select(.event=="error").message | sub(", which.*"; "")' \
    "set mvbench: '$work/frames/mvbench/action_count.json': '$work/frames/mvbench/v' has no frames of 'v.mp4'"
lines "/paper norm-alignment table4 --demo --model $work/tiny --steps 3 --out $work/dry3 --dry"
same "training runs" "$(costs)" "blank 16 default-1 48 text-1 48"
lines "/paper norm-alignment table4 --demo --steps 3 --out $work/dry16 --dry"
same "the demo model's folder, relative" "$(grep -c "^/load demo/model$" "$work/dry16/norm-alignment-table4/plan.vlmsh")" 1
lines "/paper layernorm figure3 --demo --model $work/tiny --steps 2 --out $work/dry8 --dry"
same "three rates for each method" "$(costs)" "blank 16 stage1 32 full 96 layernorm 96 collect 200"
# A third file that chooses the rates: an evaluation set.
printf 'index\tquestion\tanswer\timage_path\n1\tIs it?\tyes\tx.png\n' >"$work/POPE.tsv"
mkdir "$work/img" && cp demo/pictures/scene-1.png "$work/img/x.png"
for validation in nope:$work/POPE.tsv pope:$work/none.tsv pope:$work/POPE.tsv pope:$work/POPE.tsv:$work/img; do
    lines "/paper layernorm table1 --model $work/none --data $work/sets/own.json,$work/sets/own.json,$validation --sets $work/sets --out $work/dry12 --dry"
    check_has "rates chosen by $validation" 'select(.event=="error").message' \
        "$(case $validation in nope*) echo "no evaluation set 'nope'" ;; *none*) echo "$work/none.tsv" ;;
            *img) echo "no folder '$work/none'" ;; *) echo "--data: cannot open '$work/x.png'" ;; esac)"
done

# Readings: a plan for each; one that changes no training shares the folder of the default.
lines "/paper ira figure5 --demo --model $work/tiny --steps 2 --limit 1 --out $work/dry11 --readings --dry"
same "the plans of the readings" "$(cd "$work/dry11" && find . -name plan.vlmsh | LC_ALL=C sort | paste -sd' ')" \
    "$(printf './%s/plan.vlmsh ' ira-figure5-dice ira-figure5 reading-{entropy,kl,layers,token-loss}/ira-figure5 | sed 's/ $//')"
same "the reading's setting comes last" "$(grep -h -A1 '^/set ira.prior local$' "$work/dry11/reading-kl/ira-figure5/plan.vlmsh" | grep -c '^/set ira.prior local-printed$')" 2
lines "/paper capa table1 --model $work/none --sets $work/sets --out $work/dry4 --dry"
check_has "error without the model" 'select(.event=="error").message' "$work/none"
# One seed chooses each method's rate; the other two train at that rate, which the plan takes from the sweep's best run.
lines "/paper layernorm tuned --model $work/tiny --sets $work/sets --data $work/sets/own.json,$work/sets/pope.json --out $work/dry9 --dry"
same "five methods: three rates, then two seeds" "$(costs)" \
    "$(for m in full lora rslora layernorm layernorm-simple; do printf '%s 24 %s 8 %s 8 ' $m-1 $m-2 $m-3; done)scores 32"
same "at the chosen rate" "$(sed -n '/rslora-1 --resume$/,/rslora-3/p' "$work/dry9/layernorm-tuned/plan.vlmsh" | grep -v wait | sed "s|$work/||g" | paste -sd' ' | cut -d' ' -f6-)" \
    "--resume /preset load dry9/rslora-1/best /set train.seed 2 /train sets/own.json dry9/rslora-2 --resume \
/set train.seed 3 /train sets/own.json dry9/rslora-3 --resume"
lines "/paper norm-alignment text-gain --model $work/tiny --sets $work/sets --data $work/sets/own.json,$work/sets/pope.json --limit 1 --out $work/dry10 --dry"
same "two stages, without and with alignment, three seeds" "$(costs)" "$(for s in 1 2 3; do printf 'gain-%s 4 ' off-$s-1 off-$s-2 on-$s-1 on-$s-2; done)scores 28"

# From the plan to the report; a second run computes nothing.
paper="/paper capa table1 --demo --model $work/tiny --limit 2 --as I --out $work/t"
lines "$paper --dry"
"$VLMSH" scenes 3 "$work/t/world" --seed 2 >/dev/null 2>&1 || fail "vlmsh scenes fails"
lines "$paper"
check "the paper's table is computed" 'select(.event=="done").ok' true
check "the paper's numbers of this model" '[inputs, .] | map(select(.event=="table" and .name=="paper.table").rows) | .[0][0][1]' 80.28
check "rows, claims" '[inputs, .] | map(select(.event=="table" and (.name|startswith("paper."))).rows | length) | join(" ")' "13 6"
check_has "notice of the verdict" 'select(.event=="notice").text' "capa table1: "
table=$work/t/capa-table1
same "files of a finished paper" "$(ls "$work/t" "$table" | grep . | paste -sd' ')" "$work/t: capa-table1 world \
$table: plan.vlmsh report.md scores scores.plan table.csv table.md table.tex"
grep -q '^\*\*Verdict: .*A claim is shown if' "$table/report.md" || fail "the report lacks the rule"
grep -q '^/eval --plan .*/scores.plan .*/scores$' "$table/report.md" || fail "the report lacks the plan"
cp "$table/table.csv" "$work/before"
stat -c %Y%s "$table"/scores/cells/* >"$work/cells"
lines "$paper"
cmp -s "$table/table.csv" "$work/before" || fail "the table differs the second time"
same "the same cells" "$(stat -c %s "$table"/scores/cells/* | paste -sd' ')" "$(sed 's/^.\{10\}//' "$work/cells" | paste -sd' ')"

cp -r "$work/tiny" "$work/tiny2"
lines "/paper capa table1 --demo --model $work/tiny2 --limit 2 --as I --out $work/t"
check "a different model" 'select(.event=="error").message' "'$table' has results of a different plan (model, \
data, options or version differ): choose another folder with --out, or remove its measured.csv and scores"

# Another table with the same --out shares the world, and keeps its files apart.
lines "/paper norm-alignment table2 --demo --model $work/tiny --limit 1 --out $work/t"
cmp -s "$table/table.csv" "$work/before" || fail "another table replaced this one"
check "a row of ours below the paper's" '[inputs, .] | map(select(.event=="table" and .name=="paper.table").rows)[0] | map(.[0]) | join("|")' \
    "LLaVA-v1.5|Qwen-2.5-VL|KimiVL|GLM-4.1V|this model"
check "a claim is shown" '[inputs, .] | map(select(.event=="table" and .name=="paper.claims").rows)[0][0][3]' shown
finish
