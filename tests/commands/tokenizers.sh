# tests/commands/tokenizers.sh -- model folders without a tokenizer.json: a tokenizer.model of SentencePiece, or a
# tiktoken.model converted from the folder's tokenizer.json, gives the same ids, chats, data and adapters. (Invalid UTF-8
# differs: SentencePiece handles each byte separately.)
. tests/commands/common.bash

# The folder's vocabulary in the other formats. A merge's score is its position; SentencePiece tries all splits of a
# piece, tokenizer.json only one, so a few texts differ.
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

# A merged model gets the folder's tokenizer.model.
lines "/load $work/llava" '/set train.method layernorm-simple' '/set train.epochs 1' '/set job.nice 0' "/train $work/data.json $work/norms" /wait \
    "/adapter load $work/norms" "/adapter merge $work/merged" "/load $work/merged" '/tokenize a'
check "training gives no error" 'select(.event == "error").message' ""
cmp "$work/merged/tokenizer.model" "$work/llava/tokenizer.model" || fail "the merged model's tokenizer differs"

# /tokenizer loads a tokenizer alone; tokenizer.json takes precedence.
lines "/tokenizer $work/llava" '/tokenize a' "/tokenizer $work/llava/tokenizer.model" '/tokenize a' "/tokenizer $llava" '/tokenize a'
same "a tokenizer alone" "$(jq -c 'select(.event == "ids").ids' "$work/events" | sort -u | wc -l)" 1
cp $llava/tokenizer.json "$work/qwen2"
lines "/tokenizer $work/qwen2"
check_has "tokenizer.json wins" 'select(.event == "notice").text' "list tokens that it lacks"

# Errors name the file.
rm "$work/llava/tokenizer.model"
cp -r "$work/llava" "$work/cut"
head -c 3000 "$work/merged/tokenizer.model" >"$work/cut/tokenizer.model"
jq '.added_tokens_decoder["540"] = 3' $llava/tokenizer_config.json >"$work/merged/tokenizer_config.json"
lines "/load $work/llava" "/load $work/cut" "/load $work/merged" "/tokenizer $work/none.model"
check "all four lines are refused" 'select(.event == "done").ok' $'false\nfalse\nfalse\nfalse'
check_has "no tokenizer" 'select(.event == "error").message' "'$work/llava' has no tokenizer"
check_has "error of a truncated file" 'select(.event == "error").message' "$work/cut/tokenizer.model': "
check_has "configuration" 'select(.event == "error").message' "added_tokens_decoder"

# --- tokens that only the files beside a tokenizer.json name ---------------------------------------------------
# Ids are those of AutoTokenizer, of transformers 4.57.1 and 5.24.0 (flags are those of 4.57.1, with
# a notice).
cat >"$work/variants.py" <<'P'
import json, os, shutil, sys
source, target = sys.argv[1:]
def token(text, **flags):
    return {"content": text, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True, **flags}
def decoder(c, *tokens):
    c["added_tokens_decoder"].update({str(600 - i): t for i, t in enumerate(tokens)})
def legacy(c, x, **files):
    del c["added_tokens_decoder"]
    x.update({name + ".json": value for name, value in files.items()})
def without(t, c, *places):
    for a in [a for a in t["added_tokens"] if a["id"] in places]: t["added_tokens"].remove(a)
    for i in places: del c["added_tokens_decoder"][str(i)]
added = {"<zz>": 700, "<yy>": 650}
variants = {
    "same": lambda t, c, x: None,
    "gap": lambda t, c, x: decoder(c, token("<zz>")),
    "plain": lambda t, c, x: decoder(c, token("<zz>", special=False, normalized=True), token("<yy>", special=False, lstrip=True)),
    "flags": lambda t, c, x: c["added_tokens_decoder"]["522"].update(rstrip=True),
    "extra": lambda t, c, x: c.update(extra_special_tokens={"zz_token": "<zz>", "yy_token": "<yy>"}),
    "additional": lambda t, c, x: c.update(additional_special_tokens=["<zz>", "<yy>"]),
    "named": lambda t, c, x: c.update(pad_token="<zz>", unk_token="<yy>"),
    "word": lambda t, c, x: c.update(pad_token="e"),
    "stale": lambda t, c, x: without(t, c, 521, 522),
    "added": lambda t, c, x: legacy(c, x, added_tokens=added),
    "unread": lambda t, c, x: x.update({"added_tokens.json": added}),
    "map": lambda t, c, x: legacy(c, x, added_tokens=added, special_tokens_map={"additional_special_tokens": ["<zz>"], "pad_token": token("<pp>")}),
}
for name, change in variants.items():
    os.makedirs(f"{target}/{name}")
    t, c, x = json.load(open(source + "/tokenizer.json")), json.load(open(source + "/tokenizer_config.json")), {}
    change(t, c, x)
    for file, value in {"tokenizer.json": t, "tokenizer_config.json": c, **x}.items():
        json.dump(value, open(f"{target}/{name}/{file}", "w"))
P
python3 "$work/variants.py" tests/goldens/qwen2 "$work/beside" || fail "variants.py fails"
beside() { # NAME NOTICE ID...
    local name=$1 notice=$2
    shift 2
    lines "/tokenizer $work/beside/$name" '/tokenize "a <zz> <yy> b <pp> <|im_end|> e"'
    check "$name" 'select(.event == "ids").ids | join(" ")' "$*"
    if [ "$notice" ]; then
        check_has "$name" 'select(.event == "notice").text' "$notice"
    else
        check "$name: no notice" 'select(.event == "notice" and (.text | startswith("tokenizer ") | not)).text' ""
    fi
}
beside same '' 64 481 89 89 29 481 88 88 29 288 481 79 79 29 220 522 220 68
beside gap '<zz> (523, not 600)' 64 220 523 481 88 88 29 288 481 79 79 29 220 522 220 68
beside plain '<yy> (523), <zz> (524)' 64 220 524 523 288 481 79 79 29 220 522 220 68
beside flags 'overrides flags of the tokenizer' 64 481 89 89 29 481 88 88 29 288 481 79 79 29 220 522 68
beside extra '<zz> (523), <yy> (524)' 64 220 523 220 524 288 481 79 79 29 220 522 220 68
beside additional '<zz> (523), <yy> (524)' 64 220 523 220 524 288 481 79 79 29 220 522 220 68
beside named '<yy> (523), <zz> (524)' 64 220 524 220 523 288 481 79 79 29 220 522 220 68
beside word 'e (68)' 64 481 89 89 29 481 88 88 29 288 481 79 79 29 220 522 220 68
beside stale '<|im_end|> (521), <|im_start|> (522)' 64 481 89 89 29 481 88 88 29 288 481 79 79 29 220 521 220 68
beside added '<zz> (524, not 700)' 64 220 524 220 523 288 481 79 79 29 220 522 220 68
beside unread '<zz> (700 in added_tokens.json)' 64 481 89 89 29 481 88 88 29 288 481 79 79 29 220 522 220 68
beside map '<pp> (525)' 64 220 524 220 523 288 220 525 220 522 220 68
# Without a tokenizer.json, the token of pad_token is added, too.
mkdir "$work/pad" && cp -L tests/goldens/tokenizers/llama/tokenizer.model "$work/pad"
jq '.pad_token = "<pp>" | .add_bos_token = true | .legacy = true' tests/goldens/tokenizers/llama/tokenizer_config.json \
    >"$work/pad/tokenizer_config.json"
lines "/tokenizer $work/pad" '/tokenize <pp>'
check_has "notice of the added pad token" 'select(.event == "notice").text' "added, as in transformers: <pp> (903)"
check "ids with the pad token" 'select(.event == "ids").ids | join(" ")' "1 903"

# Special tokens of a chat template: transformers reads the map only if the config lists no added tokens.
named() { # NAME CONFIG MAP TOKENS: prompt tokens
    rm -rf "$work/named" && mkdir "$work/named" && cp -L $llama/{config,tokenizer}.json $llama/model.safetensors "$work/named"
    jq "$2" $llama/tokenizer_config.json >"$work/named/tokenizer_config.json"
    printf '%s' "$3" >"$work/named/special_tokens_map.json"
    lines "/load $work/named" '/set chat.date 26 Jul 2024' '/set sample.max_tokens 1' 'What is this?'
    check "$1" 'select(.event == "answer").prompt_tokens' "$4"
}
map='{"bos_token": "<|begin_of_text|>"}'
named "config" . "$map" 39
named "map alone" 'del(.bos_token, .added_tokens_decoder)' "$map" 39
named "null" '.bos_token = null | del(.added_tokens_decoder)' "$map" 39
named "an object" 'del(.bos_token, .added_tokens_decoder)' '{"bos_token": {"content": "<|begin_of_text|>", "lstrip": false}}' 39
named "unread map" 'del(.bos_token)' "$map" 38
check_has "notice of an unread map" 'select(.event == "notice").text' 'bos_token (none, not <|begin_of_text|> of special_tokens_map.json)'
named "nowhere" 'del(.bos_token, .added_tokens_decoder)' '{}' 38
finish
