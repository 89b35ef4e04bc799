#!/bin/bash
# Runs test programs (cmocka) and test scripts (.sh, with $VLMSH), each quietly unless it fails.
# Closes with "N passed, N failed" and fails if any failed.
passed=0 failed=0
export CMOCKA_MESSAGE_OUTPUT=stdout
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
for t in "$@"; do
    case $t in
    *.sh) timeout "${TEST_TIMEOUT:-300}" bash "$t" >"$log" 2>&1 ;;
    *) timeout "${TEST_TIMEOUT:-300}" "$t" >"$log" 2>&1 ;;
    esac
    status=$?
    name=${t#*/tests/}; name=${name#tests/}
    if [ $status = 0 ]; then
        n=$(grep -c '^\[       OK \]' "$log"); [ "$n" = 0 ] && n=1
        passed=$((passed + n))
        echo "ok      $name ($n)"
    else
        n=$(grep -c '^\[  FAILED  \] [^0-9]' "$log"); [ "$n" = 0 ] && n=1
        failed=$((failed + n)); passed=$((passed + $(grep -c '^\[       OK \]' "$log")))
        echo "FAILED  $name (exit $status)"
        sed 's/^/    /' "$log" | tail -40
    fi
done
rm -f "$log"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
