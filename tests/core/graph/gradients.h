// tests/core/graph/gradients.h -- gradients of an op against finite differences: a second, plain
// implementation in double, and the pass that is compared with it.
//
// The loss is the sum of the result's elements, each times a fixed weight; its derivative by an
// element of an input is the quotient of the difference of two evaluations.
#ifndef TESTS_CORE_GRAPH_GRADIENTS_H
#define TESTS_CORE_GRAPH_GRADIENTS_H

#include <unistd.h>

#include "core/graph/tape.h"
#include "core/ops/ops.h"
#include "tests/device.h"
#include "tests/kernels/close.h"

enum { INPUTS = 5 };

struct check {
    const char *op;                      // the op's name after "op_"
    const char *kernels[3];              // kernels that its backward function uses
    int variant;                         // of the op, such as a form of GELU or of attention
    int64_t in[INPUTS][TENSOR_MAX_RANK]; // shapes; in[i][0] = 0: no such input
    int64_t out;                         // elements of the result
    void (*plain)(const struct check *c, double *const *in, double *out);
    struct tensor *(*run)(const struct check *c, struct graph *g, struct tensor *const *in);
};

static inline int rank_of(const int64_t *shape)
{
    int rank = 0;
    while (rank < TENSOR_MAX_RANK && shape[rank]) rank++;
    return rank;
}

static inline int64_t count_of(const int64_t *shape)
{
    int64_t n = shape[0] ? 1 : 0;
    for (int i = 0; i < rank_of(shape); i++) n *= shape[i];
    return n;
}

// Memory and graph of a pass, and the inputs with their gradients.
struct fixture {
    struct arena arena;
    struct tape tape;
    struct graph g;
    struct tensor in[INPUTS], *given[INPUTS];
};

static inline void fixture_open(struct fixture *f, const struct check *c, const struct backend *b)
{
    *f = (struct fixture){ .arena = { .backend = b }, .tape = { .backend = b } };
    f->g = (struct graph){ .backend = b, .arena = &f->arena, .tape = &f->tape };
    for (int i = 0; i < INPUTS && c->in[i][0]; i++) {
        const int64_t *shape = c->in[i];
        f->in[i] = (struct tensor){ .dtype = DTYPE_F32, .rank = rank_of(shape) };
        memcpy(f->in[i].shape, shape, sizeof f->in[i].shape);
        f->in[i].data = noise_floats(count_of(shape), (uint32_t)(i + 1));
        f->in[i].grad = grad_new(b, count_of(shape));
        f->given[i] = &f->in[i];
    }
}

static inline void fixture_close(struct fixture *f)
{
    for (int i = 0; i < INPUTS; i++) {
        free(f->in[i].data);
        grad_free(f->g.backend, f->in[i].grad);
    }
    tape_release(&f->tape);
    arena_release(&f->arena);
}

// Adds the tape's gradients of sum(weights * result) to those of all inputs.
static inline void run_back(struct fixture *f, const struct check *c, const float *weights)
{
    struct tensor *y = c->run(c, &f->g, f->given), d;
    if (!y) fail_msg("%s: %s", c->op, f->g.err.text);
    assert_int_equal(tensor_count(y), c->out);
    assert_true(tape_grad(&f->g, y, &d));
    memcpy(d.data, weights, (size_t)c->out * sizeof *weights);
    assert_int_equal(tape_backward(&f->g), 0);
    assert_int_equal(f->tape.count, 0);
}

static inline double plain_loss(const struct check *c, double *const *in, const float *weights)
{
    double *out = doubles(c->out), sum = 0;
    c->plain(c, in, out);
    for (int64_t i = 0; i < c->out; i++) sum += out[i] * (double)weights[i];
    free(out);
    return sum;
}

// Derivatives with respect to input number `which`, as differences.
static inline double *differences(const struct fixture *f, const struct check *c,
                                  const float *weights, int which)
{
    const double step = 1e-5;
    double *in[INPUTS] = { 0 }, *slope = doubles(count_of(c->in[which]));
    for (int i = 0; i < INPUTS && c->in[i][0]; i++) {
        in[i] = doubles(count_of(c->in[i]));
        for (int64_t k = 0; k < count_of(c->in[i]); k++) in[i][k] = ((float *)f->in[i].data)[k];
    }
    for (int64_t k = 0; k < count_of(c->in[which]); k++) {
        double was = in[which][k];
        in[which][k] = was + step;
        slope[k] = plain_loss(c, in, weights);
        in[which][k] = was - step;
        slope[k] = (slope[k] - plain_loss(c, in, weights)) / (2 * step);
        in[which][k] = was;
    }
    for (int i = 0; i < INPUTS; i++) free(in[i]);
    return slope;
}

#endif
