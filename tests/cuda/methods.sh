#!/bin/bash
# Runs the methods on the GPU against their goldens, and compares answers with and without drafts
# under each method.
. tests/cuda/suites.bash
run_suites core/methods/norm_align core/methods/ffn_approx core/talk/lookahead
run_suites_open core/methods/ira core/methods/prune
exit $failed
