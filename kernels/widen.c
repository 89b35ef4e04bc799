// kernels/widen.c -- any float dtype to f32, elementwise.
#include "kernels/vec.h"

enum { PIECE = 16384 }; // elements a thread takes at a time

int KERNEL(widen)(struct tensor *y, const struct tensor *x)
{
    int64_t n = tensor_count(x);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += PIECE)
        vec_widen((float *)y->data + i, x->data, i, n - i < PIECE ? n - i : PIECE, x->dtype);
    return 0;
}
