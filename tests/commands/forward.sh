# tests/commands/forward.sh -- /forward, /raw, /dump: the forward pass alone; ids are taken as
# given; dumps change no answer; damaged weights give an error.
. tests/commands/common.bash

lines "/load $llama" '/set sample.max_tokens 3' '/set sample.ignore_eos on' \
    "/dump logits layer.0.in $work/dump.safetensors" '/forward Hello there' '/context' '/raw 560 564 465' \
    '/undo' '/raw 560,564,465' '/raw 99999' '/raw x' "/dump logits" "/dump logits file.txt" "/dump nonsense.tap $work/x.safetensors" \
    "/dump logits $work/nowhere/x.safetensors"
check "which lines fail" 'select(.event == "done").ok' "$(printf 'true\n%.0s' 1 2 3 4 5 6 7 8 9; printf 'false\n%.0s' 1 2 3 4 5 6)"
check "forward leaves the conversation" 'select(.name == "context").rows[0][0]' 0
same "tensors of the dump" "$(python3 - "$work/dump.safetensors" <<'P'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
print(sorted(k for k in header if k != "__metadata__"))
P
)" "['layer.0.in', 'logits']"
same "equal answers to a raw prompt given twice" "$(jq -c 'select(.event == "answer" and (.ids | length) == 3) | [.ids, .prompt_tokens]' "$work/events" | sort -u | wc -l)" 1
check "tokens of the raw prompt" 'select(.event == "answer" and (.ids | length) == 3).prompt_tokens' $'3\n3'
check_has "unknown tap" 'select(.event == "error").message' "nonsense.tap"
check_has "no such folder, reported at once" 'select(.event == "error").message' "nowhere/x.safetensors': No such file"

# A dump does not change the answer.
ask=("/load $llava" '/set sample.max_tokens 6' '/set sample.ignore_eos on' "/image $scene")
lines "${ask[@]}" 'What is this?'
plain=$(jq -c 'select(.event == "answer").ids' "$work/events")
lines "${ask[@]}" "/dump * $work/all.safetensors" 'What is this?'
same "answer while dumping" "$(jq -c 'select(.event == "answer").ids' "$work/events")" "$plain"
[ -s "$work/all.safetensors" ] || fail "the dump is not written"

# A tensor that the pass does not compute, and a request that is replaced or never carried out, are named.
session "requests without a tensor" $llama <<E
> /dump logits layer.99.in $work/first.safetensors
the next forward pass writes logits,layer.99.in to '$work/first.safetensors'
> /dump logits layer.99.in $work/second.safetensors
'$work/first.safetensors' is not written: this /dump replaces the one before
the next forward pass writes logits,layer.99.in to '$work/second.safetensors'
> /forward Hello there
(an answer to 0 visual tokens)
computed ... tokens (0 visual) in ... s, generated none
(written: tensors $work/second.safetensors)
wrote 1 tensor to '$work/second.safetensors'
'$work/second.safetensors' lacks layer.99.in: this pass computed no such tensor
E
vlmsh $llama -c '/later 30 sample.top_k=5 sample.seed=3' -c "/dump logits $work/third.safetensors" >"$work/out" 2>&1 ||
    fail "waiting requests fail"
same "what waits at the end" "$(tail -2 "$work/out")" "'$work/third.safetensors' is not written: no forward pass followed /dump
no answer was long enough for /later: sample.top_k=5, sample.seed=3 after 30 tokens"

# Damaged weights give an error, not an answer.
cp -r tests/goldens/qwen2 "$work/nan"
python3 - "$work/nan/model.safetensors" <<'P'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
start = 8 + struct.unpack("<Q", data[:8])[0]
begin, end = (start + at for at in json.loads(data[8:start])["model.norm.weight"]["data_offsets"])
data[begin:end] = b"\xff" * (end - begin)
open(sys.argv[1], "wb").write(data)
P
lines "/load $work/nan" 'Hello' '/context'
check "the message fails, the session continues" 'select(.event == "done").ok' $'true\nfalse\ntrue'
check_has "NaN is named" 'select(.event == "error").message' "NaN"
check "the conversation stays empty" 'select(.name == "context").rows[0][0]' 0
finish
