# tests/tui/status.sh -- tui/main.c, options.c, lines.c: standard output, standard error and the exit statuses.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache"
model=tests/goldens/llava-1.5
failures=0

# run STATUS ARGUMENT...: writes standard output to $work/out, standard error to $work/err.
run() {
    local want=$1 got
    shift
    timeout 100 "$VLMSH" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$got" = "$want" ] || fail "exit $got, not $want: vlmsh $*"
}
fail() {
    echo "failed: $*"
    sed 's/^/  out: /' "$work/out"
    sed 's/^/  err: /' "$work/err"
    failures=$((failures + 1))
}
out() { grep -qE -- "$1" "$work/out" || fail "standard output lacks '$1'"; }
err() { grep -qE -- "$1" "$work/err" || fail "standard error lacks '$1'"; }
silent() { [ ! -s "$work/$1" ] || fail "$1 is not empty"; }

# Bad usage.
for bad in --foo -x "-c" "--threads 0" "--threads x" "--threads" "-D NOEQUALS" "-D =x" "-D 1=x" "-D a-b=x" "--plain --json" \
    "a b" "--plain=1" "--device gpu" "--device cuda:x" "--device cpu:1" "--session" \
    "scenes" "job" "job run x" "job dance" "new" "new --like tiny" "new --like nosuch DIR" "new --like tiny a b"; do
    # shellcheck disable=SC2086
    run 2 $bad
    silent out
    err '^vlmsh'
done
# The program by itself, without the library for GPUs and the demo model beside it.
alone=$work/alone/vlmsh
mkdir "$work/alone" && cp "$VLMSH" "$alone"
unset VLMSH_CUDA
VLMSH=$alone run 0 --device cuda -c /devices
err 'no GPU available: .*: build it with .make cuda. .*; computing on the CPU$'
out '^cpu '

run 0 --version; out '^vlmsh [0-9]'; silent err
run 0 version; out '^vlmsh [0-9]'; silent err
run 0 --db "$work/alias.db" version; out '^vlmsh [0-9]'; err "^vlmsh version: not used: the options before 'version'"
run 0 --help; out '--threads N'; out 'new --like SHAPE DIR'; silent err
run 0 help; out '--json'
run 0 help image; out '/image'
run 1 help nosuchthing; err 'nosuchthing'

# Answers on standard output, messages on standard error.
run 0 "$model" -c '/set sample.max_tokens 3' -c '/get sample.max_tokens' -c 'Hello'
[ "$(wc -l <"$work/out")" -ge 2 ] || fail "an answer or a setting is missing"
head -1 "$work/out" | grep -qx 'sample.max_tokens = 3' || fail "standard output does not begin with /get's"
grep -q $'\033' "$work/out" "$work/err" && fail "escape sequences are written to a pipe"

# Lines and files run in the order given; the first failing line ends the program.
printf '# a comment\n\n/set sample.seed 5\n' >"$work/a"
printf '/get sample.seed\n/nosuch\n/get sample.seed\n' >"$work/b"
run 1 -c '/get sample.seed' -f "$work/a" -c '/get sample.seed' -f "$work/b" -c '/get sample.top_k'
[ "$(cat "$work/out")" = $'sample.seed = 0\nsample.seed = 5\nsample.seed = 5' ] || fail "lines and files do not run in order"
err "^$work/b:2: unknown command '/nosuch'"
run 1 -c '/version' -c '/nosuch' -c '/version'
err "^-c:2: unknown command"
[ "$(wc -l <"$work/out")" = 1 ] || fail "continues after an error"
run 1 -f "$work/none"
err "$work/none"

# Variables come from -D, otherwise from the environment.
printf '/set sample.seed ${SEED}\n/get sample.seed\n' >"$work/v"
run 0 -D SEED=9 -f "$work/v"; out '= 9$'
run 0 -DSEED=8 -f "$work/v"; out '= 8$'
SEED=7 run 0 -f "$work/v"; out '= 7$'

# Standard input is a script.
printf '/get sample.seed\n/nosuch\n/version\n' >"$work/in"
timeout 100 "$VLMSH" <"$work/in" >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "a script on standard input does not stop at an error"
err '^stdin:2: unknown'
[ "$(wc -l <"$work/out")" = 1 ] || fail "continues after an error"

# If no line needs a model, none is opened, without a message.
run 0 -c "/tokenizer $model/tokenizer.json" -c '/tokenize Hello'
grep -q random "$work/err" && fail "a model was opened without need"
[ ! -e "$work/cache" ] || fail "a model was written without need"
# A line that needs a model opens the demo model or, if that is missing, a small one, with a
# message.
run 0 -c '/set sample.max_tokens 2' -c 'Hello'
find "$work/cache" -name config.json | grep -q . && fail "a small model was written beside the demo model"
VLMSH=$alone run 0 -c '/set sample.max_tokens 2' -c 'Hello'
err 'random weights'
VLMSH=$alone run 0 -c '/info'
run 1 "$work/nomodel" -c '/version'; silent out; err "$work/nomodel"
run 1 -c "/load $model" -c /unload -c Hello; err '^-c:3: .*/load'

# If the reader closes the pipe, the program ends silently. A full device is reported.
timeout 100 "$VLMSH" -c /settings -c /settings -c /settings 2>"$work/err" | head -1 >"$work/out"
silent err
timeout 100 "$VLMSH" -c /version >/dev/full 2>"$work/err"
[ $? = 1 ] || fail "output to a full device does not fail"
err 'cannot write the output: No space left'
timeout 100 "$VLMSH" help >/dev/full 2>"$work/err"
[ $? = 1 ] || fail "help to a full device does not fail"
err 'cannot write the output: No space left'
# A full device is also reported if output fails while the model loads.
timeout 100 "$VLMSH" $model --json </dev/null >/dev/full 2>"$work/err"
[ $? = 1 ] || fail "a dialogue to a full device does not fail"
err 'cannot write the output: No space left'

# An existing database that cannot be written.
mkdir "$work/kept" "$work/fixed"
run 0 $model --db "$work/kept/d.db" -c '/set sample.max_tokens 1' -c Hello
if unshare -rm sh -c 'mount --bind "$1/kept" "$1/fixed" && mount -o remount,ro,bind "$1/fixed"' - "$work" 2>"$work/err"; then
    unshare -rm sh -c 'mount --bind "$1/kept" "$1/fixed" && mount -o remount,ro,bind "$1/fixed" &&
        exec "$2" --db "$1/fixed/d.db" -c "/session list"' - "$work" "$VLMSH" >"$work/out" 2>"$work/err" </dev/null
    err "fixed/d.db': Read-only file system"
    err 'copy it elsewhere'
else
    echo "SKIPPED: a database on a read-only disk: users may not mount here"
fi

# A file opened next does not take the file descriptor of a closed stream.
mkfifo "$work/lines"
"$VLMSH" --db "$work/closed.db" -f "$work/lines" >&- 2>&- <&- &
pid=$!
exec 9<>"$work/lines" # open for reading and writing: opening does not block
for _ in $(seq 300); do # waits until the database is open
    ls -l "/proc/$pid/fd" 2>/dev/null | grep -q 'closed\.db$' && break
    sleep 0.1
done
for fd in 0 1 2; do
    [ "$(readlink "/proc/$pid/fd/$fd")" = /dev/null ] || fail "a file took the place of a closed stream: $fd"
done
echo /quit >&9
wait $pid || true
exec 9>&-
rm "$work/lines"

# A database that cannot be opened is reported; commands that need no database work.
run 0 --db /proc/x.db -c '/version'; out '^vlmsh'; err 'nothing will be saved'
run 2 --db "$work/none/deep/x.db" -c '/version'; silent out; err "there is no folder '$work/none/deep': create it"
[ -e "$work/none" ] && fail 'the folder of a mistyped --db is made'
for strange in /dev/null "$work/pipe" "$work"; do
    [ -e "$strange" ] || mkfifo "$strange"
    run 2 --db "$strange" -c '/version'; silent out; err "^vlmsh: .*'$strange': it is a (device|pipe|folder): name another file"
done
rm "$work/pipe"
run 1 job list --db /dev/null; err 'it is a device'
# The failure is reported at the start, and the exit status is 0: 1 would mean that something could
# not be saved later.
run 0 "$model" --db /proc/x.db -c '/set sample.max_tokens 2' -c 'Hello'; err 'nothing will be saved'
run 0 --db :memory: -c '/version'; out '^vlmsh'; err "nothing will be saved: jobs need a database file"
[ -e ':memory:' ] && fail "a file of that name is made"
run 1 --db /proc/x.db --session s -c '/version'; silent out

# SIGINT gives exit status 130, SIGTERM 143.
for pair in INT:130 TERM:143; do
    mkfifo "$work/fifo"
    exec 9<>"$work/fifo" # open on both sides: neither side waits for the other
    "$VLMSH" -f "$work/fifo" "$model" >"$work/out" 2>"$work/err" 9>&- &
    pid=$!
    printf '/set sample.ignore_eos on\n/set ctx.max 1000000\n/set sample.max_tokens 1000000\n' >&9
    printf 'a slow question\n/version\n' >&9
    for _ in $(seq 100); do [ -s "$work/out" ] && break; sleep 0.1; done
    sleep 0.3
    kill -"${pair%:*}" $pid
    wait $pid
    got=$?
    exec 9>&-
    [ $got = "${pair#*:}" ] || fail "exit $got after SIG${pair%:*}"
    grep -q '^vlmsh' "$work/out" && fail "the script continues after SIG${pair%:*}"
    rm "$work/fifo"
done

# Under nohup, a script outlives the terminal, which sends SIGHUP.
rm -f "$work/out"
mkfifo "$work/fifo"
exec 9<>"$work/fifo"
nohup "$VLMSH" -f "$work/fifo" >"$work/out" 2>"$work/err" 9>&- &
pid=$!
echo /version >&9
for _ in $(seq 600); do [ -s "$work/out" ] && break; sleep 0.1; done
kill -HUP $pid
printf '/get sample.seed\n/quit\n' >&9
wait $pid || fail "exit $? after SIGHUP under nohup"
exec 9>&-
out '^sample.seed = 0$'
[ $failures = 0 ]
