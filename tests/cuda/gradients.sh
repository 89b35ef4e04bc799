#!/bin/bash
# Computes gradients on the emulated GPU (not on a real one), op by op and of whole models, including
# the toy family.
. tests/cuda/suites.bash
run_suites_open core/graph/gradients core/graph/tape core/model/families/training toys/layers
exit $failed
