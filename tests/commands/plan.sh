# plan.sh -- /train plan: shares and memory of the loaded model, of shapes, of a data file.
. tests/commands/common.bash
cp $scene "$work/scene.png"
for i in 0 1 2 3; do
    printf '{"id": "%d", "image": "scene.png", "question": "What is %d?", "answer": "%d."}\n' $i $i $i
done >"$work/data.jsonl"
memory='select(.event=="table" and .name=="train memory") | .rows | map({(.[0]):(.[1]|tonumber)}) | add'

lines "/set train.lora.rank 64" "/train plan --like mm-llama2-7b --method lora" \
    "/train plan --like mm-llama2-13b --method full"
check "shares of shapes" 'select(.event=="table" and .name=="train plan") | .rows[-1][3]' $'5.915%\n97.72%'
check "weights of a shape" "$memory"' | .["not counted: mapped weights"] > 14000' $'true\ntrue'

# In 4 bits a 7B model fits into 7 GB, including its weights.
lines "/set weights.dtype q4_k" "/set train.checkpointing on" \
    "/train plan --like llava-1.5-7b --rows 700 --method layernorm-simple" \
    "/set train.params lora:*:32" "/train plan --like llava-1.5-7b --rows 700"
check "a 7B in 4 bits" "$memory"' | .["not counted: mapped weights"] | . > 4400 and . < 4600' $'true\ntrue'
check "plans fit in 7 GB" "$memory"' | .all + .["not counted: mapped weights"] < 7000' $'true\ntrue'

lines "/load $llava" "/set train.method layernorm-simple" "/train plan" "/train plan $work/data.jsonl" \
    "/train plan --all" "/train plan --rows 400"
check "no error" 'select(.event=="error").message' ""
check "parameters trained by norms alone" 'select(.event=="table" and .name=="train plan") | .rows[-1][1]' $'512\n512\n512'
check "the parts add up" "$memory"' | (.all - (del(.all, .["not counted: mapped weights"]) | add)) | fabs < 0.6' \
    $'true\ntrue\ntrue'
check "number of methods planned" 'select(.event=="table" and .name=="train methods") | .rows | length' 8

lines "/load $llava" "/adapter load $llava/adapters/lora" "/train plan --like tiny"
check "a shape ignores the loaded adapter" 'select(.event=="error").message' ""

# Transposing the experts takes memory.
lines "/train plan --like qwen3-vl-30b-a3b"
check "copied experts" "$memory"' | .["copied weights"] | . > 57900 and . < 58100' true

lines "/train plan --like qwen2.5-vl-3b" "/train plan --like tiny"
check "the picture that is assumed" 'select(.event=="notice") | .text | select(startswith("assumes")) | .[:50]' \
    "assumes a picture of about 1036 x 756 pixels per s"

# Parameters of methods count with the part of the model that is trained with them.
lines "/load $llava" "/set train.params norm_align.*" "/set norm.align on" "/train plan"
check "a method's parameters" 'select(.event=="table" and .name=="train plan") | .rows | map(select(.[1] != 0 and .[1] != "0") | .[0]) | join(" ")' "projector all"

lines "/train plan --like nothing" "/load $llava" "/train plan $work/none" "/train plan --dance" \
    "/train plan $work/data.jsonl --like tiny" "/train plan --method most"
check "which plans are refused" 'select(.event=="done").ok' $'false\ntrue\nfalse\nfalse\nfalse\nfalse'
check "refusals show no table" 'select(.event=="table").name' ""
finish
