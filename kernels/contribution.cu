// kernels/contribution.cu -- the contribution of single tokens to the residual stream;
// kernels/contribution.c explains the method.
#include "kernels/cuda.h"

static constexpr int THREADS = 256;

// The shape of a call of weigh_values.
struct weighing {
    int64_t heads, kv_heads, width, keys;
    enum dtype dtype; // of the values
};

static __global__ void weigh_kernel(float *y, const float *probs, const void *v,
                                    const int32_t *index, const struct weighing w, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t e = i % w.width, h = i / w.width % w.heads;
        const int64_t key = index[i / w.width / w.heads], kv = h / (w.heads / w.kv_heads);
        y[i] =
            probs[h * w.keys + key] * number_at(v, (key * w.kv_heads + kv) * w.width + e, w.dtype);
    }
}

int weigh_values_cuda(struct tensor *y, const struct tensor *probs, const struct tensor *v,
                      const struct tensor *index)
{
    const struct weighing w = { .heads = probs->shape[0],
                                .kv_heads = v->shape[1],
                                .width = v->shape[2],
                                .keys = probs->shape[1],
                                .dtype = v->dtype };
    const int64_t n = tensor_count(index) * w.heads * w.width;
    if (!n) return 0;
    return LAUNCH(weigh_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(probs), v->data,
                  integers(index), w, n);
}

static __global__ void row_norms_kernel(float *y, const float *x, int64_t n)
{
    const float *row = x + (int64_t)blockIdx.x * n;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum += row[i] * row[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) y[blockIdx.x] = sqrtf(sum);
}

int row_norms_cuda(struct tensor *y, const struct tensor *x)
{
    const int64_t rows = x->shape[0], width = rows ? tensor_count(x) / rows : 0;
    if (!rows) return 0;
    return LAUNCH(row_norms_kernel, (size_t)rows, THREADS, 0, floats(y), floats(x), width);
}
