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
out=$(checkup $model --out "$dir/sound" --only opens,identities) || fail "a sound model" "$out"
[[ $out == *"none of 2 checks fails"* && $out != *" fails  "* ]] || fail "findings about a sound model" "$out"
grep -q '^### identities: works' "$dir/sound/checkup.md" || fail "the page" "$(cat "$dir/sound/checkup.md")"
cp "$dir/sound/checkup.json" "$dir/before.json"
out=$(checkup $model --out "$dir/sound" --only opens,identities) || fail "the same again" "$out"
cmp "$dir/sound/checkup.json" "$dir/before.json" || fail "a complete check-up was changed" "$out"

# As a job, of the model in use; interrupted between two checks it continues.
out=$("$VLMSH" --plain --db "$dir/db" $model -c "/checkup --out $dir/job --only opens" -c /wait </dev/null 2>&1) ||
    fail "as a job" "$out"
[[ $out == *"is done"*"none of 1 checks fails"* ]] || fail "the job's outcome" "$out"

# Broken models.
broken() { # name; then the script changes $dir/NAME
    cp -r $model "$dir/$1" && chmod -R u+w "$dir/$1"
}
finds() { # name, check, part of the finding
    out=$(checkup "$dir/$1" --out "$dir/out-$1" --only "$2") || fail "$1" "$out"
    [[ $out == *fails*"$3"* ]] || fail "$1 should be found by $2: $3" "$out"
}
broken nan
python3 - "$dir/nan/model.safetensors" <<'PY'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    at = json.loads(f.read(n))["language_model.model.layers.3.mlp.up_proj.weight"]["data_offsets"][0]
    f.seek(8 + n + at + 10)
    f.write(b"\xc0\x7f")
PY
finds nan opens "NaN or infinite numbers in 1 of"
[[ $out == *layers.3.mlp.up_proj.weight* ]] || fail "the tensor with NaN is not named" "$out"
broken template
sed -i "s/message\['role'\].upper() + ': '/'<|im_start|>' + message['role'] + ' '/; s/ASSISTANT:/<|im_start|>assistant/" "$dir/template/chat_template.jinja"
finds template opens "its markers <|im_start|> are no tokens"
broken means
sed -i 's/"image_mean": [^]]*]/"image_mean": [0.9, 0.1, 0.5]/' "$dir/means/preprocessor_config.json"
finds means opens "not those of published SigLIP encoders"
broken short
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
