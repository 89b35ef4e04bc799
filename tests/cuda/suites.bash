# tests/cuda/suites.bash -- runs the CPU's suites on the GPU: they are the programs built with vlmsh, and
# compute on $TEST_DEVICE.
#
#   . tests/cuda/suites.bash
#   run_suites core/model/families/goldens ...   # read tensors through dumps only
#   run_suites_open core/graph/gradients ... # read them directly: emulated GPU only
build=$(dirname "$VLMSH") failed=0
export TEST_DEVICE=cuda

run_suites() {
    local suite
    for suite in "$@"; do
        echo "== $suite"
        "$build/tests/$suite" || failed=1
    done
}

run_suites_open() {
    case $VLMSH_CUDA in
    *cuda_host*) CUDA_HOST_OPEN=1 run_suites "$@" ;;
    *) echo "on a real GPU $* cannot run: these suites look into its memory" ;;
    esac
}
