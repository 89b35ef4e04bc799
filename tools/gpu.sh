#!/bin/bash
# Exits with 0 if there is a GPU to test and measure on; otherwise with 1 and a message.
if command -v nvidia-smi >/dev/null && gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null) &&
    [ -n "$gpus" ]; then
    echo "$gpus"
    exit 0
fi
echo 'there is no NVIDIA GPU here: nothing is tested or measured on one'
exit 1
