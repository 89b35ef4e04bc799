#!/bin/bash
# commands/checkup.c, core/checkup/: a sound model passes; each breakage is found by the check that should find it, and
# named; an interrupted check-up continues; impossible requests are refused.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
model=$PWD/demo/model
fail() { echo "$1"; echo "$2"; exit 1; }
checkup() { "$VLMSH" checkup "$@" </dev/null 2>&1; }

# A sound model; the page and the record; a second run has nothing to do.
out=$(checkup $model --out "$dir/sound" --only opens,identities,sees) || fail "a sound model" "$out"
[[ $out == *"none of 3 checks fails"* && $out != *"  fails  "* ]] || fail "findings about a sound model" "$out"
grep -q '^### identities: works' "$dir/sound/checkup.md" || fail "the page" "$(cat "$dir/sound/checkup.md")"
cp "$dir/sound/checkup.json" "$dir/before.json"
out=$(checkup $model --out "$dir/sound" --only opens,identities,sees) || fail "the same again" "$out"
cmp "$dir/sound/checkup.json" "$dir/before.json" || fail "a complete check-up was changed" "$out"

# As a job, of the model in use.
out=$("$VLMSH" --plain --db "$dir/db" $model -c "/checkup --out $dir/job --only opens" -c /wait </dev/null 2>&1) ||
    fail "as a job" "$out"
[[ $out == *"is done"*"none of 1 checks fails"* ]] || fail "the job's outcome" "$out"
# It does not continue with another adapter, which the arguments need not name.
out=$("$VLMSH" --plain $model -c "/set adapter $model/methods/adapter" \
    -c "/checkup --here --out $dir/job --only opens,identities" </dev/null 2>&1) && fail "another adapter" "$out"
[[ $out == *"holds findings made under other conditions"*"adapter was none, now adapter@"* ]] || fail "another adapter" "$out"

# Settings of the shell that concern other work change nothing.
out=$("$VLMSH" --plain $model -c "/set train.filter nothing" -c "/set train.clip 1e-7" \
    -c "/checkup --here --quick --out $dir/settings --only learns" </dev/null 2>&1) || fail "with settings" "$out"
[[ $out == *"none of 1 checks fails"* ]] || fail "with settings" "$out"

# It does not continue with other pictures in the same folder, and names what it leaves out of such a folder.
mkdir "$dir/pictures" && cp demo/pictures/scene-0.png "$dir/pictures" && echo text >"$dir/pictures/notes.txt"
out=$(checkup $model --pictures "$dir/pictures" --out "$dir/own" --only opens) || fail "pictures" "$out"
[[ $out == *"1 of the files in '$dir/pictures' cannot be used: "*notes.txt* ]] || fail "a file that is no picture" "$out"
cp demo/pictures/scene-1.png "$dir/pictures/scene-0.png"
out=$(checkup $model --pictures "$dir/pictures" --out "$dir/own" --only opens,sees) && fail "other pictures" "$out"
[[ $out == *"pictures was "* ]] || fail "other pictures" "$out"

# Killed in each check, it continues there and finds the same.
found() { # the findings without times
    python3 - "$1" <<'PY'
import json, sys
for check in json.load(open(sys.argv[1] + "/checkup.json"))["models"][0]["checks"]:
    for row in check["rows"]:
        print(check["name"], row["name"], row["verdict"], row["text"],
              [n for n in row["numbers"] if n["unit"] not in ("s", "GiB")])
PY
}
some=identities,sees,inside
out=$(checkup $model --out "$dir/whole" --only $some) || fail "a whole check-up" "$out"
for done in 0 1 2; do
    "$VLMSH" checkup $model --out "$dir/killed" --only $some </dev/null >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq 3000); do
        now=$(grep -c '"shows"' "$dir/killed/checkup.json" 2>/dev/null)
        [ "${now:-0}" -ge $done ] && [ -e "$dir/killed" ] && break
        sleep 0.02
    done
    kill -9 $pid
    wait $pid 2>/dev/null
done
out=$(checkup $model --out "$dir/killed" --only $some) || fail "after three kills" "$out"
diff <(found "$dir/whole") <(found "$dir/killed") || fail "killed and continued, it found something else" ""
sed -i 's/"checks":/"chequers":/' "$dir/killed/checkup.json"
out=$(checkup $model --out "$dir/killed" --only $some) && fail "a damaged record is accepted" "$out"
[[ $out == *"is damaged"* ]] || fail "the message about a damaged record" "$out"

# Broken models: BREAKAGE, the check that must find it, and what it must say.
finds() {
    [ -d "$dir/$1" ] || python3 tests/commands/checkup.py "$1" $model "$dir/$1" || fail "making $1" ""
    out=$(checkup "$dir/$1" --out "$dir/out-$1" --only "$2") || fail "$1" "$out"
    [[ $out == *fails*"$3"* ]] || fail "$1 should be found by $2: $3" "$out"
}
finds nan opens "NaN or infinite numbers in 1 of"
[[ $out == *layers.3.mlp.up_proj.weight* ]] || fail "the tensor with NaN is not named" "$out"
finds template opens "its markers <|im_start|> are not tokens"
finds means opens "not those of published SigLIP encoders"
finds projector sees "the model does not see"
finds layers intact "with layers 2 and 5 swapped"
finds rotary intact "with a rotary base of 10000"
finds heads intact "with queries and keys of layer 3 swapped"
finds encoder intact "with queries and keys of block 1 swapped"
# An adapter trained on another model of the same shape, and one that fits no layer.
"$VLMSH" scenes 4 "$dir/world" --seed 17 --kind captions >/dev/null || fail "scenes" ""
out=$("$VLMSH" --plain --db "$dir/db" "$dir/layers" -c "/set train.params lora:q_proj:4" \
    -c "/train $dir/world/captions.json $dir/adapter" -c /wait </dev/null 2>&1) || fail "training an adapter" "$out"
out=$(checkup $model --adapter "$dir/adapter" --out "$dir/out-adapter" --only opens) || fail "another model's adapter" "$out"
[[ $out == *fails*"was trained on another model"*model.safetensors* ]] || fail "another model's adapter" "$out"
out=$(checkup tests/goldens/llava-1.5 --adapter "$dir/adapter" --out "$dir/out-unfit" --only opens) ||
    fail "an adapter that does not fit" "$out"
[[ $out == *adapter*fails* ]] || fail "an adapter that does not fit" "$out"

cp -r "$model" "$dir/short" && chmod u+w "$dir/short/model.safetensors"
truncate -s -1000 "$dir/short/model.safetensors"
finds short opens "model.safetensors"

refuse() { # part of the message, arguments
    out=$(checkup "${@:2}") && fail "'${*:2}' was not refused" "$out"
    [[ $out == *"$1"* ]] || fail "'${*:2}' should say: $1" "$out"
}
refuse "MODEL is missing"
refuse "there is no check 'sight'" $model --only sight
refuse "holds another check-up" $model --out "$dir/sound" --quick
mkdir "$dir/full" && touch "$dir/full/x"
refuse "holds no check-up" $model --out "$dir/full"
exit 0
