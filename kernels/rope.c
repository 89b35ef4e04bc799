// kernels/rope.c -- rotary positions (Su et al. 2021), element i of a head paired with i + d/2 as
// Hugging Face's Llama does: x' = x cos - y sin, y' = y cos + x sin.
#include "kernels/vec.h"

static void turn_head(float *x, const float *cos, const float *sin, int64_t half)
{
    float *y = x + half;
    int64_t i = 0;
    for (; i + VEC <= half; i += VEC) {
        vf a = vf_load(x + i), b = vf_load(y + i), c = vf_load(cos + i), s = vf_load(sin + i);
        vf_store(x + i, a * c - b * s);
        vf_store(y + i, b * c + a * s);
    }
    for (; i < half; i++) {
        float a = x[i], b = y[i];
        x[i] = a * cos[i] - b * sin[i];
        y[i] = b * cos[i] + a * sin[i];
    }
}

int KERNEL(rope)(struct tensor *x, const struct tensor *cos, const struct tensor *sin)
{
    int64_t rows = x->shape[0], heads = x->shape[1], width = x->shape[2], half = width / 2;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * heads * width))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < heads; h++)
            turn_head((float *)x->data + (i * heads + h) * width,
                      (const float *)cos->data + i * half, (const float *)sin->data + i * half,
                      half);
    return 0;
}
