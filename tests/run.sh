#!/bin/bash
# Runs test programs (cmocka) and test scripts (.sh, with $VLMSH), each quietly unless it fails.
# Lines that begin with "SKIPPED: " are shown: what a test could not check on this machine.
# Closes with "N passed, N failed" and fails if any failed. TEST_UNDER is a command that the programs
# run under.
passed=0 failed=0
export CMOCKA_MESSAGE_OUTPUT=stdout
cd "$(dirname "$0")/.." || exit 1
# A home of their own: no test sees the user's files, and nothing of theirs is left.
home=$(mktemp -d) || exit 1
trap 'rm -rf "$home"' EXIT
mkdir "$home/tmp"
export HOME=$home TMPDIR=$home/tmp XDG_STATE_HOME=$home/state XDG_CACHE_HOME=$home/cache LC_ALL=C.UTF-8
# On a busy machine threads that spin while they wait cost far more than the work of these tests.
export OMP_WAIT_POLICY=passive
unset XDG_CONFIG_HOME XDG_DATA_HOME HF_HOME INPUTRC NO_COLOR
log=$home/log
TEST_UNDER=${TEST_UNDER:-}
for t in "$@"; do
    # shellcheck disable=SC2086 # several words, or none
    case $t in
    *.sh) timeout "${TEST_TIMEOUT:-900}" bash "$t" >"$log" 2>&1 ;;
    *) timeout "${TEST_TIMEOUT:-900}" $TEST_UNDER "$t" >"$log" 2>&1 ;;
    esac
    status=$?
    name=${t#*/tests/}; name=${name#tests/}
    if [ $status = 0 ]; then
        n=$(grep -c '^\[       OK \]' "$log"); [ "$n" = 0 ] && n=1
        passed=$((passed + n))
        echo "ok      $name ($n)"
        grep '^SKIPPED: ' "$log" | sed 's/^/    /'
    else
        n=$(grep -c '^\[  FAILED  \] [^0-9]' "$log"); [ "$n" = 0 ] && n=1
        failed=$((failed + n)); passed=$((passed + $(grep -c '^\[       OK \]' "$log")))
        echo "FAILED  $name (exit $status)"
        sed 's/^/    /' "$log" | tail -40
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
