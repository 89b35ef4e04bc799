# tests/commands/pipes.sh -- a named pipe in place of a data file gives an error instead of hanging
# (core/base/file_in.h); a script may be a pipe, and Ctrl-C ends waiting for it.
. tests/commands/common.bash
mkfifo "$work/pipe" "$work/pipe.json" "$work/pipe.csv" "$work/pipe.md" "$work/pipe.png"
mkdir "$work/folder"
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$work/socket"

# refused NAME PART ARGUMENT...: vlmsh ends by itself with an error that contains PART and "a pipe".
refused() {
    local name=$1 part=$2 status
    shift 2
    timeout -k 1 "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" "$@" </dev/null >"$work/out" 2>&1
    status=$?
    [ $status = 1 ] || fail "$name: status $status: $(tail -1 "$work/out")"
    grep -q "$part.* a pipe, not a file" "$work/out" || fail "$name: $(tail -1 "$work/out")"
}

# Files of a model folder, including optional ones.
for file in config.json generation_config.json preprocessor_config.json processor_config.json \
    tokenizer_config.json tokenizer.json chat_template.json chat_template.jinja \
    model.safetensors model.safetensors.index.json tiktoken.model tokenizer.model \
    vocab.json quantize_config.json; do
    rm -rf "$work/model"
    cp -r $llava "$work/model"
    [ $file = model.safetensors.index.json ] && rm "$work/model/model.safetensors"
    case $file in tiktoken.model | tokenizer.model | vocab.json) rm "$work/model/tokenizer.json" ;; esac
    rm -f "$work/model/$file"
    mkfifo "$work/model/$file"
    refused "$file" "$file" "$work/model" -c /info
done

# Files of an adapter's folder.
for file in adapter_config.json adapter_model.safetensors extra.safetensors; do
    rm -rf "$work/adapter"
    cp -r $llava/adapters/lora "$work/adapter"
    rm -f "$work/adapter/$file"
    mkfifo "$work/adapter/$file"
    refused "adapter's $file" "$file" $llava -c "/adapter load $work/adapter"
done

# A GGUF file, and its encoder.
mkfifo "$work/pipe.gguf"
python3 tests/goldens/to_gguf.py $llama "$work/model.gguf"
refused "GGUF file" "pipe.gguf" "$work/pipe.gguf" -c /info
refused "encoder" "pipe.gguf" "$work/model.gguf" --mmproj "$work/pipe.gguf" -c /info

# Commands that read files.
cat >"$work/messages.json" <<J
[{"role": "user", "content": [{"type": "image", "path": "pipe.png"}, {"type": "text", "text": "?"}]}]
J
echo '[{"id": 1, "image": "pipe.png", "question": "?", "answer": "!"}]' >"$work/data.json"
echo '[{"id": 1, "question": "?", "answer": "!"}]' >"$work/good.json"
printf '<!-- table pipe.csv -->\n<!-- end -->\n' >"$work/text.md"
refused "picture" "pipe.png" -c "/image $work/pipe.png"
refused "template" "pipe" -c "/render $work/pipe $work/messages.json"
refused "messages of a template" "pipe.json" -c "/render tests/goldens/llava-siglip-llama3/chat_template.jinja $work/pipe.json"
refused "messages" "pipe.json" $llava -c "/messages $work/pipe.json"
refused "picture of messages" "pipe.png" $llava -c "/messages $work/messages.json"
refused "steering vector" "pipe.gguf" $llava -c "/steer $work/pipe.gguf 1"
refused "samples of a vector" "pipe" $llava -c "/steer make $work/v --plus $work/pipe --minus $work/good.json"
mkfifo "$work/pipe.tsv"
refused "evaluation set" "pipe.tsv" $llava -c "/eval $work/pipe.tsv --set pope --here"
cp tests/core/sets/parquet/pope-00000-of-00002.parquet "$work"
mkfifo "$work/pope-00001-of-00002.parquet"
refused "shard" "pope-00001-of-00002.parquet" $llava -c "/eval $work/pope-00000-of-00002.parquet --set pope --here"
refused "annotations" "pipe.json" $llava -c "/pope $work/pipe.json $work/questions"
refused "plot" "pipe.csv" -c "/plot $work/pipe.csv a b"
refused "collect" "pipe.csv" $llava -c "/collect $work/pipe.csv a=1 x=@sum : /memory"
refused "report" "pipe.md" -c "/report $work/pipe.md"
refused "report table" "pipe.csv" -c "/report $work/text.md"
refused "mask" "pipe.png" $llava -c "/image $scene" -c "/dice --mask $work/pipe.png"
refused "text of a new model" "pipe" -c "/new --like demo $work/new --text $work/pipe"
refused "samples of a new model" "pipe.json" -c "/new --like demo $work/new --text $work/pipe.json"
refused "merge" "pipe" $llava -c "/calibrate merge $work/sums $work/pipe"
refused "calibration" "pipe" $llava -c "/calibration load $work/pipe"
refused "checked data" "pipe.json" $llava -c "/data check $work/pipe.json"
refused "evaluated data" "pipe.json" $llava -c "/eval $work/pipe.json --here"
refused "evaluated data of a job" "pipe.json" $llava -c "/eval $work/pipe.json"
refused "trained data" "pipe.json" $llava -c "/train $work/pipe.json $work/run"
refused "validation" "pipe.json" $llava -c "/set train.validation $work/pipe.json" \
    -c "/train $work/good.json $work/run"
refused "plan of scores" "pipe.csv" $llava -c "/eval --plan $work/pipe.csv $work/scores"
refused "planned data" "pipe.json" $llava -c "/train plan $work/pipe.json"
refused "calibrated data" "pipe.json" $llava -c "/calibrate norms $work/pipe.json $work/sums"
refused "compared data" "pipe.json" $llava -c "/compare off | now --data $work/pipe.json --limit 1"
refused "objects" "pipe.json" $llava -c "/dice --data $work/good.json --objects $work/pipe.json"
refused "probed data" "pipe.json" $llava -c "/norms --data $work/pipe.json"
refused "asked data" "pipe.json" $llava -c "/ask --data $work/pipe.json --out $work/answers.jsonl"
# The picture of a sample: the error names the sample.
timeout -k 1 "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" $llava \
    -c "/ask --data $work/data.json --out $work/answers.jsonl" </dev/null >"$work/out" 2>&1
same "asked sample" "$?, $(jq -r .error "$work/answers.jsonl" | grep -c 'pipe.png.* a pipe, not a file')" "1, 1"
timeout -k 1 "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" $llava -c "/eval $work/data.json --here" </dev/null \
    >"$work/out" 2>&1
grep -q 'pipe.png.* a pipe, not a file' "$work/out" || fail "evaluated sample: $(cat "$work/out")"

# Other things that are not files.
for pair in "folder:a folder" "socket:a socket"; do
    vlmsh -c "/image $work/${pair%:*}" 2>"$work/errors"
    grep -q "it is ${pair#*:}, not a file" "$work/errors" || fail "${pair%:*}: $(cat "$work/errors")"
done
vlmsh -c "/image /dev/zero" 2>"$work/errors"
grep -q "'/dev/zero': it is a device, not a file" "$work/errors" || fail "device: $(cat "$work/errors")"
# A special file whose reading may block, like /proc/kmsg.
for arguments in "-c '/image /proc/self/status'" "-f /proc/self/status" "-c '/run /proc/self/status'" \
    "-c '/render /proc/self/status $work/good.json'" "-c '/image -' </proc/self/status" \
    "</proc/self/status" "--json </proc/self/status"; do
    eval "timeout -k 1 ${PATIENCE:-30} '$VLMSH' --db '$work/vlmsh.db' $llava $arguments" >"$work/out" 2>&1
    same "$arguments" "$?, $(grep -c "it is a file of the kernel, not a data file" "$work/out")" "1, 1"
done
# An endless line on standard input in JSON mode.
timeout -k 1 "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" --json </dev/zero >"$work/out" 2>&1
same "endless line" "$?, $(grep -c "the line is longer than 64 MB" "$work/out")" "1, 1"
for pair in "folder:a folder" "socket:a socket"; do
    vlmsh -f "$work/${pair%:*}" 2>"$work/errors"
    grep -q "it is ${pair#*:}, not a file" "$work/errors" || fail "script ${pair%:*}: $(cat "$work/errors")"
done

# A pipe as an output file that nobody reads.
timeout -k 1 "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" -c "/session export $work/pipe" </dev/null >"$work/out" 2>&1
same "export into a pipe" $? 1
timeout -k 1 "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" $llama -c "Hi" -c "/report $work/text.md $work/pipe" \
    </dev/null >"$work/out" 2>&1
same "report into a pipe" $? 1

# A script may be a pipe with a late and slow writer.
same "process substitution" "$(timeout "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" -f <(echo /version) </dev/null)" \
    "$("$VLMSH" --db "$work/vlmsh.db" -c /version)"
(
    sleep 0.3
    exec 8>"$work/pipe"
    printf '/ver' >&8
    sleep 0.3
    printf 'sion\n/version\n' >&8
) &
same "a late writer" "$(timeout "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" -c "/run $work/pipe" </dev/null | wc -l)" 2
wait
printf 'not a picture' >"$work/bytes"
same "standard input" "$(cat "$work/bytes" | timeout "${PATIENCE:-30}" "$VLMSH" --db "$work/vlmsh.db" -c '/image -' 2>&1 | tail -1 |
    grep -c "'standard input'")" 1
same "empty standard input" "$("$VLMSH" --db "$work/vlmsh.db" -c '/image -' </dev/null 2>&1 | tail -1 |
    grep -c "'standard input' is empty")" 1

# Standard input that is a socket, as some programs pass it.
python3 - "$VLMSH" --db "$work/vlmsh.db" --json -c '/image -' -c /images >"$work/events" <<P || fail "socket: status $?"
import socket, subprocess, sys
ours, theirs = socket.socketpair()
p = subprocess.Popen(sys.argv[1:], stdin=theirs)
theirs.close()
ours.sendall(open("$scene", "rb").read())
ours.close()
try:
    sys.exit(p.wait(${PATIENCE:-30}))
except subprocess.TimeoutExpired:
    p.kill()
    raise
P
same "source of a picture read from a socket" "$(jq -r 'select(.name == "images").rows[0][5]' "$work/events")" "standard input"

# interrupted NAME ARGUMENT...: Ctrl-C ends vlmsh with status 130 while it waits (after its line
# "waits").
interrupted() {
    local name=$1 pid got
    shift
    # A background job of this shell would ignore SIGINT.
    python3 -c '
import os, signal, subprocess, sys, time
p = subprocess.Popen(sys.argv[1:], stdin=sys.stdin, stdout=subprocess.PIPE,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
p.stdout.readline()
time.sleep(0.3)
p.send_signal(signal.SIGINT)
try:
    print(p.wait(4))
except subprocess.TimeoutExpired:
    p.kill()
    print("it waits on")
' "$VLMSH" --db "$work/vlmsh.db" "$@" >"$work/out" 2>"$work/errors"
    got=$(tail -1 "$work/out")
    [ "$got" = 130 ] || fail "$name: $got"
}
# A dump does not replace a pipe.
mkfifo "$work/pipe.safetensors"
vlmsh $llava -c "/dump logits $work/pipe.safetensors" >"$work/out" 2>&1 && fail "a dump may replace a pipe"
grep -q "pipe.safetensors' already exists and is not a dump" "$work/out" || fail "dump: $(cat "$work/out")"

exec 7<>"$work/pipe" 6<>"$work/pipe.md" # open on both sides: no end, no data
interrupted "script that has no writer" -c /version -f "$work/pipe.png"
interrupted "script that has no data" -c /version -f "$work/pipe"
interrupted "script in a line" -c /version -c "/run $work/pipe"
interrupted "picture from standard input" -c /version -c "/image -" <&6
interrupted "script from standard input" -c /version -c "/run -" <&6
finish
