#!/bin/bash
# Runs fuzzers, one per processor: tests/fuzz/run.sh SECONDS SEED BIN... (seed 0: a random one)
# Each fuzzer starts from a few small files made from tests/goldens, and from the corpus of earlier
# runs (tests/fuzz/corpus/NAME.tar.xz). Prints one line per fuzzer, and the end of the log of one that
# fails. A crash, a hang (10 s; 60 s for parquet, whose inputs are larger) or more than 2 GB of
# memory makes a fuzzer fail; the input is kept beside the binary. KEEP=FOLDER adds small inputs
# with new coverage, from this run and from FOLDER/NAME, to the corpora.
seconds=$1 seed=$2
shift 2
cd "$(dirname "$0")/../.." || exit 1
export OMP_NUM_THREADS=1 # other fuzzers run in parallel
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state TMPDIR=$work # vlmsh records written files there

. tests/fuzz/seeds.bash

# Keeps inputs of at most 32 KB, the smallest first, 8 KB in all; for databases, which compress
# well, 512 KB.
keep() { # BIN NAME
    local all=$work/all/$2 new=$work/new/$2 kept=$work/kept/$2 most=8192 total=0 count=0 f
    [ "$2" != sessions ] || most=524288
    mkdir -p "$all" "$new" "$kept"
    make_seeds "$2" "$new"
    ls "$new" >"$work/$2.made"
    find "$work/$2" "$KEEP/$2" -type f -size -33k -exec cp -t "$all" {} + 2>>"$work/$2.log"
    "$1" -merge=1 -rss_limit_mb=2048 -timeout=10 "$new" "$all" >>"$work/$2.log" 2>&1 || return
    for f in $(ls -Sr "$new" | grep -vxFf "$work/$2.made"); do
        [ $((total += $(stat -c %s "$new/$f"))) -gt $most ] || cp "$new/$f" "$kept/$((count++))"
    done
    tar -C "$work/kept" --sort=name --owner=0 --group=0 --mtime=@0 -cJf "tests/fuzz/corpus/$2.tar.xz" "$2"
}

fuzz() { # BIN
    local bin=$1 name status limits
    name=$(basename "$bin")
    mkdir -p "$work/$name"
    make_seeds "$name" "$work/$name"
    [ ! -e "tests/fuzz/corpus/$name.tar.xz" ] || tar -C "$work" -xJf "tests/fuzz/corpus/$name.tar.xz"
    [ "$name" = parquet ] && limits="-timeout=60 -max_len=4194304" || limits="-timeout=10 -max_len=65536"
    "$bin" -max_total_time="$seconds" -seed="$seed" $limits -rss_limit_mb=2048 \
        -dict=tests/fuzz/words.dict -artifact_prefix="$bin-" "$work/$name" >"$work/$name.log" 2>&1
    status=$?
    if [ $status = 0 ]; then
        echo "ok      fuzz $name ($(grep -o 'Done [0-9]* runs in [0-9]* second' "$work/$name.log")s)"
    else
        echo "FAILED  fuzz $name (exit $status)"
        grep -v '^#' "$work/$name.log" | tail -40 | sed 's/^/    /'
    fi
    [ $status != 0 ] || [ -z "${KEEP:-}" ] || keep "$bin" "$name"
    return $status
}

export seconds seed work
export -f fuzz keep make_seeds safetensors_seed
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c 'fuzz "$1" >"$work/report.$$"; status=$?; cat "$work/report.$$"; exit $((status > 0))' fuzz
