// tests/core/graph/gradients_methods.h -- plain implementations of the ops of methods: scaling,
// IRA.
#ifndef TESTS_CORE_GRAPH_GRADIENTS_METHODS_H
#define TESTS_CORE_GRAPH_GRADIENTS_METHODS_H

#include "core/methods/ira.h"
#include "tests/core/graph/gradients.h"

static void plain_scale(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] * -1.5;
}

static struct tensor *run_scale(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_scale(g, in[0], -1.5f);
}

// The values of gate and noise, which are constant.
static float fixed_factor(int64_t column)
{
    return 0.5f - 0.25f * (float)column;
}

// in: v, head. Variant 1: no gate and no noise.
static void plain_ira_values(const struct check *c, double *const *in, double *out)
{
    const int64_t d = c->in[0][2];
    for (int64_t i = 0; i < c->out; i++) {
        const double *head = in[1] + i / d * (d + 1);
        const double gate = fixed_factor(i / d), noise = fixed_factor(i % 7);
        out[i] = in[0][i] + head[i % d];
        if (!c->variant) out[i] += gate * exp(head[d] / 2) * noise;
    }
}

static struct tensor *run_ira_values(const struct check *c, struct graph *g,
                                     struct tensor *const *in)
{
    const int64_t *shape = c->in[0];
    struct tensor *gate = graph_new2(g, DTYPE_F32, shape[0], shape[1]);
    struct tensor *noise = graph_new3(g, DTYPE_F32, shape[0], shape[1], shape[2]);
    for (int64_t i = 0; i < tensor_count(gate); i++) ((float *)gate->data)[i] = fixed_factor(i);
    for (int64_t i = 0; i < c->out; i++) ((float *)noise->data)[i] = fixed_factor(i % 7);
    return op_ira_values(g, in[0], in[1], c->variant ? NULL : gate, c->variant ? NULL : noise);
}

// in: head, prior; then nothing for ira.prior local-printed; v for local, whose mean is the current
// v; or v, mean for global.
static void plain_ira_kl(const struct check *c, double *const *in, double *out)
{
    const int64_t heads = c->in[1][0], d = c->in[1][1];
    // The values with which fixture_open fills v.
    float *held = in[2] ? noise_floats(count_of(c->in[2]), 3) : NULL;
    for (int64_t r = 0; r < c->out; r++) {
        const double *head = in[0] + r * (d + 1), *prior = in[1] + r % heads * d;
        out[r] = 0;
        for (int64_t k = 0; k < d; k++) {
            double m = head[k];
            if (in[2]) m += in[2][r * d + k];
            if (in[2]) m -= in[3] ? in[3][r % heads * d + k] : (double)held[r * d + k];
            out[r] += ((m * m + exp(head[d])) / exp(prior[k]) - 1 + prior[k] - head[d]) / 2;
        }
    }
    free(held);
}

static struct tensor *run_ira_kl(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_ira_kl(g, in[0], in[1], in[2], in[3]);
}

static void plain_scale_columns(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] * in[1][i % c->in[0][1]];
}

static struct tensor *run_scale_columns(const struct check *c, struct graph *g,
                                        struct tensor *const *in)
{
    return op_scale_columns(g, in[0], in[1]);
}

#endif
