# stages.sh -- layers split over ranks (job.split layers) give the answers of one rank, with less memory in
# each.
. tests/commands/common.bash
cp $scene "$work/scene.png"
for i in $(seq 0 13); do
    printf '{"id": "%d", %s"question": "What is %d?", "answer": "It is %d.", "choices": ["It is %d.", "No"], "gold": 0}\n' \
        $i "$([ $((i % 3)) = 0 ] && printf '"image": "scene.png", ')" $i $i $i
done >"$work/text.jsonl"
sed '3s/.*/{"id": "x", "image": "none.png", "question": "What?", "answer": "It."}/; 8s/.*/{"id": "y"}/' \
    "$work/text.jsonl" >"$work/data.jsonl"
grep -v image "$work/text.jsonl" >"$work/noimage.jsonl"

# evaluate MODEL RANKS LINE...: runs the lines, of which the last starts a job; waits for the job.
evaluate() {
    local model=$1 n=$2 last=${*: -1}
    shift 2
    printf '%s\n' "/load $model" '/set job.nice 0' '/set job.split layers' '/set sample.max_tokens 5' \
        "${@:1:$#-1}" "$last --ranks $n" /wait >"$work/script"
    vlmsh -f "$work/script" >"$work/out" 2>&1
}
# alike MODEL RANKS DATA LINE...: one rank and RANKS ranks give the same scores and answers.
alike() {
    local model=$1 ranks=$2 data=$3 n
    shift 3
    for n in 1 "$ranks"; do
        [ $n != 1 ] || ! sanitized || continue
        evaluate "$model" "$n" "${@:1:$#-1}" "/eval $data ${*: -1}" || fail "$model $n: $(tail -1 "$work/out")"
        vlmsh -c "/eval show --csv $work/scores$n.csv" -c /eval\ show >"$work/out" || fail "no scores"
        grep -v '^rank \|scores.*csv' "$work/out" | sed 's/ *$//' >"$work/show$n"
    done
    ! sanitized || return 0
    cmp "$work/scores1.csv" "$work/scores$ranks.csv" || fail "$model: scores differ with $ranks ranks ($*)"
    diff "$work/show1" "$work/show$ranks" || fail "$model: totals differ with $ranks ranks ($*)"
}

alike $llava 2 "$work/data.jsonl" '--metric cider'
alike $llava 4 "$work/data.jsonl" '--metric loss'
# A tied head, in the last rank too; positions in three dimensions; experts and latent attention.
alike tests/goldens/llava-siglip-llama3 4 "$work/data.jsonl" '--metric cider'
alike tests/goldens/qwen2.5-vl 2 "$work/data.jsonl" '--metric loss'
alike tests/goldens/kimi-vl 3 "$work/data.jsonl" '--metric loglik --limit 9'
# A first question before those of the samples; all ranks add its answer to the conversation.
alike $llava 2 "$work/data.jsonl" '/set eval.first "What is there?"' '--metric exact'
# Methods that act within a layer.
alike $llava 2 "$work/data.jsonl" '/set norm.init default' '/set norm.align on' '/set ffn.layers 1,2' '/set ffn.approx skip' '--metric cider'
# Pruning drops rows for later layers: in the first rank, between two ranks, in the last one; for the prompt or at each
# step.
for kind in contribution attention diversity random; do
    alike $llava 2 "$work/data.jsonl" '/set prune.layer 1' '/set prune.keep 0.4' "/set prune.score $kind" '--metric cider'
done
alike $llava 4 "$work/data.jsonl" '/set prune.layer 0,2' '/set prune.keep 0.6,0.2' '/set prune.score contribution' '--metric cider'
alike $llava 3 "$work/data.jsonl" '/set prune.layer 2' '/set prune.score attention' '--metric loss'
for layers in 0 1,2; do
    keep=$([ $layers = 0 ] && echo 0.4 || echo 0.6,0.3)
    alike $llava 4 "$work/data.jsonl" '/set prune.mode dynamic' "/set prune.layer $layers" "/set prune.keep $keep" \
        '/set prune.score contribution' '--metric cider'
done
# Pruning without a query uses the encoder's attention, which only the first rank has, or acts before the first
# layer, so in the first rank. The second choice of a prompt continues from cached rows.
for kind in cls diversity uniform; do
    alike $llava 4 "$work/data.jsonl" '/set prune.layer input' '/set prune.keep 0.4' "/set prune.score $kind" '--metric loss'
done
alike $llava 2 "$work/data.jsonl" '/set prune.layer 2' '/set prune.keep 0.4' '/set prune.score cls' '--metric loglik'
alike $llava 3 "$work/data.jsonl" '/set prune.layer 2' '/set prune.keep 0.4' '/set prune.score cls' '--metric loss'
alike $llava 4 "$work/data.jsonl" '/set prune.layer 0,2' '/set prune.keep 0.6,0.2' '/set prune.score cls' '--metric cider'
alike $llava 3 "$work/data.jsonl" '/set prune.layer 1' '/set prune.keep 0.4' '/set prune.score contribution' '--metric loglik'
# Pruning by IRA's divergence, which the layer itself measures.
printf '%s\n' "/load $llava" '/set job.nice 0' '/set train.ira on' '/set ira.layers 1-2' '/set train.method connector' \
    '/set train.steps 3' '/set train.lr 1e-2' "/train $work/data.jsonl $work/ira" /wait >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
alike $llava 4 "$work/data.jsonl" "/set adapter $work/ira" '/set ira.layers 1-2' '/set ira.on on' '/set prune.layer 1,2' \
    '/set prune.keep 0.6,0.3' '/set prune.score divergence' '--metric loss'
# Pruning really changes the losses.
cp "$work/scores4.csv" "$work/pruned.csv"
evaluate $llava 1 "/set adapter $work/ira" '/set ira.layers 1-2' '/set ira.on on' "/eval $work/data.jsonl --metric loss"
vlmsh -c "/eval show --csv $work/all.csv" >"$work/out"
cmp -s "$work/all.csv" "$work/pruned.csv" && fail "the same loss without pruning by divergence"
evaluate $llava 1 "/eval $work/data.jsonl --metric loss"
vlmsh -c "/eval show --csv $work/all.csv" >"$work/out"
cmp -s "$work/all.csv" "$work/scores3.csv" && fail "the same loss without pruning"
alike tests/goldens/qwen2.5-vl 2 "$work/data.jsonl" '/set prune.layer 1' '/set prune.score contribution' '--metric loss'

# /ask over a file gives the same answers, apart from times.
for n in 1 2; do
    evaluate $llava $n "/ask --data $work/data.jsonl --out $work/answers$n.jsonl --job" || fail "ask: $(tail -1 "$work/out")"
    jq -c 'del(.vision_s, .prefill_s, .decode_s)' "$work/answers$n.jsonl" >"$work/lines$n"
done
same "lines of the answers file" "$(wc -l <"$work/lines1")" 14
cmp "$work/lines1" "$work/lines2" || fail "answers differ in two ranks"

# --- memory --------------------------------------------------------------------------------------

# A model of 176 MB: each of two ranks holds half of it in memory, besides the program.
python3 - $llama "$work/wide" <<'PY'
import json, os, shutil, struct, sys
src, out = sys.argv[1:]
os.mkdir(out)
for f in os.listdir(src):
    if not f.endswith(".safetensors"): shutil.copy(os.path.join(src, f), out)
c = json.load(open(src + "/config.json"))
D, F, L, H = 512, 4096, 12, 8
c.update(hidden_size=D, intermediate_size=F, num_hidden_layers=L, num_attention_heads=H,
         num_key_value_heads=H, head_dim=D // H, tie_word_embeddings=True)
json.dump(c, open(out + "/config.json", "w"))
high = bytes(0x3c | (b & 0x80) for b in range(256)) # bf16 of about 0.01
def matrix(n):
    raw = bytearray(2 * n)
    raw[0::2] = os.urandom(n)
    raw[1::2] = os.urandom(n).translate(high)
    return raw
tensors = {"model.embed_tokens.weight": (c["vocab_size"], D), "model.norm.weight": (D,)}
for l in range(L):
    p = f"model.layers.{l}."
    for name in "q", "k", "v", "o": tensors[f"{p}self_attn.{name}_proj.weight"] = (D, D)
    for name, shape in ("gate", (F, D)), ("up", (F, D)), ("down", (D, F)):
        tensors[f"{p}mlp.{name}_proj.weight"] = shape
    for name in "input", "post_attention": tensors[f"{p}{name}_layernorm.weight"] = (D,)
at, head = 0, {}
for name, shape in tensors.items():
    n = shape[0] * (shape[1] if len(shape) > 1 else 1) * 2
    head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
    at += n
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
with open(out + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    for name, shape in tensors.items():
        f.write(matrix(shape[0] * shape[1]) if len(shape) > 1 else b"\x80\x3f" * shape[0])
PY
# The fifth question starts the ranks' second conversation and is computed without a cache, while one rank continues
# from cached rows. bf16 products round few rows differently from many; near ties must still be decided alike.
alike "$work/wide" 2 "$work/noimage.jsonl" '/set compute.matmul bf16' '/set sample.max_tokens 3' '--metric cider'
size=$(stat -c %s "$work/wide/model.safetensors")
lines /job "/job $(vlmsh --json -c /jobs | jq -r 'select(.name=="jobs").rows[0][0]')"
for k in 0 1; do
    mb=$(jq -r "select(.event==\"table\") | .rows[] | select(.[0]==\"rank $k\")[1]" "$work/events" |
        sed -n 's/^layers .* at most \([0-9]*\) MB in memory$/\1/p')
    ! sanitized || continue # sanitizers need extra memory
    [ "${mb:-0}" -gt 20 ] && [ $((mb * 1000000 * 100)) -lt $((size * 85)) ] ||
        fail "rank $k had ${mb:-no} MB of $((size / 1000000)) in memory"
done

# --- refusals and faults -------------------------------------------------------------------------

lines "/load $llava" '/set job.split layers' "/train $work/data.jsonl $work/none --ranks 2"
check_has "training is refused" 'select(.event=="error").message' "divide its samples among ranks, not the model's layers: /set job.split data"
evaluate $llava 5 "/eval $work/data.jsonl" && fail "five ranks for four layers"
grep -q "the model has 4 layers" "$work/out" || fail "five ranks: $(tail -1 "$work/out")"

# A job paused in the middle is continued by one rank.
evaluate $llava 1 "/eval $work/data.jsonl --metric cider"
vlmsh -c "/eval show --csv $work/whole.csv" >"$work/out"
printf '%s\n' "/load $llava" '/set job.split layers' '/set sample.max_tokens 5' \
    "/eval $work/data.jsonl --metric cider --ranks 2" >"$work/script"
vlmsh -f "$work/script" >"$work/out" 2>&1
id=$(sed -n 's/^job \([0-9]*\): .*/\1/p' "$work/out")
vlmsh -c "/job $id pause" -c "/wait $id" >"$work/out" 2>&1
if grep -q paused "$work/out"; then
    vlmsh -c "/job $id resume --ranks 1" -c "/wait $id" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
else
    grep -q "is done" "$work/out" || fail "neither paused nor done: $(tail -1 "$work/out")"
fi
vlmsh -c "/eval show $id --csv $work/paused.csv" >"$work/out"
cmp "$work/whole.csv" "$work/paused.csv" || fail "the result differs after a pause"
finish
