// kernels/rope.c -- rotary positions (Su et al. 2021). A pair (a, b) becomes (a cos - b sin, b cos
// + a sin). A pair is elements i and i + d/2 of a head, as in Hugging Face's Llama; rope_tail pairs
// neighbours instead.
#include "kernels/fused.h"
#include "kernels/rotate.h"

int KERNEL(rope)(struct tensor *x, const struct tensor *cos, const struct tensor *sin)
{
    int64_t rows = x->shape[0], heads = x->shape[1], width = x->shape[2], half = width / 2;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * heads * width))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < heads; h++) {
            float *head = (float *)x->data + (i * heads + h) * width;
            rotate_halves(head, head, (const float *)cos->data + i * half,
                          (const float *)sin->data + i * half, half);
        }
    return 0;
}

#if defined(__AVX512F__)

int KERNEL(rope_tail)(struct tensor *x, int64_t first, const struct tensor *cos,
                      const struct tensor *sin)
{
    enum { MOST = 512 }; // maximum number of pairs
    const int64_t rows = x->shape[0], heads = x->shape[1], width = x->shape[2];
    const int64_t half = (width - first) / 2;
    if (half > MOST) return FUSED_NOT;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * heads * half))
    for (int64_t i = 0; i < rows * heads; i++) {
        float *tail = (float *)x->data + i * width + first, pairs[2 * MOST];
        memcpy(pairs, tail, (size_t)(2 * half) * sizeof *tail);
        rotate_adjacent(tail, pairs, (const float *)cos->data + i / heads * half,
                        (const float *)sin->data + i / heads * half, half);
    }
    return 0;
}

#endif

// The gradient of a rotation is rotated back by the same angle: for each pair (a, b) of dy, adds (a
// cos + b sin, b cos - a sin) to the pair of dx.
static void rotate_back(float *dx, const float *dy, const float *cos, const float *sin,
                        int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        float a = dy[i], b = dy[half + i];
        dx[i] += a * cos[i] + b * sin[i];
        dx[half + i] += b * cos[i] - a * sin[i];
    }
}

int KERNEL(rope_backward)(struct tensor *dx, const struct tensor *dy, const struct tensor *cos,
                          const struct tensor *sin)
{
    int64_t rows = dy->shape[0], heads = dy->shape[1], width = dy->shape[2], half = width / 2;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * heads * width))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < heads; h++)
            rotate_back((float *)dx->data + (i * heads + h) * width,
                        (const float *)dy->data + (i * heads + h) * width,
                        (const float *)cos->data + i * half, (const float *)sin->data + i * half,
                        half);
    return 0;
}
