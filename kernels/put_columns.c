// kernels/put_columns.c -- copies columns of a matrix into another: splits and joins heads.
#include <string.h>

#include "kernels/vec.h"

// Copies `count` elements, `step` apart; the compiler vectorises the loops with a constant step.
static void take(float *out, const float *in, int64_t step, int64_t count)
{
    if (step == 1)
        memcpy(out, in, (size_t)count * sizeof *out);
    else if (step == 2)
        for (int64_t j = 0; j < count; j++) out[j] = in[2 * j];
    else
        for (int64_t j = 0; j < count; j++) out[j] = in[j * step];
}

int KERNEL(put_columns)(struct tensor *y, int64_t to, const struct tensor *x, struct columns from)
{
    const int64_t rows = y->shape[0], width = y->shape[1], own = x->shape[1];
    const int64_t share = x->shape[0] ? rows / x->shape[0] : 1;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * from.count))
    for (int64_t i = 0; i < rows; i++) {
        float *out = (float *)y->data + i * width + to;
        const float *in = (const float *)x->data + i / share * own + from.first;
        take(out, in, from.step, from.count);
    }
    return 0;
}

// A thread handles whole rows of dx, so it alone sums all rows of dy that belong to one of them.
int KERNEL(put_columns_backward)(struct tensor *dx, struct columns from, const struct tensor *dy,
                                 int64_t to)
{
    const int64_t rows = dx->shape[0], own = dx->shape[1], width = dy->shape[1];
    const int64_t share = rows ? dy->shape[0] / rows : 1;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * share * from.count))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t s = 0; s < share; s++) {
            float *out = (float *)dx->data + i * own + from.first;
            const float *in = (const float *)dy->data + (i * share + s) * width + to;
            for (int64_t j = 0; j < from.count; j++) out[j * from.step] += in[j];
        }
    return 0;
}
