# tests/commands/data.sh -- /data: counts, token lengths, names of faulty samples; mixed sets.
. tests/commands/common.bash
pictures=$PWD/tests/goldens/pictures
cp $scene tests/goldens/pictures/tall.jpg "$work"
printf 'no picture' >"$work/broken.png"
head -c 700 $scene >"$work/cut.png"
mkfifo "$work/pipe.png"
long=$(printf 'word %.0s' {1..40})
cat >"$work/data.json" <<J
[{"id": "a", "kind": "conversation", "image": "scene.png", "conversations": [{"from": "human", "value": "<image>\nOne?"}, {"from": "gpt", "value": "Yes."}, {"from": "human", "value": "Two?"}, {"from": "gpt", "value": "No."}]},
 {"id": "b", "kind": "detail", "image": "tall.jpg", "question": "What?", "answer": "A scene."},
 {"id": "c", "kind": "detail", "image": "none.png", "question": "What?", "answer": "A scene."},
 {"id": "d", "image": "broken.png", "question": "What?", "answer": "A scene."},
 {"id": "e", "image": "cut.png", "question": "What?", "answer": "A scene."},
 {"id": "f", "image": "pipe.png", "question": "What?", "answer": "A scene."},
 {"id": "g", "images": ["scene.png", "tall.jpg"], "question": "<image>What?", "answer": "A scene."},
 {"id": "h", "question": "<image>What?", "answer": "A scene."},
 {"id": "i", "question": "What?"},
 {"id": "j", "question": "What?", "answer": " "},
 {"id": "k", "question": "$long", "answer": "A scene."},
 {"id": "b", "question": "What?", "answer": "A scene."},
 {"question": 5},
 {broken}]
J
session "names" $llava <<E
> /set ctx.max 60
> /data check $work/data.json
[data]
kind          samples  usable  answers  pictures  tokens  trained %
conversation  1        1       2        1         50      20
detail        2        1       2        2         42      19
(none)        11       1       7        5         161     11.8
all           14       3       11       8         253     14.6
[data tokens]
kind          tokens   min  median  mean  p95  max
conversation  all      50   50      50    50   50
conversation  text     25   25      25    25   25
conversation  visual   25   25      25    25   25
conversation  trained  10   10      10    10   10
detail        all      42   42      42    42   42
detail        text     17   17      17    17   17
detail        visual   25   25      25    25   25
detail        trained  8    8       8     8    8
(none)        all      5    8       40.2  135  135
(none)        text     5    8       40.2  135  135
(none)        visual   0    0       0     0    0
(none)        trained  0    3       4.8   8    8
all           all      5    13      42.2  135  135
all           text     5    13      33.8  135  135
all           visual   0    0       8.3   25   25
all           trained  0    8       6.2   10   10
[data problems]
problem          id   line  why
not readable     #12  13    "question" must be a string
not readable     #13  14    sample 13 (line 14 of the data) is not valid JSON
marks differ     g    7     2 pictures, but "<image>" marks for 1
marks differ     h    8     the text has more "<image>" marks than pictures (0)
picture missing  c    3     '$work/none.png': No such file or directory
picture broken   d    4     '$work/broken.png' is a text file, not a picture; supported formats are PNG, JPEG, WebP, GIF, BMP and PPM
picture broken   e    5     cannot read '$work/cut.png': the PNG is truncated; export it again as PNG or JPEG
picture broken   f    6     cannot read '$work/pipe.png': it is a pipe, not a file (save its output to a file first)
too long         k    11    135 tokens, but the context holds 60
no answer        i    9     no answer is text
no answer        j    10    every answer is empty
same id          b    12    an earlier sample has the same id
'$work/data.json': 3 of 14 samples are usable for training; 6 picture files
> /data check $work/data.json --kind conversation,detail --no-decode
[data]
kind          samples  usable  answers  pictures  tokens  trained %
conversation  1        1       2        1         50      20
detail        2        1       2        2         42      19
(none)        1        0       0        0         0       0
all           4        2       4        3         92      19.6
[data tokens]
kind          tokens   min  median  mean  p95  max
conversation  all      50   50      50    50   50
conversation  text     25   25      25    25   25
conversation  visual   25   25      25    25   25
conversation  trained  10   10      10    10   10
detail        all      42   42      42    42   42
detail        text     17   17      17    17   17
detail        visual   25   25      25    25   25
detail        trained  8    8       8     8    8
all           all      42   42      46    50   50
all           text     17   17      21    25   25
all           visual   25   25      25    25   25
all           trained  8    8       9     10   10
[data problems]
problem          id   line  why
not readable     #13  14    sample 13 (line 14 of the data) is not valid JSON
picture missing  c    3     '$work/none.png': No such file or directory
'$work/data.json': 2 of 4 samples are usable for training (10 of other kinds not counted); 3 picture files, headers only
E
# The counts are the tokens of a conversation.
cat >"$work/one.jsonl" <<'J'
{"id": "x", "image": "scene.png", "question": "What is in the picture?", "answer": "It shows a red circle above a blue rectangle."}
J
session "golden's tokens" $llava <<E
> /data check $work/one.jsonl --images "$pictures"
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   1        1       1        1         49      24.5
[data tokens]
kind  tokens   min  median  mean  p95  max
all   all      49   49      49    49   49
all   text     24   24      24    24   24
all   visual   25   25      25    25   25
all   trained  12   12      12    12   12
'$work/one.jsonl': 1 of 1 samples are usable for training; 1 picture file
E

# A sample that would be truncated inside its picture; a model without vision.
session "inside a picture" $llava <<E
> /set ctx.max 20
> /data check $work/one.jsonl --images "$pictures"
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   1        0       1        1         49      24.5
...
[data problems]
problem   id  line  why
too long  x   1     49 tokens, but the context holds 20 and would end inside a picture
'$work/one.jsonl': 0 of 1 samples are usable for training; 1 picture file
error: no sample of '$work/one.jsonl' is usable for training
> /load $llama
loaded 'tests/goldens/llama-3.2': llama, 0.1844 million parameters, text only, N s
> /data check $work/one.jsonl --images "$pictures"
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   1        0       1        1         0       0
[data problems]
problem       id  line  why
not readable  x   1     it has a picture, but the model 'tests/goldens/llama-3.2' is text-only
'$work/one.jsonl': 0 of 1 samples are usable for training; 0 picture files
error: no sample of '$work/one.jsonl' is usable for training
E

# Nothing to train on: no text, or an empty one.
cat >"$work/answers.jsonl" <<'J'
{"id": "number", "question": "q", "answer": 7}
{"id": "true", "question": "q", "answer": true}
{"id": "list", "question": "q", "answers": ["a", "b"]}
{"id": "blank", "question": "q", "answer": " "}
J
session "no text" $llava <<E
> /data check $work/answers.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   4        0       1        0         23      13
...
[data problems]
problem    id      line  why
no answer  number  1     no answer is text
no answer  true    2     no answer is text
no answer  list    3     no answer is text
no answer  blank   4     every answer is empty
'$work/answers.jsonl': 0 of 4 samples are usable for training; 0 picture files
error: no sample of '$work/answers.jsonl' is usable for training
> /set job.nice 0
> /eval $work/answers.jsonl --metric loss
job 1: evaluate started (/job 1, /wait 1)
> /wait
error: job 1 (evaluate) failed: no sample could be scored: sample number: no answer is text
E

# /data check and training report turns marked as context and keys that nothing reads.
cat >"$work/marked.jsonl" <<'J'
{"messages": [{"role": "user", "content": "Sky?"}, {"role": "assistant", "content": "a green diamond", "weight": 0}, {"role": "user", "content": "No."}, {"role": "assistant", "content": "grey", "weight": 1}]}
{"messages": [{"role": "user", "content": "Sky?"}, {"role": "assistant", "content": "grey", "thinking": "It is cloudy."}], "tools": [{"type": "function"}], "source": "web"}
{"question": "Sky?", "answer": "grey", "history": [["Day?", "yes"]]}
{"question": "Sky?", "answer": "grey", "train": false}
J
session "not used" $llava <<E
> /data check $work/marked.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   4        3       5        0         72      25
...
[data problems]
problem    id  line  why
no answer  #3  4     every answer is empty or excluded from training
not used: "tools" (1 sample), "thinking" (1 sample), "history" (1 sample)
2 answers are excluded from training: context only
'$work/marked.jsonl': 3 of 4 samples are usable for training; 0 picture files
> /set train.method layernorm
> /set train.steps 1
> /set train.validation none
> /set job.nice 0
> /train $work/marked.jsonl $work/marked
job 2: train started (/job 2, /wait 2)
> /wait
job 2 (train) is done: loss ... after 1 step; adapter in '$work/marked' (/adapter load applies it); skipped: 1 of 4 samples, the first: #3: no answer: every answer is empty or excluded from training; not used: "tools" (1 sample), "thinking" (1 sample), "history" (1 sample)
> /eval $work/marked.jsonl --metric exact --here
[evaluation]
name        value
metric      exact
rule        the whole answer equals the reference after VQA normalisation (case, punctuation and articles do not count; number words up to ten become digits)
...
data        not used: "tools" (1 sample), "thinking" (1 sample), "history" (1 sample)
...
> /ask --data $work/marked.jsonl --out $work/marked.answers
4 answered, 0 with errors, 0 already there: '$work/marked.answers'; not used: "tools" (1 sample), "thinking" (1 sample), "history" (1 sample)
E

# Training does not learn a question's choices.
echo '{"question": "Sky?", "answer": "grey", "choices": ["grey", "blue"]}' >"$work/choices.jsonl"
session "choices" $llava <<E
> /data check $work/choices.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   1        1       1        0         14      42.9
...
not used: the choices, which only evaluations read (1 sample)
'$work/choices.jsonl': 1 of 1 samples are usable for training; 0 picture files
E

# Special tokens in data are tokens in training and in evaluation, unless a setting says otherwise.
cat >"$work/boxes.jsonl" <<'J'
{"id": "box", "question": "Where is <|object_ref_start|>a dog<|object_ref_end|>?", "answer": "<|object_ref_start|>a dog<|object_ref_end|><|box_start|>(12,34),(56,78)<|box_end|>"}
J
session "trained" tests/goldens/qwen2.5-vl <<E
> /data check $work/boxes.jsonl
generation_config.json asks for repetition_penalty 1.05, which vlmsh does not apply (transformers does, even to greedy answers): /set sample.repeat_penalty 1.05
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   1        1       1        0         54      44.4
[data tokens]
kind  tokens   min  median  mean  p95  max
all   all      54   54      54    54   54
all   text     54   54      54    54   54
all   visual   0    0       0     0    0
all   trained  24   24      24    24   24
6 special tokens in the texts of 1 sample are read as tokens, as transformers does; /set data.special_tokens text keeps them text
'$work/boxes.jsonl': 1 of 1 samples are usable for training; 0 picture files
> /eval $work/boxes.jsonl --metric loss --here
[evaluation]
name        value
metric      loss
rule        generates nothing; mean of -log p over the trained tokens of a sample (natural logarithm, including the end of each answer), then over samples
...
data        6 special tokens in the texts of 1 sample are read as tokens, as transformers does; /set data.special_tokens text keeps them text
...
> /set data.special_tokens text
> /data check $work/boxes.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   1        1       1        0         128     54.7
[data tokens]
kind  tokens   min  median  mean  p95  max
all   all      128  128     128   128  128
all   text     128  128     128   128  128
all   visual   0    0       0     0    0
all   trained  70   70      70    70   70
6 special tokens in the texts of 1 sample stay text (data.special_tokens)
'$work/boxes.jsonl': 1 of 1 samples are usable for training; 0 picture files
> /eval $work/boxes.jsonl --metric loss --here
[evaluation]
name        value
metric      loss
rule        generates nothing; mean of -log p over the trained tokens of a sample (natural logarithm, including the end of each answer), then over samples
...
data        6 special tokens in the texts of 1 sample stay text (data.special_tokens)
...
E
same "two different losses" "$(jq -r 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "score")[1]' "$work/events" | sort -u | grep -c .)" 2

# The table lists twenty samples of a problem; the file has all thirty.
for i in $(seq 30); do echo "{\"id\": \"n\\\"$i,\", \"image\": \"gone$i.png\", \"question\": \"q\", \"answer\": \"r\"}"; done >"$work/many.jsonl"
session "twenty" $llava <<E
> /data check $work/many.jsonl --out $work/all.csv
(written: csv $work/all.csv)
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   30       0       30       30        0       0
[data problems]
problem          id     line  why
picture missing  n"1,   1     '$work/gone1.png': No such file or directory
picture missing  n"2,   2     '$work/gone2.png': No such file or directory
picture missing  n"3,   3     '$work/gone3.png': No such file or directory
picture missing  n"4,   4     '$work/gone4.png': No such file or directory
picture missing  n"5,   5     '$work/gone5.png': No such file or directory
picture missing  n"6,   6     '$work/gone6.png': No such file or directory
picture missing  n"7,   7     '$work/gone7.png': No such file or directory
picture missing  n"8,   8     '$work/gone8.png': No such file or directory
picture missing  n"9,   9     '$work/gone9.png': No such file or directory
picture missing  n"10,  10    '$work/gone10.png': No such file or directory
picture missing  n"11,  11    '$work/gone11.png': No such file or directory
picture missing  n"12,  12    '$work/gone12.png': No such file or directory
picture missing  n"13,  13    '$work/gone13.png': No such file or directory
picture missing  n"14,  14    '$work/gone14.png': No such file or directory
picture missing  n"15,  15    '$work/gone15.png': No such file or directory
picture missing  n"16,  16    '$work/gone16.png': No such file or directory
picture missing  n"17,  17    '$work/gone17.png': No such file or directory
picture missing  n"18,  18    '$work/gone18.png': No such file or directory
picture missing  n"19,  19    '$work/gone19.png': No such file or directory
picture missing  n"20,  20    '$work/gone20.png': No such file or directory
picture missing: 10 more (--out FILE.csv writes all of them)
'$work/many.jsonl': 0 of 30 samples are usable for training; 30 picture files
error: no sample of '$work/many.jsonl' is usable for training: 30 pictures are missing; --images DIR sets their base folder (now the folder of the data file)
> /data check $work/many.jsonl --out $work/all.csv
(written: csv $work/all.csv)
...
picture missing: 10 more (--out FILE.csv writes all of them)
'$work/many.jsonl': 0 of 30 samples are usable for training; 30 picture files
error: no sample of '$work/many.jsonl' is usable for training: 30 pictures are missing; --images DIR sets their base folder (now the folder of the data file)
E
same "length and a line of the CSV" "$(wc -l <"$work/all.csv") $(sed -n 31p "$work/all.csv" | cut -d, -f1-5)" '31 "picture missing","n""30,",30,"'"'$work/gone30.png': No such file or directory\""
same "written again" "$(grep -c . "$work/all.csv")" 31
echo '{"question": "q"}' >"$work/none.jsonl"
vlmsh $llava -c "/data check $work/none.jsonl" >"$work/out" 2>"$work/errors"
same "exit status and number of messages" "$?, $(grep -c 'no sample of .* is usable for training$' "$work/errors")" "1, 1"

session "refused" $llava <<E
> /data
error: usage: /data check FILE [--images DIR] [--kind K,...] [--no-decode] [--out FILE.csv] | mix OUT.jsonl FILE=SHARE... [--count N] [--kind K,...] [--seed N] [--once] (/help data)
> /data chek x
error: /data has no action 'chek': did you mean 'check'?
> /data check
error: give FILE, the data set
> /data check $work/none.json
error: cannot open '$work/none.json': No such file or directory
> /data check $work/broken.png
error: '$work/broken.png' is neither a JSON list of samples nor JSON lines
> /data check $work/one.jsonl --kind detail
error: '$work/one.jsonl' has no sample of the kinds in --kind
> /data check $work/one.jsonl --kind
error: --kind needs K,...
> /data check $work/one.jsonl --kind ,
error: --kind needs K,..., not ','
> /data check $work/one.jsonl --what 5
error: unknown option '--what': options are --images, --kind, --no-decode, --out
> /data check a b
error: unexpected 'b' after FILE
E
# Ctrl-C stops /data check.
yes '{"question": "What is there to be seen?", "answer": "Nothing at all."}' | head -1000000 >"$work/long.jsonl" # words: ok
"$VLMSH" --db "$work/vlmsh.db" $llava --json -c "/data check $work/long.jsonl" >"$work/events" 2>"$work/said" &
child=$!
for _ in $(seq 200); do
    grep -q '"checking"' "$work/events" && break
    sleep 0.1
done
kill -INT $child
wait $child
same "exit status of a stopped check" $? 130
check "nothing is shown after Ctrl-C" 'select(.event == "table").name' ""

printf '%s\n' "/unload" "/data check $work/one.jsonl" | vlmsh $llava --json >"$work/events"
check_has "needs a model" 'select(.event == "error").message' "model"

# --- /data mix: shares, repeats, kinds, paths, refusals -----------------------------------------------------------
mkdir -p "$work/lists/pictures"
cp $scene "$work/lists/pictures/a.png"
for i in $(seq 10); do echo "{\"id\": \"l$i\", \"kind\": \"list\", \"image\": \"pictures/a.png\", \"question\": \"<image>What?\", \"answer\": \"A scene.\"}"; done >"$work/lists/lists.jsonl"
echo '[{"id": 7, "kind": "talk", "question": "Who?", "answer": "I."}, {"kind": "talk", "question": "You?", "answer": "You."},
 {"question_id": "q", "kind": "odd", "messages": [{"role": "user", "content": [{"type": "image", "path": "lists/pictures/a.png"}, {"type": "text", "text": "What?"}]}, {"role": "assistant", "content": "A scene."}]}]' >"$work/a=b.json"
mix() { lines "/data mix $*"; }
ids() { jq -r .id "$1" | sort | paste -sd' '; }
whole=$(realpath "$work")
mix "$work/m.jsonl" "$work/lists/lists.jsonl=3" "$work/a=b.json=1"
check "shares and samples of the mix" 'select(.name == "data mix").rows[] | "\(.[1]) \(.[2])"' $'0.75 9\n0.25 3'
same "no sample twice" "$(ids "$work/m.jsonl" | tr ' ' '\n' | sort -u | wc -l)" 12
same "ids of all kinds" "$(ids "$work/m.jsonl" | grep -o '2/.*')" "2/#1 2/7 2/q"
same "paths of the mixed pictures" "$(jq -r '.image // (.messages // [])[0].content[0].path // "none"' "$work/m.jsonl" | sort | uniq -c | awk '{print $1, $2}' | paste -sd' ')" \
    "10 $whole/lists/pictures/a.png 2 none"
session "usable" $llava <<E
> /data check $work/m.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
talk  2        2       2        0         20      40
list  9        9       9        9         378     19
odd   1        1       1        1         42      19
all   12       12      12       10        440     20
...
'$work/m.jsonl': 12 of 12 samples are usable for training; 1 picture file
E
mix "$work/repeated.jsonl" "$work/lists/lists.jsonl=1" "$work/a=b.json=1" --count 15 --kind list,talk
same "ids of repeated samples" "$(jq -r .id "$work/repeated.jsonl" | grep -c ^1) $(ids "$work/repeated.jsonl" | grep -o '2/.*')" \
    "8 2/#1 2/#1/2 2/#1/3 2/7 2/7/2 2/7/3 2/7/4"
mix "$work/tenths.jsonl" "$work/lists/lists.jsonl=0.7" "$work/a=b.json=0.2" "$work/one.jsonl=0.1"
check "all of the smallest file" 'select(.name == "data mix").rows[] | .[2]' $'7\n2\n1'
mix "$work/again.jsonl" "$work/lists/lists.jsonl=3" "$work/a=b.json=1"
mix "$work/other.jsonl" "$work/lists/lists.jsonl=3" "$work/a=b.json=1" --seed 7
cmp "$work/m.jsonl" "$work/again.jsonl" || fail "the same seed gives a different mix"
! cmp -s "$work/m.jsonl" "$work/other.jsonl" || fail "a different seed gives the same mix"
mix "$work/m.jsonl" "$work/lists/lists.jsonl=1"
check_has "an existing file is refused" 'select(.event == "error").message' "already exists"
mix "$work/m.jsonl" "$work/lists/lists.jsonl=1" --once
check_has "notice with --once" 'select(.event == "notice").text' "nothing to do"
mix "$work/n.jsonl" "$work/lists/lists.jsonl=0"
check_has "error of a share of 0" 'select(.event == "error").message' "the share must be a number"
mix "$work/n.jsonl" "$work/lists/lists.jsonl=1" --kind none
check_has "no such kind" 'select(.event == "error").message' "has no sample of these kinds"
mix "$work/n.jsonl" "$work/lists/lists.jsonl=1" "$work/a=b.json=1" --kind list,talk,tlak
check "a kind that no file has" 'select(.event == "error").message' "no sample is of the kind 'tlak'"
mix "$work/n.jsonl" "$work/data.json"
check_has "no file with a share" 'select(.event == "error").message' "is not FILE=SHARE"
mix "$work/n.jsonl" "$work/data.json=1"
check_has "error of invalid JSON" 'select(.event == "error").message' "is not valid JSON"
[ ! -e "$work/n.jsonl" ] || fail "a refused mix leaves a file"


# --- text that is not UTF-8 ------------------------------------------------------------------------------------

# Text inputs refuse it, with position and byte; written files are valid UTF-8.
printf '[{"id": "good", "question": "q", "answer": "a"},\n {"id": "caf\351", "question": "q", "answer": "a"}]' >"$work/latin.json"
printf '{"id": "first", "question": "caf\351"}\n' >"$work/latin.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-16 >"$work/wide.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-16LE >"$work/wide2.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-32 >"$work/wide4.jsonl"
printf '{"question": "q", "answer": "a"}\n' | iconv -t UTF-32BE >"$work/wide5.jsonl"
printf 'index\tquestion\tanswer\timage\n1\tcaf\351\ta\t\n' >"$work/table.tsv"
printf 'step,loss\n1,2\n2,\3773\n' >"$work/run.csv"
printf 'question,A,B,C,D,answer\nq,a,b,c,\351,A\n' >"$work/mmlu_test.csv"
printf '{{ "a\n  \351" }}' >"$work/latin.jinja"
printf 'x' >"$work/plain.jinja"
printf '[{"role": "user", "content": "\351"}]' >"$work/messages.json"
printf '# caf\351\n/version\n/system caf\351\n' >"$work/latin.vlmsh"
printf 'x \351' >"$work/text.md"
printf 'a,b,c,d,e,A\nq\351,a,b,c,d,A\n' >"$work/bare_test.csv"
printf 'a,b,c,d,e,A\nq,a,b\n' >"$work/few_test.csv"
printf 'index\tquestion\tanswer\timage\n1\tq\ta\t\n' | iconv -t UTF-16LE >"$work/wide.tsv"
printf '/version\n' | iconv -t UTF-16 >"$work/wide.vlmsh"
printf '/version\n' | iconv -t UTF-16BE >"$work/wide2.vlmsh"
printf '{{ 1 }} caf\303\251' | iconv -t UTF-16 >"$work/wide.jinja"
mkdir "$work/named" && cp "$scene" "$work/named/$(printf '\351').png"
cp $scene "$work/$(printf 'caf\351').png"
session "places" $llava <<E
> /data check $work/latin.json
...
[data problems]
problem       id  line  why
not readable  #1  2     line 2, byte 12 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
'$work/latin.json': 1 of 2 samples are usable for training; 0 picture files
> /data check $work/latin.jsonl
error: '$work/latin.jsonl': line 1, byte 33 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /data check $work/wide.jsonl
error: '$work/wide.jsonl' is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8
> /data check $work/wide2.jsonl
error: '$work/wide2.jsonl' is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8
> /data check $work/wide4.jsonl
error: '$work/wide4.jsonl' is UTF-32: convert it, with iconv -f UTF-32 -t UTF-8
> /data check $work/wide5.jsonl
error: '$work/wide5.jsonl' is UTF-32: convert it, with iconv -f UTF-32 -t UTF-8
> /eval $work/table.tsv --set mme --here
error: no sample could be scored: sample 1: "question": byte 4 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /plot $work/run.csv step loss
error: '$work/run.csv': line 3, byte 3 is 0xFF, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /eval $work/mmlu_test.csv --set mmlu --here
error: '$work/mmlu_test.csv': line 2, byte 9 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /eval $work/bare_test.csv --set mmlu --here
error: '$work/bare_test.csv': line 2, byte 2 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /eval $work/few_test.csv --set mmlu --here
error: $work/few_test.csv: line 2 has 3 fields, not the 6 of a file without a head line
> /eval $work/wide.tsv --set mme --here
error: '$work/wide.tsv' is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8
> /run $work/wide.vlmsh
error: $work/wide.vlmsh:1: the file is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8
> /run $work/wide2.vlmsh
error: $work/wide2.vlmsh:1: the file is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8
> /render $work/wide.jinja $work/messages.json
error: $work/wide.jinja: it is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8
> /render $work/latin.jinja $work/messages.json
error: $work/latin.jinja: line 2, byte 3 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /render $work/plain.jinja $work/messages.json
error: '$work/messages.json': line 1, byte 31 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /messages $work/messages.json
error: '$work/messages.json': line 1, byte 31 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /run $work/latin.vlmsh
vlmsh 0.1.0 (cpu ...)
error: $work/latin.vlmsh:3: byte 12 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /report $work/text.md
error: '$work/text.md': line 1, byte 3 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
> /quantize $work/q.gguf --type f16 --text $work/text.md
error: '$work/text.md': line 1, byte 3 is 0xE9, which is not UTF-8: convert the text, as with iconv -f LATIN1 -t UTF-8
E
printf '{"id": "\351", "line": "/version"}\ncaf\351?\n/image %s/caf\351.png\n/set sample.max_tokens 1\nHello\n/save %s/u.md\n/save %s/u.vlmsh\n' "$work" "$work" "$work" |
    vlmsh $llava --json >"$work/events"
check "errors of lines that are not UTF-8" 'select(.event == "error").message | sub(", which.*"; "")' $'byte 9 is 0xE9\nbyte 4 is 0xE9'
for file in events u.md u.vlmsh; do iconv -f UTF-8 -t UTF-8 "$work/$file" >/dev/null || fail "$file is not UTF-8"; done
vlmsh --json <"$work/wide2.vlmsh" >"$work/events"
check "UTF-16 on standard input" 'select(.event == "error").message' "it is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8"
printf '\357\273\277 {"id": 7, "line": "/version"}\r\n' | vlmsh --json >"$work/events"
check "a byte order mark on standard input" 'select(.event == "done").request' 7
# Values of variables, and texts of options, are text inputs too.
latin=$(printf 'caf\351')
refuses_latin() {
    vlmsh $llava --json "$@" >"$work/events"
    check_has "$*" 'select(.event == "error").message' "byte 4 is 0xE9, which is not UTF-8: convert the text"
}
refuses_latin -p "$latin"
# shellcheck disable=SC2016 # vlmsh expands the variable
for line in '/system ${A}' '${A}?' '/new --like ${A}'; do refuses_latin -D "A=$latin" -c "$line"; done
vlmsh $llava --json -c "/ask --each $work/named What? --out $work/named.jsonl" >"$work/events"
check_has "a picture's name" 'select(.event == "error").message' "is not UTF-8: rename it"

# --- pictures inside data sets, and data: URIs -------------------------------------------------------------------

python3 - "$work" "$scene" <<'P'
import base64, json, sys
work, scene = sys.argv[1:]
text = base64.b64encode(open(scene, "rb").read()).decode()
uri, path = "data:image/png;base64," + text, "file://" + work + "/pic%20ture.png"
samples = [{"id": "uri", "image": uri}, {"id": "file", "image": path}, {"id": "bytes", "image": {"path": "none.png", "bytes": text}},
           {"id": "plain", "images": ["pic ture.png"]}, {"id": "url", "images": [{"url": "pic ture.png"}]},
           {"id": "item", "messages": [{"role": "user", "content": [{"type": "image", "url": "pic ture.png"},
            {"type": "text", "text": "What is it?"}]}, {"role": "assistant", "content": "a scene"}]}, {"id": "bad", "image": uri[:-3] + "!!!"}, {"id": "bare", "image": text}, {"id": "lines", "images": [base64.encodebytes(open(scene, "rb").read()).decode()]},
           {"id": "noise", "image": "A" * 5000},
           {"id": "web", "image": "https://example.com/a.png"}, {"id": "signed", "image": "https://example.com/" + "a" * 500}, {"id": "xml", "image": "data:image/svg+xml,<svg/>"},
           {"id": "cut", "image": uri[:60]}, {"id": "part", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": uri}},
            {"type": "text", "text": "What is it?"}]}, {"role": "assistant", "content": "a scene"}]}]
for s in samples:
    if "messages" not in s: s.update(question="What is it?", answer="a scene")
json.dump(samples, open(work + "/uris.json", "w"))
json.dump([s for s in samples if s["id"] in ("uri", "file", "bytes", "plain", "url", "item", "part", "bare", "lines")], open(work + "/good.json", "w"))
open(work + "/nan.jsonl", "w").write('{"question": "q", "answer": "a"}\n{"question": "q", "answer": NaN}\n')
P
cp "$scene" "$work/pic ture.png" && mkdir "$work/elsewhere"
session "usable" $llava <<E
> /set sample.max_tokens 1
> /data check $work/uris.json
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   15       9       15       15        387     16.3
...
[data problems]
problem          id     line  why
picture missing  web    1     'https://example.com/a.png' is a URL: vlmsh downloads nothing; fetch the picture and name its file
picture missing  signed  1     'https://example.com/aaaaaaaaaaaaaaaaaaaa... (520 characters)' is a URL: vlmsh downloads nothing; fetch the picture and name its file
picture broken   bad    1     'data:image/png;base64,iVBORw0KGgoAAAANSU... (7766 characters)': it is not base64
picture broken   noise  1     '/... (... characters)' is not a path: a picture in base64 needs "data:image/png;base64," before it
picture broken   xml    1     'data:image/svg+xml,<svg/>': a data: URI must hold base64: data:image/png;base64,...
picture broken   cut    1     cannot read 'data:image/png;base64,iVBORw0KGgoAAAANSU... (60 characters)': the PNG is truncated or does not start with its header; export it again as PNG or JPEG
'$work/uris.json': 9 of 15 samples are usable for training; 10 picture files
> /ask --data $work/uris.json --out $work/uris.out
9 answered, 6 with errors, 0 already there: '$work/uris.out'...
> /eval $work/uris.json --metric loss --here
...
n           9
...
skipped     6 of 15 samples, the first: sample bad: 'data:image/png;base64,iVBORw0KGgoAAAANSU... (7766 characters)': it is not base64
...
> /data mix $work/elsewhere/mixed.jsonl $work/good.json=1
(written: data $work/elsewhere/mixed.jsonl)
[data mix]
file                           share  samples
$work/good.json  1      9
'$work/elsewhere/mixed.jsonl': 9 samples
> /data check $work/elsewhere/mixed.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   9        9       9        9         387     16.3
...
'$work/elsewhere/mixed.jsonl': 9 of 9 samples are usable for training; 4 picture files
> /data check $work/nan.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   2        1       1        0         8       37.5
...
[data problems]
problem          id     line  why
not readable  #1  2     line 2 of the data is not valid JSON: it has NaN, which Python writes but JSON lacks: write null
'$work/nan.jsonl': 1 of 2 samples are usable for training; 0 picture files
> /image file://$work/pic%20ture.png
attached $work/pic ture.png: 64 x 48 pixels, 25 visual tokens; 4071 of 4096 tokens left
> $(jq -r '"/image " + .[0].image' "$work/uris.json")
attached data:image/png;base64,iVBORw0KGgoAAAANSU... (7766 characters): 64 x 48 pixels, 25 visual tokens; 4046 of 4096 tokens left
> Hi
(an answer to 50 visual tokens)
> /save $work/uris.md
(session)
session 'DATE-hi' written to '$work/uris.md'
E
check "no line holds a picture" 'select(tostring | length > 4000).event' ""
same "numbers of pictures in the answers" "$(jq -c 'select(.error == null).pictures | length' "$work/uris.out" | sort | uniq -c | awk '{ print $1, $2 }')" "9 1"
same "the same picture" "$(jq -c 'select(.error == null).pictures[0]' "$work/uris.out" | sort -u | wc -l)" 1
same "errors are short" "$(jq -c 'select(.error).error | length < 300' "$work/uris.out" | sort -u)" true
[ "$(wc -c <"$work/uris.md")" -lt 4000 ] || fail "a transcript holds a whole data: URI"

# Only the first frame of an animation is read.
echo "[{\"image\": \"$PWD/tests/core/picture/pictures/animated.webp\", \"question\": \"What?\", \"answer\": \"A scene.\"}]" >"$work/moving.json"
session "an animation" $llava <<E
> /data check $work/moving.json
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   1        1       1        1         42      19
...
1 picture file is animated: only the first frame is read
'$work/moving.json': 1 of 1 samples are usable for training; 1 picture file
E

# Other commands that read data give the same notice, once.
for name in one two; do cp tests/core/picture/pictures/animated.webp "$work/$name.webp"; done
cat >"$work/odd.jsonl" <<'J'
{"id": "a", "image": "one.webp", "question": "Where is <|object_ref_start|>a dog<|object_ref_end|>?", "answer": "<|box_start|>(1,2)<|box_end|>", "tools": [{}]}
{"id": "b", "image": "two.webp", "question": "And the cat?", "answer": "There.", "choices": ["Here.", "There."]}
{"id": "c", "question": "And the bird?", "answer": "There.", "weight": 0.5}
J
first='not used: "tools" (1 sample)'
keys='not used: "tools" (1 sample), "weight" other than 0 and 1 (1 sample)'
choices='not used: "tools" (1 sample), the choices, which only evaluations read (1 sample), "weight" other than 0 and 1 (1 sample)'
tokens='special tokens in the texts of 1 sample are read as tokens, as transformers does; /set data.special_tokens text keeps them text'
moves='1 picture file is animated: only the first frame is read'
rest="$tokens; 2 picture files are animated: only the first frame is read"
session "other commands that read data" tests/goldens/qwen2.5-vl <<E
> /set sample.max_tokens 2
...
> /set job.nice 0
> /eval $work/odd.jsonl --metric exact --here
...
data        $keys; 2 $rest
...
> /eval $work/odd.jsonl --metric loss
job 3: evaluate started (/job 3, /wait 3)
> /wait
job 3 (evaluate) is done: loss ...; $keys; 4 $rest
> /ask --data $work/odd.jsonl --out $work/odd.answers
3 answered, 0 with errors, 0 already there: '$work/odd.answers'; $choices; 2 $rest...
> /compare off | off --data $work/odd.jsonl
...
data: $keys; 4 $rest
over 3 samples of $work/odd.jsonl
> /compare data.special_tokens=text | now --data $work/odd.jsonl --limit 1
...
data: A: $first; 4 special tokens in the texts of 1 sample stay text (data.special_tokens); $moves; B: $first; 4 $tokens; $moves
over 1 sample of $work/odd.jsonl
...
> /compare off | off --data $work/odd.jsonl --job
job 4: compare started (/job 4, /wait 4)
> /wait
job 4 (compare) is done: loss: ... (/results compare); $keys; 4 $rest
> /sinks --data $work/odd.jsonl
...
data: $choices; 2 $rest
> /calibrate ffn $work/odd.jsonl $work/odd.safetensors
job 5: calibrate started (/job 5, /wait 5)
> /wait
job 5 (calibrate) is done: '$work/odd.safetensors', over 3 samples; $choices; 2 $rest
> /eval $work/odd.jsonl --limit 1 --metric exact --here
...
data        $first; 2 $tokens; $moves
...
> /eval $work/odd.jsonl --metric exact --answers $work/odd.answers --here
...
data        $keys
...
E
check_has "once for each command" '[inputs | select(.event == "notice").text | select(contains("animated"))] | length' 7
finish
