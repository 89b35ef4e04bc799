// kernels/cross_entropy.c -- the loss of next-token prediction and its gradient, which overwrites
// the logits x: loss = log sum e^x - x[target], dx = (softmax(x) - onehot(target)) * weight.
#include <math.h>

#include "kernels/vec.h"

static float row_loss(float *x, int64_t n, int32_t target, float weight)
{
    vf top = vf_set(x[0]);
    for (int64_t i = 0; i + VEC <= n; i += VEC) top = vf_max(vf_load(x + i), top);
    float highest = vf_highest(top), at = x[target];
    for (int64_t i = n / VEC * VEC; i < n; i++) highest = x[i] > highest ? x[i] : highest;
    // Sums in double, because a float sum over a large vocabulary would lose digits.
    double sum = 0;
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf e = vf_exp(vf_load_part_n(x + i, some) - vf_set(highest));
        vf_store_part_n(x + i, e, some);
        if (some == VEC)
            sum += (double)vf_sum(e);
        else
            for (int64_t j = 0; j < some; j++) sum += (double)e[j];
    }
    vf share = vf_set((float)(weight / sum));
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf_store_part_n(x + i, vf_load_part_n(x + i, some) * share, some);
    }
    x[target] -= weight;
    // The sum is at least 1, the term of the highest logit.
    // cppcheck-suppress invalidFunctionArg
    return (float)(log(sum) + (double)highest - (double)at);
}

int KERNEL(cross_entropy)(struct tensor *loss, struct tensor *logits, const struct tensor *target,
                          const struct tensor *weight)
{
    int64_t rows = logits->shape[0], n = logits->shape[1];
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * rows * n))
    for (int64_t i = 0; i < rows; i++)
        ((float *)loss->data)[i] =
            row_loss((float *)logits->data + i * n, n, ((const int32_t *)target->data)[i],
                     ((const float *)weight->data)[i]);
    return 0;
}
