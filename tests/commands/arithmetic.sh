# arithmetic.sh -- compute.matmul auto: bf16 if the CPU has fast bf16 products and the weights are
# bf16 or quantised; stored results name their arithmetic.
. tests/commands/common.bash
seeing=tests/goldens/llava-siglip-llama3 # bf16 weights; those of $llava are f16
auto=f32
case $(vlmsh -c /version) in
*'+ amx'*) auto=bf16 ;;
*'+ bf16'*) ! grep -q AuthenticAMD /proc/cpuinfo || auto=bf16 ;;
esac
# A comparison of f32 with bf16, and of f32 with auto.
chosen=f32 both="f32 | bf16" mixed=mixed
case $(vlmsh -c /version) in *'+ amx'* | *'+ bf16'*) chosen=$both ;; esac
if [ $auto = f32 ]; then
    both=f32 mixed=f32
    echo "SKIPPED: f32 is faster on this CPU: no test that auto chooses bf16 and that results mix it with f32"
fi
# An unknown instruction set, or one that this CPU lacks, is an error.
refused() { # SET MESSAGE
    VLMSH_ISA=$1 vlmsh -c /version >"$work/out" 2>&1 && fail "VLMSH_ISA=$1 is accepted"
    grep -q "^vlmsh: VLMSH_ISA: $2 '$1': this CPU has base" "$work/out" || fail "VLMSH_ISA=$1: $(cat "$work/out")"
}
refused avx3 'unknown instruction set'
grep -q amx_int8 /proc/cpuinfo || refused amx 'this CPU lacks the instruction set'
VLMSH_ISA='' vlmsh -c /version >/dev/null 2>&1 || fail "an empty VLMSH_ISA is refused"

cp $scene "$work/scene.png"
for i in 0 1 2; do
    printf '{"id": "%d", "image": "scene.png", "metric": "exact", "question": "What is %d?", "answer": "It is %d."}\n' $i $i $i
done >"$work/data.jsonl"

of_evaluation() {
    jq -r 'select(.event == "table" and .name == "evaluation").rows[] | select(.[0] == "arithmetic")[1]' "$work/events" |
        tr '\n' ' '
}

short=('/set job.nice 0' '/set sample.max_tokens 3' '/set sample.ignore_eos on')
lines "/load $seeing" /info '/set compute.matmul f32' /info "/load $llava" '/reset compute.matmul' /info \
    '/set weights.dtype q8_0' "/load $seeing" /info '/reset weights.dtype'
same "arithmetic that /info states" "$(jq -r 'select(.event == "table" and .name == "model").rows[] | select(.[0] == "arithmetic")[1]' "$work/events")" \
    "$auto (compute.matmul auto)
f32 (compute.matmul f32)
f32 (compute.matmul auto)
$auto (compute.matmul auto)"

# Only matrices that compute.matmul governs decide. A table of positions, a router and the f32 filters of Qwen3.5 do
# not, and the f32 convolution of a GGUF encoder holds numbers of bf16.
# widen FOLDER OUT NAME...: a copy that holds these tensors in f32, with numbers that bf16 would round.
widen() {
    cp -rL "$1" "$2" && chmod -R u+w "$2" && python3 - "${@:2}" <<'P'
import json, struct, sys
file, names = f"{sys.argv[1]}/model.safetensors", sys.argv[2:]
raw = open(file, "rb").read()
n, = struct.unpack_from("<Q", raw)
head, data = {}, b""
for name, t in json.loads(raw[8:8 + n]).items():
    if name == "__metadata__":
        continue
    these = raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
    if name in names:
        names.remove(name)
        t["dtype"] = "F32"
        these = b"".join(b"\1" + b"\0" + these[i:i + 2] for i in range(0, len(these), 2))
    head[name] = dict(t, data_offsets=[len(data), len(data) + len(these)])
    data += these
head = json.dumps(head).encode()
open(file, "wb").write(struct.pack("<Q", len(head)) + head + data)
sys.exit(bool(names))
P
}
tower=model.visual text=model.language_model.layers
widen tests/goldens/qwen3-vl-moe "$work/apart" $tower.pos_embed.weight $text.0.mlp.gate.weight || fail "no such tensor"
widen tests/goldens/qwen3.5 "$work/mixed" $tower.blocks.{0,1}.attn.qkv.weight $text.1.linear_attn.conv1d.weight || fail "no such tensor"
vlmsh quantize $seeing "$work/seeing.gguf" --type bf16 --no-compare >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
except="bf16 except 2 tensors ('model.visual.blocks.*.attn.qkv.weight' x 2)"
lines "/load tests/goldens/qwen3.5" /info '/set compute.matmul f32' /info '/reset compute.matmul' "/load $work/seeing.gguf" /info \
    "/load $work/apart" /info "/load $work/mixed" /info '/set compute.matmul f32' "/load $work/mixed"
same "matrices that decide" "$(jq -r 'select(.event == "table" and .name == "model").rows[] | select(.[0] == "arithmetic" or .[0] == "matrices") | .[1]' "$work/events")" \
    "$auto (compute.matmul auto)
f32 (compute.matmul f32)
$auto (compute.matmul auto)
$auto (compute.matmul auto)
$except
f32 (compute.matmul auto)"
says=
[ $auto = f32 ] ||
    says="the matrices are $except, which bf16 would round: compute.matmul auto computes in f32; /set compute.matmul bf16 is faster"
same "notice of mixed matrices" "$(jq -r 'select(.event == "notice").text' "$work/events" | grep '^the matrices')" "$says"

# Evaluations, calibrations, measurements, comparisons.
lines "/load $seeing" "${short[@]}" "/eval $work/data.jsonl --here" "/eval $work/data.jsonl" /wait '/eval show' \
    "/calibrate ffn $work/data.jsonl $work/auto.safetensors" /wait "/calibration show $work/auto.safetensors" \
    "/set compute.matmul f32" "/eval $work/data.jsonl --here" \
    "/calibrate ffn $work/data.jsonl $work/f32.safetensors" /wait "/calibration show $work/f32.safetensors" \
    "/calibrate merge $work/both.safetensors $work/auto.safetensors $work/f32.safetensors" \
    "/calibration show $work/both.safetensors"
same "arithmetic of evaluations" "$(of_evaluation)" "$auto $auto f32 "
same "calibrations" "$(jq -r 'select(.event == "text").text' "$work/events" | grep -o 'arithmetic .*' | tr '\n' ' ')" \
    "arithmetic $auto arithmetic f32 arithmetic $mixed "
lines "/load $seeing" "${short[@]}" "/image $scene" 'What is this?' /redundancy '/set compute.matmul f32' '/regen' \
    /redundancy '/compare compute.matmul=f32 | compute.matmul=bf16 Where is it?' \
    "/compare compute.matmul=f32 | compute.matmul=auto --data $work/data.jsonl" \
    '/results 1' '/results 2' '/results 3' '/results 4'
same "measurements" "$(jq -r 'select(.event == "notice").text' "$work/events" | grep '^computed in ')" \
    "computed in $auto
computed in f32
computed in $chosen
computed in $both"

# A training run's plan, log and record.
cat >"$work/train.vlmsh" <<S
/load $seeing
/set job.nice 0
/set train.method layernorm-simple
/set train.steps 2
/set train.batch 2
/train plan $work/data.jsonl
/train $work/data.jsonl $work/auto
/wait
/job 1 log
/set compute.matmul f32
/train $work/data.jsonl $work/f32
/wait
S
rm "$work/vlmsh.db"
vlmsh --plain -f "$work/train.vlmsh" >"$work/out" 2>&1 || fail "training: $(cat "$work/out")"
grep -q "rows, matrix products in $auto;" "$work/out" || fail "the plan: $(cat "$work/out")"
grep -q "with matrix products in $auto" "$work/out" || fail "the log: $(cat "$work/out")"
same "training.json" "$(jq -r .arithmetic "$work/auto/training.json" "$work/f32/training.json" | tr '\n' ' ')" "$auto f32 "
finish
