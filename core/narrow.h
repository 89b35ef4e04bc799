// core/narrow.h -- f32 numbers rounded to what a file stores.
#ifndef CORE_NARROW_H
#define CORE_NARROW_H

#include "kernels/tensor.h"

// n numbers in a float dtype, to the nearest, ties to even; what is too large for f16 becomes
// infinite, NaN stays NaN. `to` need not be aligned.
void narrow(void *to, enum dtype dtype, const float *from, int64_t n);

#endif
