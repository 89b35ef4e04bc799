#!/bin/sh
# Runs every benchmark of tests/bench/*.c from BUILD_DIR; prints Markdown. Nothing is asserted.
set -eu
build=${1:?usage: tests/bench/run.sh BUILD_DIR}
cd "$(dirname "$0")/../.."
printf '%s, %s cores, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
    "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)"
for source in tests/bench/*.c; do
    printf '\n'
    "$build/${source%.c}"
done
