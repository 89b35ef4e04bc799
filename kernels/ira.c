// kernels/ira.c -- information-regularized attention: shifts the values of visual tokens and adds
// noise; computes their KL divergence from the prior, and the gate that scales noise and
// divergence.
//
// Rows are in memory order: row r = i * Hkv + h is token i, key/value head h.
#include <math.h>

#include "kernels/vec.h"

// Row r of `head` [count,d+1] holds delta [d] and log sigma_q^2.
struct rows {
    int64_t count, heads, dim;
    const float *head;
};

static struct rows rows_of(const struct tensor *v, const struct tensor *head)
{
    return (struct rows){ .count = v->shape[0] * v->shape[1],
                          .heads = v->shape[1],
                          .dim = v->shape[2],
                          .head = head->data };
}

int KERNEL(ira_values)(struct tensor *z, const struct tensor *v, const struct tensor *head,
                       const struct tensor *gate, const struct tensor *noise)
{
    const struct rows x = rows_of(v, head);
    const int64_t d = x.dim;
#pragma omp parallel for schedule(static) if (vec_worth_threads(x.count * d))
    for (int64_t r = 0; r < x.count; r++) {
        const float *from = (const float *)v->data + r * d, *delta = x.head + r * (d + 1);
        float *to = (float *)z->data + r * d;
        for (int64_t k = 0; k < d; k++) to[k] = from[k] + delta[k];
        if (!noise) continue;
        const float blur = ((const float *)gate->data)[r] * expf(0.5f * delta[d]);
        const float *eps = (const float *)noise->data + r * d;
        for (int64_t k = 0; k < d; k++) to[k] += blur * eps[k];
    }
    return 0;
}

int KERNEL(ira_values_backward)(struct tensor *dv, struct tensor *dhead, const struct tensor *dz,
                                const struct tensor *head, const struct tensor *gate,
                                const struct tensor *noise)
{
    const struct rows x = rows_of(dz, head);
    const int64_t d = x.dim;
#pragma omp parallel for schedule(static) if (vec_worth_threads(x.count * d))
    for (int64_t r = 0; r < x.count; r++) {
        const float *from = (const float *)dz->data + r * d;
        for (int64_t k = 0; dv && k < d; k++) ((float *)dv->data)[r * d + k] += from[k];
        if (!dhead) continue;
        float *to = (float *)dhead->data + r * (d + 1);
        for (int64_t k = 0; k < d; k++) to[k] += from[k];
        if (!noise) continue;
        // d z / d log sigma_q^2 = g sigma_q eps / 2
        const float blur = ((const float *)gate->data)[r] * expf(0.5f * x.head[r * (d + 1) + d]);
        const float *eps = (const float *)noise->data + r * d;
        double sum = 0;
        for (int64_t k = 0; k < d; k++) sum += (double)from[k] * (double)eps[k];
        to[d] += (float)(0.5 * (double)blur * sum);
    }
    return 0;
}

// Inputs of row r's divergence. The means of q and prior differ by delta, or by v + delta - mu. In
// both cases v and delta get the same gradient.
struct parts {
    const float *delta, *prior, *v, *mu;
    double variance; // sigma_q^2
};

static struct parts parts_of(int64_t r, const struct tensor *head, const struct tensor *prior,
                             const struct tensor *v, const struct tensor *mean)
{
    const int64_t heads = prior->shape[0], d = prior->shape[1];
    const float *delta = (const float *)head->data + r * (d + 1);
    return (struct parts){ .delta = delta,
                           .prior = (const float *)prior->data + r % heads * d,
                           .v = mean ? (const float *)v->data + r * d : NULL,
                           .mu = mean ? (const float *)mean->data + r % heads * d : NULL,
                           .variance = exp((double)delta[d]) };
}

static double offset(const struct parts *p, int64_t k)
{
    return (double)p->delta[k] + (p->mu ? (double)p->v[k] - (double)p->mu[k] : 0);
}

int KERNEL(ira_kl)(struct tensor *kl, const struct tensor *head, const struct tensor *prior,
                   const struct tensor *v, const struct tensor *mean)
{
    const int64_t count = tensor_count(kl), d = prior->shape[1];
#pragma omp parallel for schedule(static) if (vec_worth_threads(count * d))
    for (int64_t r = 0; r < count; r++) {
        const struct parts p = parts_of(r, head, prior, v, mean);
        double sum = 0;
        for (int64_t k = 0; k < d; k++) {
            const double m = offset(&p, k), log_prior = (double)p.prior[k];
            sum += (m * m + p.variance) * exp(-log_prior) - 1 + log_prior - (double)p.delta[d];
        }
        ((float *)kl->data)[r] = (float)(0.5 * sum);
    }
    return 0;
}

// Adds to the gradients of the row, and to those of the prior and mean of its head, which sum over
// tokens.
static void kl_row_back(const struct parts *p, int64_t d, double dkl, float *dhead, float *dv,
                        float *dprior, float *dmean)
{
    double spread = 0;
    for (int64_t k = 0; k < d; k++) {
        const double m = offset(p, k), precision = exp(-(double)p->prior[k]);
        const double dm = dkl * m * precision;
        spread += p->variance * precision - 1;
        if (dhead) dhead[k] += (float)dm;
        if (dv) dv[k] += (float)dm;
        if (dmean) dmean[k] -= (float)dm;
        if (dprior) dprior[k] += (float)(0.5 * dkl * (1 - (m * m + p->variance) * precision));
    }
    if (dhead) dhead[d] += (float)(0.5 * dkl * spread);
}

static float *row_at(const struct tensor *t, int64_t row, int64_t width)
{
    return t ? (float *)t->data + row * width : NULL;
}

// One thread handles a head, so that sums over tokens have a fixed order.
int KERNEL(ira_kl_backward)(struct tensor *dhead, struct tensor *dprior, struct tensor *dv,
                            struct tensor *dmean, const struct tensor *dkl,
                            const struct tensor *head, const struct tensor *prior,
                            const struct tensor *v, const struct tensor *mean)
{
    const int64_t count = tensor_count(dkl), heads = prior->shape[0], d = prior->shape[1];
#pragma omp parallel for schedule(static) if (vec_worth_threads(count * d))
    for (int64_t h = 0; h < heads; h++)
        for (int64_t r = h; r < count; r += heads) {
            const struct parts p = parts_of(r, head, prior, v, mean);
            kl_row_back(&p, d, (double)((const float *)dkl->data)[r], row_at(dhead, r, d + 1),
                        row_at(dv, r, d), row_at(dprior, h, d), row_at(dmean, h, d));
        }
    return 0;
}

// p[S] = softmax over all keys of one query of one head.
static void softmax_row(float *p, const float *q, const float *keys, int64_t count, int64_t step,
                        int64_t d, float scale)
{
    float most = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        float dot = 0;
        for (int64_t k = 0; k < d; k++) dot += q[k] * keys[i * step + k];
        p[i] = dot * scale;
        if (p[i] > most) most = p[i];
    }
    for (int64_t i = 0; i < count; i++) sum += (double)(p[i] = expf(p[i] - most));
    for (int64_t i = 0; i < count; i++) p[i] = (float)((double)p[i] / sum);
}

// For one key/value head, sums the group's mean p, and p log p, over the queries. `scratch`: 2 S
// floats.
static void gate_sums(int64_t h, const struct tensor *q, const struct tensor *k, float scale,
                      double *sum, double *log_sum, float *scratch)
{
    const int64_t queries = q->shape[0], heads = q->shape[1], d = q->shape[2];
    const int64_t count = k->shape[0], kv_heads = k->shape[1], group = heads / kv_heads;
    const float *keys = (const float *)k->data + h * d;
    float *one = scratch, *mean = scratch + count;
    for (int64_t i = 0; i < count; i++) sum[i] = log_sum[i] = 0;
    for (int64_t j = 0; j < queries; j++) {
        for (int64_t i = 0; i < count; i++) mean[i] = 0;
        for (int64_t n = 0; n < group; n++) {
            const float *query = (const float *)q->data + (j * heads + h * group + n) * d;
            softmax_row(one, query, keys, count, kv_heads * d, d, scale);
            for (int64_t i = 0; i < count; i++) mean[i] += one[i] / (float)group;
        }
        for (int64_t i = 0; i < count; i++) {
            sum[i] += (double)mean[i];
            if (mean[i] > 0) log_sum[i] += (double)mean[i] * log((double)mean[i]);
        }
    }
}

int KERNEL(ira_gate)(struct tensor *gate, const struct tensor *q, const struct tensor *k,
                     float scale, bool renormalised)
{
    const int64_t queries = q->shape[0], count = k->shape[0], heads = k->shape[1];
    // Two doubles and two floats per key and head.
    double *sum = cpu_scratch((size_t)(heads * count) * (2 * sizeof(double) + 2 * sizeof(float)));
    if (!sum) return -1;
    double *log_sum = sum + heads * count;
    float *scratch = (void *)(log_sum + heads * count);
#pragma omp parallel for schedule(static) if (vec_worth_threads(queries * count * q->shape[1]))
    for (int64_t h = 0; h < heads; h++)
        gate_sums(h, q, k, scale, sum + h * count, log_sum + h * count, scratch + 2 * h * count);

    float *to = gate->data;
    for (int64_t i = 0; i < count; i++) {
        double entropy = 0;
        for (int64_t h = 0; h < heads; h++) {
            // Entropy of p[.,i] / s: log s - sum p log p / s. Unless renormalised, s is 1.
            const double s = renormalised ? sum[h * count + i] : 1;
            if (s > 0) entropy += log(s) - log_sum[h * count + i] / s;
        }
        entropy /= (double)heads * (queries > 1 ? log((double)queries) : 1);
        for (int64_t h = 0; h < heads; h++)
            to[i * heads + h] = (float)(entropy * (1 - sum[h * count + i] / (double)queries));
    }
    return 0;
}
