// kernels/widen.c -- any float dtype to f32, elementwise; or a copy.
#include "kernels/vec.h"

enum { PIECE = 16384 }; // elements a thread takes at a time

int KERNEL(widen)(struct tensor *y, const struct tensor *x)
{
    int64_t n = tensor_count(x);
    const bool copy = y->dtype == x->dtype;
    const size_t size = dtype_size(x->dtype);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t some = n - i < PIECE ? n - i : PIECE;
        if (copy)
            memcpy((char *)y->data + (size_t)i * size, (const char *)x->data + (size_t)i * size,
                   (size_t)some * size);
        else
            vec_widen((float *)y->data + i, x->data, i, some, x->dtype);
    }
    return 0;
}
