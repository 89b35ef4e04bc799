# tests/commands/run.sh -- scripts: stopping at errors, exit status, variables, long lines, /run.
. tests/commands/common.bash

expect() { # NAME STATUS STDERR-PART COMMAND...
    local name=$1 status=$2 part=$3
    shift 3
    "$@" >"$work/out" 2>"$work/err" </dev/null
    same "$name: exit status" $? "$status"
    [ -z "$part" ] || grep -qF -- "$part" "$work/err" || fail "$name: '$(cat "$work/err")' does not contain '$part'"
}
printf '# comment\n\n/version\n/lod x\n/version\n' >"$work/bad.vlmsh"
expect "first error" 1 "$work/bad.vlmsh:4: unknown command '/lod': did you mean '/load'?" vlmsh -f "$work/bad.vlmsh"
same "lines before it ran" "$(grep -c '^vlmsh ' "$work/out")" 1
printf '/version\n/run %s\n' "$work/bad.vlmsh" >"$work/outer.vlmsh"
expect "nested" 1 "$work/outer.vlmsh:2: $work/bad.vlmsh:4: unknown command" vlmsh -f "$work/outer.vlmsh"
printf '/run %s\n' "$work/self.vlmsh" >"$work/self.vlmsh"
expect "runs itself" 1 "$work/self.vlmsh:1: " vlmsh -f "$work/self.vlmsh"
expect "missing" 1 "$work/none.vlmsh" vlmsh -f "$work/none.vlmsh"
printf '/version\n/quit\n/lod\n' >"$work/quit.vlmsh"
expect "quit" 0 "" vlmsh -f "$work/quit.vlmsh"
expect "-c stops" 1 "unknown command '/nope'" vlmsh -c '/nope' -c '/version'
same "no output after -c has stopped" "$(cat "$work/out")" ""

printf '/set chat.date ${DAY}\n/set sample.seed \\\n${SEED}\n/system """\nsay $${x}, not\n/quit\n"""\n/system\n' >"$work/v.vlmsh"
SEED=5 vlmsh --json -D DAY=2 -D 'DAY=1 May "25"' -f "$work/v.vlmsh" >"$work/events" || fail "variables: exit status"
check "values of variables" 'select(.event == "setting").value' $'1 May "25"\n5'
check "text of many lines" 'select(.event == "text").text' $'say ${x}, not\n/quit'
expect "unknown variable" 1 "$work/v.vlmsh:1: unknown variable 'DAY'" vlmsh -f "$work/v.vlmsh"

# With -c or -f, standard input is read only if named; otherwise a notice says that it was not read.
echo /version | vlmsh -c '/get sample.seed' 2>"$work/err" >"$work/out" || fail "-c fails beside an unread standard input"
grep -q '^standard input was not read: -f -' "$work/err" || fail "beside -c: $(cat "$work/err")"
vlmsh -c '/get sample.seed' 2>"$work/err" >"$work/out" <"$work/v.vlmsh"
grep -q '^standard input was not read' "$work/err" || fail "a file beside -c: $(cat "$work/err")"
vlmsh -c '/image -' <$scene 2>"$work/err" || fail "/image - fails beside -c"
echo /version | vlmsh -c '/get sample.seed' -f - 2>>"$work/err" >"$work/out"
vlmsh -c /version </dev/null 2>>"$work/err"
grep 'standard input was not read' "$work/err" && fail "a notice although standard input was read"

# Standard input is a script unless --json is given: then every line ends with done, whatever happens.
printf '/version\n/nope\n/version\n' | vlmsh >"$work/out" 2>"$work/err"
same "standard input: exit status" $? 1
grep -qF 'stdin:2: unknown command' "$work/err" || fail "standard input: $(cat "$work/err")"
printf '/version\n/nope\n# x\n/version' | vlmsh --json >"$work/events" || fail "an error ends a dialogue"
check "lines that fail" 'select(.event == "done").ok' $'true\nfalse\ntrue\ntrue'
check "error before its done" 'select(.event | . == "done" or . == "error").event' $'done\nerror\ndone\ndone\ndone'
vlmsh --json -f "$work/bad.vlmsh" >"$work/events" 2>"$work/err"
same "script with --json: exit status" $? 1
check "script with --json" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse'
check "the error's place" 'select(.event == "error") | .where, .message' "$work/bad.vlmsh:4
unknown command '/lod': did you mean '/load'?"
# Variables that no line uses are named; one that a nested file uses counts.
echo '/set sample.seed ${SEED}' >"$work/inner.vlmsh"
echo "/run $work/inner.vlmsh" >"$work/outer.vlmsh"
lines "/run $work/outer.vlmsh SEED=1,2 SEEDS=3" "/run $work/inner.vlmsh SEED=1 SEED=2"
check "a variable that is not used" 'select(.event == "notice").text' "SEEDS has no effect: no line of '$work/outer.vlmsh' contains \${SEEDS}"
check "a variable given twice" 'select(.event == "error").message' "SEED is given twice: list its values, as in SEED=A,B"
same "-D that is not used" "$(vlmsh -D SEED=1 -D FOO=2 -f "$work/outer.vlmsh" 2>&1)" "sample.seed = 1
-D FOO was not used: no line contains \${FOO}"
finish
