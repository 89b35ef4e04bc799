# tests/commands/weights.sh -- folders with smaller weights (weights.dtype): the numbers equal those of the
# GGUF file; cache lifetime, sessions and jobs, a full disk (core/model/converted.c, core/files/weight_cache.c).
. tests/commands/common.bash
export XDG_CACHE_HOME=$work/cache
kept=$work/cache/vlmsh/weights

files() { ls "$kept" | wc -l; }
# small TYPE [LINE...]: runs a script that loads Llama with weights of this type.
small() {
    local type=$1
    shift
    lines "/set weights.dtype $type" "/load $llama" "$@"
}

# --- numbers ---------------------------------------------------------------------------------------------------
vlmsh quantize $llama "$work/q8.gguf" --type q8_0 >"$work/out" 2>&1 || fail "quantize: $(tail -1 "$work/out")"
answer "$work/q8.gguf" "$work/a.safetensors"
answer "$llama::q8_0" "$work/b.safetensors"
same_dump "as the GGUF file" "$work/a.safetensors" "$work/b.safetensors"
same "one cache file" "$(files)" 1
file=$(echo "$kept"/*-q8_0.gguf)
written=$(stat -c %i "$file")
# The rest of the folder, including the encoder, is unchanged; only matrices of the language model are smaller.
for name in llava-1.5 kimi-vl glm-4.1v internvl2-internlm2; do
    lines "/set weights.dtype q8_0" "/load tests/goldens/$name" "/image $scene" '/set sample.max_tokens 2' 'Hello' '/info'
    check "$name" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\ntrue\ntrue'
done
vlmsh "$llava::q8_0" -c /info >"$work/out" 2>&1
grep -q '^embedding .* q8_0 ' "$work/out" || fail "embedding: $(cat "$work/out")"
grep -q '^vision encoder .* f16 ' "$work/out" || fail "encoder: $(cat "$work/out")"
grep -q '^decoder .* q8_0 ' "$work/out" || fail "the type of most parameters: $(cat "$work/out")"

# A GGUF file keeps its own weights, also inside a folder.
mkdir "$work/only" && vlmsh quantize $llama "$work/only/m.gguf" --type f16 >"$work/out" 2>&1 || fail "quantize: $(tail -1 "$work/out")"
vlmsh -c '/set weights.dtype q8_0' -c "/load $work/only" -c /info >"$work/out" 2>&1
grep -q '^embedding .* f16 ' "$work/out" || fail "a folder with a GGUF file: $(cat "$work/out")"

# --- settings, sessions, jobs ----------------------------------------------------------------------------------
small q8_0 '/set sample.max_tokens 2' 'Hello' "/load $work/q8.gguf"
check "all lines succeed" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\ntrue'
same "written once" "$(stat -c %i "$file")" "$written"
small q9_0
check_has "error of an unknown type" 'select(.event == "error").message' "auto, q8_0, q4_k, f16, bf16"
vlmsh --session s -c '/set weights.dtype q8_0' -c "/load $llama" -c '/set sample.max_tokens 2' -c 'Hello' >"$work/out" 2>&1 || fail "session: $(tail -1 "$work/out")"
vlmsh --session s -c '/info' >"$work/out" 2>&1 || fail "resume: $(tail -1 "$work/out")"
grep -q '^embedding .* q8_0 ' "$work/out" || fail "resumed with different weights: $(cat "$work/out")"
grep -q 'have changed' "$work/out" && fail "resumed: $(cat "$work/out")"
echo '[{"id": 2, "question": "Why?", "answer": "Because."}]' >"$work/data.json"
small q8_0 '/set train.steps 2' '/set train.params lora:q_proj:4' "/train $work/data.json $work/lora" /wait "/adapter load $work/lora" "/adapter merge $work/merged"
check_has "/adapter merge is refused" 'select(.event == "error").message' "load it with weights.dtype auto"
same "number of errors" "$(jq -c 'select(.event == "error")' "$work/events" | wc -l)" 1
answer $llama "$work/a.safetensors" -c "/adapter load $work/lora" # trained with q8_0, used with bf16

# A damaged cache file is rewritten, with a notice.
cp "$file" "$work/good"
dd if=/dev/zero of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) count=4096 conv=notrunc status=none
small q8_0
check_has "the damage is reported" 'select(.event == "notice").text' "were damaged and have been rewritten"
cmp "$file" "$work/good" || fail "the damaged file is used"
small q8_0
check "reported once" 'select(.event == "notice").text | select(test("damaged"))' ""

# If weights change in the middle of a tensor, they get their own cache file, not the old one.
rm -r "$kept"
cp -r $llama "$work/edited" && chmod -R u+w "$work/edited"
lines '/set weights.dtype q8_0' "/load $work/edited" # still with the content of $llama
python3 - "$work/edited" <<'P'
import json, struct, sys
with open(sys.argv[1] + "/model.safetensors", "r+b") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    tensors = json.loads(f.read(size))
    a, b = max((t["data_offsets"] for k, t in tensors.items() if k != "__metadata__"), key=lambda o: o[1] - o[0])
    assert b - a > 10000, b - a
    f.seek(8 + size + (a + b) // 2)
    f.write(b"\x3c" * 64)
P
small q8_0 "/load $work/edited"
same "a cache file of each content" "$(files)" 2

# --- the cache -------------------------------------------------------------------------------------------------
rm -r "$kept"
small q8_0
small q4_k
small bf16 # the folder's own type: nothing to write
same "files of two types" "$(files)" 2
bytes=$(stat -c %s "$file")
touch -d '1 hour ago' "$kept"/*-q4_k.gguf
small q8_0 "/set weights.cache $(awk -v b="$bytes" 'BEGIN { printf "%.9f", 1.5 * b / 1e9 }')" "/load $llama"
same "the one used last" "$(ls "$kept")" "$(basename "$file")"
lines '/set weights.cache 0' '/set weights.dtype q8_0' "/load $llama" '/set sample.max_tokens 2' 'Hello'
check "all lines succeed without a cache" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\ntrue'
same "nothing is left" "$(files)" 0
# Remains of killed programs are removed once no process can be writing them. Files with other names
# stay.
name=$(basename "$file" -q8_0.gguf)
for i in "$name-q4_k.gguf.part-abcdef" "$name-q4_k.gguf.part-abcdefg" "$name-q4_k.gguf.backup" llama-13b.gguf "${name%?}-q8_0.gguf" "$name-mine.gguf" "$name-q8_0.gguf.gguf"; do
    echo 'my only copy' >"$kept/$i" && touch -d '2 hours ago' "$kept/$i"
done
echo >"$kept/$name-q4_k.gguf.part-ghijkl"
small q8_0 '/set weights.cache 0' "/load $llama"
same "files left behind" "$(ls "$kept" | sed "s/$name/N/; s/${name%?}/M/" | sort | paste -sd' ')" \
    'M-q8_0.gguf N-mine.gguf N-q4_k.gguf.backup N-q4_k.gguf.part-abcdefg N-q4_k.gguf.part-ghijkl N-q8_0.gguf.gguf llama-13b.gguf'
# In a folder behind a link nothing is removed, with a notice.
mv "$kept" "$work/linked" && ln -s "$work/linked" "$kept"
small q8_0 '/set weights.cache 0' "/load $llama"
same "files in the folder behind a link" "$(ls "$kept" | wc -l)" 8
check_has "through a link: said" 'select(.event == "notice").text' 'removes nothing from it because it is a link'
rm -r "$kept" "$work/linked"
small q8_0
# The least recently used models are removed first, whenever they were written.
small f16
for name in internvl2-internlm2 glm-4.1v; do vlmsh "tests/goldens/$name::f16" -c /info >"$work/out" 2>&1 || fail "$name: $(tail -1 "$work/out")"; done
small q8_0
used=$(ls -t "$kept"/*.gguf | head -3)
same "the file that was used last" "$(head -1 <<<"$used")" "$file"
room=$(stat -c %s $used | awk '{ n += $1 } END { printf "%.9f", n / 1e9 }')
small q8_0 "/set weights.cache $room" "/load $llama"
same "the three used last stay" "$(ls -t "$kept"/*.gguf)" "$used"
rm "$kept"/*-f16.gguf
# With weights.cache 0, programs remove files that others are about to open.
for i in 1 2 3; do
    for j in 1 2 3 4 5 6 7 8 9 10; do echo "/load $llama::q8_0" && echo '/load tests/goldens/qwen2'; done >"$work/loads"
    "$VLMSH" --db "$work/$i.db" --json -c '/set weights.cache 0' -f "$work/loads" >"$work/out.$i" 2>&1 &
    pids[i]=$!
done
for i in 1 2 3; do wait ${pids[i]} || fail "removed by others: $(grep -m1 '"error"' "$work/out.$i")"; done
small q8_0
# A truncated file is rewritten; several programs write at once.
head -c $((bytes - 1)) "$file" >"$file.new" && mv "$file.new" "$file"
vlmsh "$llama::q8_0" -c /info >"$work/out" 2>&1 || fail "a byte short: $(tail -1 "$work/out")"
same "size of the file that was a byte short" "$(stat -c %s "$file")" "$bytes"
# A file with a different packing is rewritten, too.
sed -i 's/packing [0-9]/packing 1/' "$file"
vlmsh "$llama::q8_0" -c /info >"$work/out" 2>&1 || fail "packed differently: $(tail -1 "$work/out")"
grep -aq 'packing 1' "$file" && fail "the file with a different packing is kept"
head -c 1000 "$file" >"$file.new" && mv "$file.new" "$file"
for i in 1 2 3; do
    "$VLMSH" --db "$work/$i.db" "$llama::q8_0" -c '/set sample.max_tokens 2' -c 'Hello' >"$work/out.$i" 2>&1 &
    pids[i]=$!
done
for i in 1 2 3; do wait ${pids[i]} || fail "at once: $(tail -1 "$work/out.$i")"; done
same "size after three programs write at once" "$(stat -c %s "$file")" "$bytes"

# --- a full disk -----------------------------------------------------------------------------------------------
rm -r "$kept"
printf '%s\n' "/load tests/goldens/qwen2" '/set weights.dtype q8_0' "/load $llama" '/info' | (
    ulimit -f $((bytes / 2048))
    "$VLMSH" --db "$work/full.db" --json >"$work/events"
)
check_has "error of a full disk" 'select(.event == "error").message' "free some space, set XDG_CACHE_HOME"
check_has "the former model" 'select(.name == "model").rows[] | select(.[0] == "folder")[1]' qwen2
same "files left after a full disk" "$(files)" 0
XDG_CACHE_HOME=/proc/none small q8_0
check_has "error without a place for the folder" 'select(.event == "error").message' "cannot create the folder"
check_has "what to do" 'select(.event == "error").message' "set XDG_CACHE_HOME to a folder"

# A notice reports how many rows do not fit blocks: some or all.
small q4_k
check_has "rows that do not fit q4_k" 'select(.event == "notice").text' "29 of 29 matrices have rows that do not fit the blocks of q4_k: 29 changed to a type with smaller blocks, and 0 kept"
lines "/set weights.dtype q8_0" "/load tests/goldens/qwen2"
check_has "rows that fit no smaller blocks" 'select(.event == "notice").text' "do not fit the blocks of q8_0: 0 changed"
small q8_0
check "no notice if all rows fit" 'select(.event == "notice").text | select(contains("blocks of"))' ""

# A file whose tensors have a different shape is rewritten.
python3 - "$kept"/*-q8_0.gguf <<'P' || fail "no matrix to turn"
import struct, sys
raw = bytearray(open(sys.argv[1], "rb").read())
at = raw.index(b"mlp.up_proj.weight") + len(b"mlp.up_proj.weight")
rank, a, b = struct.unpack_from("<IQQ", raw, at)
struct.pack_into("<QQ", raw, at + 4, b, a)
open(sys.argv[1], "wb").write(raw)
sys.exit(rank != 2 or a == b)
P
small q8_0 '/set sample.max_tokens 2' 'Hello'
check "a file with another shape is rewritten" 'select(.event == "done" or .event == "error") | .ok // .message' $'true\ntrue\ntrue\ntrue'

# --- quantised folders -------------------------------------------------------------------------------------------
awq=build/goldens/quantised/awq
row() { jq -r "select(.name == \"model\").rows[] | select(.[0] == \"$1\")[1]" "$work/events"; }
lines "/load $awq" /info "/set sample.max_tokens 2" Hello "/quantize $work/awq.gguf --type f16 --no-compare" "/set train.steps 2" \
    "/set train.params lora:q_proj:4" "/train $work/data.json $work/awq-lora" /wait "/adapter load $work/awq-lora" Hello \
    "/adapter merge $work/awq-merged" "/adapter unload" "/set train.params none" "/set train.method full" "/train $work/data.json $work/awq-full" \
    "/load $work/awq.gguf" "/adapter load $work/awq-lora" "/set weights.dtype q8_0" "/load $awq" /info
same "what is kept" "$(row quantised | sort -u)" "7 matrices: AWQ, 4 bit with zero points, groups of 128, kept as q5_0"
same "what is plain" "$(row 'plain matrices' | head -1)" "11 of the vision encoder, 2 of the projector, 1 of the embedding"
same "messages of refused lines" "$(jq -r 'select(.event == "error").message' "$work/events" | grep -oE "are quantised and cannot be written back|a quantised folder cannot be trained in full" | sort)" \
    $'a quantised folder cannot be trained in full\nare quantised and cannot be written back'
same "number of errors" "$(jq -c 'select(.event == "error")' "$work/events" | wc -l)" 2
first=$(jq -r 'select(.event == "notice" or .event == "progress") | .text // .event' "$work/events" | head -1)
same "the first notice" "$first" "quantised weights (7 matrices: AWQ, 4 bit with zero points, groups of 128, kept as q5_0) take 0.1 MB of memory once unpacked"
grep -q '"embedding",40960,"q8_0"' "$work/events" || fail "weights.dtype converts plain matrices: $(grep parameters "$work/events")"
answer $awq "$work/a.safetensors"
answer "$work/awq.gguf" "$work/b.safetensors"
near "$work/a.safetensors" "$work/b.safetensors" 0.01 step.logits
finish
