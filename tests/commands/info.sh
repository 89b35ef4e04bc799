# tests/commands/info.sh -- /info: the number of parameters is that of the files; fingerprints, which large files get in
# the background; tokens that end answers.
. tests/commands/common.bash

for folder in tests/goldens/*/config.json; do
    folder=${folder%/config.json}
    lines "/load $folder" '/info'
    check "$folder: tables" 'select(.event == "table").name' $'model\nparameters\nmemory'
    check_has "$folder: folder" 'select(.name == "model").rows[] | select(.[0] == "folder")[1]' "${folder##*/}"
    check "$folder: fingerprint" \
        'select(.name == "model").rows[] | select(.[0] == "fingerprint")[1] | test("^[0-9a-f]{64}$")' true
    check "$folder: parts add up" \
        'select(.name == "parameters").rows | (map(select(.[0] != "total")[1]) | add) == (.[-1][1])' true
    # Every element in the files counts once (files have no tied head; position ids are buffers).
    want=$(python3 - "$folder" <<'P'
import glob, json, struct, sys
from math import prod
total = 0
for path in glob.glob(sys.argv[1] + "/model*.safetensors"):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    total += sum(prod(t["shape"]) for name, t in header.items()
                 if name != "__metadata__" and t["dtype"] in ("F32", "F16", "BF16"))
print(total)
P
)
    check "$folder: parameters" 'select(.name == "parameters").rows[-1][1]' "$want"
    check "$folder: resident memory" \
        'select(.name == "memory").rows[] | select(.[0] == "resident")[1] > 1000000' true
done
# Large weights are hashed in the background; /info waits, and the session gets the fingerprint, too.
cp -r $llava "$work/big" && chmod -R u+w "$work/big"
python3 - "$work/big/model.safetensors" <<'P'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    length = struct.unpack("<Q", f.read(8))[0]
    header, data = json.loads(f.read(length)), f.read()
    size = 96 << 20
    header["v_head.weight"] = {"dtype": "F32", "shape": [size // 4], "data_offsets": [len(data), len(data) + size]}
    text = json.dumps(header).encode()
    f.seek(0)
    f.write(struct.pack("<Q", len(text)) + text + data)
    f.truncate(8 + len(text) + len(data) + size)
P
fingerprint='select(.name == "model").rows[] | select(.[0] == "fingerprint")[1]'
for round in first second; do
    vlmsh --json "$work/big" --session $round -c hi -c /info >"$work/events"
    jq -r "$fingerprint" "$work/events" >"$work/$round"
    vlmsh -c "/session export $work/$round.md $round" >/dev/null
    grep -q "fingerprint .$(head -c 16 "$work/$round")" "$work/$round.md" || fail "$round: $(cat "$work/$round.md")"
done
cmp "$work/first" "$work/second" || fail "the second opening finds a different fingerprint"
# An evaluation set's result names the model by its fingerprint.
touch "$work/big/model.safetensors"
vlmsh --json "$work/big" -c "/eval tests/core/sets/parquet/pope-00000-of-00002.parquet --set pope --here --limit 1" >"$work/events"
check "the model of an evaluation" 'select(.name == "evaluation").rows[] | select(.[0] == "model")[1]' "big (fingerprint $(head -c 16 "$work/first"))"
# Resuming waits for the fingerprint, and names changed files.
echo >>"$work/big/chat_template.json"
touch "$work/big/model.safetensors"
vlmsh --json --session first -c /undo >"$work/events"
check_has "the changed file is named" 'select(.event == "notice").text' "session 'first': the files of '$work/big' have changed: chat_template.json; answers will differ"
# Unloading waits for the fingerprint, too, so that the model has its token ids when it is loaded again.
python3 - "$work/big/model.safetensors" <<'P'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-(95 << 20), 2)
    for i in range(94): f.write(b"abcdefgh" * (1 << 17))
P
lines "/load $work/big" '/set sample.max_tokens 2' '/raw 5 6 7' /unload "/load $work/big" /undo
check_has "token ids are undone" 'select(.event == "notice").text' "undone: 3 token ids and its answer"
# While weights are hashed, Ctrl-C ends only the wait; a model that is no longer readable does not block loading another.
python3 - "$work/big/model.safetensors" <<'P'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    length = struct.unpack("<Q", f.read(8))[0]
    header, data = json.loads(f.read(length)), f.read(1 << 20)
    tensor = header["v_head.weight"]
    at = tensor["data_offsets"][0]
    tensor["shape"], tensor["data_offsets"] = [1 << 39], [at, at + (2 << 40)] # nearly all a hole
    text = json.dumps(header).encode()
    f.seek(8 + length)
    data = f.read(at)
    f.seek(0)
    f.write(struct.pack("<Q", len(text)) + text + data)
    f.truncate(8 + len(text) + tensor["data_offsets"][1])
P
python3 - "$VLMSH" "$work" "$work/big" $llava >"$work/out" 2>&1 <<'P' || fail "waiting for a hash: $(tail -3 "$work/out")"
import json, os, signal, subprocess, sys
program, work, big, other = sys.argv[1:]
p = subprocess.Popen([program, "--json", "--db", work + "/wait.db", big], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(line):
    p.stdin.write(line + "\n")
    p.stdin.flush()
def until(wanted):
    seen = []
    for line in p.stdout:
        seen.append(json.loads(line))
        print(line[:300], end="")
        if wanted(seen[-1]): return seen
    sys.exit("it ended: " + str(p.wait()))
def fingerprint(events):
    return [r[1] for e in events if e.get("name") == "model" for r in e["rows"] if r[0] == "fingerprint"]
say("/set sample.max_tokens 1")
say("hi")
until(lambda e: e["event"] == "answer")
say("/info")
until(lambda e: e["event"] == "progress" and e["what"] == "hashing")
p.send_signal(signal.SIGINT)
events = until(lambda e: e.get("name") == "memory")
assert fingerprint(events) == ["not known yet: hashing was stopped; /info continues hashing"], events
assert [e["fingerprint"] for e in events if e["event"] == "model" and "layers" in e] == [""], events
os.truncate(big + "/model.safetensors", 200 << 20)
say("/info")
events = until(lambda e: e.get("name") == "memory")
assert "the file was truncated" in fingerprint(events)[0], events
say("/load " + other)
events = until(lambda e: e["event"] == "notice" and "loaded '" in e["text"])
assert any("the conversation loses its token ids" in e["text"] and "truncated" in e["text"] for e in events if e["event"] == "notice"), events
p.stdin.close()
p.wait()
P
# The encoder of MiniCPM-V reads neither one size nor pictures as they are.
lines "/load tests/goldens/minicpm-v-4.6" /info
check "slices" 'select(.name == "model").rows[] | select(.[0] == "picture")[1]' \
    "overview and at most 2 slices of the area of 24 x 24 pixels, patches of 3"
# Ends of answers: a token that generation_config.json does not list ends nothing, and /info says so.
cp -rL tests/goldens/qwen2 "$work/ends" && chmod -R u+w "$work/ends"
jq '.eos_token_id = [9999, 520]' tests/goldens/qwen2/generation_config.json >"$work/ends/generation_config.json"
lines "/load $work/ends" /info
check "tokens that end answers" 'select(.name == "model").rows[] | select(.[0] == "end of answers")[1]' \
    "9999, which is not a token, <|endoftext|> (generation_config.json), not tokenizer_config.json's <|im_end|>"
finish
