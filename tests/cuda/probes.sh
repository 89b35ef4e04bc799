#!/bin/bash
# Runs tests of probes and calibrations, whose data arrive while the pass continues, on the GPU.
. tests/cuda/suites.bash
run_suites core/probes/attention core/probes/calibrations core/probes/contribution core/probes/kl core/probes/layers core/probes/live core/probes/norms \
    core/methods/calibration
exit $failed
