# bench_gpu.sh -- runs tests/bench/gpu/program.py (of `make bench-gpu`) on the CPU: it finds its numbers in
# vlmsh's events and tables.
. tests/commands/common.bash
vlmsh new --like tiny "$work/tiny" >"$work/out" 2>&1 || fail "$(tail -1 "$work/out")"
measured() { # WHAT ROW... -- a line of the report begins with each
    local what=$1 row
    shift
    python3 tests/bench/gpu/program.py "$what" "$work/tiny" --vlmsh "$VLMSH" --device cpu --prefill 24 --decode 3 \
        --text 40 --steps 3 --methods layernorm-simple:2 >"$work/report" 2>&1
    ! grep -q "not measured" "$work/report" || fail "$(grep "not measured" "$work/report")"
    for row; do grep -qE "^\| $row \|" "$work/report" || fail "no line '$row': $(cat "$work/report")"; done
}
measured chat 'prefill of 24 tokens \| [0-9.]+ ms' 'token after 24 \| [0-9.]+ ms'
measured train 'tiny, training, 104 rows a sample' 'layernorm-simple, batch 2: a step \| [0-9.]+ s'
finish
