# tests/commands/messages.sh -- /messages, /answer: the goldens' chats give the reference's ids; a
# wrong file appends nothing.
. tests/commands/common.bash

# The goldens' chats in vlmsh's format, with pictures under a relative path; all in one run.
mkdir "$work/chats"
cp tests/goldens/pictures/*.png tests/goldens/pictures/*.jpg "$work/chats"
export work
python3 - "$VLMSH" <<'P' || failed=1
import glob, json, os, struct, subprocess, sys

chats = os.environ["work"] + "/chats/"
pictures = {os.path.splitext(name)[0]: name for name in os.listdir(chats)}

def part(p):
    return {"type": "image", "path": pictures[p["picture"]]} if p["type"] == "image" else p

wanted, lines = [], ["/set chat.date 26 Jul 2024"]
for golden in sorted(glob.glob("build/goldens/*/golden.json")):
    folder = os.path.dirname(golden).replace("build", "tests", 1)
    for chat in json.load(open(golden, encoding="utf-8"))["chat"]:
        if not chat["add_generation_prompt"] or "input_ids" not in chat:
            continue
        messages = [dict(m, content=m["content"] if isinstance(m["content"], str)
                         else [part(p) for p in m["content"]]) for m in chat["messages"]]
        file = chats + str(len(wanted))
        json.dump(messages, open(file + ".json", "w"))
        flags = [(k, v) for k, v in chat.get("template_arguments", {}).items() if isinstance(v, bool)]
        lines += ["/clear", "/load " + folder]
        lines += ["/set chat.template.%s %s" % (k, str(v).lower()) for k, v in flags]
        lines += ["/set sample.max_tokens 1", "/dump ids %s.safetensors" % file,
                  "/messages %s.json" % file, "/answer"]
        wanted.append((folder + " " + chat["name"], file + ".safetensors", chat["input_ids"]))

run = subprocess.run([sys.argv[1], "--db", chats + "db", "--json"], input="\n".join(lines) + "\n",
                     stdout=subprocess.PIPE, encoding="utf-8")
events = [json.loads(line) for line in run.stdout.splitlines()]
answers = [e for e in events if e["event"] == "answer"]
failed = ["%(where)s: %(message)s" % e for e in events if e["event"] == "error"]
if len(wanted) < 20 or len(answers) != len(wanted):
    failed.append("%d answers to %d chats" % (len(answers), len(wanted)))
for (name, file, want), answer in zip(wanted, answers):
    data = open(file, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + n])["ids"]["data_offsets"]
    got = list(struct.unpack("<%di" % ((end - begin) // 4), data[8 + n + begin:8 + n + end]))
    if got != want or answer["prompt_tokens"] != len(want):
        failed.append("%s: got %s, not %s" % (name, got, want))
sys.exit("\n".join(failed) if failed else 0)
P

bad() { # NAME JSON PART-OF-MESSAGE
    printf '%s' "$2" >"$work/chats/bad.json"
    lines "/load $llava" "/image $scene" "/messages $work/chats/bad.json" '/images' '/context' '/answer'
    check_has "$1: message" 'select(.event == "error").message' "$3"
    check_has "$1: file" 'select(.event == "error").message' "bad.json"
    check "$1: nothing appended" 'select(.name == "context").rows[0] | .[0] + .[1], .[2]' $'0\n25'
    check "$1: the waiting picture stays" 'select(.name == "images").rows[][4]' 'next message'
}
text='{"role": "user", "content": "hello"}'
bad "no JSON" '[{"role":' "not valid JSON"
bad "character 0" '[{"role": "user", "content": "hello\u0000 and this"}]' 'a character \u0000'
bad "role" "[$text, {\"role\": \"king\", \"content\": \"x\"}]" 'message 1: "role"'
bad "content" '[{"role": "user", "content": 5}]' 'message 0: "content"'
bad "missing picture" '[{"role": "user", "content": [{"type": "image", "path": "tall.jpg"}]},
    {"role": "user", "content": [{"type": "image", "path": "none.png"}]}]' "none.png"
finish
