// kernels/gelu.c -- GELU (Hendrycks and Gimpel 2016) in the three forms that models use, and GEGLU
// (Shazeer 2020), the inner activation of Gemma's FFN.
#include "kernels/gelu.h"

enum { PIECE = 4096 }; // elements that a thread computes at a time

// Normal cumulative distribution. Its lower tail is e^(-x^2/2) t P(t) with t = 1 / (1 + 0.28 |x|),
// where P fits erfcx with a relative error below 1e-7; the upper half is 1 minus the lower tail.
VEC_INLINE vf normal_below(vf x)
{
    vf size = vf_choose(x < vf_set(0), -x, x), t = vf_set(1) / (vf_set(1) + vf_set(0.28f) * size);
    vf p = vf_set(0.02174108901f);
    p = p * t + vf_set(-0.07844003158f);
    p = p * t + vf_set(0.06000961519f);
    p = p * t + vf_set(0.03151626044f);
    p = p * t + vf_set(0.04625853609f);
    p = p * t + vf_set(0.09489498467f);
    p = p * t + vf_set(0.1002536786f);
    p = p * t + vf_set(0.1120834614f);
    p = p * t + vf_set(0.1116824236f);
    vf tail = vf_exp(x * x * vf_set(-0.5f)) * (p * t);
    return vf_choose(x < vf_set(0), tail, vf_set(1) - tail);
}

VEC_INLINE vf gelu_vec(vf x, enum gelu_form form)
{
    if (form == GELU_QUICK) return x * vf_sigmoid(x * vf_set(1.702f));
    if (form == GELU_ERF) return x * normal_below(x);
    return gelu_tanh(x);
}

VEC_INLINE void gelu_piece(float *y, const float *x, int64_t n, enum gelu_form form)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vf_store(y + i, gelu_vec(vf_load(x + i), form));
    if (i < n) vf_store_part(y + i, gelu_vec(vf_load_part(x + i, n - i), form), n - i);
}

int KERNEL(gelu)(struct tensor *y, const struct tensor *x, enum gelu_form form)
{
    int64_t n = tensor_count(y);
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += PIECE) {
        float *to = (float *)y->data + i;
        const float *from = (const float *)x->data + i;
        int64_t count = n - i < PIECE ? n - i : PIECE;
        if (form == GELU_ERF)
            gelu_piece(to, from, count, GELU_ERF);
        else if (form == GELU_TANH)
            gelu_piece(to, from, count, GELU_TANH);
        else
            gelu_piece(to, from, count, GELU_QUICK);
    }
    return 0;
}

VEC_INLINE vf gelu_slope(vf x, enum gelu_form form)
{
    const vf one = vf_set(1);
    if (form == GELU_ERF) // normal cumulative distribution and density
        return normal_below(x) + x * vf_exp(x * x * vf_set(-0.5f)) * vf_set(0.3989422804f);
    if (form == GELU_QUICK) {
        vf s = vf_sigmoid(x * vf_set(1.702f));
        return s + vf_set(1.702f) * x * s * (one - s);
    }
    const vf a = vf_set(1.5957691216f), b = vf_set(0.044715f);
    vf s = vf_sigmoid(a * (x + b * x * x * x));
    return s + x * s * (one - s) * a * (one + vf_set(3) * b * x * x);
}

VEC_INLINE void piece_backward(float *dx, const float *dy, const float *x, int64_t n,
                               enum gelu_form form)
{
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf d = vf_load_part_n(dy + i, some) * gelu_slope(vf_load_part_n(x + i, some), form);
        vf_store_part_n(dx + i, vf_load_part_n(dx + i, some) + d, some);
    }
}

int KERNEL(gelu_backward)(struct tensor *dx, const struct tensor *dy, const struct tensor *x,
                          enum gelu_form form)
{
    int64_t n = tensor_count(dy);
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += PIECE) {
        float *to = (float *)dx->data + i;
        const float *d = (const float *)dy->data + i, *from = (const float *)x->data + i;
        int64_t count = n - i < PIECE ? n - i : PIECE;
        if (form == GELU_ERF)
            piece_backward(to, d, from, count, GELU_ERF);
        else if (form == GELU_TANH)
            piece_backward(to, d, from, count, GELU_TANH);
        else
            piece_backward(to, d, from, count, GELU_QUICK);
    }
    return 0;
}

// --- GEGLU ---------------------------------------------------------------------------------------

int KERNEL(geglu)(struct tensor *y, const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(y);
    const float *g = gate->data, *u = up->data;
    float *to = y->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        const vf a = gelu_tanh(vf_load_part_n(g + i, some));
        vf_store_part_n(to + i, a * vf_load_part_n(u + i, some), some);
    }
    return 0;
}

int KERNEL(geglu_backward)(struct tensor *dgate, struct tensor *dup, const struct tensor *dy,
                           const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(dy);
    float *to_gate = dgate ? dgate->data : NULL, *to_up = dup ? dup->data : NULL;
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        const vf g = vf_load_part_n((const float *)gate->data + i, some);
        const vf d = vf_load_part_n((const float *)dy->data + i, some);
        if (to_up)
            vf_store_part_n(to_up + i, vf_load_part_n(to_up + i, some) + d * gelu_vec(g, GELU_TANH),
                            some);
        if (!to_gate) continue;
        const vf slope =
            gelu_slope(g, GELU_TANH) * vf_load_part_n((const float *)up->data + i, some);
        vf_store_part_n(to_gate + i, vf_load_part_n(to_gate + i, some) + d * slope, some);
    }
    return 0;
}
