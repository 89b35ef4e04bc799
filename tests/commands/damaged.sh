# damaged.sh -- a model that computes NaN or Inf: commands that read logits, losses or statistics
# report it; a single damaged sample is skipped and counted.
. tests/commands/common.bash

# damage COPY TENSOR ROW VALUE: a copy of the golden LLaVA (f16) with a row of a matrix, or a number of a vector, replaced.
damage() {
    cp -r "$llava" "$work/$1" && chmod -R u+w "$work/$1" && python3 - "$work/$1/model.safetensors" "$2" "$3" "$4" <<'P'
import json, struct, sys
path, name, row, value = sys.argv[1:]
raw = bytearray(open(path, "rb").read())
n, = struct.unpack_from("<Q", raw)
t = json.loads(raw[8:8 + n])["language_model." + name]
width = t["shape"][1] if len(t["shape"]) > 1 else 1
at = 8 + n + t["data_offsets"][0] + 2 * width * int(row)
raw[at:at + 2 * width] = struct.pack("<e", float(value)) * width
open(path, "wb").write(raw)
P
}

picture=$PWD/tests/goldens/pictures/scene.png
jq -nc --arg p "$picture" '({id: "cow", metric: "loglik", choices: ["a cow", "a frog"], answer: "a cow", question: "Which gives milk?"},
    {id: "snake", metric: "loglik", choices: ["a cow", "a snake"], answer: "a snake", question: "Which one hisses \u007a\u007a?"}) |
    .image = $p' >"$work/data.jsonl"
error='select(.event=="error").message'
# refused NAME PART LINE...: the lines end with an error that contains PART.
refused() {
    local name=$1 part=$2
    shift 2
    lines "/load $work/$model" "/set sample.max_tokens 3" "$@"
    check_has "$model, $name" "$error" "$part"
}

damage nan model.layers.1.input_layernorm.weight 0 nan
damage inf model.layers.1.mlp.down_proj.weight 3 inf
damage head lm_head.weight 7 inf
model=nan
refused "a job" "no sample could be scored: sample cow: the model computed" "/eval $work/data.jsonl" /wait
for model in nan inf head; do
    refused "a chat" "the model computed" "hello"
    refused "likelihood" "no sample could be scored: sample cow: the model computed" "/eval $work/data.jsonl --here"
    refused "loss" "no sample could be scored: sample cow: the model computed" "/eval $work/data.jsonl --metric loss --here"
    refused "answers" "no sample could be scored: sample cow: the model computed" "/eval $work/data.jsonl --metric exact --here"
    refused "comparison" "the model computed" "/compare off | sample.max_tokens=2 hello"
    refused "comparison of data" "no sample could be scored: sample cow: the model computed" \
        "/compare off | sample.max_tokens=2 --data $work/data.jsonl"
    refused "questions" "no question could be answered, 2 with errors (in '$work/$model.jsonl'), the first: the model computed" \
        "/ask --data $work/data.jsonl --out $work/$model.jsonl"
    [ $model = inf ] || refused "training" "is not finite" "/set train.steps 1" "/set train.validation 0" \
        "/train $work/data.jsonl $work/$model-adapter" /wait
    [ $model = head ] && continue # its layers compute finite numbers
    refused "statistics" "no sample of '$work/data.jsonl' could be measured: the model computed NaN or Inf in layer 1" \
        "/norms --data $work/data.jsonl --given"
    kinds="ffn norms sinks"
    [ $model = nan ] || kinds=norms
    for kind in $kinds; do
        refused "calibration" "could be used: the model computed NaN or Inf in layer 1" \
            "/calibrate $kind $work/data.jsonl $work/$model-$kind.safetensors" /wait
        [ -e "$work/$model-$kind.safetensors" ] && fail "$model: a calibration $kind"
    done
done

# Only texts with the letter z are damaged.
lines "/load $llava" "/tokenize zz"
id=$(jq -r 'select(.event=="ids").ids[-1]' "$work/events")
damage one model.embed_tokens.weight "$id" nan
printf 'set pair: %s\nrow plain: off\n' "$work/data.jsonl" >"$work/plan"
lines "/load $work/one" "/eval --plan $work/plan $work/scores" /wait "/eval $work/data.jsonl --here" "/eval $work/data.jsonl --metric loss --here" \
    "/norms --data $work/data.jsonl --given" "/calibrate ffn $work/data.jsonl $work/one.safetensors" /wait \
    "/ask --data $work/data.jsonl --out $work/one.jsonl --limit 1" "/ask --data $work/data.jsonl --out $work/one.jsonl"
check "no error" "$error" ""
check "samples scored without the damaged one" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="n")[1]' $'1\n1'
check_has "the damaged sample is counted" 'select(.event=="table" and .name=="evaluation").rows[] | select(.[0]=="skipped")[1]' \
    "1 of 2 samples, the first: sample snake: the model computed NaN"
check_has "statistics name the skipped sample" 'select(.event=="notice" or .event=="table") | tostring' "1 sample is skipped, the first because: the model computed NaN or Inf in layer 0"
check_has "a table of scores counts it" 'select(.event=="notice").text' \
    "not scored: in 1 of 1 cell, the first: plain, pair: 1 of 2 samples, the first: sample snake: the model computed NaN"
check_has "questions that an earlier run has answered" 'select(.event=="notice").text' "0 answered, 1 with errors, 1 already there"
check_has "the calibration counts its samples" 'select(.event=="notice") | tostring' "over 1 sample; skipped: 1 of 2 samples, one of them: the model computed NaN"
model=one
refused "a steering vector" "'$work/data.jsonl', sample #1: the model computed NaN" \
    "/steer make $work/vector --plus $work/data.jsonl --minus $work/data.jsonl"
refused "training names the sample" "sample snake: the loss of step 0 is not finite" "/set train.steps 1" \
    "/set train.validation 0" "/set train.batch 2" "/train $work/data.jsonl $work/one-adapter" /wait

finish
