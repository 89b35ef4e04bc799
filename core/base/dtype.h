// core/base/dtype.h -- converts numbers in files from and to f32, on the host.
//
//   floats_from(floats, t->data, DTYPE_BF16, n);
//   floats_to(bytes, DTYPE_F16, floats, n);        // rounded to the nearest, ties to even
#ifndef CORE_BASE_DTYPE_H
#define CORE_BASE_DTYPE_H

#include <stdbool.h>

#include "kernels/tensor.h"

// Converts n numbers from f32, f16 or bf16, possibly unaligned, or from whole quantised blocks.
void floats_from(float *to, const void *from, enum dtype dtype, size_t n);
// Converts n numbers to f32, f16 or bf16. A finite number beyond the range of f16 or bf16 becomes
// infinite.
void floats_to(void *to, enum dtype dtype, const float *from, size_t n);
// Reorders rows [n, width] from `order` to Hugging Face's order.
void rows_reorder(float *rows, int64_t n, int64_t width, struct head_order order);
bool floats_finite(const float *x, size_t n);

#endif
