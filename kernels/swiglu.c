// kernels/swiglu.c -- silu(gate) * up (Shazeer 2020), the inner activation of Llama's FFN.
#include "kernels/vec.h"

enum { PIECE = 4096 }; // elements a thread takes at a time

static void swiglu_piece(float *y, const float *gate, const float *up, int64_t n)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        vf g = vf_load(gate + i);
        vf_store(y + i, g * vf_sigmoid(g) * vf_load(up + i));
    }
    if (i < n) {
        vf g = vf_load_part(gate + i, n - i);
        vf_store_part(y + i, g * vf_sigmoid(g) * vf_load_part(up + i, n - i), n - i);
    }
}

int KERNEL(swiglu)(struct tensor *y, const struct tensor *gate, const struct tensor *up)
{
    int64_t n = tensor_count(y);
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += PIECE)
        swiglu_piece((float *)y->data + i, (const float *)gate->data + i,
                     (const float *)up->data + i, n - i < PIECE ? n - i : PIECE);
    return 0;
}
