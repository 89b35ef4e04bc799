#!/bin/bash
# Runs test programs (cmocka) and test scripts (.sh, with $VLMSH) in parallel, four more than processors
# (scripts mostly wait), the slow ones first (tests/slow). Prints a line for each test, and the last
# 40 lines of the output of each that fails.
# Lines that begin with "SKIPPED: " name checks that this machine does not allow; they are shown and
# counted. A script without any check exits with 77. Ends with "N passed, N failed, N skipped" and, if any
# test failed, with the names of those that did and status 1. TEST_UNDER is a command under which the
# programs run, TEST_JOBS the number of parallel tests, TEST_TIMEOUT the seconds that each test may take,
# TEST_TIMES a file that gets one line per test: its seconds, its processor seconds, its name.
export CMOCKA_MESSAGE_OUTPUT=stdout LC_ALL=C.UTF-8
# Spinning threads would cost far more processor time than these tests.
export OMP_WAIT_POLICY=passive
unset XDG_CONFIG_HOME XDG_DATA_HOME HF_HOME HF_HUB_CACHE INPUTRC NO_COLOR LANGUAGE
unset "${!SLURM_@}" # within an allocation, jobs may have no more ranks than it has tasks
cd "$(dirname "$0")/.." || exit 1
# Fails if the CPU lacks the instruction set that VLMSH_ISA names, rather than testing a different
# one.
[ -z "${VLMSH_ISA:-}" ] || [ -z "${VLMSH:-}" ] || "$VLMSH" help >/dev/null || exit 1
# Libraries keep some memory until exit; suppressed silently, because tests compare program output.
export LSAN_OPTIONS="suppressions=$PWD/tests/leaks:print_suppressions=0"
# A quarantine of 32 MB for freed memory, instead of 256 MB, saves page faults and makes forks cheap.
export ASAN_OPTIONS=quarantine_size_mb=32:malloc_context_size=12
# Tests write names of temporary files into lines of shells and of vlmsh and into sockets (at most 107 bytes), and run
# scripts there, which some machines forbid in /tmp.
for folder in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
    [[ $folder =~ ^[A-Za-z0-9/._-]{1,40}$ ]] && scratch=$(mktemp -d -p "$folder") || continue
    cp /bin/true "$scratch/true" && "$scratch/true" 2>/dev/null && break
    rm -rf "$scratch"
done
[ -d "${scratch:-}" ] || { echo "set TMPDIR to a folder that allows programs and has a short name without spaces"; exit 1; }
trap 'rm -rf "$scratch"' EXIT
export scratch TEST_UNDER=${TEST_UNDER:-} TEST_TIMEOUT=${TEST_TIMEOUT:-900} TEST_TIMES=${TEST_TIMES:-/dev/null}
export TIMEFORMAT='%R %U %S'

# Each test has its own home without the user's or other tests' files; the home is removed
# afterwards.
run_test() {
    local test=$1 home log name status real user system
    home=$(mktemp -d "$scratch/XXXXXX") || exit 1
    log=$home/log name=${test#*/tests/} name=${name#tests/}
    mkdir "$home/tmp"
    export HOME=$home TMPDIR=$home/tmp XDG_STATE_HOME=$home/state XDG_CACHE_HOME=$home/cache
    # shellcheck disable=SC2086 # several words, or none
    case $test in
    *.sh) set -- bash "$test" ;;
    *) set -- $TEST_UNDER "$test" ;;
    esac
    { time timeout "$TEST_TIMEOUT" "$@" >"$log" 2>&1; } 2>"$home/took"
    status=$?
    read -r real user system <"$home/took"
    report "$name" "$status" "$log" "${real%.*}" >"$home/report"
    {
        flock 9
        cat "$home/report"
        echo "$real $user $system $name" | awk '{ print $1, $2 + $3, $4 }' >>"$TEST_TIMES"
    } 9>>"$scratch/lock"
    rm -rf "$home"
}

# Prints a test's result; its counts go to $scratch/counts.
report() {
    local name=$1 status=$2 log=$3 seconds=$4 passed failed=0 skipped took=
    passed=$(grep -c '^\[       OK \]' "$log")
    skipped=$(grep -c '^SKIPPED: ' "$log")
    [ "$seconds" -lt 10 ] || took=", $seconds s"
    if [ "$status" = 0 ]; then
        [ "$passed" != 0 ] || grep -q '^\[  SKIPPED \]' "$log" || passed=1
        echo "ok      $name ($passed$took)"
        grep '^SKIPPED: ' "$log" | sed 's/^/    /'
    elif [ "$status" = 77 ] && [ "$skipped" != 0 ]; then
        echo "skipped $name"
        grep '^SKIPPED: ' "$log" | sed 's/^/    /'
    else
        failed=$(grep '^\[  FAILED  \] [^0-9]' "$log" | sort -u | wc -l) # cmocka lists failed tests twice
        [ "$failed" != 0 ] || failed=1
        echo "FAILED  $name (exit $status$took)"
        echo "$name" >>"$scratch/failed"
        sed 's/^/    /' "$log" | tail -40
    fi
    echo "$passed $failed $skipped" >>"$scratch/counts"
}

export -f run_test report
# The tests, with those of tests/slow first: a slow test at the end would run alone.
ordered() {
    printf '%s\n' "$@" | awk 'NR == FNR { rank[$1] = NR; next }
        { name = $0; sub(/.*tests\//, "", name); print (name in rank ? rank[name] : 1000), $0 }' \
        tests/slow - | sort -s -n -k 1,1 | cut -d ' ' -f 2-
}

[ $# = 0 ] || ordered "$@" | tr '\n' '\0' |
    xargs -0 -r -n 1 -P "${TEST_JOBS:-$(($(nproc) + 4))}" bash -c 'run_test "$1"' run_test
touch "$scratch/counts"
awk '{ passed += $1; failed += $2; skipped += $3 }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 || !passed }' \
    "$scratch/counts" && exit
[ ! -e "$scratch/failed" ] || echo "failed: $(sort "$scratch/failed" | paste -sd ' ')"
exit 1
