// kernels/attention.c -- softmax(q k^T * scale) v with grouped queries, one pass over the keys.
//
// A running maximum and sum per query row (Milakov and Gimelshein 2018) let the keys be taken block
// by block, so that no matrix of queries by keys exists. Probabilities, when asked for, are written
// in a pass of their own from the final maximum and sum, which changes no bit of y.
#include <math.h>

#include "kernels/vec.h"

enum { BLOCK = 128 }; // keys at a time

static float dot(const float *a, const float *b, int64_t n)
{
    vf s = { 0 };
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) s += vf_load(a + i) * vf_load(b + i);
    if (i < n) s += vf_load_part(a + i, n - i) * vf_load_part(b + i, n - i);
    return vf_sum(s);
}

// One query row of one head; keys and values of its head start at k, v, `step` floats apart.
static void attend(float *y, const float *q, const float *k, const float *v, int64_t step,
                   int64_t width, int64_t first, int64_t last, float scale, float *probs,
                   int64_t keys)
{
    float highest = -INFINITY, sum = 0, s[BLOCK];
    memset(y, 0, (size_t)width * sizeof *y);
    for (int64_t j = first; j < last; j += BLOCK) {
        int64_t count = last - j < BLOCK ? last - j : BLOCK;
        float top = highest;
        for (int64_t i = 0; i < count; i++) {
            s[i] = dot(q, k + (j + i) * step, width) * scale;
            top = s[i] > top ? s[i] : top;
        }
        float fade = expf(highest - top);
        highest = top;
        sum *= fade;
        for (int64_t c = 0; c < width; c++) y[c] *= fade;
        for (int64_t i = 0; i < count; i++) {
            float p = expf(s[i] - top);
            sum += p;
            for (int64_t c = 0; c < width; c++) y[c] += p * v[(j + i) * step + c];
        }
    }
    for (int64_t c = 0; c < width && sum > 0; c++) y[c] /= sum;
    for (int64_t j = 0; probs && j < keys; j++)
        probs[j] =
            j < first || j >= last ? 0 : expf(dot(q, k + j * step, width) * scale - highest) / sum;
}

int KERNEL(attention)(struct tensor *y, const struct tensor *q, const struct tensor *k,
                      const struct tensor *v, const struct tensor *first, const struct tensor *last,
                      float scale, struct tensor *probs)
{
    int64_t rows = q->shape[0], heads = q->shape[1], width = q->shape[2], keys = k->shape[0];
    int64_t kv_heads = k->shape[1], step = kv_heads * width;
#pragma omp parallel for schedule(dynamic) if (vec_worth_threads(rows * heads * keys * width))
    for (int64_t t = 0; t < rows * heads; t++) {
        int64_t i = t / heads, h = t % heads, at = h / (heads / kv_heads) * width;
        attend((float *)y->data + t * width, (const float *)q->data + t * width,
               (const float *)k->data + at, (const float *)v->data + at, step, width,
               first ? ((const int32_t *)first->data)[i] : 0,
               last ? ((const int32_t *)last->data)[i] : keys, scale,
               probs ? (float *)probs->data + (h * rows + i) * keys : NULL, keys);
    }
    return 0;
}
