#!/bin/bash
# isas.sh VLMSH [all]: prints the instruction sets of kernels/isa.h that this CPU has: all, or all except the best
# one.
set -e
version=$(unset VLMSH_ISA && "$1" -c /version 2>/dev/null)
case $version in
*'(avx512 + amx'*) best=amx ;;
*'(avx512'*) best=avx512 ;;
*'(avx2'*) best=avx2 ;;
*) best=base ;;
esac
for isa in base avx2 avx512 amx; do
    [ $isa != $best ] || [ "${2:-}" = all ] || exit 0
    echo $isa
    [ $isa != $best ] || exit 0
done
