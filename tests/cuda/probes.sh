#!/bin/bash
# Runs the probes, dumps and calibrations on the GPU against their goldens; their data arrive while the
# pass continues.
. tests/cuda/suites.bash
run_suites core/probes/attention core/probes/calibrations core/probes/contribution core/probes/kl core/probes/layers core/probes/live core/probes/norms \
    core/methods/calibration
exit $failed
