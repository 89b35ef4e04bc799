#!/bin/bash
# Compares the golden models on the GPU, stage by stage; latent attention and experts of other
# shapes; MoonViT in LLaVA; Ministral 3's decoder.
. tests/cuda/suites.bash
run_suites core/model/families/{goldens,latent,moonvit,mistral3}
exit $failed
