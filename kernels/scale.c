// kernels/scale.c -- a tensor times one number.
#include "kernels/vec.h"

enum { PIECE = 16384 }; // elements that a thread scales at a time

static int64_t piece(int64_t n, int64_t from)
{
    return n - from < PIECE ? n - from : PIECE;
}

int KERNEL(scale)(struct tensor *y, const struct tensor *x, float value)
{
    int64_t n = tensor_count(y);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += PIECE) {
        float *to = (float *)y->data + i;
        const float *from = (const float *)x->data + i;
        for (int64_t j = 0; j < piece(n, i); j++) to[j] = from[j] * value;
    }
    return 0;
}

int KERNEL(scale_backward)(struct tensor *dx, const struct tensor *dy, float value)
{
    int64_t n = tensor_count(dx);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += PIECE) {
        float *to = (float *)dx->data + i;
        const float *from = (const float *)dy->data + i;
        for (int64_t j = 0; j < piece(n, i); j++) to[j] += from[j] * value;
    }
    return 0;
}
