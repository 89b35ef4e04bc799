// kernels/clip.c -- limits each element to a range.
#include "kernels/vec.h"

VEC_INLINE vf clip_vec(vf x, vf low, vf high)
{
    x = vf_choose(x < low, low, x);
    return vf_choose(x > high, high, x);
}

int KERNEL(clip)(struct tensor *y, const struct tensor *x, float low, float high)
{
    const int64_t n = tensor_count(y);
    const float *from = x->data;
    float *to = y->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        vf_store_part_n(to + i, clip_vec(vf_load_part_n(from + i, some), vf_set(low), vf_set(high)),
                        some);
    }
    return 0;
}

// Elements outside the range get no gradient.
int KERNEL(clip_backward)(struct tensor *dx, const struct tensor *dy, const struct tensor *x,
                          float low, float high)
{
    const int64_t n = tensor_count(dy);
    const float *d = dy->data, *from = x->data;
    float *to = dx->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += VEC) {
        const int64_t some = n - i < VEC ? n - i : VEC;
        const vf at = vf_load_part_n(from + i, some), old = vf_load_part_n(to + i, some);
        const vf sum = old + vf_load_part_n(d + i, some);
        vf_store_part_n(
            to + i, vf_choose(at < vf_set(low), old, vf_choose(at > vf_set(high), old, sum)), some);
    }
    return 0;
}
