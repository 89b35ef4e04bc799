# tests/commands/ask.sh -- /ask --data: many questions, resuming, broken samples, other settings, jobs, exact ids;
# the user's conversation does not change.
. tests/commands/common.bash
setup=("/load $llava" '/set sample.max_tokens 4' '/set sample.ignore_eos on')
cp $scene tests/goldens/pictures/tall.jpg "$work"
cat >"$work/data.json" <<'J'
[{"id": "a", "image": "scene.png", "conversations": [{"from": "human", "value": "<image>\nWhat is this?"}, {"from": "gpt", "value": "A scene."}]},
 {"id": "b", "image": "none.png", "question": "What is this?"},
 {"id": "c", "images": ["tall.jpg", "scene.png"], "question": "Compare."},
 {"id": "a", "question": "No picture."},
 {"question": 5},
 {"id": 7, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]}]
J
results() { jq -c "$1" "$work/out.jsonl" | tr '\n' ' '; }

session "questions" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> First words.
(an answer to 0 visual tokens)
> /image $scene
attached tests/goldens/pictures/scene.png: 64 x 48 pixels, 25 visual tokens; 4054 of 4096 tokens left
> /ask --data $work/data.json --out $work/out.jsonl
4 answered, 2 with errors, 0 already there: '$work/out.jsonl'; 4 reached sample.max_tokens
> /images
[images]
picture  width  height  tokens  where         file                              sha256
0        64     48      25      next message  tests/goldens/pictures/scene.png  2113ec7aabcb
> Second words.
(an answer to 25 visual tokens)
> /session list
[sessions]
name                    model                                  began             ended             turns  pictures  title
DATE-first-words  $PWD/tests/goldens/llava-1.5  DATE  DATE  2      1         First words.
(session)
E
same "ids of the results" "$(results .id)" '"a" "b" "c" "a" 4 7 '
same "answers and errors" "$(results 'has("answer") != has("error")')" 'true true true true true true '
same "which results are errors" "$(results 'has("error")')" 'false true false false true false '
same "fields of a result" "$(jq -c 'select(.id == "c") | [.question, (.ids | length), .visual_tokens, (.prefill_s >= 0), .stop]' "$work/out.jsonl")" \
    '["Compare.",4,50,true,"length"]'
same "reference of a result" "$(jq -r 'select(.reference).reference' "$work/out.jsonl")" 'A scene.'
check_has "last progress" 'select(.event == "progress" and .what == "answering") | "\(.step) of \(.steps)"' "6 of 6"
check "the answers are not shown" 'select(.event == "answer").ids | length' $'4\n4'
check "the second turn of the conversation uses the cache" 'select(.event == "answer") | .computed_tokens < .prompt_tokens' $'false\ntrue'

# The same question typed gives the same answer.
lines "${setup[@]}" "/image $scene" 'What is this?'
same "the answer to a typed question" "$(jq -c 'select(.event == "answer").ids' "$work/events")" "$(jq -c .ids "$work/out.jsonl" | head -1)"

# A second run has nothing to do. If the last lines are missing and one is truncated, it writes the
# same file again.
stable() { jq -c 'del(.vision_s, .prefill_s, .decode_s)' "$1"; }
cp "$work/out.jsonl" "$work/whole.jsonl"
lines "${setup[@]}" "/ask --data $work/data.json --out $work/out.jsonl"
cmp "$work/out.jsonl" "$work/whole.jsonl" || fail "a second run changed the finished file"
head -3 "$work/whole.jsonl" >"$work/out.jsonl"
sed -n 4p "$work/whole.jsonl" | head -c 40 >>"$work/out.jsonl"
session "resumed" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $work/data.json --out $work/out.jsonl --limit 2
1 answered, 1 with errors, 3 already there (1 with errors: delete these lines to ask again): '$work/out.jsonl'; 1 reached sample.max_tokens
> /ask --data $work/data.json --out $work/out.jsonl
1 answered, 0 with errors, 5 already there (2 with errors: delete these lines to ask again): '$work/out.jsonl'; 1 reached sample.max_tokens
E
same "results of a resumed run" "$(stable "$work/out.jsonl")" "$(stable "$work/whole.jsonl")"

# Each line names its model state; answers of another state are not continued.
lora=$llava/adapters/lora
same "provenance of all results" "$(jq -c '.provenance | [(.model | length), .adapter, .["sample.max_tokens"], .["prune.keep"]]' "$work/out.jsonl" | sort -u)" '[64,null,"4",null]'
cp "$work/out.jsonl" "$work/mine.jsonl"
again=("/ask --data $work/data.json --out $work/mine.jsonl")
session "what changes no answer" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /set prune.keep 0.5
> /set screen.live off
> /set train.lr 0.1
> /set job.nice 3
> /ask --data $work/data.json --out $work/mine.jsonl
0 answered, 0 with errors, 6 already there (2 with errors: delete these lines to ask again): '$work/mine.jsonl'
E
session "another state" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /set adapter $lora
> /ask --data $work/data.json --out $work/mine.jsonl
error: '$work/mine.jsonl' line 1 was answered with different settings: adapter was none, now lora@...; restore them, choose another --out, or use --again to answer all samples again
> /set adapter none
> /set prune.score uniform
> /ask --data $work/data.json --out $work/mine.jsonl
error: '$work/mine.jsonl' line 1 was answered with different settings: prune.score was off, now uniform; restore them, choose another --out, or use --again to answer all samples again
> /reset prune.score
prune.score = off
> /set sample.temperature 0.5
> /ask --data $work/data.json --out $work/mine.jsonl
error: '$work/mine.jsonl' line 1 was answered with different settings: sample.temperature was 0, now 0.5; restore them, choose another --out, or use --again to answer all samples again
> /reset sample.temperature
sample.temperature = 0
> /system Be kind.
> /ask --data $work/data.json --out $work/mine.jsonl
error: '$work/mine.jsonl' line 1 was answered with different settings: system message was none, now Be kind.; restore them, choose another --out, or use --again to answer all samples again
> /load $llama
loaded 'tests/goldens/llama-3.2': llama, 0.1844 million parameters, text only, N s
> /ask --data $work/data.json --out $work/mine.jsonl
error: '$work/mine.jsonl' line 1 was answered with different settings: model differs, or its files have changed: config.json, generation_config.json, tokenizer_config.json, tokenizer.json, model.safetensors, processor_config.json, added_tokens.json, preprocessor_config.json, chat_template.json; restore them, choose another --out, or use --again to answer all samples again
E
cmp "$work/mine.jsonl" "$work/out.jsonl" || fail "a refused file was changed"
# Answers of the same weights with a different template, preprocessor or tokenizer are not
# continued; the error names the file.
for file in chat_template.json processor_config.json tokenizer.json; do
    rm -rf "$work/m" && cp -r $llava "$work/m" && chmod -R u+w "$work/m" && echo >>"$work/m/$file"
    lines "/load $work/m" "${setup[@]:1}" "${again[@]}"
    check_has "$file" 'select(.event == "error").message' "its files have changed: $file; restore them"
done
# Lines without provenance and lines of other questions are refused; --again replaces them, even in
# a new process.
jq -c 'del(.provenance)' "$work/out.jsonl" >"$work/old.jsonl"
jq -c 'if .id == "c" then .question = "Else?" else . end' "$work/out.jsonl" >"$work/else.jsonl"
session "no provenance, other questions" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $work/data.json --out $work/old.jsonl
error: '$work/old.jsonl' line 1 does not say which model and settings gave the answer: choose another --out, or use --again to answer all samples again
> /ask --data $work/data.json --out $work/else.jsonl
error: '$work/else.jsonl' line 3 answers "Else?", but sample "c" of the data asks "Compare.": choose another --out, or use --again to answer all samples again
> /ask --again --data $work/data.json --out $work/old.jsonl
4 answered, 2 with errors, 0 already there: '$work/old.jsonl'; 4 reached sample.max_tokens
> /set adapter $lora
> /ask --data $work/data.json --out $work/mine.jsonl --again
4 answered, 2 with errors, 0 already there: '$work/mine.jsonl'; 4 reached sample.max_tokens
> /ask --data $work/data.json --out $work/mine.jsonl
0 answered, 0 with errors, 6 already there (2 with errors: delete these lines to ask again): '$work/mine.jsonl'
> /ask --data $work/data.json --again --out $work/data.json
error: '$work/data.json' is not an output file of /ask: choose another --out
E
same "all results, answered again" "$(stable "$work/old.jsonl")" "$(stable "$work/whole.jsonl")"
same "answers whose provenance names the adapter" "$(jq -r .provenance.adapter "$work/mine.jsonl" | cut -c1-5 | uniq -c | awk '{print $1, $2}')" "6 lora@"
same "other answers" "$(jq -c .ids "$work/mine.jsonl" | head -1 | cmp -s - <(jq -c .ids "$work/out.jsonl" | head -1); echo $?)" 1

# A data set with answers is not accepted as output, not even with --again, and its last line is not taken for a
# truncated one.
for form in '%s\n' '%s'; do
    printf "$form" '{"id": 1, "question": "One?", "answer": "1"}' | tee "$work/kept" >"$work/trained.jsonl"
    for word in "" --again; do
        lines "${setup[@]}" "/ask --data $work/data.json --out $work/trained.jsonl $word"
        check_has "a data set as output is refused" 'select(.event == "error").message' "is not an output file of /ask"
        cmp -s "$work/kept" "$work/trained.jsonl" || fail "a data set was changed: /ask $word"
    done
done

# A setting that changes during the run ends it: every line has one state, the one it names.
three=$work/three.json
printf '[{"id":1,"question":"One?"},{"id":2,"question":"Two?"},{"id":3,"question":"Three?"}]' >"$three"
session "a setting changed during the run" $llava <<E
> /set sample.max_tokens 6
> /set sample.ignore_eos on
> /later 3 sample.max_tokens=4 prune.score=uniform
> /ask --data $three --out $work/later.jsonl
sample.max_tokens = 4
prune.score = uniform
error: stopped because a setting changed during the run: sample.max_tokens was 6, now 4; '$work/later.jsonl' keeps the answers so far: restore the setting to continue, or choose another --out
E
same "a setting changed under the run" "$(jq -s length "$work/later.jsonl") $(jq -c 'select(.event == "done").ok' "$work/events" | tail -1)" "0 false"

# --again loses nothing: the old answers stay until all new ones exist.
session "the old answers stay" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $three --out $work/three.jsonl
3 answered, 0 with errors, 0 already there: '$work/three.jsonl'; 3 reached sample.max_tokens
> /set sample.max_tokens 3
> /ask --data $three --out $work/three.jsonl --again --limit 1
1 answered, 0 with errors, 0 already there: '$work/three.jsonl'; 1 reached sample.max_tokens
'$work/three.jsonl' is unchanged until all samples are answered again; '$work/three.jsonl.again' holds the new answers so far: repeat the command to continue
E
same "the old ones stay" "$(jq -c '.ids | length' "$work/three.jsonl" | tr '\n' ' ')" "4 4 4 "
session "resumed" $llava <<E
> /set sample.ignore_eos on
> /set sample.max_tokens 2
> /ask --data $three --out $work/three.jsonl --again
error: '$work/three.jsonl.again' line 1 was answered with different settings: sample.max_tokens was 3, now 2; restore them, or delete that file
> /set sample.max_tokens 3
> /ask --data $three --out $work/three.jsonl --again
2 answered, 0 with errors, 1 already there: '$work/three.jsonl'; 2 reached sample.max_tokens
E
same "the new answers replace them" "$(jq -c '.ids | length' "$work/three.jsonl" | tr '\n' ' ')" "3 3 3 "
[ ! -e "$work/three.jsonl.again" ] || fail "a temporary file is left"

# The same questions about different pictures; existing errors; a full context; an option alone.
printf '[{"id":1,"image":"p.png","question":"What is this?"},{"id":2,"image":"q.png","question":"And this?"}]' >"$work/seen.json"
cp $scene "$work/p.png"
mkdir "$work/others"
cp tests/goldens/pictures/tall.jpg "$work/others/p.png"
session "other pictures, existing errors" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $work/seen.json --out $work/seen.jsonl
1 answered, 1 with errors, 0 already there: '$work/seen.jsonl'; 1 reached sample.max_tokens
> /ask --data $work/seen.json --out $work/seen.jsonl
0 answered, 0 with errors, 2 already there (1 with errors: delete these lines to ask again): '$work/seen.jsonl'
> /ask --data $work/seen.json --out $work/seen.jsonl --images $work/others
error: '$work/seen.jsonl' line 1 was answered with different pictures (SHA-256) than sample 1 has now: restore them, choose another --out, or use --again to answer all samples again
> /ask --again
error: usage: /ask --data FILE --out FILE.jsonl [--images DIR] [--limit N] [--system TEXT] [--again]
> /ask --out
error: /ask (put a text that begins with '--' in double quotes): --out needs FILE
E
same "the pictures of an answer" "$(jq -r 'select(.answer).pictures[0]' "$work/seen.jsonl")" "$(sha256sum <$scene | cut -d' ' -f1)"
session "a full context" $llava <<E
> /set sample.max_tokens 60
> /set sample.ignore_eos on
> /set ctx.max 60
> /ask --data $work/seen.json --out $work/full.jsonl
1 answered, 1 with errors, 0 already there: '$work/full.jsonl'; 1 hit the context limit (ctx.max)
E
session "an answer that is cut off" $llava <<E
> /set sample.ignore_eos on
> /set sample.max_tokens 1
> /ask --data $work/seen.json --out $work/short.jsonl
1 answered, 1 with errors, 0 already there: '$work/short.jsonl'; 1 reached sample.max_tokens
E

# A long question is cut between characters.
printf '[{"id":1,"question":"%s"}]' "$(printf 'a%.0s' {1..59})ää" >"$work/umlauts.json"
lines "${setup[@]}" "/ask --data $work/umlauts.json --out $work/umlauts.jsonl"
sed -i 's/"question":"a/"question":"b/' "$work/umlauts.jsonl"
lines "${setup[@]}" "/ask --data $work/umlauts.json --out $work/umlauts.jsonl"
check_has "the question is cut" 'select(.event == "error").message' "$(printf 'a%.0s' {1..59})\": "

# JSON lines, one of them broken; pictures elsewhere.
mkdir "$work/elsewhere"
jq -c '.[]' "$work/data.json" | sed '2s/.*/{broken/' >"$work/elsewhere/data.jsonl"
lines "${setup[@]}" "/ask --data $work/elsewhere/data.jsonl --out $work/lines.jsonl --images $work"
same "results of JSON lines" "$(jq -c 'select(.error | not) | del(.vision_s, .prefill_s, .decode_s)' "$work/lines.jsonl")" \
    "$(stable "$work/whole.jsonl" | jq -c 'select(.error | not)')"
check_has "JSON lines: summary" 'select(.event == "notice").text' "4 answered, 2 with errors"
same "error of a broken line" "$(jq -r 'select(.id == 1).error' "$work/lines.jsonl")" "line 2 of the data is not valid JSON"

# Files that are not answer files are not changed.
cp "$work/data.json" "$work/mine.json"
printf 'my notes' >"$work/notes"
session "refused" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $work/data.json --out $work/mine.json
error: '$work/mine.json' is not an output file of /ask: choose another --out
> /ask --data $work/data.json --out $work/notes
error: '$work/notes' is not an output file of /ask: choose another --out
> /ask --data $work/notes --out $work/x.jsonl
error: '$work/notes' is neither a JSON list of samples nor JSON lines
> /ask --data $work/none.json --out $work/x.jsonl
error: cannot open '$work/none.json': No such file or directory
> /ask --data $work/data.json
error: usage: /ask --data FILE --out FILE.jsonl [--images DIR] [--limit N] [--system TEXT] [--again]
> /ask --data $work/data.json --out $work
error: cannot write '$work': Is a directory
> /ask --data $work/data.json --out $work/x.jsonl --limit 0
error: /ask (put a text that begins with '--' in double quotes): --limit must be a whole number of at least 1, not '0'
> /ask --nothing "x"
error: /ask (put a text that begins with '--' in double quotes): unknown option '--nothing': options are --data, --each, --out, --again, --images, --limit, --system, --job, --ranks, --sbatch, --submit
> /ask --each $work What? --out $work/each.jsonl --system
error: --system needs a value
> /ask --each $work What? --out $work/each.jsonl --images $work
error: --images is for --data: --each names the pictures themselves
E
cmp "$work/mine.json" "$work/data.json" || fail "a file without answers is changed"
same "a foreign file is unchanged" "$(cat "$work/notes")" "my notes"

# As a job: the same lines, with the shell's system message; missing answers are computed.
jobs=("${setup[@]}" '/set job.nice 0')
session "a job" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /set job.nice 0
> /ask --data '$work/data.json' --out '$work/job.jsonl' --job
job 1: ask started (/job 1, /wait 1)
> /wait
job 1 (ask) is done: 4 answered, 2 with errors, 0 already there: '$work/job.jsonl'; 4 reached sample.max_tokens
> /ask --data $work/data.json --out $work/job.jsonl
0 answered, 0 with errors, 6 already there (2 with errors: delete these lines to ask again): '$work/job.jsonl'
E
same "answered by a job" "$(stable "$work/job.jsonl")" "$(stable "$work/whole.jsonl")"
sed -i '4,$d' "$work/job.jsonl"
(cd "$work" && cp data.json own.json && lines "/load '$OLDPWD/$llava'" '/set sample.max_tokens 4' '/set sample.ignore_eos on' '/set job.nice 0' \
    "/ask --data data.json --out job.jsonl --limit 2 --job" /wait \
    "/ask --data $work/data.json --out job.jsonl --job" /wait '/system Be kind.' '/ask --data own.json --job' /wait)
same "resumed by a job" "$(jq -c .id "$work/job.jsonl" | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')" "$(jq -c .id "$work/whole.jsonl" | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')"
same "the job's answers record the system message" "$(jq -r '.provenance["system message"]' "$work/own.answers.jsonl" | sort -u)" "Be kind."
session "refused jobs" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $work/data.json --out $work/x.jsonl --limit 0 --job
error: /ask (put a text that begins with '--' in double quotes): --limit must be a whole number of at least 1, not '0'
> /ask --data $work/none.json --job
error: cannot open '$work/none.json': No such file or directory
> /ask --job
error: usage: /ask --data FILE --out FILE.jsonl [--images DIR] [--limit N] [--system TEXT] [--again]
> /ask --data $work/data.json --out $work/x.jsonl --job
job 5: ask started (/job 5, /wait 5)
> /job 5 cancel
job 5 was asked to end
> /ask --data $work/data.json --out $work/notes --job
job 6: ask started (/job 6, /wait 6)
> /wait
error: job 5 (ask) is cancelled
E

# Numbers that are only copied keep their text: ids beyond 15 digits, and other notations.
ids='9007199254740992 9007199254740993 1234567890123456789 8999999999999999 -8999999999999999 1.0 123456789012345678901 7'
for id in $ids; do printf '{"id": %s, "question": "q", "answer": "%s"}\n' "$id" "$id"; done >"$work/big.jsonl"
sed 's/"question": "q"/"text": "x"/; s/"id": 1.0/"id": 1/; s/"id"/"question_id"/; s/"text": "x", "answer"/"text"/' "$work/big.jsonl" |
    tac >"$work/given.jsonl"
session "long ids" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $work/big.jsonl --out $work/big.out
8 answered, 0 with errors, 0 already there: '$work/big.out'; 8 reached sample.max_tokens
> /ask --data $work/big.jsonl --out $work/big.out
0 answered, 0 with errors, 8 already there: '$work/big.out'
> /data check $work/big.jsonl
[data]
kind  samples  usable  answers  pictures  tokens  trained %
all   8        8       8        0         150     73.3
...
'$work/big.jsonl': 8 of 8 samples are usable for training; 0 picture files
> /data mix $work/mixed.jsonl $work/big.jsonl=1
(written: data $work/mixed.jsonl)
[data mix]
file                           share  samples
$work/big.jsonl  1      8
'$work/mixed.jsonl': 8 samples
> /eval $work/big.jsonl --metric exact --answers $work/given.jsonl --here
[evaluation]
name        value
answers     $work/given.jsonl
metric      exact
rule        the whole answer equals the reference after VQA normalisation (case, punctuation and articles do not count; number words up to ten become digits)
score       1
low         0.675592
high        1
n           8
arithmetic  ...
[answers]
number  id                     kind  score  answer                 reference              question
0       9007199254740992       -     1      9007199254740992       9007199254740992       q
1       9007199254740993       -     1      9007199254740993       9007199254740993       q
2       1234567890123456789    -     1      1234567890123456789    1234567890123456789    q
3       8999999999999999       -     1      8999999999999999       8999999999999999       q
4       -8999999999999999      -     1      -8999999999999999      -8999999999999999      q
5       1.0                    -     1      1.0                    1.0                    q
6       123456789012345678901  -     1      123456789012345678901  123456789012345678901  q
7       7                      -     1      7                      7                      q
E
same "ids in the order written" "$(grep -o '"id":[^,]*' "$work/big.out" | cut -d: -f2 | paste -sd' ')" "$ids"
same "ids of a mix" "$(jq -r .id "$work/mixed.jsonl" | sort | paste -sd' ')" "$(printf '1/%s\n' $ids | sort | paste -sd' ')"
printf '{"id":1234567890123456789,"line":"/quit"}\n' | vlmsh --json | grep -q '"request":1234567890123456789}' || fail "a large id of a request is changed"
same "a request that is cut off is no question" "$(printf '{"id":1,"line":"/quit"\n{ "line":"\\ud800"}\n' | vlmsh --json | jq -r .event | paste -sd' ')" \
    "error done error done"

# VQAv2's two files are joined by exact ids: here two ids differ by one, beyond the integers of a
# double.
mkdir "$work/vqa"
printf '{"data_subtype": "val2014", "questions": [{"question_id": 9007199254740992, "image_id": 1, "question": "a"}, {"question_id": 9007199254740993, "image_id": 1, "question": "b"}]}' >"$work/vqa/q.json"
printf '{"annotations": [{"question_id": 9007199254740993, "answer_type": "x", "answers": [{"answer": "second"}]}, {"question_id": 9007199254740992, "answer_type": "x", "answers": [{"answer": "first"}]}]}' >"$work/vqa/v2_mscoco_val2014_annotations.json"
printf '[{"question_id": 9007199254740993, "answer": "second"}, {"question_id": 9007199254740992, "answer": "first"}]' >"$work/vqa/given.json"
session "joined" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /eval $work/vqa/q.json --set vqav2 --answers $work/vqa/given.json --here
[evaluation]
name           value
answers        $work/vqa/given.json
set            vqav2
as             llava
prompt         question, "Answer the question using a single word or phrase."
answer tokens  4
source         llava/eval/model_vqa_loader.py; vqaEval.py of GT-Vision-Lab/VQA
model          ...
settings       ...
metric         vqa-official
rule           mean over annotators of min(1, n / 3), where n other annotators gave the answer; after the evaluation's clean-up, which is skipped if all annotators agree
score          0
low            0
high           0
n              2
arithmetic     ...
[answers]
number  id                kind  score  answer  reference  question
0       9007199254740992  x     0      first   first      a
Answer the question using a single word or phrase.
1       9007199254740993  x     0      second  second     b
Answer the question using a single word or phrase.
E
# A file with errors only has no answers, in the run that wrote it and later.
printf '[{"id": "a", "image": "none.png", "question": "hi"}]' >"$work/none.json"
session "nothing answered" $llava <<E
> /set sample.max_tokens 4
> /set sample.ignore_eos on
> /ask --data $work/none.json --out $work/none.jsonl
error: no question could be answered, 1 with errors (in '$work/none.jsonl'), the first: cannot open '$work/none.png': No such file or directory
> /ask --data $work/none.json --out $work/none.jsonl
error: no question is answered: all 1 lines of '$work/none.jsonl' are errors of an earlier run; --again asks all questions again
E
# Notices about the data cover all samples, including those answered by an earlier run.
printf '{"question": "Is it %s?", "answer": "yes", "context": "a story"}\n' red blue >"$work/odd.jsonl"
session "notices of all" demo/model <<E
> /set sample.max_tokens 2
> /ask --data $work/odd.jsonl --out $work/odd.out --limit 1
1 answered, 0 with errors, 0 already there: '$work/odd.out'; not used: "context" (1 sample)...
> /ask --data $work/odd.jsonl --out $work/odd.out
1 answered, 0 with errors, 1 already there: '$work/odd.out'; not used: "context" (2 samples)...
E
finish
