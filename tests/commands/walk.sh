# tests/commands/walk.sh -- 300 or a few more random commands in a session: after every 30 or so, a new process that
# resumes the session has the same state and computes the same numbers, bit by bit, as the old one.
# WALK_SEED=N draws different commands.
. tests/commands/common.bash
cp -r $llava "$work/moved"
python3 - "$work" "${WALK_SEED:-45}" <<'P'
import json, os, random, sys
work, draw = sys.argv[1], random.Random(int(sys.argv[2]))
root = os.path.abspath("tests/goldens")
pictures = [f"{root}/pictures/{n}" for n in sorted(os.listdir(root + "/pictures")) if n.endswith(".png")]
llava, llama, qwen = root + "/llava-1.5", root + "/llama-3.2", root + "/internvl3"
adapters = [f"{llava}/adapters/{n}" for n in ("lora", "ln_tuning")]
json.dump([{"role": "user", "content": [{"type": "image", "path": pictures[0]}, {"type": "text", "text": "What?"}]},
           {"role": "assistant", "content": "A cat."}, {"role": "user", "content": "And now?"}],
          open(work + "/messages.json", "w"))
words = "where is the red circle above it? no, what colour has this".split()
settings = ["sample.temperature 0.8", "sample.temperature 0", "sample.seed 7", "sample.top_k 5", "sample.top_k 0",
            "image.max_tokens 9", "image.max_tokens 0", "image.downsample 0.5", "image.downsample 1", "prune.keep 0.5",
            "prune.score attention", "prune.score off", "norm.align on", "norm.align off", "kv.dtype f32",
            "kv.dtype auto", "chat.template plain", "chat.template vicuna", "chat.template auto", "sample.lookahead off",
            "prune.layer 0,1", "prune.layer auto", "prune.mode dynamic", "ffn.approx skip",
            "ctx.max 600", "ctx.max auto", "adapter none", "adapter.scale 0.5", "sample.max_tokens 9"]
presets = ["capa-prune", "capa-dynamic", "fastv", "feather", "norm-alignment", "baseline"]
state = {"model": llava, "loaded": True, "names": 0}

def load(model):
    state.update(model=model, loaded=True)
    return [f"/load {model}"]
def unload():
    state["loaded"] = False
    return ["/unload"]
def name(command):
    state["names"] += 1
    return [f"{command} walk-{state['names']}"]
def ask():
    return [" ".join(draw.sample(words, draw.randint(1, 6)))]
steps = [
    (8, ask), (4, lambda: [f"/image {draw.choice(pictures)}"]), (3, lambda: ["/undo"]), (3, lambda: ["/regen"]),
    (1, lambda: ["/clear"]), (2, lambda: [f"/system {' '.join(draw.sample(words, 3))}"]), (1, lambda: ['/system ""']),
    (7, lambda: ["/set " + draw.choice(settings)]), (1, lambda: ["/reset all", *begin]),
    (2, lambda: [f"/raw {' '.join(str(draw.randrange(400)) for _ in range(4))}"]),
    (2, lambda: [f"/messages {work}/messages.json"]), (2, lambda: ["/answer"]),
    (2, lambda: [draw.choice(["/capa", "/align", "/ira", "/baseline"])]),
    (2, lambda: [f"/adapter load {draw.choice(adapters)}"]), (1, lambda: ["/adapter unload"]),
    (2, lambda: [f"/later 2 {draw.choice(settings).replace(' ', '=')}"] + ask()),
    (2, lambda: [f"/preset load {draw.choice(presets)}"]), (1, lambda: ["/preset save mine"]),
    (1, lambda: ["/preset load mine"]), (2, lambda: [f"/hide {draw.choice(['visual', 'last', 'off'])}"]),
    (1, lambda: ["/compare off | prune.score=uniform prune.layer=0 prune.keep=0.5 what?"]),
    (1, lambda: ["/forward what?"]), (1, lambda: ["/image --clear"]), (1, lambda: ["/context"]),
    (4, lambda: load(draw.choice([llava, llama, qwen, work + "/moved"]))), (3, unload), (3, lambda: load(state["model"])),
    (1, lambda: name("/session fork")), (1, lambda: name("/session rename")), (1, lambda: name("/session new")),
    (1, lambda: ["/session resume walk"]),
]
begin = ["/set compute.matmul f32", "/set sample.max_tokens 6", "/set sample.ignore_eos on"]
look = ["/session", "/get *", "/images", "/context"]
for part in range(10):
    lines = ["/version", *look, f"/dump layer.*.in logits {work}/begin.safetensors", "/forward and?",
             "/version", f"/dump logits {work}/other.safetensors"] if part else \
        ["/session new walk", *begin, f"/load {llava}", "hello"]
    count = 0
    while count < 30:
        line = draw.choices(steps, [w for w, _ in steps])[0][1]()
        count += len(line)
        lines += line
    # Sessions do not store waiting pictures or a missing model, so these are cleared or loaded. A
    # question makes sure that a session exists.
    lines += ["/image --clear"] + ([] if state["loaded"] else load(state["model"])) + ["so?"]
    lines += ["/version", *look, f"/dump layer.*.in logits {work}/end.safetensors", "/forward and?", "/version"]
    open(f"{work}/part.{part}", "w").write("\n".join(lines) + "\n")
P

# state first|last: the output between the first two, or the last two, /version lines. Leaves out what may differ:
# the numbers of pictures (never reused), the cached tokens, and the line of an error.
state() {
    jq -c 'if .event == "text" and (.text | startswith("vlmsh ")) then "mark" else . end
           | select(. == "mark" or (.event | IN("session", "setting", "table", "error", "done")))
           | if . == "mark" then . elif .name == "images" then .rows |= (map(.[1:]) | sort_by(.[3:]))
             elif .name == "context" then .rows[0][3] = 0 else del(.where) end' \
        "$work/events" | awk -v first="$1" '$0 == "\"mark\"" { at++; next } { part[at] = part[at] $0 "\n" }
            END { printf "%s", part[first == "first" ? 1 : at - 1] }'
}

# A conversation with pictures may end with a text-only model: then neither process computes
# anything.
ended=
computed=0
for part in {0..9}; do
    session=$(jq -r 'select(.event == "session").name' <<<"$ended")
    vlmsh --json ${session:+--session "$session"} <"$work/part.$part" >"$work/events" 2>"$work/errors"
    [ ! -s "$work/errors" ] || fail "part $part: $(tail -1 "$work/errors")"
    if [ -n "$ended" ]; then
        diff <(echo "$ended") <(state first) >"$work/differs" || fail "part $part resumes a different state: $(cat "$work/differs")"
        diff "$work/begin.safetensors" "$work/before.safetensors" >"$work/differs" 2>&1 && computed=$((computed + 1)) ||
            [ ! -e "$work/begin.safetensors" -a ! -e "$work/before.safetensors" ] || fail "part $part computes different numbers"
    fi
    ended=$(state last)
    rm -f "$work/begin.safetensors" "$work/before.safetensors"
    [ ! -e "$work/end.safetensors" ] || mv "$work/end.safetensors" "$work/before.safetensors"
done
[ $computed -gt 3 ] || fail "only $computed conversations were computed again"
finish
