#!/bin/bash
# Lets allocations fail in readers (tests/allocations/main.c), on small files from tests/goldens and the fuzzers'
# corpora: tests/allocations/run.sh BIN MOST READER... With MOST 0 none fails, and all files are read.
binary=$(realpath "$1") most=$2
shift 2
cd "$(dirname "$0")/../.." || exit 1
. tests/fuzz/seeds.bash
export OMP_NUM_THREADS=1 LC_ALL=C.UTF-8 FILES=${ALLOCATION_FILES:-6}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state TMPDIR=$work

[ "$most" != 0 ] || FILES=1000000
# The FILES smallest seeds, and as many files of the corpus, of at least 16 bytes: time grows with the square of their
# length.
smallest() { # FOLDER
    find "$1" -type f -size +15c -printf '%s %p\n' | sort -n | head -n "$FILES" | cut -d ' ' -f 2-
}

fail_allocations() { # READER
    mkdir -p "$work/$1"
    (set -e; make_seeds "$1" "$work/$1")
    local made=$?
    [ "$made" = 0 ] || { echo "FAILED  $1: its seeds cannot be written"; return 1; }
    mkdir "$work/corpus.$1"
    [ ! -e "tests/fuzz/corpus/$1.tar.xz" ] || tar -C "$work/corpus.$1" -xJf "tests/fuzz/corpus/$1.tar.xz" ||
        { echo "FAILED  $1: its corpus cannot be unpacked"; return 1; }
    { smallest "$work/$1"; smallest "$work/corpus.$1"; } >"$work/files.$1"
    [ -s "$work/files.$1" ] || { echo "FAILED  $1: there are no files to read"; return 1; }
    tr '\n' '\0' <"$work/files.$1" | xargs -0 "$binary" "$1" "$most"
}

export binary most work
export -f fail_allocations smallest make_seeds safetensors_seed
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c \
    'fail_allocations "$1" >"$work/report.$1" 2>&1; status=$?; cat "$work/report.$1"; exit $((status > 0))' fail_allocations
