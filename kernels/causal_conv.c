// kernels/causal_conv.c -- a causal convolution of each channel along the rows, then SiLU.
#include <math.h>

#include "kernels/vec.h"

// Returns row i of x, or of the rows before it; NULL: zeros.
static const float *row_at(const struct tensor *x, const struct tensor *before, int64_t i,
                           int64_t taps)
{
    const int64_t wide = x->shape[1];
    if (i >= 0) return (const float *)x->data + i * wide;
    return before ? (const float *)before->data + (taps - 1 + i) * wide : NULL;
}

// Returns channel c's sum over the taps w [C,K]; in[K]: the rows, oldest first.
static float sum_at(const float *const *in, const float *w, int64_t taps, int64_t c)
{
    float sum = 0;
    for (int64_t k = 0; k < taps; k++)
        if (in[k]) sum += in[k][c] * w[c * taps + k];
    return sum;
}

enum { TAPS_MOST = 64 };

static void rows_of(const float **in, const struct tensor *x, const struct tensor *before,
                    int64_t row, int64_t taps)
{
    for (int64_t k = 0; k < taps; k++) in[k] = row_at(x, before, row - taps + 1 + k, taps);
}

// Returns the filter [C,K] transposed, so that a tap of neighbouring channels is one vector.
static const float *transposed(const struct tensor *w)
{
    const int64_t wide = w->shape[0], taps = w->shape[1];
    float *to = cpu_scratch((size_t)(wide * taps) * sizeof *to);
    for (int64_t c = 0; to && c < wide; c++)
        for (int64_t k = 0; k < taps; k++)
            to[k * wide + c] = ((const float *)w->data)[c * taps + k];
    return to;
}

// Computes one row from the rows in[K] and the filter w [K,C].
static void convolve(float *to, const float *const *in, const float *w, int64_t taps, int64_t wide)
{
    for (int64_t c = 0; c < wide; c += VEC) {
        const int64_t some = wide - c < VEC ? wide - c : VEC;
        vf sum = { 0 };
        for (int64_t k = 0; k < taps; k++)
            if (in[k])
                sum += vf_load_part_n(in[k] + c, some) * vf_load_part_n(w + k * wide + c, some);
        vf_store_part_n(to + c, sum * vf_sigmoid(sum), some);
    }
}

int KERNEL(causal_conv)(struct tensor *y, const struct tensor *x, const struct tensor *w,
                        const struct tensor *before, struct tensor *after)
{
    const int64_t rows = x->shape[0], wide = x->shape[1], taps = w->shape[1];
    if (taps > TAPS_MOST) return cpu_fail("convolution: more than %d taps", TAPS_MOST);
    const float *filter = transposed(w);
    if (!filter) return -1;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * wide * taps))
    for (int64_t i = 0; i < rows; i++) {
        const float *in[TAPS_MOST];
        rows_of(in, x, before, i, taps);
        convolve((float *)y->data + i * wide, in, filter, taps, wide);
    }
    // Ascending, because `after` may be `before`.
    for (int64_t k = 0; after && k < taps - 1; k++) {
        const float *from = row_at(x, before, rows - taps + 1 + k, taps);
        float *to = (float *)after->data + k * wide;
        for (int64_t c = 0; c < wide; c++) to[c] = from ? from[c] : 0;
    }
    return 0;
}

// silu'(z) = s (1 + z (1 - s)), s = sigmoid(z). Each thread computes some channels of all rows, so
// that sums over rows have the same order with any number of threads.
int KERNEL(causal_conv_backward)(struct tensor *dx, struct tensor *dw, const struct tensor *dy,
                                 const struct tensor *x, const struct tensor *w)
{
    const int64_t rows = x->shape[0], wide = x->shape[1], taps = w->shape[1];
    if (taps > TAPS_MOST) return cpu_fail("convolution: more than %d taps", TAPS_MOST);
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * wide * taps))
    for (int64_t c = 0; c < wide; c++) {
        double sums[TAPS_MOST] = { 0 };
        for (int64_t i = 0; i < rows; i++) {
            const float *in[TAPS_MOST];
            rows_of(in, x, NULL, i, taps);
            const float z = sum_at(in, w->data, taps, c), s = 1 / (1 + expf(-z));
            const float d = ((const float *)dy->data)[i * wide + c] * s * (1 + z * (1 - s));
            for (int64_t k = 0; k < taps; k++) {
                const int64_t row = i - taps + 1 + k;
                if (row < 0) continue;
                sums[k] += (double)(d * in[k][c]);
                if (dx)
                    ((float *)dx->data)[row * wide + c] +=
                        d * ((const float *)w->data)[c * taps + k];
            }
        }
        for (int64_t k = 0; dw && k < taps; k++)
            ((float *)dw->data)[c * taps + k] += (float)sums[k];
    }
    return 0;
}
