#!/bin/bash
# Compares training in ranks with one rank on all cores, in turn; prints rows of Markdown.
#
#   tests/bench/ranks.sh VLMSH MODEL METHOD [SETTING VALUE]...
#
# Rows per second are medians over all steps except the first, of all rounds; ratios are per round.
set -eu
vlmsh=$1 model=$2 method=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for i in $(seq 0 63); do # of about equal length, so that no rank waits because of the data
    printf '{"id": "%d", "question": "What is %d and what is the square of it, if it has one at all?", "answer": "It is %d, and its square is %d, as any list of squares says."}\n' \
        $((i + 100)) $((i + 100)) $((i + 100)) $(((i + 100) * (i + 100)))
done >"$work/data.jsonl"
cores=$(nproc)
number=0
run() { # RANKS THREADS ROUND
    number=$((number + 1))
    {
        printf '%s\n' "/load $model" '/set job.nice 0' "/set job.threads $2" "/set train.method $method" "/set train.batch ${BATCH:-1}" \
            '/set train.accumulate 4' "/set train.steps ${STEPS:-5}" '/set train.keep 0'
        while [ $# -gt 4 ]; do
            printf '/set %s %s\n' "$4" "$5"
            set -- "$1" "$2" "$3" "${@:6}"
        done
        printf '%s\n' "/train $work/data.jsonl $work/out$number --ranks $1" /wait "/plot $number tokens_per_s --csv $work/$1-$2-$3.csv" "/job $number"
    } >"$work/script"
    "$vlmsh" --db "$work/db" -f "$work/script" >"$work/said-$1-$2-$3" 2>&1 || { tail -3 "$work/said-$1-$2-$3"; exit 1; }
    rm -rf "$work/out$number"
}
ways=${WAYS:-"1:$cores $cores:1 1:1 $((2 * cores)):1"}
for round in $(seq "${ROUNDS:-2}"); do
    for way in $ways; do run "${way%:*}" "${way#*:}" "$round" "$@"; done
done
python3 - "$work" "$model" "$method" "${ROUNDS:-2}" $ways <<'P'
import csv, re, statistics, sys
work, model, method, rounds, *ways = sys.argv[1:]
def name(way):
    return way.replace(":", "-")
def rate(way, k):
    rows = [r for r in csv.reader(open(f"{work}/{name(way)}-{k}.csv")) if re.match(r"[0-9.]+$", r[-1])]
    return statistics.median(float(r[-1]) for r in rows[1:])
def said(way, key):
    text = open(f"{work}/said-{name(way)}-{rounds}").read()
    found = re.search(rf"^{key} +(.*)$", text, re.M)
    return found.group(1) if found else ""
for way in ways:
    rates = [rate(way, k) for k in range(1, int(rounds) + 1)]
    ratio = statistics.median(rate(way, k) / rate(ways[0], k) for k in range(1, int(rounds) + 1))
    n, threads = way.split(":")
    what = model.rstrip("/").split("/")[-1]
    print(f"| {what}, {method} | {n} x {threads} | {statistics.median(rates):.4g} | {ratio:.2f} | "
          f"{said(way, 'waited for other ranks')} | {said(way, 'sums of a step')} |")
P
