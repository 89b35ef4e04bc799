#!/bin/bash
# Runs every stage of every golden model on the GPU; latent attention and experts of other shapes;
# MoonViT in LLaVA.
. tests/cuda/suites.bash
run_suites core/model/families/goldens core/model/families/latent core/model/families/moonvit
exit $failed
