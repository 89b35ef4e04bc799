#!/bin/bash
# commands/calibrate.c: a job computes a calibration, which is used, listed, shown and merged; impossible
# requests are refused. A paused job does not resume with a changed adapter or picture, or with damaged sums.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
model=tests/goldens/llava-1.5
vlmsh() { "$VLMSH" --plain --db "$dir/db" "$@" </dev/null 2>&1; }
fail() { echo "$1"; echo "$2"; exit 1; }
picture=$PWD/tests/goldens/pictures/scene.png
cat >"$dir/data.json" <<EOF
[{"id": "a", "image": "$picture", "conversations": [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "a scene"}]},
 {"id": "b", "image": "missing.png", "conversations": [{"from": "human", "value": "<image>\nAnd this?"}, {"from": "gpt", "value": "nothing"}]}]
EOF
out=$(vlmsh $model -c "/calibrate ffn $dir/data.json $dir/ffn.safetensors" -c /wait \
    -c "/calibration load $dir/ffn.safetensors" -c "/calibration show" -c "/calibration list" \
    -c "/set ffn.eta 0.5" -c "/set ffn.approx hadamard" -c "/image $picture" \
    -c "/set sample.max_tokens 2" -c "hello") || fail "a calibration cannot be made and used" "$out"
[[ $out == *"is done"* && $out == *"redundancy, visual"* && $out == *"yes "*"ffn.safetensors"* ]] ||
    fail "the calibration is not reported" "$out"
out=$(vlmsh $model -c "/calibration load $dir/ffn.safetensors" -c "/set ffn.eta 0.5" -c /capa -c "/get ffn.*" \
    -c "/capa off" -c "/get *") || fail "/capa fails with a calibration" "$out"
[[ $out == *"ffn.approx = hadamard"*"ffn.eta = 0.96"*"ffn.approx = off"*"prune.score = off"* && $out == *"ffn.calibration = $dir/"* ]] ||
    fail "/capa makes the wrong settings" "$out"
out=$(vlmsh $model -c "/set prune.layer 1" -c "/set prune.score contribution" -c "/calibrate norms $dir/data.json $dir/pruned.safetensors" -c /wait -c "/job 2 log") ||
    fail "/calibrate with pruning" "$out"
[[ $out == *" is on, but calibrations run without it"* ]] || fail "/calibrate does not say that it switches pruning off" "$out"
out=$("$VLMSH" $model --db "$dir/other" -c "/set ffn.calibration $dir/ffn.safetensors" -c /calibration) || fail "/calibration fails" "$out"
[[ $out == *"yes "*"ffn.safetensors"* ]] || fail "a calibration that /set loaded is not listed" "$out"
log=$(vlmsh -c "/job 1")
[[ $log == *"sample #1 is skipped"*missing.png* || $log == *"skipped"*"1 of "* ]] ||
    fail "the missing picture is not reported" "$log"
out=$(vlmsh $model -c /phases -c "/calibrate phases $dir/data.json $dir/phases.safetensors" -c /wait \
    -c "/calibration load $dir/phases.safetensors" -c /phases -c "/calibration show") || fail "the phases cannot be calibrated" "$out"
[[ $out == *"transition "*"the depth"*"is done"*"transition "*"$dir/phases.safetensors"*"Hellinger"*transition* ]] ||
    fail "the phases are not first those by depth, then the calibrated ones" "$out"
echo '[{"id": "a", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "a"}]}]' >"$dir/text.json"
out=$(vlmsh $model -c "/calibrate phases $dir/text.json $dir/none.safetensors" -c /wait)
[[ $out == *"shows a picture: /calibrate phases needs pictures"* && ! -e $dir/none.safetensors ]] ||
    fail "/calibrate phases does not refuse data without pictures" "$out"
out=$(vlmsh $model -c "/calibrate ffn $dir/text.json $dir/text.safetensors" -c /wait)
[[ $out == *"over 1 sample; no sample shows a picture: nothing was measured on visual tokens"* ]] ||
    fail "/calibrate ffn does not say that no sample shows a picture" "$out"
refuse() { # line, part of the message
    out=$(vlmsh $model -c "$1") && fail "'$1' was not refused" "$out"
    [[ $out == *"$2"* ]] || fail "'$1' should say: $2" "$out"
}
refuse "/calibrate ffn $dir/data.json $dir/ffn.safetensors" "exists"
refuse "/calibrate ffn $dir/data.json $dir/nowhere/x" "cannot write '$dir/nowhere/x'"
refuse "/calibrate ffm $dir/data.json $dir/x" "no calibration kind"
refuse "/calibrate ffn $dir/none.json $dir/x" "cannot open"
refuse "/calibrate ffn $dir/data.json $dir/x --limit 0" "--limit"
# If the file cannot be written (its unfinished name is too long here), the sums are kept for a resumed job.
long=$(printf 'x%.0s' {1..250})
out=$(vlmsh $model -c "/calibrate ffn $dir/data.json $dir/$long" -c /wait) && fail "a name that is too long was accepted" "$out"
[[ $out == *"File name too long"* ]] || fail "the refused name is not named" "$out"
compgen -G "$dir/*.jobs/*/sums.safetensors" >/dev/null || fail "the sums are lost"
refuse "/calibration load $dir/data.json" "data.json"
refuse "/calibration eat" "neither a file nor an action of /calibration"
refuse "/set sinks.calibration $dir/ffn.safetensors" "sinks.dims"
refuse "/set sinks.calibration $dir/none" "cannot open"
refuse "/set ffn.calibration $model/model.safetensors" "not a calibration"
out=$(vlmsh tests/goldens/llava-siglip-llama3 -c "/calibration load $dir/ffn.safetensors") &&
    fail "a calibration of another model was accepted" "$out"
[[ $out == *"different weights than"* ]] || fail "the refusal does not give its reason" "$out"
out=$(vlmsh -c "/calibrate merge $dir/both.safetensors $dir/ffn.safetensors $dir/ffn.safetensors" \
    -c "/calibration show $dir/both.safetensors") || fail "calibrations cannot be merged" "$out"
[[ $out == *"2 samples"* ]] || fail "the merged file does not have the samples of both" "$out"

# A job whose adapter has changed does not add up sums of two models.
cp -r $model/adapters/lora "$dir/lora"
cp "$picture" "$dir/shown.png" && chmod u+w "$dir/shown.png"
python3 - "$dir/many.json" "$dir/shown.png" <<'EOF'
import json, sys
json.dump([{"id": i, "image": sys.argv[2], "conversations": [{"from": "human", "value": "<image>\nWhat?"},
    {"from": "gpt", "value": "a"}]} for i in range(600)], open(sys.argv[1], "w"))
EOF
out=$(vlmsh $model -c "/set adapter $dir/lora" -c "/calibrate ffn $dir/many.json $dir/many.safetensors") || fail "the job does not start" "$out"
for _ in $(seq 1000); do
    job=$(vlmsh -c "/jobs" | awk '$3 == "running" && $4 ~ /^[1-9][0-9]*\// { print $1 }' | tail -1) # a job that has summed something
    [ -n "$job" ] && break
    sleep 0.02
done
out=$(vlmsh -c "/job $job pause" -c "/wait $job")
[ -e "$dir/db.jobs/$job/sums.safetensors" ] || fail "nothing was paused" "$out"
cp "$dir/lora/adapter_model.safetensors" "$dir/kept"
printf '\x01' | dd of="$dir/lora/adapter_model.safetensors" bs=1 seek=$(($(stat -c %s "$dir/kept") - 4)) conv=notrunc status=none
out=$(vlmsh -c "/job $job resume" -c "/wait $job" -c "/job $job log")
[[ $out == *"model, adapter or settings have changed since the job started (were adapter=lora@"*"restore them"* ]] ||
    fail "resumes with a different adapter" "$out"
cp "$dir/kept" "$dir/lora/adapter_model.safetensors"
# A job whose pictures have changed does not continue its sums.
echo >>"$dir/shown.png"
out=$(vlmsh -c "/job $job resume" -c "/wait $job" -c "/job $job log")
[[ $out == *"a picture of the data has changed since the job started"* ]] || fail "resumes with a different picture" "$out"
cp "$picture" "$dir/shown.png"
# Damaged sums are not continued either.
sums=$dir/db.jobs/$job/sums.safetensors
cp "$sums" "$dir/kept.sums"
printf '\x55' | dd of="$sums" bs=1 seek=$(($(stat -c %s "$sums") - 40)) conv=notrunc status=none
out=$(vlmsh -c "/job $job resume" -c "/wait $job" -c "/job $job log")
[[ $out == *"sums.safetensors' is damaged: its content differs from what was written; make it again with /calibrate"* ]] ||
    fail "resumes with damaged sums" "$out"
cp "$dir/kept.sums" "$sums"
out=$(vlmsh -c "/job $job resume" -c "/wait $job" -c "/job $job")
[[ $out == *"over 500 samples"* ]] || fail "does not resume the old job" "$out"
