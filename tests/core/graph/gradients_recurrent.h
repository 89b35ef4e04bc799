// tests/core/graph/gradients_recurrent.h -- plain versions of the gated delta rule, the convolution
// before it, and the gate of attention outputs.
#ifndef TESTS_CORE_GRAPH_GRADIENTS_RECURRENT_H
#define TESTS_CORE_GRAPH_GRADIENTS_RECURRENT_H

#include "tests/core/graph/gradients.h"

static void plain_gate(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] / (1 + exp(-in[1][i]));
}

static struct tensor *run_gate(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_sigmoid_gate(g, in[0], in[1]);
}

static void plain_conv(const struct check *c, double *const *in, double *out)
{
    const int64_t wide = c->in[0][1], taps = c->in[1][1];
    for (int64_t i = 0; i < c->out; i++) {
        double sum = 0;
        for (int64_t k = 0; k < taps; k++) {
            const int64_t row = i / wide - taps + 1 + k;
            if (row >= 0) sum += in[0][row * wide + i % wide] * in[1][i % wide * taps + k];
        }
        out[i] = sum / (1 + exp(-sum));
    }
}

static struct tensor *run_conv(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_causal_conv(g, in[0], in[1], NULL, NULL);
}

// A row of x holds 2 heads of queries and 2 of keys, of width 3, then |variant| heads of values, of
// width 5. A negative variant deals the heads of values to those of keys in turn.
enum { KEY_HEADS = 2, KEY_WIDTH = 3, VALUE_WIDTH = 5 };

static double squares(const double *x)
{
    double sum = 1e-6;
    for (int i = 0; i < KEY_WIDTH; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static void plain_delta(const struct check *c, double *const *in, double *out)
{
    const int64_t rows = c->in[0][0], wide = c->in[0][1], heads = abs(c->variant);
    double *S = doubles(heads * KEY_WIDTH * VALUE_WIDTH);
    memset(S, 0, (size_t)(heads * KEY_WIDTH * VALUE_WIDTH) * sizeof *S);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t h = 0; h < heads; h++) {
            const int64_t group = heads / KEY_HEADS;
            const int64_t key = (c->variant < 0 ? h % KEY_HEADS : h / group) * KEY_WIDTH;
            const double *q = in[0] + n * wide + key, *k = q + KEY_HEADS * KEY_WIDTH;
            const double *v = in[0] + n * wide + 2 * KEY_HEADS * KEY_WIDTH + h * VALUE_WIDTH;
            const double z = in[1][n * heads + h] + in[4][h];
            const double alpha = exp(-exp(in[3][h]) * log1p(exp(z)));
            const double beta = 1 / (1 + exp(-in[2][n * heads + h]));
            for (int j = 0; j < VALUE_WIDTH; j++) {
                double *column = S + h * KEY_WIDTH * VALUE_WIDTH + j, known = 0, o = 0;
                for (int i = 0; i < KEY_WIDTH; i++)
                    known += alpha * column[i * VALUE_WIDTH] * k[i] / squares(k);
                for (int i = 0; i < KEY_WIDTH; i++) {
                    double *s = column + i * VALUE_WIDTH;
                    *s = alpha * *s + k[i] / squares(k) * beta * (v[j] - known);
                    o += *s * q[i] / squares(q) / sqrt(KEY_WIDTH);
                }
                out[(n * heads + h) * VALUE_WIDTH + j] = o;
            }
        }
    free(S);
}

static struct tensor *run_delta(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_delta_rule(g, &(struct delta_rule){ .x = in[0],
                                                  .a = in[1],
                                                  .b = in[2],
                                                  .log_a = in[3],
                                                  .bias = in[4],
                                                  .key_heads = KEY_HEADS,
                                                  .key_width = KEY_WIDTH,
                                                  .heads = abs(c->variant),
                                                  .alternate = c->variant < 0,
                                                  .width = VALUE_WIDTH });
}

#endif
