#!/bin/bash
# Runs the tests of norm alignment and FFN approximation on the GPU and, if it is emulated, those of IRA and
# pruning; compares answers with and without drafts under these methods.
. tests/cuda/suites.bash
run_suites core/methods/norm_align core/methods/ffn_approx core/talk/lookahead
run_suites_open core/methods/ira core/methods/prune
exit $failed
