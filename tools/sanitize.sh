#!/bin/sh
# sanitize.sh TOOL PROGRAM...: runs a program under compute-sanitizer of the CUDA toolkit, and fails
# if there is a finding.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) || {
    echo 'compute-sanitizer is not here: it comes with the CUDA toolkit' >&2
    exit 1
}
tool=${1:?usage: tools/sanitize.sh TOOL PROGRAM...}
shift
# Failing API calls are not findings: tests request more memory than the GPU has.
[ "$tool" = memcheck ] && set -- --report-api-errors no "$@"
exec "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 10 "$@"
