#!/bin/bash
# Runs every stage of every golden model on the GPU; latent attention and experts of other shapes;
# MoonViT in LLaVA; Ministral 3's decoder.
. tests/cuda/suites.bash
run_suites core/model/families/{goldens,latent,moonvit,mistral3}
exit $failed
