# tests/commands/set.sh -- /set, /get, /reset, /settings.
. tests/commands/common.bash

lines '/set sample.top_k 7' '/set sample.top_k=8' '/set sample.top_k = 9' '/get sample.top_k' '/set sample.top_k' \
    '/set chat.date 26 Jul 2024' '/set sample.top_k 9' '/set' '/reset sample.top_k' '/get sample.top_*' \
    '/reset' '/get chat.date' '/reset chat.date'
check "values of the settings" 'select(.event == "setting") | .key + "=" + .value' \
    'sample.top_k=7
sample.top_k=8
sample.top_k=9
sample.top_k=9
sample.top_k=9
chat.date=26 Jul 2024
sample.top_k=9
sample.top_k=9
chat.date=26 Jul 2024
sample.top_k=0
sample.top_k=0
sample.top_p=1
chat.date=today
chat.date=today
chat.date=today'
check "no errors" 'select(.event == "error")' ""

lines '/set sample.top_k -1' '/set sample.topk 3' '/set nonsense.key 3' '/set sample.temperature warm' \
    '/set chat.template nobody' '/get nope' '/reset nope' '/settings nope' '/get sample.top_k'
check "which lines are refused" 'select(.event == "done").ok' \
    $'false\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse\ntrue'
check_has "suggestion for a mistyped key" 'select(.event == "error").message' "did you mean 'sample.top_k'?"
check "the old value stays" 'select(.event == "setting").value' 0

lines '/set sample 1' '/help prune'
check "error of a group's name" 'select(.event == "error").message' "'sample' is a group of settings: /settings sample lists them"
check "the rows of a group" 'select(.event == "table").rows | map(.[0] | startswith("prune.")) | all' true

lines '/settings' '/settings sample' '/settings sample.'
check "all have defaults and help" \
    'select(.event == "table").rows | all(.[1] == .[2] and (.[3] | length > 0) and (.[4] | endswith(".")))' \
    $'true\ntrue\ntrue'
check "keys of a group" 'select(.event == "table") | [.rows[][0] | startswith("sample.")] | unique | tostring' \
    $'[false,true]\n[true]\n[true]'

# Values that no model accepts are refused before a model is loaded, and nothing changes.
lines '/set prune.keep -1' '/set prune.keep 0,0.5' '/set ffn.eta nan' '/get prune.keep'
check "impossible with any model" 'select(.event == "done").ok' $'false\nfalse\nfalse\ntrue'
check_has "why it is refused" 'select(.event == "error").message' "cannot increase"
check "the default stays" 'select(.event == "setting").value' 0.25

# A changed setting applies from the next answer on.
lines "/load $llama" '/set sample.ignore_eos on' '/set sample.max_tokens 3' 'hi' '/set sample.max_tokens 5' '/regen'
check "lengths of two answers" 'select(.event == "answer").ids | length' $'3\n5'
# Two dependent settings: until both are set, a notice names the missing one.
lines "/load $llava" '/set prune.score contribution' '/set prune.layer 1,2' '/set prune.keep 0.25,0.5' \
    '/set prune.keep 0.5,0.25' '/set prune.layer 1'
check "reports values that do not fit together" 'select(.event=="notice" and (.text|contains("one value per layer"))).text' \
"prune.layer names 2 layers, but prune.keep has 1 value: give one value per layer
prune.layer names 1 layer, but prune.keep has 2 values: give one value per layer"
check "error of an increasing prune.keep" 'select(.event=="error").message' \
    'prune.keep cannot increase (0.5 after 0.25): dropped tokens do not come back'
# A context longer than the model's is said.
lines "/load $llama" '/set ctx.max 131072' '/set ctx.max 131073'
check "a notice about the model" 'select(.event=="notice" and (.text|contains("ctx.max"))).text' \
    "ctx.max is above the model's limit of 131072 tokens: answers beyond it may be worse, because the model was not trained on such positions"
finish
