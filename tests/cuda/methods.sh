#!/bin/bash
# The methods on the GPU, against their goldens.
. tests/cuda/suites.bash
run_suites methods/norm_align methods/ffn_approx
run_suites_open methods/ira methods/prune
exit $failed
