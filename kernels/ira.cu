// kernels/ira.cu -- information-regularized attention (kernels/ira.c has the formulas).
//
// Rows are in memory order: row r = i * Hkv + h is token i, key/value head h; head[r] = delta [d],
// log sigma_q^2.
#include "kernels/cuda.h"

static constexpr int THREADS = 128;

static __global__ void values_kernel(float *z, const float *v, const float *head, const float *gate,
                                     const float *noise, int64_t d, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t r = i / d, k = i % d;
        const float *delta = head + r * (d + 1);
        float moved = v[i] + delta[k];
        if (noise) moved += gate[r] * expf(0.5f * delta[d]) * noise[i];
        z[i] = moved;
    }
}

int ira_values_cuda(struct tensor *z, const struct tensor *v, const struct tensor *head,
                    const struct tensor *gate, const struct tensor *noise)
{
    const int64_t n = tensor_count(v);
    if (!n) return 0;
    return LAUNCH(values_kernel, blocks_for(n, EACH), EACH, 0, floats(z), floats(v), floats(head),
                  floats(gate), floats(noise), v->shape[2], n);
}

// One block per row: d z / d log sigma_q^2 = g sigma_q eps / 2.
static __global__ void values_back_kernel(float *dv, float *dhead, const float *dz,
                                          const float *head, const float *gate, const float *noise,
                                          int64_t d)
{
    const int64_t r = blockIdx.x;
    double sum = 0;
    for (int64_t k = threadIdx.x; k < d; k += THREADS) {
        const float from = dz[r * d + k];
        if (dv) dv[r * d + k] += from;
        if (dhead) dhead[r * (d + 1) + k] += from;
        if (noise) sum += (double)from * (double)noise[r * d + k];
    }
    if (!dhead || !noise) return; // uniform across the block
    sum = block_sum(sum);
    const float blur = gate[r] * expf(0.5f * head[r * (d + 1) + d]);
    if (threadIdx.x == 0) dhead[r * (d + 1) + d] += (float)(0.5 * (double)blur * sum);
}

int ira_values_backward_cuda(struct tensor *dv, struct tensor *dhead, const struct tensor *dz,
                             const struct tensor *head, const struct tensor *gate,
                             const struct tensor *noise)
{
    const int64_t rows = dz->shape[0] * dz->shape[1];
    if (!rows) return 0;
    return LAUNCH(values_back_kernel, (size_t)rows, THREADS, 0, floats(dv), floats(dhead),
                  floats(dz), floats(head), floats(gate), floats(noise), dz->shape[2]);
}

// --- divergence ----------------------------------------------------------------------------------

// Inputs of all rows' divergences; v is read only if there is a mean.
struct divergence {
    const float *head, *prior, *v, *mean;
    int64_t heads, d;
};

// Element k of row r of the mean of q minus the mean of the prior: delta, or v + delta - mean.
static __device__ double offset_at(const struct divergence x, int64_t r, int64_t k)
{
    const double delta = (double)x.head[r * (x.d + 1) + k];
    if (!x.mean) return delta;
    return delta + (double)x.v[r * x.d + k] - (double)x.mean[r % x.heads * x.d + k];
}

static __global__ void kl_kernel(float *kl, const struct divergence x)
{
    const int64_t r = blockIdx.x;
    const double log_variance = (double)x.head[r * (x.d + 1) + x.d], variance = exp(log_variance);
    double sum = 0;
    for (int64_t k = threadIdx.x; k < x.d; k += THREADS) {
        const double m = offset_at(x, r, k), log_prior = (double)x.prior[r % x.heads * x.d + k];
        sum += (m * m + variance) * exp(-log_prior) - 1 + log_prior - log_variance;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) kl[r] = (float)(0.5 * sum);
}

static struct divergence divergence_of(const struct tensor *head, const struct tensor *prior,
                                       const struct tensor *v, const struct tensor *mean)
{
    return {
        floats(head), floats(prior), floats(v), floats(mean), prior->shape[0], prior->shape[1]
    };
}

int ira_kl_cuda(struct tensor *kl, const struct tensor *head, const struct tensor *prior,
                const struct tensor *v, const struct tensor *mean)
{
    const int64_t rows = tensor_count(kl);
    if (!rows) return 0;
    return LAUNCH(kl_kernel, (size_t)rows, THREADS, 0, floats(kl),
                  divergence_of(head, prior, v, mean));
}

// Computes the gradients of the rows, with one block per row.
static __global__ void kl_rows_kernel(float *dhead, float *dv, const float *dkl,
                                      const struct divergence x)
{
    const int64_t r = blockIdx.x;
    const double slope = (double)dkl[r], variance = exp((double)x.head[r * (x.d + 1) + x.d]);
    double spread = 0;
    for (int64_t k = threadIdx.x; k < x.d; k += THREADS) {
        const double precision = exp(-(double)x.prior[r % x.heads * x.d + k]);
        const double dm = slope * offset_at(x, r, k) * precision;
        spread += variance * precision - 1;
        if (dhead) dhead[r * (x.d + 1) + k] += (float)dm;
        if (dv) dv[r * x.d + k] += (float)dm;
    }
    spread = block_sum(spread);
    if (dhead && threadIdx.x == 0) dhead[r * (x.d + 1) + x.d] += (float)(0.5 * slope * spread);
}

// Computes the gradients of prior and mean: one thread per element sums over the tokens in order.
static __global__ void kl_prior_kernel(float *dprior, float *dmean, const float *dkl,
                                       const struct divergence x, int64_t rows)
{
    FOR_EACH(i, x.heads * x.d)
    {
        const int64_t h = i / x.d, k = i % x.d;
        const double precision = exp(-(double)x.prior[i]);
        for (int64_t r = h; r < rows; r += x.heads) {
            const double m = offset_at(x, r, k), slope = (double)dkl[r];
            const double variance = exp((double)x.head[r * (x.d + 1) + x.d]);
            if (dmean) dmean[i] -= (float)(slope * m * precision);
            if (dprior) dprior[i] += (float)(0.5 * slope * (1 - (m * m + variance) * precision));
        }
    }
}

int ira_kl_backward_cuda(struct tensor *dhead, struct tensor *dprior, struct tensor *dv,
                         struct tensor *dmean, const struct tensor *dkl, const struct tensor *head,
                         const struct tensor *prior, const struct tensor *v,
                         const struct tensor *mean)
{
    const int64_t rows = tensor_count(dkl);
    const struct divergence x = divergence_of(head, prior, v, mean);
    if (!rows) return 0;
    if ((dhead || dv) && LAUNCH(kl_rows_kernel, (size_t)rows, THREADS, 0, floats(dhead), floats(dv),
                                floats(dkl), x) < 0)
        return -1;
    if (!dprior && !dmean) return 0;
    return LAUNCH(kl_prior_kernel, blocks_for(x.heads * x.d, EACH), EACH, 0, floats(dprior),
                  floats(dmean), floats(dkl), x, rows);
}

// --- gate ----------------------------------------------------------------------------------------

// q[T,H,d], k[S,Hkv,d].
struct attention_args {
    const float *q, *k;
    int64_t queries, heads, keys, kv_heads, d;
    float scale;
    bool renormalised; // the entropy is of renormalised attention
};

// p[Hkv,T,S] = the mean softmax over the heads of a group; one block per query and group. `one`
// [Hkv,T,S] is scratch: the softmax of one head.
static __global__ void attention_kernel(float *p, float *one, const struct attention_args x)
{
    const int64_t j = blockIdx.x, h = blockIdx.y, group = x.heads / x.kv_heads;
    float *mean = p + (h * x.queries + j) * x.keys, *row = one + (h * x.queries + j) * x.keys;
    for (int64_t g = 0; g < group; g++) {
        const float *q = x.q + (j * x.heads + h * group + g) * x.d;
        float most = -INFINITY;
        double sum = 0;
        for (int64_t i = threadIdx.x; i < x.keys; i += THREADS) {
            const float *k = x.k + (i * x.kv_heads + h) * x.d;
            float dot = 0;
            for (int64_t e = 0; e < x.d; e++) dot += q[e] * k[e];
            row[i] = dot * x.scale;
            most = fmaxf(most, row[i]);
        }
        most = block_most(most);
        for (int64_t i = threadIdx.x; i < x.keys; i += THREADS) {
            row[i] = expf(row[i] - most);
            sum += (double)row[i];
        }
        sum = block_sum(sum);
        for (int64_t i = threadIdx.x; i < x.keys; i += THREADS) {
            const float part = (float)((double)row[i] / sum) / (float)group;
            mean[i] = g ? mean[i] + part : part;
        }
    }
}

// One thread per key: a[h] = the mean of p over the queries, e = the entropy of p over the queries,
// divided by log T.
static __global__ void gate_kernel(float *gate, const float *p, const struct attention_args x)
{
    FOR_EACH(i, x.keys)
    {
        double entropy = 0;
        for (int64_t h = 0; h < x.kv_heads; h++) {
            double sum = 0, log_sum = 0;
            for (int64_t j = 0; j < x.queries; j++) {
                const double one = (double)p[(h * x.queries + j) * x.keys + i];
                sum += one;
                if (one > 0) log_sum += one * log(one);
            }
            if (!x.renormalised)
                entropy -= log_sum;
            else if (sum > 0)
                entropy += log(sum) - log_sum / sum;
            gate[i * x.kv_heads + h] = (float)(1 - sum / (double)x.queries);
        }
        entropy /= (double)x.kv_heads * (x.queries > 1 ? log((double)x.queries) : 1);
        for (int64_t h = 0; h < x.kv_heads; h++)
            gate[i * x.kv_heads + h] = (float)(entropy * (double)gate[i * x.kv_heads + h]);
    }
}

int ira_gate_cuda(struct tensor *gate, const struct tensor *q, const struct tensor *k, float scale,
                  bool renormalised)
{
    const struct attention_args x = { floats(q),   floats(k),   q->shape[0],
                                      q->shape[1], k->shape[0], k->shape[1],
                                      k->shape[2], scale,       renormalised };
    const int64_t n = x.kv_heads * x.queries * x.keys;
    if (!x.keys) return 0;
    float *p = static_cast<float *>(cuda_scratch((size_t)(2 * n + 1) * sizeof(float)));
    if (!p) return -1;
    if (n && LAUNCH(attention_kernel, dim3((unsigned)x.queries, (unsigned)x.kv_heads), THREADS, 0,
                    p, p + n, x) < 0)
        return -1;
    return LAUNCH(gate_kernel, blocks_for(x.keys, 64), 64, 0, floats(gate), p, x);
}
