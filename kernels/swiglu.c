// kernels/swiglu.c -- silu(gate) * up (Shazeer 2020), the inner activation of Llama's FFN.
#include "kernels/vec.h"

enum { PIECE = 4096 }; // elements that a thread computes at a time

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

// silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
static void piece_backward(float *dgate, float *dup, const float *dy, const float *gate,
                           const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf g = vf_load_part_n(gate + i, some), d = vf_load_part_n(dy + i, some), s = vf_sigmoid(g);
        if (dup) vf_store_part_n(dup + i, vf_load_part_n(dup + i, some) + d * g * s, some);
        if (!dgate) continue;
        vf slope = s * (vf_set(1) + g * (vf_set(1) - s)) * vf_load_part_n(up + i, some);
        vf_store_part_n(dgate + i, vf_load_part_n(dgate + i, some) + d * slope, some);
    }
}

int KERNEL(swiglu_backward)(struct tensor *dgate, struct tensor *dup, const struct tensor *dy,
                            const struct tensor *gate, const struct tensor *up)
{
    int64_t n = tensor_count(dy);
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += PIECE)
        piece_backward(dgate ? (float *)dgate->data + i : NULL, dup ? (float *)dup->data + i : NULL,
                       (const float *)dy->data + i, (const float *)gate->data + i,
                       (const float *)up->data + i, n - i < PIECE ? n - i : PIECE);
    return 0;
}
