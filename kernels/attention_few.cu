// kernels/attention_few.cu -- attention of a few rows, as when an answer is written: one row would
// leave most of the GPU idle, so its keys are split among blocks, whose parts are put together.
//
//   part c of the keys: highest m_c, sum s_c = sum e^(score - m_c), out_c = sum e^(score - m_c) v
//   m = max m_c,  y = sum out_c e^(m_c - m) / sum s_c e^(m_c - m)
#include "kernels/attention_cuda.h"

static constexpr int64_t PART = 128; // keys of a block, and its threads

// Of each part [N,H,parts]: m, s, out [width].
static __global__ void parts_kernel(float *part, const struct attention_call c)
{
    SHARED_MEMORY(float, query);
    float *weights = query + c.width; // [PART]
    const int64_t i = blockIdx.z, h = blockIdx.y, kv = h / (c.heads / c.kv_heads);
    const struct span see = span_of(c, i);
    const int64_t from = (int64_t)blockIdx.x * PART, key = from + threadIdx.x;
    const bool seen = key >= see.from && key < see.to;
    for (int64_t e = threadIdx.x; e < c.width; e += PART)
        query[e] = c.q[(i * c.heads + h) * c.width + e];
    __syncthreads();

    float score = 0;
    if (seen) {
        const float *k = c.k + (key * c.kv_heads + kv) * c.width;
        for (int64_t e = 0; e < c.width; e++) score += query[e] * k[e];
        score *= c.scale;
    }
    const float high = block_most(seen ? score : -INFINITY);
    const float weight = seen ? expf(score - high) : 0;
    weights[threadIdx.x] = weight;
    const float sum = block_sum(weight); // its barriers let everybody see the weights

    float *to = part + ((i * c.heads + h) * gridDim.x + blockIdx.x) * (c.width + 2);
    if (threadIdx.x == 0) {
        to[0] = high;
        to[1] = sum;
    }
    const int64_t low = see.from > from ? see.from - from : 0;
    const int64_t end = see.to - from < PART ? see.to - from : PART;
    for (int64_t e = threadIdx.x; e < c.width; e += PART) {
        const float *v = c.v + (from * c.kv_heads + kv) * c.width + e;
        float out = 0;
        for (int64_t j = low; j < end; j++) out += weights[j] * v[j * c.kv_heads * c.width];
        to[2 + e] = out;
    }
}

// A block a row and head.
static __global__ void join_kernel(const float *part, int64_t parts, const struct attention_call c)
{
    const int64_t i = blockIdx.x, h = blockIdx.y, step = c.width + 2;
    const float *from = part + (i * c.heads + h) * parts * step;
    float high = -INFINITY, sum = 0;
    for (int64_t p = 0; p < parts; p++) high = fmaxf(high, from[p * step]);
    for (int64_t p = 0; p < parts; p++)
        if (from[p * step + 1] != 0) sum += from[p * step + 1] * expf(from[p * step] - high);
    const float share = sum != sum ? sum : sum > 0 ? 1 / sum : 0; // NaN stays visible
    if (c.stats && threadIdx.x == 0) {
        float *to = c.stats + (h * c.tokens + i) * 2;
        to[0] = high;
        to[1] = sum;
    }
    for (int64_t e = threadIdx.x; c.y && e < c.width; e += PART) {
        float out = 0;
        for (int64_t p = 0; p < parts; p++)
            if (from[p * step + 1] != 0)
                out += from[p * step + 2 + e] * expf(from[p * step] - high);
        c.y[(i * c.heads + h) * c.width + e] = out * share;
    }
}

static int64_t parts_of(const struct attention_call *c)
{
    return (c->keys + PART - 1) / PART;
}

size_t attention_few_room(const struct attention_call *c)
{
    return (size_t)(c->tokens * c->heads * parts_of(c) * (c->width + 2));
}

int attention_few(const struct attention_call *call, float *part)
{
    const struct attention_call c = *call;
    const int64_t parts = parts_of(call);
    const dim3 grid((unsigned)parts, (unsigned)c.heads, (unsigned)c.tokens);
    const size_t shared = (size_t)(c.width + PART) * sizeof(float);
    if (parts && LAUNCH(parts_kernel, grid, PART, shared, part, c) < 0) return -1;
    return LAUNCH(join_kernel, dim3((unsigned)c.tokens, (unsigned)c.heads), PART, 0, part, parts,
                  c);
}
