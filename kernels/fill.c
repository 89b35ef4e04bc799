// kernels/fill.c -- sets all elements to one number.
#include "kernels/vec.h"

enum { PIECE = 16384 }; // elements that a thread sets at a time

int KERNEL(fill)(struct tensor *y, float value)
{
    int64_t n = tensor_count(y);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += PIECE) {
        float *to = (float *)y->data + i;
        for (int64_t j = 0; j < (n - i < PIECE ? n - i : PIECE); j++) to[j] = value;
    }
    return 0;
}
