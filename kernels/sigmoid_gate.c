// kernels/sigmoid_gate.c -- x * sigmoid(gate), the gate of attention outputs (Qiu et al. 2025,
// arXiv 2505.06708).
#include "kernels/vec.h"

enum { PIECE = 4096 }; // elements that a thread computes at a time

static void gate_piece(float *y, const float *x, const float *gate, int64_t n)
{
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        const vf s = vf_sigmoid(vf_load_part_n(gate + i, some));
        vf_store_part_n(y + i, vf_load_part_n(x + i, some) * s, some);
    }
}

int KERNEL(sigmoid_gate)(struct tensor *y, const struct tensor *x, const struct tensor *gate)
{
    const int64_t n = tensor_count(y);
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += PIECE)
        gate_piece((float *)y->data + i, (const float *)x->data + i, (const float *)gate->data + i,
                   n - i < PIECE ? n - i : PIECE);
    return 0;
}

static void piece_backward(float *dx, float *dgate, const float *dy, const float *x,
                           const float *gate, int64_t n)
{
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        const vf s = vf_sigmoid(vf_load_part_n(gate + i, some)), d = vf_load_part_n(dy + i, some);
        if (dx) vf_store_part_n(dx + i, vf_load_part_n(dx + i, some) + d * s, some);
        if (!dgate) continue;
        const vf slope = s * (vf_set(1) - s) * vf_load_part_n(x + i, some);
        vf_store_part_n(dgate + i, vf_load_part_n(dgate + i, some) + d * slope, some);
    }
}

int KERNEL(sigmoid_gate_backward)(struct tensor *dx, struct tensor *dgate, const struct tensor *dy,
                                  const struct tensor *x, const struct tensor *gate)
{
    const int64_t n = tensor_count(dy);
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += PIECE)
        piece_backward(dx ? (float *)dx->data + i : NULL, dgate ? (float *)dgate->data + i : NULL,
                       (const float *)dy->data + i, (const float *)x->data + i,
                       (const float *)gate->data + i, n - i < PIECE ? n - i : PIECE);
    return 0;
}
