#!/bin/bash
# The methods on the GPU, against their goldens.
. tests/cuda/suites.bash
run_suites core/methods/norm_align core/methods/ffn_approx
run_suites_open core/methods/ira core/methods/prune
exit $failed
