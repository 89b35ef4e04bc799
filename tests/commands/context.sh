# tests/commands/context.sh -- an answer that reaches the end of the context: it stops in time for
# the layout's closing tokens; --json and --plain report why it stopped. Sliding windows; lines far beyond the context.
. tests/commands/common.bash

# short MODEL TO N: the model with a context of N tokens, in the folder TO.
short() {
    mkdir "$2" && ln -s "$PWD/$1"/* "$2/" && rm "$2/config.json"
    jq --argjson n "$3" 'if .text_config.max_position_embeddings then .text_config.max_position_embeddings = $n
        else .max_position_embeddings = $n end' "$1/config.json" >"$2/config.json"
}
long=('/set sample.ignore_eos on' '/set sample.max_tokens 100000')
context='select(.name == "context").rows[0]'

# Layouts that write nothing, a space, an end token or several tokens after an answer.
short $llava "$work/llava" 160
for layout in auto plain vicuna llama-2 llama-3 chatml glm-4v kimi; do
    lines "/load $work/llava" "/set chat.template $layout" "${long[@]}" 'What is this?' '/context' 'And?' '/regen' '/context'
    check "$layout: why it stopped" 'select(.event == "answer").stop' $'length\nlength'
    check "$layout: the context is full" "$context | [.[4], .[5], .[6] == 100] | @csv" $'160,0,true\n160,0,true'
    check "$layout: the limit is reported" 'select(.event == "notice" and (.text | contains("context limit"))) | .text | contains("160")' $'true\ntrue'
    check "$layout: no room" 'select(.event == "error").message | contains("no room for an answer") and contains("ask something shorter")' true
    check "$layout: no advice that cannot be followed" 'select(.event == "error").message | contains("raise")' false
done

# With a picture, pruned or not; a smaller ctx.max can be raised.
for prune in off attention; do
    lines "/load $llava" "/set prune.score $prune" '/set ctx.max 100' "${long[@]}" "/image $scene" 'What is this?' '/context' 'And?'
    check "picture, $prune: full" "$context | [.[4], .[5]] | @csv" '100,0'
    check "picture, $prune: advice to raise ctx.max" 'select(.event == "error").message | contains("raise ctx.max")' true
done

# A sliding window changes only answers to texts that do not fit into it, even after /quantize. The cache of a longer
# text serves a shorter one.
mkdir "$work/window" && ln -s "$PWD/$llama"/* "$work/window/" && rm "$work/window/config.json"
jq '.model_type = "mistral" | .architectures = ["MistralForCausalLM"] | .sliding_window = 40' "$llama/config.json" >"$work/window/config.json"
cp -rL "$work/window" "$work/whole" && jq '.sliding_window = null' "$work/window/config.json" >"$work/whole/config.json"
words=$(printf 'the word %.0s' {1..60})
vlmsh "$work/whole" -c "/quantize --type f16 $work/whole.gguf" </dev/null >"$work/out" 2>&1 || fail "$(cat "$work/out")"
vlmsh "$work/window" -c "/quantize --type f16 $work/window.gguf" </dev/null >"$work/out" 2>&1 || fail "$(cat "$work/out")"
ids() { jq -c 'select(.event == "answer").ids' "$work/events" | tail -1; }
for end in '' .gguf; do
    for model in whole window; do
        set -- "/load $work/$model$end" '/set chat.template plain' '/set sample.ignore_eos on' '/set sample.max_tokens 20' '/set ctx.max 500'
        lines "$@" 'Hi there' && ids >"$work/short.$model"
        lines "$@" "$words" && ids >"$work/long.$model"
        lines "$@" "$words" '/undo' "${words%???????}" '/undo' "$words" && ids >"$work/again.$model"
        cmp -s "$work/long.$model" "$work/again.$model" || fail "$model$end: the ids differ after /undo"
    done
    cmp -s "$work/short.whole" "$work/short.window" || fail "window$end: the ids differ for a text that fits"
    cmp -s "$work/long.whole" "$work/long.window" && fail "window$end: the window has no effect"
done

# Raw ids have no layout.
lines "/load $work/llava" "${long[@]}" '/raw 1 2 3' '/context'
check "the context after raw ids" "$context | [.[4], .[5]] | @csv" '160,0'
check "raw: the answer fills the context" 'select(.event == "answer").ids | length' 157

# A token limit reached before the end of the context is reported as such.
lines "/load $work/llava" '/set sample.ignore_eos on' '/set sample.max_tokens 5' 'What is this?'
check "no notice about the context" '[select(.event == "notice" and (.text | contains("context limit")))] | length' \
    "$(for ((i = $(wc -l <"$work/events"); i; i--)); do echo 0; done)"

# If the prompt changes in the middle of an answer, so does the number of tokens left.
lines "/load $llava" '/set ctx.max 100' "${long[@]}" '/later 10 chat.template=chatml' 'What is this?' '/context'
check "full after a change of the template" "$context | [.[4], .[5]] | @csv" '100,0'

# --plain also reports that the last answer reached the end of the context; after /undo a full context can be used again.
printf '%s\n' "/load $work/llava" "${long[@]}" 'What is this?' '/undo' '/set sample.max_tokens 2' 'Hello' |
    vlmsh --plain >"$work/out" 2>&1 || fail "plain: $(tail -2 "$work/out")"
grep -q 'context limit' "$work/out" || fail "plain says nothing: $(cat "$work/out")"

# The script of a session with a full context gives the same answer.
lines "/load $work/llava" "${long[@]}" 'What is this?' "/save $work/again.vlmsh"
ids=$(jq -c 'select(.event == "answer").ids' "$work/events")
vlmsh --json -f "$work/again.vlmsh" >"$work/events"
check "ids of the replayed answer" 'select(.event == "answer").ids | tojson' "$ids"

# A line far beyond the context is refused before all of it is tokenized, even if it is one word.
for word in a 'a '; do
    { echo "/load $work/llava" && python3 -c "print('$word' * 2000000)"; } | vlmsh --plain >"$work/out" 2>&1
    grep -q 'the text has more than [0-9]* tokens, far more than fit the context: shorten it' "$work/out" ||
        fail "long line of '$word': $(tail -c 300 "$work/out")"
done
finish
