# tests/commands/disk.sh -- leaving while the database cannot be written: a message and the exit status
# report it, and a script holds the unsaved turns. A file size limit emulates a full disk.
. tests/commands/common.bash
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
questions() { # N: lines that ask N questions
    printf '%s\n' "/load $llava" '/set sample.max_tokens 3' '/set sample.ignore_eos on' '/system Be brief.' "/image $scene"
    for ((i = 1; i <= $1; i++)); do echo "question $i"; done
}
# full COMMAND...: runs it with files limited to 320 KB.
full() (
    ulimit -f 320
    "$VLMSH" --db "$work/full.db" "$@"
)
script_of() { sed -n "s/.*asks the session again: '\([^']*\)'.*/\1/p" "$1"; }

questions 40 | full --plain >"$work/out" 2>"$work/err"
same "plain: status" $? 1
grep -q 'not saved yet' "$work/err" || fail "not reported at once: $(cat "$work/err")"
grep -q 'questions were not saved' "$work/err" || fail "plain says: $(tail -1 "$work/err")"
script=$(script_of "$work/err")
[ -f "$script" ] || fail "no script '$script'"
case $script in "$TMPDIR"/*) ;; *) fail "the script is not in TMPDIR: $script" ;; esac
same "all questions" "$(grep -c '^question' "$script")" 40
vlmsh --json -f "$script" >"$work/again"
questions 40 | "$VLMSH" --db "$work/whole.db" --json >"$work/whole"
same "the same answers" "$(jq -c 'select(.event == "answer").ids' "$work/again")" "$(jq -c 'select(.event == "answer").ids' "$work/whole")"
same "40 answers" "$(jq -c 'select(.event == "answer").ids' "$work/again" | wc -l)" 40

rm "$work"/full.db*
questions 40 | full --json >"$work/events"
same "json: status" $? 1
check_has "json reports it" 'select(.event == "error").message' 'questions were not saved'

# Once the disk has free space again, everything is saved and no script remains.
rm -r "$TMPDIR"/* "$work"/full.db*
questions 40 | "$VLMSH" --db "$work/full.db" --json >"$work/events"
same "with free space: status" $? 0
same "with free space: no script" "$(ls "$TMPDIR")" ''

finish
