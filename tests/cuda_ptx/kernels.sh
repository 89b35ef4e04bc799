#!/bin/bash
# tests/cuda/ with the kernels as nvcc compiled them, run and watched by tests/cuda_ptx/. Without
# TEST_PTX=all what takes seconds; with it all of it, and the order of the threads turned about.
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
