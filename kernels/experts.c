// kernels/experts.c -- a mixture of experts (DeepSeek-AI 2024, arXiv 2412.19437, equations 12 to
// 15): computes the weights of a row's chosen experts, and adds an expert's output to the rows that
// chose it.
#include <math.h>

#include "kernels/vec.h"

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

// Computes the scores s of a row's chosen experts; returns the divisor of the scores.
static float chosen_scores(float *s, const float *logits, const int32_t *index, int64_t count,
                           bool normalise)
{
    float sum = 0;
    for (int64_t k = 0; k < count; k++) sum += s[k] = sigmoid(logits[index[k]]);
    return normalise ? sum + 1e-20F : 1;
}

int KERNEL(expert_weights)(struct tensor *w, const struct tensor *logits,
                           const struct tensor *index, bool normalise, float scale)
{
    const int64_t rows = w->shape[0], count = w->shape[1], experts = logits->shape[1];
    for (int64_t i = 0; i < rows; i++) {
        float *out = (float *)w->data + i * count;
        const float by = chosen_scores(out, (const float *)logits->data + i * experts,
                                       (const int32_t *)index->data + i * count, count, normalise);
        for (int64_t k = 0; k < count; k++) out[k] = out[k] / by * scale;
    }
    return 0;
}

// If normalised, w_k = c s_k / S with the sum S of s, so ds_k = c (dw_k - sum_j dw_j s_j / S) / S;
// else w_k = c s_k, so ds_k = c dw_k. In both cases ds/dlogit = s (1 - s).
int KERNEL(expert_weights_backward)(struct tensor *dlogits, const struct tensor *dw,
                                    const struct tensor *logits, const struct tensor *index,
                                    bool normalise, float scale)
{
    const int64_t rows = dw->shape[0], count = dw->shape[1], experts = logits->shape[1];
    for (int64_t i = 0; i < rows; i++) {
        const int32_t *at = (const int32_t *)index->data + i * count;
        const float *from = (const float *)logits->data + i * experts;
        const float *d = (const float *)dw->data + i * count;
        float *to = (float *)dlogits->data + i * experts;
        float sum = 0, mean = 0;
        for (int64_t k = 0; k < count; k++) sum += sigmoid(from[at[k]]);
        const float by = normalise ? sum + 1e-20F : 1;
        for (int64_t k = 0; k < count && normalise; k++) mean += d[k] * sigmoid(from[at[k]]) / by;
        for (int64_t k = 0; k < count; k++) {
            const float s = sigmoid(from[at[k]]);
            to[at[k]] += scale * (d[k] - mean) / by * s * (1 - s);
        }
    }
    return 0;
}

int KERNEL(add_weighted_rows)(struct tensor *y, const struct tensor *x, const struct tensor *index,
                              const struct tensor *weight)
{
    const int64_t rows = tensor_count(index), width = tensor_row(x);
    const int32_t *row = index->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * width))
    for (int64_t i = 0; i < rows; i++) {
        const float by = ((const float *)weight->data)[i];
        const float *from = (const float *)x->data + i * width;
        float *to = (float *)y->data + row[i] * width;
        for (int64_t j = 0; j < width; j++) to[j] += by * from[j];
    }
    return 0;
}

int KERNEL(add_weighted_rows_backward)(struct tensor *dx, struct tensor *dweight,
                                       const struct tensor *dy, const struct tensor *x,
                                       const struct tensor *index, const struct tensor *weight)
{
    const int64_t rows = tensor_count(index), width = tensor_row(x);
    const int32_t *row = index->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * width))
    for (int64_t i = 0; i < rows; i++) {
        const float by = ((const float *)weight->data)[i];
        const float *d = (const float *)dy->data + row[i] * width;
        const float *from = (const float *)x->data + i * width;
        float *to = dx ? (float *)dx->data + i * width : NULL, sum = 0;
        for (int64_t j = 0; j < width && to; j++) to[j] += by * d[j];
        if (!dweight) continue;
        for (int64_t j = 0; j < width; j++) sum += d[j] * from[j];
        ((float *)dweight->data)[i] += sum;
    }
    return 0;
}
