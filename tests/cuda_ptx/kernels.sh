#!/bin/bash
# Runs tests/cuda/ with the kernels' PTX, run and checked by tests/cuda_ptx/. Only fast ones, unless
# TEST_PTX=all, which also reverses the order of threads.
shopt -s nullglob
export CUDA_HOST_PTX=$PWD/build/ptx
build=$(dirname "$VLMSH") failed=0
files=("$CUDA_HOST_PTX"/*.ptx)
if [ ${#files[@]} = 0 ]; then
    echo "SKIPPED: there is no nvcc here: what it makes of the kernels is not run"
    exit 77
fi

run() {
    echo "== $*"
    "$@" || failed=1
}

for suite in tests/cuda/*.c; do run "$build/${suite%.c}"; done
[ "$TEST_PTX" = all ] || exit $failed
for order in alone 1 2; do
    CUDA_HOST_ORDER=$order run "$build/tests/cuda/ops"
    CUDA_HOST_ORDER=$order run "$build/tests/cuda/attention"
done
for script in tests/cuda/*.sh; do run bash "$script"; done
exit $failed
