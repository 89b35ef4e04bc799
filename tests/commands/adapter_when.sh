# tests/commands/adapter_when.sh -- adapter.when pictures: a conversation without pictures uses the base
# model, one with pictures uses the adapter throughout; each equals a separate run, in a chat, evaluations and
# measurements. Merging applies the adapter in any case.
. tests/commands/common.bash
start=("/load $llava" '/set sample.max_tokens 8' '/set sample.ignore_eos on')
text='Name a colour of the rainbow'
see=("/image $scene" 'What is in the picture?')
answers='select(.event == "answer").ids | tostring'
# answers_of LINE...: the ids of all answers, one answer per line.
answers_of() {
    lines "$@"
    check "no line fails" '[select(.event == "done" and .ok == false)] | length | select(. > 0)' ""
    jq -r "$answers" "$work/events"
}

score() { # LINE...
    lines "$@"
    jq -r 'select(.event == "table" and .name == "evaluation").rows | tostring' "$work/events"
}
said() { jq -r "select(.id == \"$2\").ids | tostring" "$work/$1.jsonl"; }
cat >"$work/data.jsonl" <<P
{"id": "a", "question": "$text", "answer": "red", "metric": "exact"}
{"id": "b", "image": "$PWD/$scene", "question": "What is in the picture?", "answer": "a dog", "metric": "exact"}
{"id": "c", "question": "What is two plus two?", "answer": "four", "metric": "exact"}
P

check_adapter() { # NAME
    local name=$1 adapter=$llava/adapters/$1
    local with=("${start[@]}" "/set adapter $adapter")
    plain=$(answers_of "${start[@]}" "$text")
    always=$(answers_of "${with[@]}" "$text")
    seen=$(answers_of "${with[@]}" "${see[@]}")
    [ "$plain" != "$always" ] || fail "the adapter does not change a text, so the test proves nothing"
    only=$(answers_of "${with[@]}" '/set adapter.when pictures' "$text" '/clear' "${see[@]}" '/clear' "$text")
    same "a text, a picture, a text" "$only" "$plain
$seen
$plain"

    # A later picture applies the adapter to the whole conversation; without the picture it is off again.
    later=$(answers_of "${with[@]}" '/set adapter.when pictures' "$text" "${see[@]}" '/set adapter.when always' /regen \
        '/set adapter.when pictures' /regen /undo "$text" /undo /undo "$text")
    same "the picture's answer is the adapter's" "$(sed -n 2p <<<"$later")" "$(sed -n 3p <<<"$later")"
    same "the same under adapter.when pictures again" "$(sed -n 4p <<<"$later")" "$(sed -n 3p <<<"$later")"
    same "a text alone again" "$(sed -n 6p <<<"$later")" "$plain"
    both=$(answers_of "${start[@]}" "$text" "$text")
    same "two texts after /undo of a picture" "$(sed -n 1p <<<"$later") $(sed -n 5p <<<"$later")" \
        "$(sed -n 1p <<<"$both") $(sed -n 2p <<<"$both")"

    # Dumps: the numbers without the adapter, and with it.
    lines "${start[@]}" "/dump * $work/plain.safetensors" "/forward $text"
    lines "${with[@]}" '/set adapter.when pictures' "/dump * $work/only.safetensors" "/forward $text"
    same_dump "logits of a text" "$work/plain.safetensors" "$work/only.safetensors"
    lines "${with[@]}" "/dump * $work/seen.safetensors" "${see[0]}" "/forward ${see[1]}"
    lines "${with[@]}" '/set adapter.when pictures' "/forward $text" '/clear' \
        "/dump * $work/seen-only.safetensors" "${see[0]}" "/forward ${see[1]}"
    same_dump "rows of a picture" "$work/seen.safetensors" "$work/seen-only.safetensors"

    # Evaluations here and as jobs, answers and losses; comparisons; measurements.
    for kind in b "a c"; do
        grep -E "\"id\": \"(${kind// /|})\"" "$work/data.jsonl" >"$work/part.jsonl"
        local own=("${with[@]}")
        [ "$kind" = b ] || own=("${start[@]}")
        want=$(score "${own[@]}" "/eval $work/part.jsonl --metric loss --here")
        got=$(score "${with[@]}" '/set adapter.when pictures' "/eval $work/part.jsonl --metric loss --here")
        [ "$want" ] || fail "no loss of $kind"
        same "the loss of $kind" "$got" "$want"
        got=$(score "${with[@]}" '/set adapter.when pictures' "/eval $work/part.jsonl --metric loss" '/wait' '/eval show')
        same "the loss of $kind as a job" "$got" "$want"
    done
    want=$(score "${start[@]}" "/eval demo/seeing/choices.jsonl --limit 3 --here")
    got=$(score "${with[@]}" '/set adapter.when pictures' "/eval demo/seeing/choices.jsonl --limit 3 --here")
    [ "$want" ] || fail "no choices"
    same "choices, which share passes" "$got" "$want"
    lines "${start[@]}" "$text" /norms
    want=$(jq -c 'select(.name == "norms.layers").rows' "$work/events")
    lines "${with[@]}" '/set adapter.when pictures' "$text" /norms
    same "norms of a text" "$(jq -c 'select(.name == "norms.layers").rows' "$work/events")" "$want"
    # Measured with a picture after a text, and over data with both.
    lines "${with[@]}" "${see[@]}" /norms
    want=$(jq -c 'select(.name | strings | startswith("norms.")).rows' "$work/events")
    lines "${with[@]}" '/set adapter.when pictures' "${see[@]}" "/ask --data $work/part.jsonl --out $work/$name-part.jsonl" /norms
    [ "$want" ] || fail "no norms of a picture"
    same "norms of a picture" "$(jq -c 'select(.name | strings | startswith("norms.")).rows' "$work/events")" "$want"
    lines "${with[@]}" '/set adapter.when pictures' "/ask --data $work/data.jsonl --out $work/$name-answers.jsonl"
    lines "${with[@]}" "/ask --data $work/data.jsonl --out $work/$name-always.jsonl"
    lines "${start[@]}" "/ask --data $work/data.jsonl --out $work/$name-plain.jsonl"
    for id in a c; do same "asked $id" "$(said $name-answers $id)" "$(said $name-plain $id)"; done
    same "asked b" "$(said $name-answers b)" "$(said $name-always b)"
    lines "${with[@]}" "/compare off | adapter.when=pictures --data $work/data.jsonl"
    check "compared: the picture's answer is the same" \
        'select(.event == "table" and .name == "compare.distance").rows[] | select(.[0] == "share of identical answers")[1]' 0.333333

    # Merging applies the adapter in any case, whatever the last conversation was.
    lines "${with[@]}" "/adapter merge $work/$name-merged-always" '/set adapter.when pictures' "$text" "/adapter merge $work/$name-merged"
    cmp "$work/$name-merged-always/model.safetensors" "$work/$name-merged/model.safetensors" || fail "the merged models differ"
    lines "${with[@]}" "/quantize $work/$name-always.gguf --type f16" '/set adapter.when pictures' "$text" \
        "/quantize $work/$name.gguf --type f16"
    cmp "$work/$name-always.gguf" "$work/$name.gguf" || fail "the quantised models differ"
    lines "${with[@]}" '/set adapter.when pictures' '/adapter show' "/train $work/data.jsonl $work/$name-out"
    check_has "/adapter show says when it applies" 'select(.event == "text").text' "applied only in conversations with a picture"
    check_has "training on it is refused" 'select(.event == "error").message' "/set adapter.when always"
    lines "${start[@]}" '/set adapter.when pictures' "$text" "/set adapter $adapter" /regen '/adapter unload' /regen
    check "set before the adapter" "$answers" "$plain
$plain
$plain"
}
check_adapter lora
check_adapter ln_tuning

# Norm alignment scales to the norm of the embeddings that a conversation with pictures uses.
cat >"$work/train.json" <<P
[{"id": "t", "image": "$PWD/$scene", "conversations": [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "a dog"}]}]
P
lines "/load $llava" '/set train.params "*embed_tokens*"' '/set train.lr 0.5' '/set train.steps 1' \
    "/train $work/train.json $work/embed" '/wait'
with=("${start[@]}" "/set adapter $work/embed")
aligned() { # NAME LINE...: the aligned tokens of a picture
    lines "${@:2}" '/set norm.align on' "/dump visual_aligned.* $work/aligned-$1.safetensors" "${see[0]}" "/forward ${see[1]}"
}
aligned always "${with[@]}"
aligned only "${with[@]}" '/set adapter.when pictures' "$text" '/clear'
aligned plain "${start[@]}"
cmp "$work/aligned-always.safetensors" "$work/aligned-only.safetensors" || fail "aligned to the norm of the wrong embeddings"
cmp -s "$work/aligned-always.safetensors" "$work/aligned-plain.safetensors" && fail "the adapter changes no norm, so the test proves nothing"
finish
