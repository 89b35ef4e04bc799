// kernels/adamw.cu -- one step of AdamW over one parameter (kernels/adamw.c has the formula).
#include <math.h>

#include "kernels/cuda.h"

// Factors shared by all elements, rounded to f32 once.
struct factors {
    float beta1, rest1, beta2, rest2, scale, keep, rate, root, eps;
};

static __global__ void adamw_kernel(float *w, const float *grad, float *m, float *v,
                                    const struct factors f, int64_t n)
{
    FOR_EACH(i, n)
    {
        const float g = grad[i] * f.scale;
        const float m1 = m[i] * f.beta1 + g * f.rest1, v1 = v[i] * f.beta2 + g * g * f.rest2;
        m[i] = m1;
        v[i] = v1;
        w[i] = w[i] * f.keep - f.rate * (m1 / (sqrtf(v1) * f.root + f.eps));
    }
}

int adamw_cuda(struct tensor *w, const struct tensor *grad, struct tensor *m, struct tensor *v,
               const struct adamw_step *s)
{
    const int64_t n = tensor_count(w);
    const double t = (double)s->step;
    const struct factors f = { .beta1 = (float)s->beta1,
                               .rest1 = (float)(1 - s->beta1),
                               .beta2 = (float)s->beta2,
                               .rest2 = (float)(1 - s->beta2),
                               .scale = (float)s->scale,
                               .keep = (float)(1 - s->lr * s->decay),
                               .rate = (float)(s->lr / (1 - pow(s->beta1, t))),
                               .root = (float)(1 / sqrt(1 - pow(s->beta2, t))),
                               .eps = (float)s->eps };
    if (!n) return 0;
    return LAUNCH(adamw_kernel, blocks_for(n, EACH), EACH, 0, floats(w), floats(grad), floats(m),
                  floats(v), f, n);
}
