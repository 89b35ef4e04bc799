// kernels/widen.c -- converts any weight dtype to f32, or f16 to bf16, elementwise; also copies.
#include "kernels/vec.h"

enum { PIECE = 16384 }; // elements that a thread converts at a time: whole blocks

// Converts n elements of f16 to bf16; y may be x.
static void narrow(uint16_t *y, const uint16_t *x, int64_t n)
{
    float wide[256];
    for (int64_t i = 0; i < n; i += 256) {
        const int64_t some = n - i < 256 ? n - i : 256;
        vec_widen(wide, x, i, some, DTYPE_F16);
        vec_to_bf16(y + i, wide, some);
    }
}

int KERNEL(widen)(struct tensor *y, const struct tensor *x)
{
    int64_t n = tensor_count(x);
    const bool copy = y->dtype == x->dtype;
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t some = n - i < PIECE ? n - i : PIECE;
        if (copy)
            memcpy((char *)y->data + dtype_bytes(x->dtype, i),
                   (const char *)x->data + dtype_bytes(x->dtype, i), dtype_bytes(x->dtype, some));
        else if (y->dtype == DTYPE_BF16)
            narrow((uint16_t *)y->data + i, (const uint16_t *)x->data + i, some);
        else
            vec_widen((float *)y->data + i, x->data, i, some, x->dtype);
    }
    return 0;
}
