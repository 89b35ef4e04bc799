# tests/commands/tokenizers.sh -- model folders without a tokenizer.json: with SentencePiece's tokenizer.model, or
# tiktoken.model, in its place, made from the folder's own, everything stays as it was: ids, chats, data, adapters.
# (Texts of bytes that are no characters differ: SentencePiece looks at each byte for itself.)
. tests/commands/common.bash

# The folder's vocabulary in the other formats. A merge's score is its place; SentencePiece tries all splits of a piece,
# tokenizer.json one, so that few texts come out otherwise.
cat >"$work/convert.py" <<'P'
import base64, json, struct, sys
kind, source, target = sys.argv[1:]
model = json.load(open(source + "/tokenizer.json"))["model"]
words = sorted(model["vocab"], key=model["vocab"].get)
if kind == "ranks":
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte = {chr(b): b for b in kept}
    byte.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in kept)})
    with open(target + "/tiktoken.model", "wb") as f:
        for rank, word in enumerate(words):
            f.write(base64.b64encode(bytes(byte[c] for c in word)) + b" %d\n" % rank)
    config = json.load(open(target + "/tokenizer_config.json"))
    json.dump({**config, "tokenizer_class": "TikTokenTokenizer"}, open(target + "/tokenizer_config.json", "w"))
    sys.exit()

def field(number, data):
    return bytes([number << 3 | 2]) + (bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])) + data
scores = {"".join(m.split(" ") if isinstance(m, str) else m): -i for i, m in enumerate(model["merges"])}
types = {"<unk>": 2, "<s>": 3, "</s>": 3}
with open(target + "/tokenizer.model", "wb") as f:
    for word in words:
        type = types.get(word, 6 if word.startswith("<0x") else 1)
        f.write(field(1, field(1, word.encode()) + b"\x15" + struct.pack("<f", scores.get(word, -1e6)) + bytes([0x18, type])))
    f.write(field(2, bytes([3 << 3, 2, 0x98, 2, 1])) + field(3, bytes([4 << 3, 0])))  # BPE, byte fallback; spaces are kept
P

changed() { # KIND SOURCE NAME: a copy of a model folder with the other tokenizer
    cp -rL "$2" "$work/$3"
    chmod -R u+w "$work/$3"
    python3 "$work/convert.py" "$1" "$2" "$work/$3" || fail "$3: no tokenizer was made"
    rm "$work/$3/tokenizer.json"
}
changed pieces $llava llava
changed ranks tests/goldens/qwen2 qwen2
cp $scene "$work/scene.png"
cat >"$work/data.json" <<'J'
[{"id": "a", "image": "scene.png", "conversations": [{"from": "human", "value": "<image>\nWhat is this?"}, {"from": "gpt", "value": "A scene."}]},
 {"id": "b", "conversations": [{"from": "human", "value": "Hello </s> there"}, {"from": "gpt", "value": "Hi!"}]}]
J

# same_all NAME SOURCE LINE...: the lines give the same events with both folders.
same_all() {
    local name=$1 source=$2 keep='select(.event == "answer" or .event == "ids" or .event == "text" or .event == "table")
        | {ids, prompt_tokens, visual_tokens, rows: (if .name == "data" or .name == "tokens" then .rows else null end)}
        + (if .event == "text" then {text} else {} end)'
    shift 2
    lines "/load $source" "$@"
    jq -c "$keep" "$work/events" >"$work/own"
    lines "/load $work/$name" "$@"
    check "$name: no error" 'select(.event == "error").message' ""
    jq -c "$keep" "$work/events" >"$work/other"
    [ "$(wc -l <"$work/own")" -gt 6 ] || fail "$name: too few events"
    diff "$work/own" "$work/other" >"$work/difference" || fail "$name: $(head -4 "$work/difference")"
}
setup=('/set sample.max_tokens 12' '/set sample.ignore_eos on' '/tokenize Hello world, the scene.' '/tokenize --no-special --table "</s> a<|im_end|>b"'
    '/detokenize 300 301 1' 'The first words </s> of it.' 'And the second?' '/detokenize 280 281 282')
same_all llava $llava "${setup[@]}" "/image $scene" 'What is this?' "/data check $work/data.json" "/adapter load $llava/adapters/lora" 'Again.'
same_all qwen2 tests/goldens/qwen2 "${setup[@]}"

# Typed special tokens stay text; the rest of the folder goes into a trained model.
lines "/load $work/llava" '/set train.method layernorm-simple' '/set train.epochs 1' '/set job.nice 0' "/train $work/data.json $work/norms" /wait \
    "/adapter load $work/norms" "/adapter merge $work/merged" "/load $work/merged" '/tokenize a'
check "training" 'select(.event == "error").message' ""
cmp "$work/merged/tokenizer.model" "$work/llava/tokenizer.model" || fail "the merged model's tokenizer"

# Alone; tokenizer.json wins.
lines "/tokenizer $work/llava" '/tokenize a' "/tokenizer $work/llava/tokenizer.model" '/tokenize a' "/tokenizer $llava" '/tokenize a'
same "alone" "$(jq -c 'select(.event == "ids").ids' "$work/events" | sort -u | wc -l)" 1
cp $llava/tokenizer.json "$work/qwen2"
lines "/tokenizer $work/qwen2"
check_has "tokenizer.json wins" 'select(.event == "notice").text' "542 tokens"

# What is wrong is named, with the file.
rm "$work/llava/tokenizer.model"
cp -r "$work/llava" "$work/cut"
head -c 3000 "$work/merged/tokenizer.model" >"$work/cut/tokenizer.model"
jq '.added_tokens_decoder["540"] = 3' $llava/tokenizer_config.json >"$work/merged/tokenizer_config.json"
lines "/load $work/llava" "/load $work/cut" "/load $work/merged" "/tokenizer $work/none.model"
check "refused" 'select(.event == "done").ok' $'false\nfalse\nfalse\nfalse'
check_has "no tokenizer" 'select(.event == "error").message' "'$work/llava' has no tokenizer"
check_has "cut off" 'select(.event == "error").message' "$work/cut/tokenizer.model': "
check_has "configuration" 'select(.event == "error").message' "added_tokens_decoder"
finish
