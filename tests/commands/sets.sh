# sets.sh -- /eval --set: evaluation sets in the formats of the suites; results name their rules;
# scores are the same in a job and in the shell; --submit, /help sets, the hub cache, validation, refusals.
. tests/commands/common.bash
export OMP_WAIT_POLICY=passive

"$VLMSH" new --like tiny "$work/tiny" >/dev/null 2>&1 || fail "vlmsh new fails"
python3 tests/core/sets/make.py "$work/sets" || fail "make.py fails"
tiny() {
    printf '%s\n' "/set sample.max_tokens ${tokens:-4}" "$@" | vlmsh "$work/tiny" --json >"$work/events"
}
value() {
    jq -r --arg key "$1" 'select(.event=="table" and .name=="evaluation") | .rows[] |
        select(.[0]==$key)[1]' "$work/events"
}

# POPE with the rules of three suites: prompt, length and rule are each suite's own.
tiny "/eval $work/sets/POPE.tsv --set pope --rule llava --here" "/eval $work/sets/POPE.tsv --set pope --rule lmms-eval --here" \
    "/eval $work/sets/POPE.tsv --set pope --rule vlmevalkit --here --limit 2"
check "all lines succeed" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue'
same "metric of each suite" "$(value metric | paste -sd' ')" "pope-llava pope-lmms-eval yesno-vlmevalkit"
same "suite of each run" "$(value as | paste -sd' ')" "llava lmms-eval vlmevalkit"
same "tokens: those of the set, or fewer if the setting says so" "$(value "answer tokens" | paste -sd' ')" "4 4 4"
tokens=20 tiny "/eval $work/sets/MME.tsv --set mme --here --limit 1"
same "tokens of the set" "$(value "answer tokens")" 16
tiny "/eval $work/sets/POPE.tsv --set pope --rule llava --here" "/eval $work/sets/POPE.tsv --set pope --rule lmms-eval --here" \
    "/eval $work/sets/POPE.tsv --set pope --rule vlmevalkit --here --limit 2"
same "set of each run" "$(value set | paste -sd' ')" "pope pope pope"
same "rows of each run" "$(value n | paste -sd' ')" "4 4 2"
same "no yes: accuracy of a model that says neither" "$(value "mean F1 of splits" | wc -l) $(value "F1 over splits" | wc -l)" "1 1"
tiny "/eval $work/sets/POPE.tsv --set pope --as llava --here --limit 1"
same "the former name of --rule" "$(value metric)" pope-llava

# A job gives the same scores and submission as the shell.
tiny "/eval $work/sets/MME.tsv --set mme --images $work/sets/img --submit $work/mme.jsonl" "/wait" "/eval show" \
    "/eval $work/sets/MME.tsv --set mme --here --submit $work/here.jsonl"
check "no line fails" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue\ntrue'
check "the same scores in the shell and in the job" '[inputs, .] | map(select(.event=="table" and .name=="evaluation") |
    .rows | map(select(.[0]!="submission"))) | .[0] == .[1]' true
check_has "/wait names the set" 'select(.event=="notice") | .text' "mme as lmms-eval: mme-lmms-eval"
same "lines of the submission" "$(wc -l <"$work/mme.jsonl")" 8
cmp -s "$work/mme.jsonl" "$work/here.jsonl" || fail "the submissions differ"
same "ids of the submission" "$(jq -r '.question_id' "$work/mme.jsonl" | paste -sd' ')" "0 1 2 3 4 5 6 7"

# A running or stopped job shows the score so far.
tokens=500 tiny "/eval $work/sets/MMStar.tsv --set mmstar"
job=$(jq -r 'select(.event=="notice") | .text' "$work/events" | sed -n 's/^job \([0-9]*\): evaluate started.*/\1/p')
for _ in $(seq 300); do
    tiny "/eval show $job"
    jq -r 'select(.event=="notice") | .text' "$work/events" | grep -q "mean score so far: [0-9.]* over" && break
    jq -e 'select(.event=="table" and .name=="evaluation")' "$work/events" >/dev/null && break
    sleep 0.1
done
jq -r 'select(.event=="notice") | .text' "$work/events" | grep -q "mean score so far: [0-9.]* over [1-4] question" ||
    [ "$(value n)" = 4 ] || fail "no score so far"
tiny "/job $job cancel" "/wait"

# If answers are missing because their file cannot be read, the error names the file and the reason.
for broken in '{"data": [{"question": "what' '{"data": {}}' '[1]' '{"data": [{"question": "a", "image_id": "b"}]}'; do
    mkdir -p "$work/broken"
    cp "$work/sets/textvqa/llava_textvqa_val_v051_ocr.jsonl" "$work/broken"
    echo "$broken" >"$work/broken/TextVQA_0.5.1_val.json"
    tiny "/eval $work/broken/llava_textvqa_val_v051_ocr.jsonl --set textvqa --images $work/sets/img --here"
    check_has "$broken" 'select(.event=="error").message' "no question has a reference answer: '$work/broken/TextVQA_0.5.1_val.json'"
done
check_has "error of an incomplete entry" 'select(.event=="error").message' ', entry 0, needs "image_id", "question" and "answers"'
cp "$work/sets/sqa/llava_test_CQM-A.json" "$work/broken"
mkdir "$work/broken/problems.json"
tiny "/eval $work/broken/llava_test_CQM-A.json --set scienceqa --here"
check "not where all have answers" 'select(.event=="done").ok' $'true\ntrue'
cp "$work"/sets/vqa/v2_OpenEnded_mscoco_val2014_questions.json "$work/broken"
echo '{"annotation": []}' >"$work/broken/v2_mscoco_val2014_annotations.json"
tiny "/eval $work/broken/v2_OpenEnded_mscoco_val2014_questions.json --set vqav2 --here"
check_has "error of missing annotations" 'select(.event=="error").message' "v2_mscoco_val2014_annotations.json' has no list \"annotations\""

# The suites' formats are read.
i="--images $work/sets/img --here --limit 2"
tiny "/eval $work/sets/pope/coco_pope_random.json --set pope $i" \
    "/eval $work/sets/vqa/v2_OpenEnded_mscoco_val2014_questions.json --set vqav2 $i" \
    "/eval $work/sets/textvqa/TextVQA_0.5.1_val.json --set textvqa $i" \
    "/eval $work/sets/captions_val2017.json --set coco $i" "/eval $work/sets/dataset_flickr30k.json --set flickr30k $i" \
    "/eval $work/sets/mmbench_dev.tsv --set mmbench --rule llava $i" "/eval $work/sets/MMStar.tsv --set mmstar $i" \
    "/eval $work/sets/SEED-Bench.json --set seed $i" "/eval $work/sets/OCRBench.tsv --set ocrbench $i" \
    "/eval $work/sets/sqa/problems.json --set scienceqa $i" "/eval $work/sets/MMMU_DEV_VAL.tsv --set mmmu $i" \
    "/eval $work/sets/mmlu/test/abstract_algebra_test.csv --set mmlu $i" \
    "/eval $work/sets/hellaswag_val.jsonl --set hellaswag $i" \
    "/eval tests/core/sets/parquet/pope-00001-of-00002.parquet --set pope $i"
check "all formats are evaluated" '[inputs, .] | map(select(.event=="done").ok) | all' true
same "samples of each format" "$(value n | paste -sd' ')" "2 2 2 2 2 2 2 2 2 2 2 2 1 2"

# /compare with an evaluation set.
tiny "/compare off | @fastv --data $work/sets/MMStar.tsv --set mmstar --limit 3 --job" "/wait"
check "comparisons on sets succeed" 'select(.event=="done").ok' $'true\ntrue\ntrue'
check_has "by the set's rule" 'select(.event=="notice") | .text' "mmstar-lmms-eval"

# One command writes the table of pruning methods.
tiny "/run demo/prune-table.vlmsh DATA=$work/sets/POPE.tsv SET=pope AS=lmms-eval RULE=pope-lmms-eval LIMIT=2 LAYER=0 OUT=$work/table.csv SCORE=diversity,uniform INPUT=cls KEEP=0.5,0.25"
check "measurements on sets succeed" 'select(.event=="done").ok' $'true\ntrue'
same "length and cells of the CSV" "$(wc -l <"$work/table.csv") $(cut -d, -f3-5 "$work/table.csv" | tr -d '"' | sort | sed -n '1p;4p;8p' | paste -sd' ')" \
    "9 0,diversity,0.25 0,uniform,0.5 picture,downsample,0.25"
same "rule and questions" "$(sed -n 2p "$work/table.csv" | cut -d, -f1,2,6)" "pope,pope-lmms-eval,2"

# Sets about pictures skip questions without one; ScienceQA asks them. Given answers need no picture.
printf 'index\tquestion\tanswer\tA\tB\n0\tIs it?\tyes\tx\ty\n' >"$work/bare.tsv"
sed 's/yes/A/' "$work/bare.tsv" >"$work/text.tsv"
echo '{"question_id": 0, "text": "yes"}' >"$work/given.jsonl"
tiny "/eval $work/bare.tsv --set pope --here" "/eval $work/text.tsv --set scienceqa --rule vlmevalkit --here" \
    "/eval $work/bare.tsv --set pope --answers $work/given.jsonl --here"
check_has "error without a picture" 'select(.event=="error").message' "sample 0: no picture is given with the question"
same "text alone, given answers" "$(value n | paste -sd' ')" "1 1"

# Files with columns of other names: several pictures per row, subsets, choices in a list and in columns; the same
# answers score the same in a table, JSON lines and parquet.
cp demo/pictures/scene-0.png "$work/a.png"
printf 'q\ta\timg\tgroup\nWhat?\tred\ta.png\tx\nHow many?\t3\t["a.png", "a.png"]\ty\n' >"$work/named.tsv"
printf 'q\ta\timg\nWhat?\tred\t%s\n' "$(base64 -w0 "$work/a.png")" >"$work/base64.tsv"
printf '%s\n' '{"q":"What?","a":["red","dark red"],"img":["a.png","a.png"],"question":"other","k":1}' '{"q":"How many?","a":3,"img":"a.png","k":2}' >"$work/named.jsonl"
printf '%s\n' '{"q":"Which?","opts":["cat","dog"],"a":1,"img":"a.png"}' '{"q":"Which?","opts":["cat","dog","ox"],"a":"ox","img":"a.png"}' >"$work/list.jsonl"
printf 'q\to1\to2\ta\timg\nWhich?\tcat\tdog\tB\ta.png\n' >"$work/named_choices.tsv"
printf '%s\n' '{"question_id":0,"text":"red"}' '{"question_id":1,"text":"3"}' >"$work/said.jsonl"
printf '%s\n' '{"question_id":0,"text":"B"}' '{"question_id":1,"text":"C"}' >"$work/letters.jsonl"
names="question=q,answer=a,picture=img"
# Boxes: corners in Qwen-VL's lines, fractions of the picture in the user's column.
printf '%s\n' '{"image":"a.png","sent":"the circle","bbox":[10,20,50,60],"width":96,"height":96}' '{"image":"a.png","sent":"a star","bbox":[1,1,9,9],"width":96,"height":96}' >"$work/refcoco_val.jsonl"
printf 'q\twhere\timg\nthe circle\t[0.1, 0.2, 0.5, 0.6]\ta.png\n' >"$work/box.tsv"
printf '%s\n' '{"question_id":"#0","text":"[0.1, 0.2, 0.5, 0.6]"}' '{"question_id":"#1","text":"none"}' >"$work/boxes.jsonl"
echo '{"question_id":0,"text":"(100,200),(500,600)"}' >"$work/thousandths.jsonl"
tiny "/eval $work/refcoco_val.jsonl --set refcoco --answers $work/boxes.jsonl --here" \
    "/eval $work/box.tsv --set box --columns question=q,answer=where,picture=img --answers $work/thousandths.jsonl --here"
same "scores, accuracies and missing boxes" "$(value score | paste -sd' ') $(value "ACC@0.9" | paste -sd' ') $(value "no box" | paste -sd' ')" "0.5 1 0 1 1 0"
same "overlap and centres" "$(value IoU | paste -sd' ') $(value Center_ACC | paste -sd' ')" "0.434085 1 0.500000 1"
check_has "the box as pixels" 'select(.event=="table" and .name=="answers").rows[0][5]' "[10, 20, 50, 60] of 96x96"
printf 'index\tquestion\tanswer\tcategory\twidth\theight\timage_path\n' >"$work/RefCOCO.tsv"
printf '%s\t%s\t[10, 20, 50, 60]\t%s\t100\t100\ta.png\n' 0 a val 1 b val 2 c testA >>"$work/RefCOCO.tsv"
printf '%s\n' '{"question_id":0,"text":"[100, 200, 500, 600]"}' '{"question_id":1,"text":"[0, 0, 5, 5]"}' '{"question_id":2,"text":"[100, 200, 300, 600]"}' >"$work/split.jsonl"
tiny "/eval $work/RefCOCO.tsv --set refcoco --rule vlmevalkit --answers $work/split.jsonl" "/wait" "/eval show"
same "splits weigh the same" "$(value "mean of kinds" | cut -d' ' -f1) $(value "mean IoU of kinds") $(value "IoU val")" "0.750000 0.500000 0.500000"
tiny "/eval $work/named.tsv --set vqa --columns $names,subset=group --answers $work/said.jsonl --here" \
    "/eval $work/named.jsonl --set vqa --columns $names,subset=k --answers $work/said.jsonl --here" \
    "/eval $work/list.jsonl --set mcq --columns $names,choices=opts --answers $work/letters.jsonl --here" \
    "/eval $work/named_choices.tsv --set mcq --rule vlmevalkit --columns $names,A=o1,B=o2 --answers $work/letters.jsonl --here" \
    "/eval $work/named.tsv --set vqa --columns $names --here" "/eval $work/base64.tsv --set relaxed --columns $names --here" \
    "/eval $work/named.jsonl --set anls --columns $names --here" \
    "/eval tests/core/sets/parquet/flickr30k.parquet --set caption --columns answer=caption,picture=image --here"
same "scores of named columns" "$(value score | head -4 | paste -sd' ')" "1 1 1 1"
same "rows of named columns" "$(value n | paste -sd' ')" "2 2 2 1 2 1 2 1"
same "a mean for each subset" "$(value "score y" | head -1), $(value "score 2" | head -1)" "1.000000, n 1, 1.000000, n 1"
check_has "the user's question" 'select(.event=="table" and .name=="answers").rows[0][6]' "What?"
# Numbers among choices and answers; choices in other forms are refused, not left out.
printf '%s\n' '{"id":0,"question":"q","answer":"B","choices":[3,2.50]}' '{"id":1,"question":"q","answer":"B","choices":{"text":["r","b"],"label":["A","B"]}}' \
    '{"id":2,"question":"q","answer":"B","choices":[{"label":"A","text":"r"}]}' '{"id":3,"question":"q","answer":"B","choices":"['"'r' 'b'"']"}' >"$work/forms.jsonl"
echo '{"id":0,"question":"q","answer":[3,4]}' >"$work/numbers.jsonl"
tail -n +3 "$work/forms.jsonl" >"$work/objects.jsonl"
echo '{"question_id":0,"text":"4"}' >"$work/four.jsonl"
tiny "/eval $work/forms.jsonl --set mcq --here" "/eval show" "/eval $work/objects.jsonl --set mcq --here" "/eval $work/numbers.jsonl --set vqa --answers $work/four.jsonl --here"
check_has "choices that are numbers" 'select(.event=="table" and .name=="answers").rows[0][6]' $'q\nA. 3\nB. 2.50\nAnswer'
same "choices that cannot be read" "$(value skipped | head -1)" '3 of 4 samples, the first: sample 1: its "choices" is not a list: choices are a list, or columns A, B ...'
check "a choice that is an object" 'select(.event=="error").message' "no sample could be scored: sample 2: a choice in its \"choices\" is neither a text nor a number"
same "answers that are numbers" "$(value score | tail -1)" 1
for form in true '{"text":["yes"]}' '[{"text":"yes"}]'; do
    echo "{\"id\":0,\"question\":\"q\",\"answer\":$form}" >"$work/form.jsonl"
    tiny "/eval $work/form.jsonl --set yesno --here"
    check_has "the answer $form" 'select(.event=="error").message' 'reference answer: an "answer" is neither a text, a number nor a list of these'
done
printf '%s\n' '{"id":0,"question":"q","answer":"2","choices":[1,2,3]}' '{"id":1,"question":"q","answer":2,"choices":[1,2,3]}' '{"id":2,"question":"q","answer":"1","choices":[0,1]}' >"$work/counts.jsonl"
printf '%s\n' '{"question_id":0,"text":"C"}' '{"question_id":1,"text":"C"}' '{"question_id":2,"text":"B"}' >"$work/count_answers.jsonl"
tiny "/eval $work/counts.jsonl --set mcq --answers $work/count_answers.jsonl --here"
same "numbers that name two choices" "$(value score) $(value skipped)" "1 1 of 3 samples, the first: sample 0: the answer '2' is the text of choice 1 and the number of choice 2 (from 0): write a letter"
for form in '{"file_name":"a.png"}' true '["a.png",7]'; do
    echo "{\"id\":0,\"question\":\"q\",\"answer\":\"red\",\"image\":$form,\"pic\":$form}" >"$work/form.jsonl"
    tiny "/eval $work/form.jsonl --set vqa --here" "/eval $work/form.jsonl --set vqa --columns picture=pic --here"
    check "the picture $form" 'select(.event=="error").message | test("a picture must be a path, base64, {\"path\", \"bytes\"} or a list of them$")' $'true\ntrue'
done
printf 'index\tquestion\tanswer\n0\ta\tb\tred\n1\tq\tred\t\t\n' >"$work/shifted.tsv"
tiny "/eval $work/shifted.tsv --set vqa --here" "/eval show"
same "a tab in a text" "$(value skipped | uniq)" "1 of 2 samples, the first: sample 0: it has more fields than the head line: a text with tabs needs quotes"
printf 'id,question,A,B,C,answer\n1,What?,x,y,z,B\n' >"$work/own.csv"
tiny "/eval $work/own.csv --set mcq --here"
check_has "a CSV file with a head line of its own" 'select(.event=="error").message' "is not a file of MMLU, the only set that is read from CSV: line 1 does not end with the right choice, A to D; save other tables as TSV"
# A repeated row counts once in measurements and calibrations, too.
printf '%s\n' '{"id":1,"question":"q","answer":"red"}' '{"id":1,"question":"q","answer":"red"}' '{"id":2,"question":"q","answer":"red"}' >"$work/repeated.jsonl"
tiny "/norms --data $work/repeated.jsonl --set vqa" "/calibrate ffn $work/repeated.jsonl $work/repeated.safetensors --set vqa" "/wait"
check "a repeated row counts once" 'select(.event=="notice").text | scan("means over [0-9]* samples|over [0-9]* samples|[0-9]* sample repeats|skipped")' $'means over 2 samples\n1 sample repeats\nover 2 samples\n1 sample repeats'
printf '%s\n' '{"id":1,"question":"q","answer":"red","image":"a.png"}' '{"id":2,"question":"q","answer":"red"}' >"$work/mixed.jsonl"
tiny "/redundancy --data $work/mixed.jsonl --set vqa"
check_has "a sample without a picture among others" 'select(.event=="notice").text' "1 sample has no picture: means over visual tokens leave it out"
# Pictures or choices under a name that the set does not read are named.
echo '{"id":0,"question":"q","answer":"B","picture":"a.png","opts":["x","y"],"source":"web","note":""}' >"$work/unread.jsonl"
printf 'q\ta\tpic\to1\nWhat?\tB\ta.png\tx\n' >"$work/unread.tsv"
tiny "/eval $work/unread.jsonl --set mcq --here" "/eval show" "/eval $work/unread.tsv --set mcq --columns question=q,answer=a,A=o1,picture=pic --answers $work/letters.jsonl --here" \
    "/eval $work/unread.tsv --set vqa --columns question=q,answer=a --answers $work/letters.jsonl --here" "/eval tests/core/sets/parquet/mmmu_gap.parquet --set vqa --here"
same "columns that are not read" "$(value data | uniq)" 'not used: "picture" (1 sample), "opts" (1 sample)
not used: "pic" (1 sample), "o1" (1 sample)
not used: "options" (2 samples), "subject" (2 samples)'
# Pictures in a ZIP archive beside the file, and by the archive's name; in training data too.
mkdir "$work/zipped" && cp "$work/named.jsonl" "$work/zipped" && python3 -m zipfile -c "$work/zipped/photos.zip" "$work/a.png"
echo '[{"image": "a.png", "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "red"}]}]' >"$work/zipped/train.json"
tiny "/eval $work/zipped/named.jsonl --set vqa --columns $names --here" "/eval $work/list.jsonl --set mcq --columns $names,choices=opts --images $work/zipped/photos.zip --here" \
    "/data check $work/zipped/train.json"
check "pictures in an archive" '[inputs, .] | map(select(.event=="done").ok) | all' true
same "questions with pictures in an archive" "$(value n | paste -sd' ')" "2 2"
# Several columns of pictures, in the user's order.
printf 'q\ta\tleft\tright\nWhat?\tred\ta.png\t%s\nWhat?\tred\t\ta.png\n' "$(base64 -w0 "$work/a.png")" >"$work/two.tsv"
printf '%s\n' '{"q":"What?","a":"red","left":"a.png","right":["a.png","a.png"]}' >"$work/two.jsonl"
tiny "/eval $work/two.tsv --set vqa --columns question=q,answer=a,picture=right,picture=left --here" \
    "/eval $work/two.jsonl --set vqa --columns question=q,answer=a,picture=left,picture=right --here" \
    "/eval tests/core/sets/parquet/mmmu_gap.parquet --set mcq --columns choices=options,picture=image_3,picture=image_1 --here" \
    "/eval $work/two.tsv --set vqa --columns question=q,answer=q --here" "/eval $work/two.tsv --set vqa --columns picture=left,picture=no --here"
same "several columns of pictures" "$(value n | paste -sd' ')" "2 1 2"
check_has "a column twice" 'select(.event=="error").message' "--columns names the column 'q' twice"
check_has "a second column that is missing" 'select(.event=="error").message' "has no column 'no' (--columns): it has q, a, left, right"
tiny "/eval $work/named.tsv --set vqa --columns question=no --here" "/eval $work/named.jsonl --set vqa --columns question=no --here" \
    "/eval tests/core/sets/parquet/flickr30k.parquet --set caption --columns answer=no --here" \
    "/eval $work/named.tsv --set vqa --columns query=q --here" "/eval $work/named.tsv --columns question=q" \
    "/eval $work/list.jsonl --set vqa --columns $names,choices=opts --here" "/eval $work/named.tsv --set caption --columns $names --here" \
    "/eval $work/named_choices.tsv --set relaxed --rule vlmevalkit --columns $names,A=o1 --here"
check_has "choices that a rule does not read" 'select(.event=="error").message' \
    "this set does not read 'choices' (--columns): it reads id, question, answer, picture, subset; '$work/list.jsonl' has q, opts, a, img"
check_has "error of a column of a fixed question" 'select(.event=="error").message' \
    "this set does not read 'question' (--columns): it reads id, answer, picture, subset; '$work/named.tsv' has q, a, img, group"
check_has "a letter's column" 'select(.event=="error").message' "this set does not read 'A' (--columns): it reads id, question"
check_has "columns of a table" 'select(.event=="error").message' "it has q, a, img, group"
check_has "columns of lines" 'select(.event=="error").message' "it has q, a, img, question, k"
check_has "columns of parquet" 'select(.event=="error").message' "has no column 'no' (--columns): it has "
check_has "names of columns" 'select(.event=="error").message' "with id, question, answer, picture, choices"
check_has "columns need a set" 'select(.event=="error").message' "--columns needs a set"

# MVBench: a video is a folder of frames, beside its file or in a subfolder with the task's name; one of TVQA's has no
# ending. The choice "3" is a text, not the number of a choice.
mkdir -p "$work/videos/json" "$work/videos/frames/action_count/v1" "$work/videos/frames/v2" "$work/videos/frames/v1"
cp demo/pictures/scene-{0,1}.png "$work/videos/frames/action_count/v1" && cp demo/pictures/scene-0.png "$work/videos/frames/v2/0.PNG"
for n in v1.mp4 v2 v3.mp4; do echo "{\"video\":\"$n\",\"question\":\"How often?\",\"candidates\":[\"3\",\"0\",\"2\",\"1\"],\"answer\":\"3\"}"; done |
    jq -s . >"$work/videos/json/action_count.json"
printf '%s\n' '{"question_id":"0","text":"(A) 3"}' '{"question_id":"1","text":"(D) 1"}' >"$work/said.jsonl"
tiny "/eval $work/videos/json --set mvbench --images $work/videos/frames --answers $work/said.jsonl --here"
same "score and samples of MVBench" "$(value score | cut -d' ' -f1) $(value n)" "0.5 2"
check_has "samples without frames are skipped" 'select(.event=="table") | .rows[] | select(.[0]=="skipped")[1]' \
    "'$work/videos/frames/v3' has no frames of 'v3.mp4', which vlmsh cannot decode itself: extract some"

# A folder or a pattern of files is one set: ids may repeat between files, and each file has its mean. A set of several
# splits is refused.
mkdir -p "$work/tasks/Art" "$work/tasks/Jigsaw" "$work/splits"
printf 'index\tquestion\tanswer\tA\tB\timage_path\n0\tWhich?\tA\tx\ty\ta.png\n1\tWhich?\tB\tx\ty\ta.png\n' >"$work/tasks/Art/val.tsv"
printf 'index\tquestion\tanswer\tA\tB\timage_path\n0\tWhich?\tB\tx\ty\ta.png\n' >"$work/tasks/Jigsaw/val.tsv"
echo "not a set" >"$work/tasks/README.md"
cp "$work/a.png" "$work/tasks/Art" && cp "$work/a.png" "$work/tasks/Jigsaw"
cp "$work/tasks/Art/val.tsv" "$work/splits/val.tsv" && cp "$work/tasks/Art/val.tsv" "$work/splits/test.tsv"
printf '%s\n' '{"question_id":"Art/val_0","text":"A"}' '{"question_id":"Art/val_1","text":"A"}' '{"question_id":"Jigsaw/val_0","text":"B"}' >"$work/tasks.jsonl"
tiny "/eval $work/tasks --set blink --answers $work/tasks.jsonl" "/wait" "/eval show" "/eval $work/tasks/*/v*.tsv --set blink --here" \
    "/eval $work/tasks --set mcq --images $work --here" "/eval tests/core/sets/parquet/pope-*.parquet --set pope --here" \
    "/eval $work/splits --set blink --here" "/eval $work/no*such --set blink --here" "/eval $work/tasks/*/*.png --set blink --here"
same "questions of all files" "$(value n | paste -sd' ')" "3 3 3 3"
same "a mean for each file" "$(value "score Art/val" | head -1 | cut -d' ' -f1) $(value "score Jigsaw/val" | head -1 | cut -d" " -f1) $(value "mean of kinds" | head -1 | cut -d' ' -f1)" \
    "0.500000 1.000000 0.750000"
check_has "several splits" 'select(.event=="error").message' "has files of several splits, test and val: choose one with a pattern, such as '$work/splits/val.*'"
check_has "no such file" 'select(.event=="error").message' "no file matches '$work/no*such'"
check_has "error of files that are no sets" 'select(.event=="error").message' "is not in a known format"
tiny "/eval $work/tasks --set blink --submit $work/tasks_said.jsonl --here" "/eval $work/tasks --set blink --answers $work/tasks_said.jsonl --here"
same "a submission's ids are those of --answers" "$(jq -r .question_id "$work/tasks_said.jsonl" | paste -sd' ') $(value n | paste -sd' ')" \
    "Art/val_0 Art/val_1 Jigsaw/val_0 3 3"

# A row that occurs twice, in one file or in two, counts once and is named, even across shards and in a comparison job.
mkdir "$work/twice" && cp "$work/a.png" "$work/twice"
{ cat "$work/tasks/Art/val.tsv" && sed -n 2p "$work/tasks/Art/val.tsv"; } >"$work/twice/a.tsv"
{ sed 1q "$work/twice/a.tsv" && sed -n 3p "$work/twice/a.tsv" && printf '1\tWho?\tA\tx\ty\ta.png\n'; } >"$work/twice/b.tsv"
printf '%s\n' '{"question_id":0,"text":"A"}' '{"question_id":1,"text":"B"}' '{"question_id":1,"text":"B"}' >"$work/twice.jsonl"
for shard in 0 1; do cp tests/core/sets/parquet/pope-00000-of-00002.parquet "$work/twice/pope-0000$shard-of-00002.parquet"; done
tiny "/eval $work/twice/*.tsv --set mcq --answers $work/twice.jsonl --here" "/compare off | @fastv --data $work/twice/*.tsv --set mcq --job" "/wait" \
    "/eval $work/twice/pope-00001-of-00002.parquet --set pope --here"
said="2 samples repeat the id and question of an earlier sample, which counts once (the first: '0', row 3 of 'a' after row 1 of 'a')"
same "samples counted once, and the score" "$(value n | paste -sd' ') $(value score | head -1)" "3 2 0.666666667"
check_has "an evaluation reports it" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="data")[1]' "$said"
check_has "reported of shards" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="data")[1]' "row 3 after row 1)"
check_has "a comparison reports it" 'select(.event=="notice").text' "$said"

# Files as the sets' authors publish them.
echo '{"dataset_name": "docvqa", "data": [{"questionId": 49153, "question": "What?", "image": "a.png", "docId": 1, "answers": ["0.28", "0.3"]}]}' >"$work/val_v1.0.json"
echo '[{"Question_id": "m/1", "Image": "a.png", "Text": "Which?", "Answer choices": ["(A) x", "(B) y", "(C) z", "(D) w", "(E) no"], "Ground truth": "B", "Category": "c", "Task": "Perception"}]' >"$work/MME_RealWorld.json"
echo '[{"imgname": "a.png", "query": "How many?", "label": "14"}]' >"$work/test_human.json"
echo '{"idx": 0, "type": "2D", "task": "Count", "filename": "a.png", "source": "COCO", "question": "How many?", "choices": ["1", "2"], "answer": "(B)", "prompt": "How many? (A) 1 (B) 2"}' >"$work/test_2d.jsonl"
echo '[{"data_source": "mp3d", "question_id": "mp3d_0", "question": "Where?", "answer_options": ["left", "right"], "answer": 1, "image": "a.png"}]' >"$work/embspatial_bench.json"
echo '[{"category": "VD", "subcategory": "video", "visual_input": "1", "set_id": "0", "figure_id": "1", "question_id": "0", "question": "Is it?", "gt_answer": "1", "filename": "./a.png"}]' >"$work/HallusionBench.json"
said() { echo "{\"question_id\": \"$1\", \"text\": \"$2\"}" >"$work/said_$3.jsonl"; }
said 49153 "0.29" docvqa && said m/1 "The best answer is: B" mme && said "#0" 14.5 chart && said 0 "(B) 2" cv && said mp3d_0 "B) right" emb
said 1_VD_video_0_1_0 "Yes." hal
tiny "/eval $work/val_v1.0.json --set docvqa --answers $work/said_docvqa.jsonl --here" "/eval $work/MME_RealWorld.json --set mme-realworld --answers $work/said_mme.jsonl --here" \
    "/eval $work/test_human.json --set chartqa --answers $work/said_chart.jsonl --here" "/eval $work/test_2d.jsonl --set cv-bench --answers $work/said_cv.jsonl --here" \
    "/eval $work/embspatial_bench.json --set embspatial --answers $work/said_emb.jsonl --here" "/eval $work/HallusionBench.json --set hallusionbench --answers $work/said_hal.jsonl --here" \
    "/eval $work/val_v1.0.json --set docvqa --here" "/eval $work/HallusionBench.json --set hallusionbench --here"
same "scores by the sets' own files" "$(value score | head -6 | paste -sd' ')" "0.75 1 1 1 1 1"
same "own files with their pictures" "$(value n | paste -sd' ')" "1 1 1 1 1 1 1 1"

# MM-Vet and GQA by their ids; MM-Vet's answers in the format of its script.
echo '{"v1_0": {"imagename": "a.png", "question": "What is x?", "answer": "-1<AND>-5", "capability": ["ocr", "math"]}, "v1_1": {"imagename": "a.png", "question": "Why?", "answer": "b", "capability": ["rec"]}}' >"$work/mm-vet.json"
echo '{"201": {"imageId": "a", "question": "Is it red?", "answer": "yes"}}' >"$work/testdev_balanced_questions.json"
echo '{"question_id": 201, "image": "a.png", "text": "Is it red?\nAnswer the question using a single word or phrase.", "category": "default"}' >"$work/llava_gqa.jsonl"
echo '{"question_id": "v1_1", "text": "Because \"so\"."}' >"$work/vet.jsonl"
echo '{"question_id": 201, "text": "Yes."}' >"$work/gqa.jsonl"
tiny "/eval $work/mm-vet.json --set mmvet --answers $work/vet.jsonl --submit $work/vet.json --here" \
    "/eval $work/testdev_balanced_questions.json --set gqa --answers $work/gqa.jsonl --here" "/eval $work/llava_gqa.jsonl --set gqa --answers $work/gqa.jsonl --here"
same "MM-Vet's submission" "$(jq -c . "$work/vet.json")" '{"v1_0":"","v1_1":"Because \"so\"."}'
same "scores of GQA" "$(value score | paste -sd' ')" "0 1 1"

tiny "/help sets"
check "number of sets in /help sets" 'select(.event=="table" and .name=="sets") | .rows | map(.[0]) | unique | length' 44
for line in "/eval $work/sets/POPE.tsv --set pope --submit $work/no/folder" "/eval $work/sets/POPE.tsv --set pope --here --submit $work/no/folder" \
    "/eval $work/sets/POPE.tsv --set popes" "/eval $work/sets/POPE.tsv --set coco --rule llava" \
    "/eval $work/sets/POPE.tsv --rule llava" "/eval $work/sets/POPE.tsv --submit x" "/eval $work/sets/img/0.png --set pope"; do
    tiny "$line"
    check "refused: $line" 'select(.event=="done").ok' $'true\nfalse'
    check "before a job starts: $line" 'select(.event=="job")' ""
done
# Data sets in the hub cache: the only file of org/name, one of several files, shards, and a list of
# the available files.
hub=$work/hub/datasets--lmms-lab--ChartQA
mkdir -p "$hub/refs" "$hub/snapshots/abc123/data" "$work/hub/datasets--a--b/refs"
printf abc123 >"$hub/refs/main"
cp tests/core/sets/held/later-chartqa.parquet "$hub/snapshots/abc123/data/test-00000-of-00001.parquet"
# Without refs/main (another revision); several configurations and splits.
pope=$work/hub/datasets--lmms-lab--POPE/snapshots/f00
mkdir -p "$pope/full" "$pope/easy"
for file in full/test full/validation easy/validation; do cp tests/core/sets/parquet/pope-00000-of-00002.parquet "$pope/$file-00000-of-00001.parquet"; done
in_hub() {
    HF_HUB_CACHE=$work/hub tiny "/eval $1 --set chartqa --here --limit 2"
}
in_hub lmms-lab/ChartQA
check_has "the only file of org/name is read" 'select(.event=="error").message' "no picture is given with the question" # the file has no pictures
HF_HUB_CACHE=$work/hub tiny "/compare off | @fastv --data lmms-lab/ChartQA --set chartqa --limit 2"
check_has "only file, compared" 'select(.event=="error").message' "no picture is given with the question"
in_hub lmms-lab/ChartQA/../other
check_has "not in the data set" 'select(.event=="error").message' "'lmms-lab/ChartQA/../other'"
in_hub a/b
check_has "error without a snapshot" 'select(.event=="error").message' "'hf download --repo-type dataset a/b'"
cp tests/core/sets/held/later-chartqa.parquet "$hub/snapshots/abc123/data/val-00000-of-00001.parquet"
in_hub lmms-lab/ChartQA
check_has "the split of the set" 'select(.event=="error").message' "no picture is given with the question"
HF_HUB_CACHE=$work/hub tiny "/eval lmms-lab/ChartQA --set docvqa --here" "/eval lmms-lab/POPE --set pope --here --limit 1" "/eval lmms-lab/POPE --set mmmu --here --limit 1"
check_has "several files" 'select(.event=="error").message' \
    "choose one of lmms-lab/ChartQA/data/test-00000-of-00001.parquet, lmms-lab/ChartQA/data/val-00000-of-00001.parquet"
same "the file that was chosen" "$(value file | sed 's/.*snapshots//' | paste -sd' ')" "/f00/full/test-00000-of-00001.parquet /f00/*/validation[-.]*"
in_hub lmms-lab/ChartQA/data/val-00000-of-00001.parquet
check_has "one of several files is read" 'select(.event=="error").message' "no picture is given with the question"
in_hub lmms-lab/Nothing
check_has "an absent data set" 'select(.event=="error").message' "no file 'lmms-lab/Nothing', and no "
check_has "how to get it" 'select(.event=="error").message' "'hf download --repo-type dataset lmms-lab/Nothing'"
# Probes and calibrations read sets as /eval does: the same numbers as from the same questions in LLaVA's format.
# --given takes the set's references.
python3 - "$work/pope.json" <<'P'
import json, os, sys
pope = [("red circle", "Yes"), ("blue square", "No"), ("green digit", "Yes"), ("dog", "No")]
json.dump([{"id": i, "messages": [{"role": "user", "content": [
    {"type": "image", "image": f"{os.getcwd()}/demo/pictures/scene-{i % 2}.png"},
    {"type": "text", "text": f"Is there a {o} in the image?\nAnswer the question using a single word or phrase."}]},
    {"role": "assistant", "content": a}]} for i, (o, a) in enumerate(pope)], open(sys.argv[1], "w"))
P
tables() {
    jq -rs --arg name "$1" 'map(select(.event=="table" and .name==$name).rows) | (length == 2 and .[0] == .[1])' "$work/events"
}
tiny "/sink-ratio --given --data $work/sets/POPE.tsv --set pope" "/sink-ratio --given --data $work/pope.json" \
    "/calibrate ffn $work/sets/POPE.tsv $work/a.safetensors --set pope --rule llava" /wait \
    "/calibrate ffn $work/pope.json $work/b.safetensors" /wait "/calibration show $work/a.safetensors" \
    "/calibration show $work/b.safetensors" "/dice --box 0,0,20,20 --limit 2 --data $work/sets/MME.tsv --set mme"
check "all commands on sets succeed" 'select(.event=="done").ok' "$(printf 'true\n%.0s' {1..10})"
same "a probe" "$(tables sink_ratio)" true
same "a calibration" "$(tables calibration)" true
same "scores by the set's rule" "$(jq -r 'select(.event=="table" and .name=="dice.samples").rows[][2]' "$work/events" | grep -cE '^[01]$')" 2
tiny "/sink-ratio --data $work/sets/POPE.tsv --set popp" "/redundancy --data $work/pope.json --rule llava" \
    "/calibrate ffn $work/sets/POPE.tsv $work/c.safetensors --set pope --rule mine" "/redundancy --set pope"
check "errors of refused lines" 'select(.event=="error").message | split(":")[0]' "no evaluation set 'popp'
--rule needs a set
no suite 'mine' for the set 'pope'
--set pope needs the set's files"

# Validation by sets: with a rate of 0 the scores are those of /eval at each validation, and their mean is the run's.
sets="pope/llava:$work/sets/POPE.tsv, pope/lmms-eval:$work/sets/POPE.tsv"
tiny '/set train.method layernorm-simple' '/set train.lr 0' '/set train.steps 2' '/set train.eval_every 1' \
    "/set train.validation $sets" "/train $work/pope.json $work/out" /wait \
    "/eval $work/sets/POPE.tsv --set pope --rule llava --here" "/eval $work/sets/POPE.tsv --set pope --rule lmms-eval --here"
check "all commands with validation succeed" 'select(.event=="done").ok' "$(printf 'true\n%.0s' {1..10})"
same "a total, and a mean" "$(value "mean F1 of splits" | cut -c 1-8) $(value score | tail -1)" "0.333333 0"
same "scores by step" "$(python3 - "$work/vlmsh.db" <<'P'
import sqlite3, sys
for name, step, x in sqlite3.connect(sys.argv[1]).execute("SELECT s.name, step, value FROM metrics JOIN job_series s "
        "ON s.id = series WHERE s.name LIKE 'validation_score%' ORDER BY 1, 2"):
    print(name[16:], step, round(x, 6), end=" / ")
P
)" " 1 0.166667 /  2 0.166667 / .pope 1 0.333333 / .pope 2 0.333333 / .pope-2 1 0.0 / .pope-2 2 0.0 / "
same "sets, mean and samples of the validation" "$(jq -r '.validation_score_of, .validation_score, .validation_samples' "$work/out/training.json" | paste -sd' ')" \
    "mean of pope, pope-2 0.16666666666666666 8"
# Pictures in another folder: named after the file; missing ones are found before the first step.
coco=$work/sets/captions_val2017.json
tiny '/set train.method layernorm-simple' '/set train.steps 1' "/set train.validation coco:$coco:$work/sets/img" \
    "/train $work/pope.json $work/coco" /wait "/set train.validation coco:$coco" "/train $work/pope.json $work/no" /wait
check_has "captions scored" 'select(.event=="notice").text' "validation score 0 (coco) (best, at step 1)"
check_has "error without pictures" 'select(.event=="error").message' \
    "failed: train.validation: coco: name the folder of its pictures as SET:FILE:DIR: cannot open '$work/sets/0.png'"
tiny "/set train.validation $sets" '/set train.score loss' "/train $work/pope.json $work/no" '/set train.score auto' \
    '/set train.validation pope:none.tsv' "/train $work/pope.json $work/no" "/set train.validation pope:$work/pope.json,x" \
    "/train $work/pope.json $work/no" "/set train.validation popp:$work/pope.json" "/train $work/pope.json $work/no"
check "refused validations" 'select(.event=="error").message | split(";")[0] | split(": choose")[0]' \
    "train.score loss: evaluation sets have their own rules
train.validation: cannot open 'none.tsv': No such file or directory
train.validation: 'x': write SET:FILE for each set, separated by commas (/help sets)
train.validation: no evaluation set 'popp'"
finish
