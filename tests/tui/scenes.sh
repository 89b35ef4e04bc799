# tests/tui/scenes.sh -- vlmsh scenes: its command line and the files that it writes.
. tests/commands/common.bash

# run STATUS ARGUMENT...: writes output to $work/out and $work/err.
run() {
    local want=$1 got
    shift
    vlmsh "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$want" ] || fail "vlmsh $*: exit $got, not $want: $(cat "$work/err")"
}

run 0 scenes 30 "$work/a" --seed 5
grep -q '^yesno.json *180$' "$work/out" || fail "the table: $(cat "$work/out")"
grep -q 'world 5 (of 0 to 15)' "$work/out" || fail "the world: $(cat "$work/out")"
same "number of pictures" "$(ls "$work/a/pictures" | wc -l)" 30
same "nothing half written" "$(find "$work/a" -name '*.part')" ""
run 0 scenes --seed=5 30 "$work/b"
diff -r "$work/a" "$work/b" >/dev/null || fail "the same seed gives a different world"
for f in "$work"/a/*.json; do
    jq -e 'all(.[]; .id and .image and .kind and .metric and (.conversations | length >= 2))' "$f" \
        >/dev/null || fail "$f"
done

# --kind selects files, --size the pixels; texts do not depend on the selected kinds.
run 0 scenes 30 "$work/c" --seed 5 --kind captions --kind yesno --size 64
same "files of the world" "$(cd "$work/c" && echo *)" "captions.json dense.json detail.json objects.jsonl pictures yesno.json"
same "sizes of the masks" "$(jq -c '.objects[0].mask.size' "$work/c/objects.jsonl" | sort -u)" "[64,64]"
run 0 scenes 30 "$work/d" --seed 5 --kind yesno
cmp -s "$work/a/yesno.json" "$work/d/yesno.json" || fail "yesno.json depends on --kind"

# /ask --data reads the questions of a world.
vlmsh "$llava" -c '/set sample.max_tokens 2' \
    -c "/ask --data $work/a/questions.json --out $work/answers.jsonl --limit 3" >/dev/null 2>"$work/err" ||
    fail "/ask --data: $(cat "$work/err")"
same "number of answers" "$(wc -l <"$work/answers.jsonl")" 3

# Bad usage, and impossible folders.
run 2 scenes
run 2 scenes 10
run 2 scenes ten "$work/x"
run 2 scenes 0 "$work/x"
run 2 scenes 1000001 "$work/x"
run 2 scenes 10 "$work/x" "$work/y"
run 2 scenes 10 "$work/x" --size 8
run 2 scenes 10 "$work/x" --kind pictures
run 1 scenes 10 "$work/a"
grep -q 'already exists' "$work/err" || fail "a full folder: $(cat "$work/err")"
run 1 scenes 10 "$work/none/x"
[ ! -e "$work/x" ] || fail "bad usage made a folder"

# Ctrl-C ends it with 130, and no file remains.
python3 - "$VLMSH" "$work/stopped" <<'P' || fail "Ctrl-C does not end it cleanly"
import glob, os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
p = subprocess.Popen([sys.argv[1], "scenes", "1000000", sys.argv[2]], stderr=subprocess.DEVNULL)
while not glob.glob(sys.argv[2] + "*/pictures/000010.png"):
    time.sleep(0.01)
p.send_signal(signal.SIGINT)
sys.exit(p.wait(60) != 130 or bool(glob.glob(sys.argv[2] + "*")))
P

run 0 --help
grep -q 'scenes N DIR' "$work/out" || fail "--help: $(cat "$work/out")"
finish
