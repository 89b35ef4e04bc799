#!/bin/bash
# Runs tests/cuda/ while tests/cuda_ptx/ runs and checks the kernels' PTX: only the suites in C or,
# with TEST_PTX=all, also scripts and different orders of threads.
shopt -s nullglob
export CUDA_HOST_PTX=$PWD/build/ptx
build=$(dirname "$VLMSH") failed=0
files=("$CUDA_HOST_PTX"/*.ptx)
if [ ${#files[@]} = 0 ]; then
    echo "SKIPPED: without nvcc there is no PTX of the kernels to run"
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
