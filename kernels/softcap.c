// kernels/softcap.c -- cap * tanh(x / cap), which limits logits smoothly (Bello et al. 2016, arXiv
// 1611.09940, section 4).
#include "kernels/vec.h"

// tanh(u). Near 0, where the quotient of exponentials loses digits, uses the power series.
VEC_INLINE vf tanh_vec(vf u)
{
    const vf size = vf_choose(u < vf_set(0), -u, u), one = vf_set(1);
    const vf e = vf_exp(size * vf_set(-2)), far = (one - e) / (one + e), s = u * u;
    vf p = vf_set(62.0f / 2835);
    p = p * s - vf_set(17.0f / 315);
    p = p * s + vf_set(2.0f / 15);
    p = p * s - vf_set(1.0f / 3);
    p = p * s + one;
    return vf_choose(size < vf_set(0.3f), u * p, vf_choose(u < vf_set(0), -far, far));
}

int KERNEL(softcap)(struct tensor *y, const struct tensor *x, float cap)
{
    const int64_t n = tensor_count(y);
    const float *from = x->data;
    float *to = y->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * n))
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        const vf u = vf_load_part_n(from + i, some) / vf_set(cap);
        vf_store_part_n(to + i, vf_set(cap) * tanh_vec(u), some);
    }
    return 0;
}

// The derivative of tanh is 1 - tanh^2.
int KERNEL(softcap_backward)(struct tensor *dx, const struct tensor *dy, const struct tensor *y,
                             float cap)
{
    const int64_t n = tensor_count(dy);
    const float *d = dy->data, *from = y->data;
    float *to = dx->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(2 * n))
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        const vf t = vf_load_part_n(from + i, some) / vf_set(cap);
        const vf slope = vf_set(1) - t * t;
        vf_store_part_n(to + i, vf_load_part_n(to + i, some) + slope * vf_load_part_n(d + i, some),
                        some);
    }
    return 0;
}
