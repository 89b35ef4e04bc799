# tests/tui/habits.sh -- the command line as users of other programs know it: -m, -p, --image, run, --no-session.
. tests/commands/common.bash

# run STATUS OUT ARGUMENT...
run() {
    local want=$1 out=$2 got
    shift 2
    vlmsh "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$got" = "$want" ] || fail "vlmsh $*: exit $got, not $want: $(cat "$work/err")"
    same "vlmsh $*" "$(cat "$work/out")" "$out"
}

scene=demo/pictures/scene-1.png
run 0 $'a green diamond, a green letter H and a red circle\nmiddle' -m demo/model --image $scene -p 'What is in the picture?' -p 'Where is the red circle?'
run 0 middle run demo/model --image=$scene '-pWhere is the red circle?'
# A picture after the last question belongs to it.
run 0 middle -m demo/model -p 'Where is the red circle?' --image $scene
run 0 middle run demo/model 'Where is the red circle?' --image $scene
run 0 $'grey\nmiddle' demo/model --image $scene -c 'What colour is the background?' -p 'Where is the red circle?'
# A picture that is not sent is named.
run 0 middle demo/model --image $scene -p 'Where is the red circle?' --image demo/pictures/scene-2.png -c '/reset all'
grep -qx 'no question followed: demo/pictures/scene-2.png was not sent' "$work/err" || fail "not sent: $(cat "$work/err")"
vlmsh demo/model --image $scene -c '/forward What is this?' >"$work/out" 2>&1 || fail "a pass with the picture"
grep -q 'was not sent' "$work/out" && fail "a picture that /forward used: $(cat "$work/out")"
# A question is a text, whatever its first letter, and nothing in it is replaced.
vlmsh run demo/model --json -c '/set sample.max_tokens 1' -p '/quit ${HOME} "x" \' >"$work/events" || fail "a question like a command"
check "asked as a question" '[select(.event == "answer" or .event == "error")] | .[0].event // empty' answer
run 1 '' demo/model --image "$work/none.png" -p 'What is it?'
grep -q "^--image:1: cannot open" "$work/err" || fail "which picture: $(cat "$work/err")"
run 1 '' -m "$work/nowhere" -p 'What is it?'
run 1 '' run org/name-of-a-model -p 'What is it?'
grep -q "hf download org/name-of-a-model" "$work/err" || fail "the download command: $(cat "$work/err")"
echo '/get sample.seed' >"$work/steps.vlmsh"
run 1 '' "$work/steps.vlmsh" -p 'What is it?'
grep -q -- "-f runs a script: vlmsh MODEL -f FILE" "$work/err" || fail "a script in place of MODEL: $(cat "$work/err")"
run 2 '' --image $scene demo/pictures/scene-2.png -p 'What is it?'
grep -q "is a picture, not a MODEL: put --image before each picture" "$work/err" || fail "a second picture: $(cat "$work/err")"
touch "$work/tiny.gguf"
run 1 '' "$work/tiny" -p 'What is it?'
(cd "$work" && vlmsh tiny -p 'What is it?') 2>"$work/err" && fail "a name without its ending"
grep -q "no folder 'tiny': did you mean 'tiny.gguf'?" "$work/err" || fail "a name without its ending: $(cat "$work/err")"
run 2 '' run
run 2 '' -m demo/model demo/model
run 2 '' demo/model -p ''
run 2 '' demo/model --no-session --session x
run 2 '' demo/model -p --no-session
grep -q "^vlmsh: -p needs TEXT, not the option '--no-session' (to mean that text, write -p--no-session)" "$work/err" || fail "no text: $(cat "$work/err")"
run 2 '' run demo/model Where is it?
grep -q "unexpected 'is' after the question 'Where': put a question in quotes" "$work/err" || fail "no quotes: $(cat "$work/err")"
run 2 '' version --json
# Without a question, lines are read as usual, with the picture attached.
same "the answer to a piped question" "$(echo 'Where is the red circle?' | vlmsh demo/model --image $scene 2>/dev/null)" middle
cp -r demo/model "$work/run"
same "a folder of that name" "$(cd "$work" && vlmsh run ./run --image "$root/$scene" -p 'Where is the red circle?' 2>/dev/null)" middle

# --no-session saves neither the conversation nor its measurements, but still saves presets.
lines() { printf '%s\n' "$@" | vlmsh --db "$work/unsaved.db" demo/model --json --no-session >"$work/events"; }
lines "/image $scene" 'Where is the red circle?' /norms '/preset save mine sample.*' /session '/session export x.md'
check "text of the answer" 'select(.event == "answer").text' ' middle'
check "/session says that nothing is saved" 'select(.event == "text").text' 'this conversation is not saved (--no-session)'
check_has "/export without a saved session" 'select(.event == "error").message' 'this conversation is not saved'
python3 - "$work/unsaved.db" <<'P' || fail "what is stored"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert [db.execute("SELECT count(*) FROM " + t).fetchone()[0] for t in ("sessions", "messages", "results", "pictures")] == [0] * 4
assert db.execute("SELECT count(*) FROM presets").fetchone()[0] > 0
P

# One question about each picture.
vlmsh demo/model -c "/ask --each 'demo/pictures/scene-[01].png' What is in the picture? --out=$work/each.jsonl --limit 1" 2>"$work/err" ||
    fail "--each: $(cat "$work/err")"
vlmsh demo/model -c "/ask --each demo/pictures/scene-[01].png \"What is in the picture?\" --out $work/each.jsonl --job" -c /wait 2>"$work/err" ||
    fail "--each as a job: $(cat "$work/err")"
same "answers to one question about each picture" "$(jq -c '[.id, .question, .answer]' "$work/each.jsonl")" \
    $'["demo/pictures/scene-0.png","What is in the picture?"," a blue circle and a cyan circle"]\n["demo/pictures/scene-1.png","What is in the picture?"," a green diamond, a green letter H and a red circle"]'
run 1 '' demo/model -c "/ask --each $work/none/*.png What? --out $work/no.jsonl"
grep -q "no picture matches" "$work/err" || fail "no match: $(cat "$work/err")"
run 1 '' demo/model -c "/ask --each demo/pictures/*.png --out $work/no.jsonl"
grep -q "usage: /ask --each PATTERN QUESTION --out FILE.jsonl" "$work/err" || fail "no question: $(cat "$work/err")"
run 1 '' demo/model -c "/ask --each demo/pictures What?"
grep -q "each needs --out FILE.jsonl" "$work/err" || fail "no file: $(cat "$work/err")"
run 1 '' demo/model -c "/ask --each demo/pictures What? --out $work/no.csv"
grep -q "the answers are JSON lines: choose a name that ends with .jsonl" "$work/err" || fail "a table: $(cat "$work/err")"
mkdir "$work/pics"
cp demo/pictures/scene-[01].png "$work/pics"
echo none >"$work/pics/notes.txt"
vlmsh demo/model -c "/ask --each $work/pics Where is the circle? --out $work/all.jsonl" 2>"$work/err" || fail "a folder: $(cat "$work/err")"
same "a folder's pictures" "$(jq -r .id "$work/all.jsonl")" "$work/pics/scene-0.png"$'\n'"$work/pics/scene-1.png"
run 1 '' demo/model --image 'demo/pictures/*.png' --image 'demo/pictures/*.png' -p 'What is in the pictures?'
grep -q "ask about one picture at a time (/ask --each)" "$work/err" || fail "too many pictures: $(cat "$work/err")"
run 1 '' demo/model -c "/train $work out"
grep -q "is a folder: choose a file in it (.*all.jsonl.*)" "$work/err" || fail "a folder in place of data: $(cat "$work/err")"
for line in '/models|did you mean ./load' '/set system Be brief.|no setting .system.: the command is /system' '/help batch|did you mean .ask'; do
    run 1 '' demo/model -c "${line%%|*}"
    grep -q "${line#*|}" "$work/err" || fail "${line%%|*}: $(cat "$work/err")"
done
vlmsh demo/model -c "/ask --each demo/pictures/scene-1.png Is -5 there? --out $work/five.jsonl" 2>"$work/err" ||
    fail "a word with a dash: $(cat "$work/err")"
same "a question with a word that begins with a dash" "$(jq -r .question "$work/five.jsonl")" 'Is -5 there?'
run 1 '' demo/model -c "/ask --eachh demo/pictures/*.png What? --out $work/no.jsonl"
grep -q "unknown option '--eachh': did you mean --each" "$work/err" || fail "a typing error: $(cat "$work/err")"

# Completions: bash's are run; the others are searched for words, and parsed if their shells are installed.
for shell in bash zsh fish; do
    vlmsh help --completion $shell >"$work/completion.$shell" || fail "completions of $shell"
    for word in --no-session checkup --adapter sample.top_p; do
        grep -qe "$word" -e "${word#--}" "$work/completion.$shell" || fail "$shell: $word is missing"
    done
    if command -v $shell >/dev/null; then $shell -n "$work/completion.$shell" || fail "$shell refuses its completions"; fi
    [ $shell = bash ] || grep -q -e '-m\[.*_vlmsh_model' -e '-s m .*__vlmsh_models' "$work/completion.$shell" || fail "$shell: no names of models after -m"
done
run 2 '' help --completion csh
. "$work/completion.bash"
compopt() { :; } # works only during a completion
completed() { # WORD...: the candidates for the last word
    COMP_WORDS=(vlmsh "$@") COMP_CWORD=$#
    _vlmsh
    echo "${COMPREPLY[*]}"
}
mkdir -p "$work/hub/models--org--name/snapshots" "$work/hub/models--org--\$(touch ran)" "$work/my dir"
export HF_HUB_CACHE=$work/hub
same "completed option" "$(completed --no-s)" --no-session
same "completed values of --device" "$(completed demo/model --device c)" "cpu cuda"
same "completed subcommand" "$(completed che)" checkup
same "options of a subcommand" "$(completed checkup demo/model --qu)" --quick
same "completed topics of help" "$(completed help sample.top_)" "sample.top_k sample.top_p"
same "completed model of the hub cache" "$(completed run org/n)" org/name
same "completed model after checkup" "$(completed checkup org/n)" org/name
same "completed model after -m" "$(completed -m org/n)" org/name
same "a name that is not a command" "$(cd "$work" && completed run 'org/$' && ls ran 2>&1)" $'org/$(touch ran)\nls: cannot access \'ran\': No such file or directory'
COMP_WORDS=(vlmsh "$work/my") COMP_CWORD=1
_vlmsh
same "a folder with a space" "${#COMPREPLY[@]} ${COMPREPLY[0]}" "1 $work/my dir"
same "completed file name" "$(completed -m demo/mod)" demo/model
finish
