# methods.sh -- files in a model's folder for its methods (methods/): /toggle, /align, /ira and
# presets take them from there, /set does not. Tests the demo model's files and the script that made them.
. tests/commands/common.bash

setting() { # KEY: its values in the events
    jq -r --arg key "$1" 'select(.event=="setting" and .key==$key).value' "$work/events" | tr '\n' ' '
}
demo=$PWD/demo/model

# /toggle switches each method on with these files; /set does not use them, so /set ira.on on fails.
lines '/load demo/model' '/set ira.on on' '/toggle norm.align' '/toggle prune.score off contribution' \
    '/toggle ffn.approx off hadamard' '/toggle ira.on' '/image demo/pictures/scene-1.png' 'What is in the picture?'
check "which lines fail" '[inputs, .] | map(select(.event=="done").ok) | map(tostring) | join(" ")' 'true false true true true true true true'
same "the adapter that /toggle sets" "$(setting adapter)" "$demo/methods/adapter "
same "the calibration" "$(setting ffn.calibration)" "$demo/methods/ffn.safetensors "
check_has "the answer names the colour" 'select(.event=="answer").text' 'green'

# With the methods off again, the bits equal those of the bare model.
dump() { jq -r 'select(.event=="answer").ids | tostring' "$work/events" | tail -1; }
ask=('/image demo/pictures/scene-2.png' '/dump logits,step.logits' 'Describe the picture.')
lines '/load demo/model' "${ask[@]/logits,step.logits/logits $work/bare.safetensors}"
bare=$(dump)
lines '/load demo/model' /align /ira '/align off' '/ira off' '/get adapter' "${ask[@]/logits,step.logits/logits $work/off.safetensors}"
same "the adapter stays" "$(setting adapter)" "$demo/methods/adapter $demo/methods/adapter "
same "the same answer" "$(dump)" "$bare"
cmp -s "$work/bare.safetensors" "$work/off.safetensors" || fail "logits differ with the methods off"

# /ira and presets use these files, too; a file of another model is refused.
lines '/load demo/model' /ira /baseline '/preset load capa' '/get ffn.approx'
same "/ira and a preset use the files" "$(setting ira.on)$(setting ffn.approx)" 'on off hadamard hadamard '
cp -r tests/goldens/llava-1.5 "$work/model"
mkdir "$work/model/methods"
cp "$demo/methods/ffn.safetensors" "$work/model/methods"
lines "/load $work/model" '/toggle ffn.approx off hadamard' '/toggle norm.align' '/set ffn.layers 1' '/toggle ffn.approx off skip'
check "refuses a file of another model" '[inputs, .] | map(select(.event=="done").ok) | map(tostring) | join(" ")' \
    'true false true true false'

# The demo model's alignment aligns: visual tokens have about the norm of text embeddings.
lines '/load demo/model' '/image demo/pictures/scene-1.png' /align 'What is in the picture?' /norms
check "norm of aligned visual tokens" 'select(.name=="norms.interface").rows[] | select(.[0]=="visual tokens, aligned")[3] | tonumber | . > 0.8 and . < 1.25' true

# Recipes for training start with fresh parameters, and the result holds nothing from the folder.
lines '/scenes 8 '"$work/world" '/load demo/model' /align '/preset load norm-alignment-1' '/set train.steps 1' \
    "/train $work/world/captions.json $work/stage1" /wait "/adapter load $work/stage1" '/adapter show'
check "the target of the text" '[inputs, .] | map(select(.name=="adapter.tensors")) | last.rows[] | select(.[0]=="norm_align.weight")[2] |
    tonumber | . > 3.1 and . < 3.2' true
check "no parameters of IRA" '[inputs, .] | map(select(.name=="adapter.tensors")) | last.rows | map(select(.[0] | startswith("ira."))) | length' 0

# demo/methods.vlmsh makes the files.
mkdir "$work/made"
vlmsh --json -f demo/methods.vlmsh -D WORK="$work/made" -D LESSONS=4 -D ASKED=2 -D STEPS=1 -D QUESTIONS=3 >"$work/events" ||
    fail "demo/methods.vlmsh: $(tail -3 "$work/events")"
check "number of evaluations" '[inputs, .] | map(select(.event=="table" and .name=="evaluation")) | length' 8
[ -s "$work/made/adapter/extra.safetensors" ] && [ -s "$work/made/ffn.safetensors" ] || fail "nothing is made"
finish
