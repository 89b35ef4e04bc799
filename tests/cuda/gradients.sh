#!/bin/bash
# Gradients on the GPU, op by op and of whole models.
. tests/cuda/suites.bash
run_suites_open core/graph/gradients core/model/families/training
exit $failed
