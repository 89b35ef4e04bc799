// kernels/adamw.c -- one step of AdamW over one parameter.
//
//   g = scale * gradient
//   m = b1 m + (1-b1) g        v = b2 v + (1-b2) g^2
//   w = w (1 - lr decay) - lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps)
#include <math.h>

#include "kernels/vec.h"

enum { PIECE = 16384 }; // elements that a thread updates at a time

// Factors shared by all elements, rounded to f32 once.
struct factors {
    vf beta1, rest1, beta2, rest2, scale, keep, rate, root, eps;
};

VEC_INLINE void update(float *w, const float *grad, float *m, float *v, int64_t n,
                       const struct factors *f)
{
    const vf g = vf_load_part_n(grad, n) * f->scale;
    const vf m1 = vf_load_part_n(m, n) * f->beta1 + g * f->rest1;
    const vf v1 = vf_load_part_n(v, n) * f->beta2 + g * g * f->rest2;
    vf root = v1;
    for (int i = 0; i < VEC; i++) root[i] = sqrtf(v1[i]);
    const vf w1 = vf_load_part_n(w, n) * f->keep - f->rate * (m1 / (root * f->root + f->eps));
    vf_store_part_n(m, m1, n);
    vf_store_part_n(v, v1, n);
    vf_store_part_n(w, w1, n);
}

int KERNEL(adamw)(struct tensor *w, const struct tensor *grad, struct tensor *m, struct tensor *v,
                  const struct adamw_step *s)
{
    const int64_t count = tensor_count(w);
    const double t = (double)s->step;
    const struct factors f = {
        .beta1 = vf_set((float)s->beta1),
        .rest1 = vf_set((float)(1 - s->beta1)),
        .beta2 = vf_set((float)s->beta2),
        .rest2 = vf_set((float)(1 - s->beta2)),
        .scale = vf_set((float)s->scale),
        .keep = vf_set((float)(1 - s->lr * s->decay)),
        .rate = vf_set((float)(s->lr / (1 - pow(s->beta1, t)))),
        .root = vf_set((float)(1 / sqrt(1 - pow(s->beta2, t)))),
        .eps = vf_set((float)s->eps),
    };
#pragma omp parallel for schedule(static) if (vec_worth_threads(count))
    for (int64_t from = 0; from < count; from += PIECE) {
        const int64_t end = count - from < PIECE ? count : from + PIECE;
        for (int64_t i = from; i < end; i += VEC)
            update((float *)w->data + i, (const float *)grad->data + i, (float *)m->data + i,
                   (float *)v->data + i, end - i < VEC ? end - i : VEC, &f);
    }
    return 0;
}
