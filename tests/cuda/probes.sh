#!/bin/bash
# The probes, dumps and calibrations on the GPU, against their goldens: what they look at comes while
# the pass goes on.
. tests/cuda/suites.bash
run_suites probes/attention probes/calibrations probes/contribution probes/kl probes/layers probes/live probes/norms \
    core/calibration
exit $failed
