#!/bin/bash
# commands/checkup.c, core/checkup/: a sound model passes; in broken models, the check meant for it
# finds each breakage and names it; an interrupted check-up continues; impossible requests are
# refused.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
model=$PWD/demo/model
fail() { echo "$1"; echo "$2"; exit 1; }
checkup() { "$VLMSH" checkup "$@" </dev/null 2>&1; }
# With sanitizers, variants that run the same code are left out.
sanitized() { [[ $VLMSH == */san/* ]]; }

# A sound model; the page and the record; a second run has nothing to do.
out=$(checkup "$model" --out "$dir/sound" --only opens,identities,sees) || fail "a sound model fails" "$out"
[[ $out == *"none of 3 checks fails"* && $out != *"  fails  "* ]] || fail "a check of a sound model fails" "$out"
[ -z "${VLMSH_CUDA:-}" ] || [[ $out == *"device cuda:0"*"works"* ]] || fail "the CPU and a GPU are not compared" "$out"
grep -q '^### identities: works' "$dir/sound/checkup.md" || fail "the page does not show that identities work" "$(cat "$dir/sound/checkup.md")"
[ "$(jq -r '.verdict, .models[0].checks[].verdict' "$dir/sound/checkup.json" | uniq)" = works ] || fail "a verdict is not 'works'" ""
cp "$dir/sound/checkup.json" "$dir/before.json"
out=$(checkup "$model" --out "$dir/sound" --only opens,identities,sees) || fail "a second run fails" "$out"
[[ $out == *"so nothing was computed; --again"* ]] || fail "a second run does not say that nothing was computed" "$out"
cmp "$dir/sound/checkup.json" "$dir/before.json" || fail "a complete check-up was changed" "$out"

# A check-up as a job checks the model in use.
out=$("$VLMSH" --plain --db "$dir/db" "$model" -c "/checkup --out $dir/job --only opens" -c /wait </dev/null 2>&1) ||
    fail "/checkup as a job fails" "$out"
[[ $out == *"is done"*"the check does not fail"* ]] || fail "the job does not report that no check fails" "$out"
# A check-up does not continue with a different adapter, even if the arguments do not name one.
out=$("$VLMSH" --plain "$model" -c "/set adapter '$model/methods/adapter'" \
    -c "/checkup --here --out $dir/job --only opens,identities" </dev/null 2>&1) && fail "continues with a different adapter" "$out"
[[ $out == *"holds findings made under different conditions"*"adapter was none, now adapter@"* ]] || fail "the message does not name the different adapters" "$out"

# A text-only model also passes the check that trains.
out=$(checkup tests/goldens/qwen2 --quick --out "$dir/text" --only sees,learns) || fail "a text-only model fails" "$out"
[[ $out == *"the model is text-only"*norms*works*"none of 2 checks fails (1 does not apply)"* ]] || fail "the checks of a text-only model are not reported" "$out"

# A model with one decoder layer has no layer to approximate.
cp -rL "$model" "$dir/one" && jq '.text_config.num_hidden_layers = 1' "$model/config.json" >"$dir/one/config.json"
out=$(checkup "$dir/one" --quick --out "$dir/one-checkup" --only methods) || fail "a model with one decoder layer fails" "$out"
[[ $out == *"the model has one decoder layer"*"of no layer"*works* ]] || fail "the single decoder layer is not reported" "$out"

# Settings of the shell that concern other work change nothing.
out=$("$VLMSH" --plain "$model" -c "/set train.filter nothing" -c "/set train.clip 1e-7" \
    -c "/checkup --here --quick --out $dir/settings --only learns" </dev/null 2>&1) || fail "the settings of the shell make the check-up fail" "$out"
[[ $out == *"the check does not fail"* ]] || fail "a check fails under the settings of the shell" "$out"

# A check-up does not continue with different pictures in the same folder, and names the files of
# such a folder that it leaves out.
mkdir "$dir/pictures" && cp demo/pictures/scene-0.png "$dir/pictures" && echo text >"$dir/pictures/notes.txt"
out=$(checkup "$model" --pictures "$dir/pictures" --out "$dir/own" --only opens) || fail "a folder of pictures makes the check-up fail" "$out"
[[ $out == *"1 of the files in '$dir/pictures' cannot be used: "*notes.txt* ]] || fail "the file that is not a picture is not named" "$out"
cp demo/pictures/scene-1.png "$dir/pictures/scene-0.png"
out=$(checkup "$model" --pictures "$dir/pictures" --out "$dir/own" --only opens,sees) && fail "continues with different pictures" "$out"
[[ $out == *"pictures was "* ]] || fail "the message does not name the pictures" "$out"

# A check-up killed in any check continues with that check and has the same findings.
found() { # the findings without times
    python3 - "$1" <<'PY'
import json, re, sys
for check in json.load(open(sys.argv[1] + "/checkup.json"))["models"][0]["checks"]:
    for row in check["rows"]:
        print(check["name"], row["name"], row["verdict"], check["name"] != "speed" and row["text"],
              [n for n in row["numbers"] if n["unit"] not in ("s", "GiB", "GB/s", "tokens/s") and "time" not in n["name"]])
    for f in check["figures"]: print(f["title"], f["text"], re.sub(r"(surface|image|pattern)\d+", r"\1", f["svg"])) # cairo's numbers
PY
}
some=sees,inside,methods,learns,speed
out=$(checkup "$model" --quick --out "$dir/whole" --only $some) || fail "an uninterrupted check-up fails" "$out"
kills='0 1 2 3 4'
! sanitized || kills=2
for done in $kills; do
    "$VLMSH" checkup "$model" --quick --out "$dir/killed" --only $some </dev/null >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq 3000); do
        now=$(grep -c '"shows"' "$dir/killed/checkup.json" 2>/dev/null)
        [ "${now:-0}" -ge $done ] && [ -e "$dir/killed" ] && break
        sleep 0.02
    done
    kill -9 $pid
    wait $pid 2>/dev/null
done
out=$(checkup "$model" --quick --out "$dir/killed" --only $some) || fail "a killed check-up does not continue" "$out"
[ "$(ls "$dir/killed")" = $'checkup.html\ncheckup.json\ncheckup.md\nscenes' ] || fail "files are left" "$(ls "$dir/killed")"
diff <(found "$dir/whole") <(found "$dir/killed") || fail "the findings differ after kills" ""
sed -i 's/"checks":/"chequers":/' "$dir/killed/checkup.json"
out=$(checkup "$model" --quick --out "$dir/killed" --only $some) && fail "a damaged record is accepted" "$out"
[[ $out == *"is damaged"* ]] || fail "the damaged record is not reported" "$out"

# Only one process at a time writes into a check-up's folder.
exec 8<"$dir/sound" && flock 8
out=$(checkup "$model" --out "$dir/sound" --only opens) && fail "two check-ups write into one folder" "$out"
[[ $out == *"another process is writing a check-up into '$dir/sound'"* ]] || fail "the message does not name the other process" "$out"
exec 8<&-

# Broken models: BREAKAGE, the check that must find it, and what it must say.
finds() {
    [ -d "$dir/$1" ] || python3 tests/commands/checkup.py "$1" "$model" "$dir/$1" || fail "making $1" ""
    out=$(checkup "$dir/$1" --out "$dir/out-$1" --only "$2")
    [ $? = 1 ] || fail "the check-up of $1 does not fail" "$out"
    [[ $out == *fails*"$3"* ]] || fail "$1 should be found by $2: $3" "$out"
}
finds nan opens "NaN or infinite numbers in 1 of"
[[ $out == *layers.3.mlp.up_proj.weight* ]] || fail "the tensor with NaN is not named" "$out"
[ "$(jq -r .verdict "$dir/out-nan/checkup.json")" = fails ] || fail "the verdict is not 'fails'" ""
finds infinite opens "in 1 of 147 tensors: multi_modal_projector.linear_1.bias"
finds swapped_files opens "where the index places it: it is in 'model-0000"
finds swapped_contents intact "layers 0 to 3 and 4 to 7 swapped (the layers of two files)"
# A sound model whose files have every other layer: the search must undo all its changes to the
# model.
if ! sanitized; then
    python3 tests/commands/checkup.py odd_file "$model" "$dir/odd"
    out=$(checkup "$dir/odd" --out "$dir/out-odd" --only intact,sees) || fail "a sound model with layers 1, 3, 5 and 7 in one file fails" "$out"
fi
finds rotary intact "with a rotary base of 10000"
finds template opens "its markers <|im_start|> are not tokens"
finds means opens "not those of published SigLIP encoders"
finds layers intact "with layers 2 and 5 swapped"
if ! sanitized; then
    finds plain_template intact "with the chat template 'vicuna'"
    finds heads intact "with queries and keys of layer 7 swapped"
    finds projector sees "the model does not see"
    finds encoder intact "with queries and keys of block 1 swapped"
fi
# An adapter trained on another model of the same shape, and one that fits no layer.
"$VLMSH" scenes 4 "$dir/world" --seed 17 --kind captions >/dev/null || fail "vlmsh scenes fails" ""
out=$("$VLMSH" --plain --db "$dir/db" "$dir/layers" -c "/set train.params lora:q_proj:4" \
    -c "/train $dir/world/captions.json $dir/adapter" -c /wait </dev/null 2>&1) || fail "the adapter cannot be trained" "$out"
out=$(checkup "$model" --adapter "$dir/adapter" --out "$dir/out-adapter" --only opens) && fail "an adapter trained on another model passes" "$out"
[[ $out == *fails*"was trained on another model"*model.safetensors* ]] || fail "the message does not say that the adapter was trained on another model" "$out"
out=$(checkup tests/goldens/llava-1.5 --adapter "$dir/adapter" --out "$dir/out-unfit" --only opens) &&
    fail "an adapter that does not fit passes" "$out"
[[ $out == *adapter*fails* ]] || fail "the adapter that does not fit is not named" "$out"
# The search leaves an adapter as it was: used only with pictures (adapter.when).
for checks in sees intact,sees; do
    "$VLMSH" --plain tests/goldens/llava-1.5 -c "/set adapter tests/goldens/llava-1.5/adapters/ln_tuning" \
        -c "/set adapter.when pictures" -c "/checkup --here --quick --out $dir/when-$checks --only $checks" </dev/null >/dev/null 2>&1
done
diff <(found "$dir/when-sees") <(found "$dir/when-intact,sees" | grep -v ^intact) || fail "the search changed the adapter" ""

cp -r "$model" "$dir/short" && chmod u+w "$dir/short/model.safetensors"
truncate -s -1000 "$dir/short/model.safetensors"
finds short opens "model.safetensors"
# A job fails on a broken model, too. Once the model is repaired, the same command checks it.
out=$("$VLMSH" --plain --db "$dir/db" -c "/checkup $dir/short --out $dir/out-short --only opens" -c /wait </dev/null 2>&1) &&
    fail "a job with a failing check does not fail" "$out"
[[ $out == *"(checkup) failed: the check fails ($dir/short: opens); the report is '$dir/out-short/checkup.html'"* ]] ||
    fail "the job does not report the failing check" "$out"
cp "$model/model.safetensors" "$dir/short/model.safetensors"
out=$(checkup "$dir/short" --out "$dir/out-short" --only opens) || fail "the repaired model fails" "$out"

# The files of every family are sound. (The small vocabularies of gemma4 and gemma4-moe have no bytes, so they
# cannot encode every text.)
for config in tests/goldens/*/config.json; do
    golden=${config%/*}
    [[ $golden != tests/goldens/gemma4* ]] || continue
    ! sanitized || [[ $golden == */llava* ]] || continue
    out=$(checkup "$golden" --out "$dir/opens-${golden##*/}" --only opens) || fail "$golden" "$out"
done

# A template must agree with the tokens that end answers.
finds_template() { # golden, what to change, what the check must say
    cp -r tests/goldens/$1 "$dir/$1" && chmod -R u+w "$dir/$1" && (cd "$dir/$1" && eval "$2") || fail "making $1" ""
    out=$(checkup "$dir/$1" --out "$dir/out-$1" --only opens) && fail "$1" "$out"
    [[ $out == *"chat template"*fails*"$3"* ]] || fail "$1 should be found: $3" "$out"
}
finds_template llava-onevision "cp '$PWD/tests/goldens/llava-1.5/chat_template.json' ." "<|im_end|>, which the template never writes"
finds_template llava-siglip-llama3 "echo '{\"eos_token_id\": 561}' >generation_config.json" "it writes <|eot_id|> after an answer"

# Broken scales of quantised blocks.
"$VLMSH" quantize "$model" "$dir/q.gguf" --type q8_0 --no-compare >/dev/null 2>&1 || fail "vlmsh quantize fails" ""
head -c 2000 /dev/zero | tr '\0' '\377' | dd of="$dir/q.gguf" bs=1000 seek=2000 conv=notrunc status=none
out=$(checkup "$dir/q.gguf" --out "$dir/out-q" --only opens) && fail "a model with broken blocks passes" "$out"
[[ $out == *"q8_0"*"NaN or infinite numbers in 1 of"*weight* ]] || fail "the broken blocks are not reported" "$out"

refuse() { # part of the message, arguments
    out=$(checkup "${@:2}") && fail "'${*:2}' was not refused" "$out"
    [[ $out == *"$1"* ]] || fail "'${*:2}' should say: $1" "$out"
}
refuse "give a MODEL"
refuse "there is no check 'sight'" "$model" --only sight
refuse "holds another check-up" "$model" --out "$dir/sound" --quick
mkdir "$dir/full" && touch "$dir/full/x"
refuse "holds no check-up" "$model" --out "$dir/full"
exit 0
