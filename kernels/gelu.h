// kernels/gelu.h -- the form of GELU that gated FFNs use, of a vector (kernels/gelu.c has the ops).
#ifndef KERNELS_GELU_H
#define KERNELS_GELU_H

#include "kernels/vec.h"

// 0.5 x (1 + tanh u) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
VEC_INLINE vf gelu_tanh(vf x)
{
    return x * vf_sigmoid(vf_set(1.5957691216f) * (x + vf_set(0.044715f) * x * x * x));
}

#endif
