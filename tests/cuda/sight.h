// tests/cuda/sight.h -- which keys the rows of an attention see, for tests.
#ifndef TESTS_CUDA_SIGHT_H
#define TESTS_CUDA_SIGHT_H

#include "kernels/tensor.h"

// A row sees all keys; those up to its own; those of its sample up to its own; or a window, and
// some rows see none. (Attention without first and last sees all.)
enum sight { SEE_ALL, SEE_BEFORE, SEE_SAMPLE, SEE_ODDLY, SIGHTS };

static inline void set_sight(struct tensor *first, struct tensor *last, int64_t n, int64_t keys,
                             enum sight sight)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t *from = (int32_t *)first->data + i, *to = (int32_t *)last->data + i;
        *from = sight == SEE_SAMPLE ? (int32_t)(i / 7 * 7) : 0;
        *to = (int32_t)(keys - n + i + 1);
        if (sight != SEE_ODDLY) continue;
        *from = (int32_t)(i * 5 % (keys + 1)) - 2;
        *to = i % 4 == 3 ? *from : *from + (int32_t)(i * 11 % 70) + 1;
    }
}

#endif
