// tests/core/graph/gradients_layers.h -- plain implementations of the ops of layers: products,
// norms, rotary positions, attention, activations, sums.
#ifndef TESTS_CORE_GRAPH_GRADIENTS_LAYERS_H
#define TESTS_CORE_GRAPH_GRADIENTS_LAYERS_H

#include "tests/core/graph/gradients.h"

static void plain_matmul(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], k = c->in[0][1], m = c->in[1][0];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            double sum = in[2] ? in[2][j] : 0;
            for (int64_t e = 0; e < k; e++) sum += in[0][i * k + e] * in[1][j * k + e];
            out[i * m + j] = sum;
        }
}

static struct tensor *run_matmul(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_matmul(g, in[0], in[1], in[2]);
}

static struct tensor *run_unread(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_matmul_unread(g, in[0], in[1], in[2]);
}

static void plain_matmul_columns(const struct check *c, double *const *in, double *out)
{
    const int64_t n = c->in[0][0], k = c->in[0][1], m = c->in[1][1];
    for (int64_t i = 0; i < n * m; i++) {
        out[i] = 0;
        for (int64_t e = 0; e < k; e++) out[i] += in[0][i / m * k + e] * in[1][e * m + i % m];
    }
}

static struct tensor *run_matmul_columns(const struct check *c, struct graph *g,
                                         struct tensor *const *in)
{
    return op_matmul_columns(g, in[0], in[1]);
}

// in: y, x, a, b.
static void plain_lora(const struct check *c, double *const *in, double *out)
{
    const int64_t n = c->in[1][0], k = c->in[1][1], r = c->in[2][0], m = c->in[3][0];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            out[i * m + j] = in[0][i * m + j];
            for (int64_t l = 0; l < r; l++) {
                double low = 0;
                for (int64_t e = 0; e < k; e++) low += in[1][i * k + e] * in[2][l * k + e];
                out[i * m + j] += 0.75 * low * in[3][j * r + l];
            }
        }
}

static struct tensor *lora(struct graph *g, struct tensor *const *in, bool read)
{
    struct tensor *y = op_scale(g, in[0], 1); // op_lora overwrites it
    return op_lora(g, y, in[1], &(struct lora_sides){ in[2], in[3], 0.75F }, read);
}

static struct tensor *run_lora(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return lora(g, in, true);
}

static struct tensor *run_lora_unread(const struct check *c, struct graph *g,
                                      struct tensor *const *in)
{
    return lora(g, in, false);
}

static void plain_rmsnorm(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], d = c->in[0][1];
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t e = 0; e < d; e++) sum += in[0][i * d + e] * in[0][i * d + e];
        for (int64_t e = 0; e < d; e++)
            out[i * d + e] = in[0][i * d + e] / sqrt(sum / (double)d + 1e-2) * in[1][e];
    }
}

static struct tensor *run_rmsnorm(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_rmsnorm(g, in[0], in[1], 1e-2f);
}

static void plain_rmsnorm_plain(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], d = c->in[0][1];
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t e = 0; e < d; e++) sum += in[0][i * d + e] * in[0][i * d + e];
        for (int64_t e = 0; e < d; e++)
            out[i * d + e] = in[0][i * d + e] / sqrt(sum / (double)d + 1e-2);
    }
}

static struct tensor *run_rmsnorm_plain(const struct check *c, struct graph *g,
                                        struct tensor *const *in)
{
    return op_rmsnorm_plain(g, in[0], 1e-2f);
}

static void plain_layernorm(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], d = c->in[0][1];
    for (int64_t i = 0; i < n; i++) {
        double mean = 0, var = 0;
        for (int64_t e = 0; e < d; e++) mean += in[0][i * d + e] / (double)d;
        for (int64_t e = 0; e < d; e++) var += pow(in[0][i * d + e] - mean, 2) / (double)d;
        for (int64_t e = 0; e < d; e++)
            out[i * d + e] = (in[0][i * d + e] - mean) / sqrt(var + 1e-2) * in[1][e] + in[2][e];
    }
}

static struct tensor *run_layernorm(const struct check *c, struct graph *g,
                                    struct tensor *const *in)
{
    return op_layernorm(g, in[0], in[1], in[2], 1e-2f);
}

static void plain_rope(const struct check *c, double *const *in, double *out)
{
    int64_t heads = c->in[0][1], half = c->in[0][2] / 2;
    for (int64_t i = 0; i < c->in[0][0] * heads; i++)
        for (int64_t e = 0; e < half; e++) {
            const double *x = in[0] + i * 2 * half;
            double angle = (double)(i / heads + 1) * (double)(e + 1) * 0.1;
            out[i * 2 * half + e] = x[e] * cos(angle) - x[half + e] * sin(angle);
            out[i * 2 * half + half + e] = x[half + e] * cos(angle) + x[e] * sin(angle);
        }
}

static struct tensor *run_rope(const struct check *c, struct graph *g, struct tensor *const *in)
{
    int64_t n = c->in[0][0], half = c->in[0][2] / 2;
    struct tensor *co = graph_new2(g, DTYPE_F32, n, half), *si = graph_new2(g, DTYPE_F32, n, half);
    for (int64_t i = 0; i < n * half; i++) {
        double angle = (double)(i / half + 1) * (double)(i % half + 1) * 0.1;
        ((float *)co->data)[i] = (float)cos(angle);
        ((float *)si->data)[i] = (float)sin(angle);
    }
    return op_rope(g, in[0], co, si);
}

// Variant 0: every row sees all keys; 1: causal; 2: the last five keys, and every third row none;
// 3: causal within samples of 40 rows; 4: all keys of such a sample.
static void range_of(const struct check *c, int64_t i, int32_t *first, int32_t *last)
{
    int64_t n = c->in[0][0], p = c->in[1][0];
    *first = 0;
    *last = (int32_t)(c->variant ? p - n + i + 1 : p);
    if (c->variant == 2) *first = *last > 5 ? *last - 5 : 0;
    if (c->variant == 2 && i % 3 == 1) *last = *first;
    if (c->variant >= 3) *first = (int32_t)(i / 40 * 40);
    if (c->variant == 4) *last = (int32_t)(*first + 40 < n ? *first + 40 : n);
}

static void plain_attention(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], heads = c->in[0][1], d = c->in[0][2], kv_heads = c->in[1][1];
    const int64_t dv = c->in[2][2];
    double *p = doubles(c->in[1][0]);
    memset(out, 0, (size_t)c->out * sizeof *out);
    for (int64_t i = 0; i < n * heads; i++) {
        int64_t at = i % heads / (heads / kv_heads);
        double sum = 0;
        int32_t first, last;
        range_of(c, i / heads, &first, &last);
        for (int64_t j = first; j < last; j++) {
            p[j] = 0;
            for (int64_t e = 0; e < d; e++)
                p[j] += in[0][i * d + e] * in[1][(j * kv_heads + at) * d + e];
            sum += p[j] = exp(p[j] * 0.7);
        }
        for (int64_t j = first; j < last; j++)
            for (int64_t e = 0; e < dv; e++)
                out[i * dv + e] += p[j] / sum * in[2][(j * kv_heads + at) * dv + e];
    }
    free(p);
}

static struct tensor *run_attention(const struct check *c, struct graph *g,
                                    struct tensor *const *in)
{
    int64_t n = c->in[0][0];
    struct tensor *first = graph_new1(g, DTYPE_I32, n), *last = graph_new1(g, DTYPE_I32, n);
    for (int64_t i = 0; i < n; i++)
        range_of(c, i, (int32_t *)first->data + i, (int32_t *)last->data + i);
    return op_attention(g, in[0], in[1], in[2], c->variant ? first : NULL, c->variant ? last : NULL,
                        0.7f, NULL);
}

static void plain_swiglu(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] / (1 + exp(-in[0][i])) * in[1][i];
}

static struct tensor *run_swiglu(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_swiglu(g, in[0], in[1]);
}

static void plain_geglu(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) {
        const double x = in[0][i], u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        out[i] = 0.5 * x * (1 + tanh(u)) * in[1][i];
    }
}

static struct tensor *run_geglu(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_geglu(g, in[0], in[1]);
}

static void plain_softcap(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = 1.5 * tanh(in[0][i] / 1.5);
}

static struct tensor *run_softcap(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_softcap(g, in[0], 1.5f);
}

static void plain_clip(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = fmin(fmax(in[0][i], -0.4), 0.3);
}

static struct tensor *run_clip(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_clip(g, in[0], -0.4f, 0.3f);
}

static void plain_gelu(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) {
        double x = in[0][i], u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        out[i] = c->variant == GELU_ERF    ? 0.5 * x * (1 + erf(x / sqrt(2)))
                 : c->variant == GELU_TANH ? 0.5 * x * (1 + tanh(u))
                                           : x / (1 + exp(-1.702 * x));
    }
}

static struct tensor *run_gelu(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_gelu(g, in[0], (enum gelu_form)c->variant);
}

// Adds b to a, from row `variant` of a on.
static void plain_add(const struct check *c, double *const *in, double *out)
{
    int64_t from = c->variant * c->in[0][1], count = count_of(c->in[1]);
    for (int64_t i = 0; i < c->out; i++)
        out[i] = in[0][i] + (i >= from && i < from + count ? in[1][i - from] : 0);
}

static struct tensor *run_add(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_add(g, in[0], in[1]);
}

static struct tensor *run_add_rows(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_add_rows(g, in[0], c->variant, in[1]);
}

static void plain_softmax(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    for (int64_t i = 0; i < c->in[0][0]; i++) {
        double sum = 0;
        for (int64_t e = 0; e < d; e++) sum += exp(2 * in[0][i * d + e]);
        for (int64_t e = 0; e < d; e++) out[i * d + e] = exp(2 * in[0][i * d + e]) / sum;
    }
}

static struct tensor *run_softmax(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_softmax(g, in[0], 2);
}

#endif
