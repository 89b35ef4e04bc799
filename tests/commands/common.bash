# common.bash -- shared by the scripts here: a working folder, vlmsh, checks. Sourced from the root.
#
#   session NAME <<E     types the "> " lines of the text up to E, and compares what they print with the rest of it
#   lines LINE...        runs the lines over standard input with --json; writes the events to $work/events
#   check NAME JQ WANT   the last events give WANT under this jq program (one result per line)
#   answer MODEL DUMP, same_dump NAME A B    dump answers and compare the dumps
#   check_has, same, near, glm_text: described below
#   multiplies_bf16      true if compute.matmul bf16 uses bf16 products on this CPU
#   sanitized            true if vlmsh is built with sanitizers
#   finish               exits 1 if any check failed
set -u
: "${VLMSH:=$PWD/vlmsh}"
work=$(mktemp -d)
trap 'ended=$?; rm -rf "$work"; exit $((ended ? ended : failed))' EXIT # fails without `finish`, too
export XDG_STATE_HOME=$work/state HOME=$work LC_ALL=C.UTF-8
llava=tests/goldens/llava-1.5
llama=tests/goldens/llama-3.2
scene=tests/goldens/pictures/scene.png
failed=0
root=$PWD # tests may change the folder

fail() {
    echo "FAILED: $*"
    failed=1
}

vlmsh() {
    "$VLMSH" --db "$work/vlmsh.db" "$@"
}

# With sanitizers, scripts leave out variants that run the same code; `make test` compares their results.
sanitized() {
    [[ $VLMSH == */san/* ]]
}

multiplies_bf16() {
    case $(vlmsh -c /version) in *'+ amx'* | *'+ bf16'*) ;; *) return 1 ;; esac
}

# session NAME [ARGUMENT...] <<E: types the lines that begin with "> " and compares all output with the text below them
# (tests/commands/session.py); leaves the events to `check`. UPDATE=1 writes the output into the script.
session() {
    local name=$1
    shift
    UPDATE=${UPDATE:+${BASH_SOURCE[1]}:${BASH_LINENO[0]}:$work/updates} \
        python3 "$root/tests/commands/session.py" "$work/events" "$VLMSH" --db "$work/vlmsh.db" --json "$@" || fail "$name"
}

lines() {
    printf '%s\n' "$@" | vlmsh --json >"$work/events"
}

check() {
    local got
    got=$(jq -r "$2" "$work/events" 2>&1)
    [ "$got" = "$3" ] || fail "$1: got '$got', not '$3'"
}

# check_has NAME JQ PART: the result contains PART.
check_has() {
    local got
    got=$(jq -r "$2" "$work/events" 2>&1)
    case $got in
    *"$3"*) ;;
    *) fail "$1: '$got' does not contain '$3'" ;;
    esac
}

same() {
    [ "$2" = "$3" ] || fail "$1: got '$2', not '$3'"
}

# same_dump NAME A B [TAP]: two dumps hold the same tensors, at least ten, leaving out those that TAP names.
same_dump() {
    python3 - "$2" "$3" "${4:-none}" <<'P' || fail "$1"
import fnmatch, json, struct, sys
def read(path):
    raw = open(path, "rb").read()
    n, = struct.unpack_from("<Q", raw)
    at = lambda t: raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
    return {k: (t["shape"], at(t)) for k, t in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
a, b = read(sys.argv[1]), read(sys.argv[2])
names = {k for k in set(a) | set(b) if not fnmatch.fnmatch(k, sys.argv[3])}
wrong = sorted(k for k in names if a.get(k) != b.get(k))
if wrong or len(names) < 10:
    sys.exit(f"{wrong or 'too few tensors'}")
P
}

# answer MODEL DUMP [ARGUMENT...]: answers in f32, with more arguments of vlmsh, and dumps everything.
answer() {
    local model=$1 dump=$2
    shift 2
    vlmsh $model -c '/set compute.matmul f32' "$@" -c "/dump * $dump" -c '/set sample.max_tokens 8' \
        -c '/set sample.ignore_eos on' -c 'Where is it? 1234 <b>Hällo</b>, wörld!' >"$work/out" 2>&1 ||
        fail "$model: $(tail -1 "$work/out")"
}

# near A B SHARE [TAP]: the tensors (all, or those that TAP names) differ by at most SHARE of their maximum in A.
near() {
    python3 - "$1" "$2" "$3" "${4:-*}" <<'P'
import array, fnmatch, json, struct, sys
def read(path):
    raw = open(path, "rb").read()
    n, = struct.unpack_from("<Q", raw)
    return {k: array.array("f", raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for k, t in json.loads(raw[8:8 + n]).items() if k != "__metadata__" and fnmatch.fnmatch(k, sys.argv[4])}
a, b = read(sys.argv[1]), read(sys.argv[2])
far = {k: max(abs(x - y) for x, y in zip(a[k], b.get(k, []))) / max(map(abs, a[k])) for k in a}
far = {k: v for k, v in far.items() if not v <= float(sys.argv[3])}
sys.exit(f"far apart: {far}" if far or a.keys() != b.keys() or not a else 0)
P
}

# glm_text FOLDER [GOLDEN ARCHITECTURE TYPE]: the decoder of a golden GLM, GLM-4.1V by default, as a text-only model.
glm_text() {
    local golden=tests/goldens/${2:-glm-4.1v}
    mkdir "$1" && cp $golden/{tokenizer.json,tokenizer_config.json,chat_template.jinja,generation_config.json} "$1" && python3 - "$1" $golden "${3:-Glm4ForCausalLM}" "${4:-glm4}" <<'P'
import json, struct, sys
golden = sys.argv[2]
config = json.load(open(f"{golden}/config.json"))["text_config"]
config.pop("rope_scaling", None)
config.get("rope_parameters", {}).pop("mrope_section", None)
config.update(architectures=[sys.argv[3]], model_type=sys.argv[4])
config.setdefault("head_dim", 16)
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
raw = open(f"{golden}/model.safetensors", "rb").read()
n, = struct.unpack_from("<Q", raw)
header, body = {}, b""
for name, t in json.loads(raw[8:8 + n]).items():
    if "language_model." in name or name == "lm_head.weight":
        a, b = t["data_offsets"]
        header[name.replace("language_model.", "")] = dict(t, data_offsets=[len(body), len(body) + b - a])
        body += raw[8 + n + a:8 + n + b]
text = json.dumps(header).encode()
open(sys.argv[1] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
P
}

finish() {
    [ ! -e "$work/updates" ] || (cd "$root" && python3 tests/commands/session.py --update "$work/updates")
    exit $failed
}
