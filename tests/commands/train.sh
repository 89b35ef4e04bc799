# train.sh -- /train: plans, refusals, and whole runs as jobs: a model folder, an adapter, checkpoints, methods
# in training.
. tests/commands/common.bash
cp $scene "$work/scene.png"
for i in 0 1 2 3 4 5; do
    printf '{"id": "%d", %s"question": "What is %d?", "answer": "It is %d."}\n' $i \
        "$([ $i = 0 ] && printf '"image": "scene.png", ')" $i $((i * i))
done >"$work/data.jsonl"
printf '{"question": "What?", "answer": " "}\n' >"$work/empty.jsonl"
printf '[{"question": "What?"}' >"$work/cut.json"

lines "/load $llava" "/set train.method layernorm-simple" "/train plan"
check "parameters trained by norms alone" 'select(.event=="table" and .name=="train plan") | .rows[-1][1]' 512
lines "/load $llava" "/set train.params lora:q_proj:8" "/train plan"
check "parameters of LoRA in the decoder" 'select(.event=="table" and .name=="train plan") | .rows | map(select(.[0]=="decoder"))[0][1]' 4096
lines "/load $llava" "/set train.params *q_prj*" "/train $work/data.jsonl $work/no"
check_has "error names a weight of nearly that name" 'select(.event=="error").message' "q_proj"
lines "/load $llava" "/train $work/none.jsonl $work/no" "/train $work/data.jsonl" \
    "/train $work/data.jsonl $work" "/train $work/data.jsonl $work/no --fast" "/train $work $work/no" \
    "/train $work/data.jsonl $work/no/where" "/set train.validation $work/none.jsonl" \
    "/train $work/data.jsonl $work/no" "/set train.validation none" "/train README.md $work/no" \
    "/train $work/cut.json $work/no"
check "errors of refused lines" '[select(.event=="error").message] | .[]' "cannot open '$work/none.jsonl': No such file or directory
give OUT, the output folder
'$work' holds other files: choose a new folder
unknown option '--fast': options are --images, --resume, --ranks, --sbatch, --submit
'$work' is a folder: choose a file in it (cut.json, data.jsonl, empty.jsonl)
cannot create '$work/no/where': there is no folder '$work/no/': create it first
train.validation: cannot open '$work/none.jsonl': No such file or directory
'README.md' is neither a JSON list of samples nor JSON lines
'$work/cut.json' ends in the middle of its list: it is truncated"
check "no job was started" 'select(.event=="notice").text | select(startswith("job "))' ""

cat >"$work/norms.vlmsh" <<S
/load $llava
/set job.nice 0
/set train.method layernorm-simple
/set train.batch 2
/set train.epochs 2
/train $work/data.jsonl $work/norms
/wait
/set train.method all
/train $work/data.jsonl $work/all
/wait
S
vlmsh -f "$work/norms.vlmsh" >"$work/out" 2>&1 || fail "norms.vlmsh: $(cat "$work/out")"
grep -Eqx "job 1 \(train\) is done: loss [0-9.]+ after 6 steps; adapter in '$work/norms' \(/adapter load applies it\)" "$work/out" ||
    fail "/wait shows no result: $(cat "$work/out")"
grep -Eqx "job 2 \(train\) is done: loss [0-9.]+ after 6 steps; model in '$work/all' \(/load opens it\)" "$work/out" ||
    fail "/wait shows no model: $(cat "$work/out")"
[ -f "$work/norms/adapter_model.safetensors" ] || fail "the adapter is missing"
[ -f "$work/all/model.safetensors" ] || fail "the model is missing"
[ -d "$work"/norms/checkpoint-* ] && fail "a checkpoint was left"
lines "/load $llava" "/adapter load $work/norms" "/adapter show"
check "no error" 'select(.event=="error").message' ""
lines "/load $work/all" "/info"
check "no error" 'select(.event=="error").message' ""
lines "/job 1"
check "steps of the job" 'select(.event=="table") | .rows | map(select(.[0]=="steps"))[0][1]' "6/6"
lines "/plot 1 loss grad_var.layers.0.input_layernorm"
check "the plot gives no error" 'select(.event=="error").message' ""

# A job can be named by its output folder; --resume of a finished run says that the result already
# existed, and refuses changed settings.
lines "/load $llava" "/train $work/data.jsonl $work/norms --resume" /wait
check_has "made with other settings" 'select(.event=="error").message' \
    "holds a finished training run: the run started with train.method=layernorm-simple, but now it is"
lines "/load $llava" "/set train.method layernorm-simple" "/set train.batch 2" "/set train.epochs 2" \
    "/train $work/data.jsonl $work/norms --resume" /wait "/job $work/norms" "/plot $work/norms $work/all loss --csv $work/both.csv" "/job $work/no/such"
check "only the last line fails" 'select(.event=="done").ok | tostring' $'true\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\nfalse'
check "the run with points" \
    'select(.event=="table" and .name=="job") | .rows | map(select(.[0]=="job"))[0][1]' 1
check_has "notice of a result that already existed" 'select(.event=="notice").text' "(train) is done: the result already existed"
same "the whole curve of norms" "$(grep -c '^"norms",' "$work/both.csv")" 6
same "the whole curve of all" "$(grep -c '^"all",' "$work/both.csv")" 6

# IRA's divergence is reported; it is zero before the first step.
lines "/load $llava" "/set train.ira on" "/set train.method connector" "/set train.steps 3" \
    "/set train.lr.ira 0.1" "/train $work/data.jsonl $work/ira" /wait "/plot $work/ira kl kl_weighted --csv $work/kl.csv"
check "no error" 'select(.event=="error").message' ""
same "0 before the first step, then more" \
    "$(awk -F, '$2 ~ /"kl"/ && $3 == 0 { first = $4 } END { print first, ($4 > 0) }' "$work/kl.csv")" "0 1"
last() { awk -F, -v name="\"$2\"" '$2 == name { last = $4 } END { print last }' "$1"; }
same "the gate weights kl_weighted alone" \
    "$(awk -v a="$(last "$work/kl.csv" kl)" -v b="$(last "$work/kl.csv" kl_weighted)" 'BEGIN { print (a > b && b > 0) }')" 1

# Validation with the metric that the data names; train.score loss uses only the loss.
sed 's/{"id"/{"metric": "contains", "id"/' "$work/data.jsonl" >"$work/named.jsonl"
lines "/load $llava" "/set job.nice 0" "/set train.method layernorm-simple" "/set train.steps 2" \
    "/set train.validation 0.5" "/train $work/named.jsonl $work/named" /wait "/set train.score loss" \
    "/train $work/named.jsonl $work/unnamed" /wait "/job $work/named" "/job $work/unnamed"
check "/wait shows both" 'select(.event=="notice").text | capture("is done: loss [0-9.]+ after 2 steps; validation (?<what>score [0-9.]+ .contains.|loss) ?[0-9.]* .best, at step [12].; adapter in ").what | sub("[0-9.]+"; "X")' $'score X (contains)\nloss'
check_has "rows of both jobs' tables" 'select(.event=="table" and .name=="job") | .rows | map(.[0]+" "+.[1]) | join("\n")' \
    "(contains)"
check "a score and a loss" '[select(.event=="table" and .name=="job") | .rows[] | select(.[0]|startswith("validation "))[0]] | .[]' \
    $'validation score\nvalidation loss'

# Kept checkpoints load as adapters and as models.
lines "/load $llava" "/set job.nice 0" "/set train.batch 2" "/set train.steps 4" \
    "/set train.save_every 2" "/set train.keep 2" "/set train.method lora" \
    "/train $work/data.jsonl $work/kept" /wait "/set train.method all" \
    "/train $work/data.jsonl $work/whole" /wait "/adapter load $work/kept/checkpoint-2" \
    "/adapter load $work/kept/checkpoint-4" "/eval $work/data.jsonl" /wait "/job 10" \
    "/adapter load $work/whole/checkpoint-2" "/load $work/whole/checkpoint-2" \
    "/eval $work/data.jsonl" /wait "/job 11" "/plot 99" "/calibrate norms $work/data.jsonl $work/c.safetensors" /wait "/plot 12"
check "errors of checkpoints as adapters" 'select(.event=="error").message' "'$work/whole/checkpoint-2' is not an adapter (no adapter_config.json and no extra.safetensors) but a model: open it with /load
no job 99 (/jobs lists them)
job 12 (calibrate) has recorded no metrics: it is done"
check "samples of two evaluations" '[select(.event=="table" and .name=="job") | .rows[] | select(.[0]=="n")[1]] | .[]' $'6\n6'

# Measures before the training run and at each of its checkpoints.
lines "/load $llava" "/redundancy --checkpoints $work/kept --data $work/data.jsonl --limit 1" "/redundancy --checkpoints $work"
check "checkpoints measured for redundancy" '[inputs, .] | map(select(.event=="table" and .name=="redundancy").rows)[0] | map(.[0]) | unique | join(" ")' "step 0 step 2 step 4"
check_has "no checkpoints" 'select(.event=="error").message' "'$work' has no checkpoints with weights"

# Where a setting needs trained parameters, the model before training is left out.
lines "/load $llava" "/set job.nice 0" "/set train.steps 2" "/set train.keep 1" "/set train.lr 0" "/set ira.warmup 0" "/set train.ira on" "/set ira.layers 1" "/set train.method layernorm" \
    "/train $work/data.jsonl $work/kl" /wait "/reset train.ira" "/kl ira.on=on --checkpoints $work/kl --data $work/data.jsonl --limit 1"
check "checkpoints measured for KL" '[inputs, .] | map(select(.event=="table" and .name=="kl").rows)[0] | map(.[0]) | unique | join(" ")' "ira.on=on, step 2"
check_has "notice of a condition left out" 'select(.event=="notice").text' "left out, before training: row ira.on=on, step 0: ira.on needs trained parameters"
check_has "the outcome warns" 'select(.event=="notice").text' "; IRA has collapsed: after the warm-up"

# A notice before the first step names parts that PEFT cannot read.
tail -n 5 "$work/data.jsonl" >"$work/said.jsonl"
told() { # RULES [MODEL]
    lines "/load tests/goldens/${2-kimi-text}" "/set train.params $1" "/train $work/said.jsonl $work/peft.${2-}$1" /wait
    check "trained: $1" 'select(.event=="error").message' ""
    grep -c 'PEFT .*ignores' "$(ls -td "$work"/vlmsh.db.jobs/* | head -n 1)/output"
}
same "LoRA of MLPs" "$(told 'lora:down_proj')" 0
same "LoRA of MLPs of a class without joined experts" "$(told 'lora:down_proj' kimi-vl)" 1
same "LoRA of attention" "$(told 'lora:o_proj')" 0
same "experts" "$(told '*.experts.1.up_proj.weight')" 1
same "a router" "$(told '*.1.mlp.gate.weight')" 0
same "shared experts" "$(told '*.shared_experts.up_proj.weight')" 0

lines "/load $llava" "/set train.ira on" "/set ira.gate off" "/set train.method connector" "/set train.steps 3" \
    "/set train.lr.ira 0.1" "/train $work/data.jsonl $work/ungated" /wait "/plot $work/ungated kl kl_weighted --csv $work/kl.csv"
check "no error without a gate" 'select(.event=="error").message' ""
same "without a gate, kl equals kl_weighted" "$(last "$work/kl.csv" kl)" "$(last "$work/kl.csv" kl_weighted)"

vlmsh -c "/load $llava" -c "/train $work/empty.jsonl $work/nothing" -c /wait >"$work/out" 2>&1 &&
    fail "a run with nothing to train on succeeds"
grep -q "no answer" "$work/out" || fail "why: $(cat "$work/out")"
# All methods follow one rule: in training only those act that can learn. One notice names enabled
# methods that do not act or learn; the plan, the log and the record name those that act.
base=("/load $llava" '/set train.method layernorm-simple' '/set train.steps 1' '/set compute.matmul f32')
train() { # NAME
    echo "/train $work/data.jsonl $work/$1"; echo /wait
}
each() { # the notices of methods on one line
    jq -r 'select(.event=="notice").text | select(test("training: |acts in training"))' "$work/events" | tr '\n' ';'
}
mapfile -t plain < <(train plain)
mapfile -t idle < <(train idle)
mapfile -t aligned < <(train aligned)
lines "${base[@]}" "${plain[@]}" '/set prune.score contribution' '/set prune.layer 0' '/set ffn.layers 0-2' \
    '/set ffn.approx skip' "${idle[@]}" '/train plan' "/job $work/idle log"
check "methods that do not learn change no loss" '[inputs, .] | map(select(.event=="notice").text | capture("loss (?<l>[0-9.]+) ").l) |
    "\(length) \(unique | length)"' '2 1'
idle='pruning is on, but does not act in training: /set train.prune on trains with it;FFN approximation is on, but never acts in training: the model is trained without it;'
same "notices of methods" "$(each)" "${idle}methods in training: none;$idle"
check_has "methods named in the log" 'select(.event=="text").text' 'methods in training: none'
same "methods in the record" "$(jq -c .methods "$work/idle/training.json")" '{}'
lines "${base[@]}" '/set norm.align on' "${aligned[@]}" "/adapter load $work/aligned" '/set norm.align off' '/adapter show' \
    '/adapter unload' "/adapter load $work/aligned" '/set norm.align on' '/set train.method connector' '/train plan' \
    '/set norm.align off' '/set train.ira on' '/train plan' '/set train.ira off' '/set train.params norm_align.*' \
    "/train $work/data.jsonl $work/no"
same "a method that acts without being trained" "$(each)" "$(printf '%s;' \
    'norm alignment acts in training, but its parameters are not trained: train the projector too, or name norm_align.* in train.params' \
    'methods in training: norm alignment (trained)' 'methods in training: IRA (trained)')"
same "methods in the record" "$(jq -c .methods "$work/aligned/training.json")" '{"norm_align":"not trained"}'
check_has "methods named with the adapter" 'select(.event=="text").text' 'with norm alignment (not trained); applied'
check_has "the notice on loading" 'select(.event=="notice").text' 'the adapter was trained with norm alignment on: to use it as trained, /set norm.align on'
check_has "the adapter that it continues from" 'select(.event=="notice").text' "continues from the adapter '$work/aligned'"
check_has "missing parameters are refused at once" 'select(.event=="error").message' "'norm_align.*' matches no weight"


# The end of a training run reports the number of skipped samples; if an adapter has no tensors for
# some targets, a notice names those targets.
printf '[{"id":"x","question":"q","answer":"a"},{"id":"y","image":"no.png","question":"q","answer":"a"},{"id":"z","question":"q"}]' >"$work/some.json"
lines "/load $llava" '/set job.nice 0' '/set train.steps 1' '/set train.method lora' "/train $work/some.json $work/some" /wait "/adapter load $work/some"
check_has "notice of skipped samples" 'select(.event == "notice").text' "; skipped: 2 of 3 samples, the first: y: picture missing: "
check "the run's adapter has all tensors" 'select(.event == "notice").text | select(test("no tensors"))' ""
python3 - "$work/some/adapter_model.safetensors" <<'P'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n, = struct.unpack_from("<Q", raw)
header, body = {}, b""
for name, t in json.loads(raw[8:8 + n]).items():
    if name == "__metadata__" or "layers.1." in name and "q_proj" in name: continue
    a, b = t["data_offsets"]
    header[name] = dict(t, data_offsets=[len(body), len(body) + b - a])
    body += raw[8 + n + a:8 + n + b]
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + body)
P
lines "/load $llava" "/adapter load $work/some"
check_has "how many tensors are missing" 'select(.event == "notice").text' "the adapter has no tensors for 1 of the "
check_has "the name of the missing one" 'select(.event == "notice").text' "layers.1.self_attn.q_proj.weight"
# A validation says which held-out samples its score leaves out; a run, which kinds no sample has, and which
# settings have no effect.
sed '1s/"answer": "[^"]*"/"answer": "yes"/; s/{"id"/{"kind": "a", "id"/' "$work/data.jsonl" >"$work/yes.jsonl"
lines "/load $llava" "/set job.nice 0" "/set train.method layernorm-simple" "/set train.steps 1" "/set train.epochs 2" "/set train.lora.rank 4" \
    "/set train.lr.ira 0.1" "/set train.weight_decay 0.1" "/set train.eval_every 1" "/set train.filter a,b" "/train $work/yes.jsonl $work/left" /wait \
    "/set train.validation $work/yes.jsonl" "/set train.score yesno" "/set sample.max_tokens 2" "/train $work/yes.jsonl $work/scored" /wait \
    "/job $work/left" "/job $work/scored"
check "left out" 'select(.event=="notice").text | select(contains("is done")) | sub(".*applies it\\); "; "")' "no sample is of the kind b
not scored in validation: 5 of 6 samples, the first: sample 1: the reference is neither yes nor no; no sample is of the kind b"
check "without effect" 'select(.event=="table" and .name=="job").rows[] | select(.[0]=="without effect")[1]' \
    $'train.epochs, train.weight_decay, train.lora.rank, train.eval_every, train.lr.ira\ntrain.epochs, train.weight_decay, train.lora.rank, train.lr.ira'

# Loading a result, a checkpoint or a saved copy says which methods acted in training and which settings differ; a
# model's folder is no foreign adapter. A job says that it reads an adapter that changed after it was loaded.
lines "${base[@]}" '/set norm.align on' '/set image.downsample 0.5' '/set train.keep 1' "/train $work/data.jsonl $work/seen" /wait \
    '/set train.method full' "/train $work/data.jsonl $work/model" /wait
check "two runs" '[inputs, .] | map(select(.event=="error")) | length' 0
for folder in seen seen/checkpoint-1 copy; do
    lines "/load $llava" "/adapter load $work/seen/checkpoint-1" "/adapter save $work/copy --once" '/adapter unload' "/adapter load $work/$folder"
    check_has "$folder: a method" '[inputs, .] | map(select(.event=="notice").text)[-2]' "the adapter was trained with norm alignment on: to use it as trained"
    check "$folder: settings" '[inputs, .] | map(select(.event=="notice").text)[-1]' \
        'the adapter was trained with settings that differ now: image.downsample=0.5 (now 1)'
done
lines "/load $llava" '/set norm.align on' '/set norm.form rms' '/set image.downsample 0.5' "/adapter load $work/seen"
check "the form of a method" '[inputs, .] | map(select(.event=="notice").text)[-1]' \
    'the adapter was trained with settings that differ now: norm.form=layernorm (now rms)'
lines "/load $work/model/checkpoint-1" "/adapter load $work/model/checkpoint-1" '/adapter unload' "/load $work/model" "/adapter load $work/model"
check "both models name their parameters" '[inputs, .] | map(select(.event=="notice").text) | map(select(startswith("the model was trained with norm alignment, whose parameters"))) | length' 2
check "no false notice" 'select(.event=="notice").text | select(test("different model|does not read"))' ""
lines "/load $llava" "/preset load $work/seen" '/set norm.align on' '/set image.downsample 0.5' "/preset load $work/seen"
check "a run as a preset names its other settings" 'select(.event=="notice").text | select(contains("does not load"))' \
    'settings of the run that /preset does not load: norm.align=on, image.downsample=0.5 (now 1)'
cp -r "$work/seen" "$work/moving"
printf '#!/bin/sh\nexec cp %s/copy/* %s/moving\n' "$work" "$work" >"$work/retrain" && chmod +x "$work/retrain"
python3 - "$VLMSH" "$work" <<P >"$work/events"
import subprocess, sys
vlmsh, work = sys.argv[1:]
p = subprocess.Popen([vlmsh, "--db", work + "/vlmsh.db", "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def line(text):
    p.stdin.write(text + "\n"); p.stdin.flush()
    for one in p.stdout:
        print(one, end="")
        if '"event":"done"' in one: return
line("/load $llava"); line(f"/adapter load {work}/moving"); line(f"/eval {work}/data.jsonl --limit 1"); line("/wait")
subprocess.run([work + "/retrain"])
line(f"/eval {work}/data.jsonl --limit 1"); line("/wait"); line(f"/adapter load {work}/moving"); line(f"/eval {work}/data.jsonl --limit 1"); line("/wait")
p.stdin.close(); p.wait()
P
check "the second job alone says it" '[inputs, .] | map(select(.event=="notice").text | select(startswith("the files of adapter"))) | length' 1

# A run that prunes by a calibration is not continued with another one.
base+=('/set train.prune on' "/set phases.calibration $work/phases.safetensors")
lines "/load $llava" "/calibrate phases $work/data.jsonl $work/phases.safetensors --limit 1" /wait "${base[@]:1}" "/train $work/data.jsonl $work/pruned" /wait
check "a run that prunes" 'select(.event=="error").message' ""
lines "/load $llava" "/calibrate phases $work/data.jsonl $work/two.safetensors --limit 2" /wait
mv "$work/two.safetensors" "$work/phases.safetensors"
lines "${base[@]}" "/train $work/data.jsonl $work/pruned --resume" /wait
check_has "another calibration" 'select(.event=="error").message' "the calibration (setting phases.calibration) has changed since the run started"

finish
