#!/bin/bash
# Gradients on the GPU, op by op and of whole models.
. tests/cuda/suites.bash
run_suites_open core/gradients families/training
exit $failed
