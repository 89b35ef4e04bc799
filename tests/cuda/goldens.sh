#!/bin/bash
# Every stage of every golden model on the GPU.
. tests/cuda/suites.bash
run_suites core/model/families/goldens
exit $failed
