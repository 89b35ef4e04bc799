// tests/kernels/checked.h -- lists the ops that ops.c, ops_rows.c and ops_recurrent.c check; the
// first two expect that no op of kernels/ops.h lacks a check.
#ifndef TESTS_KERNELS_CHECKED_H
#define TESTS_KERNELS_CHECKED_H

#include <unistd.h>

#include "tests/kernels/shapes.h"

// X(op) for each op that the file checks, by its function check_OP.
// clang-format off
#define CHECKED_IN_OPS(X) \
    X(rmsnorm) X(layernorm) X(add) X(scale) X(scale_columns) X(ira_values) X(ira_kl) X(ira_gate) \
    X(swiglu) X(geglu) X(gelu) X(softcap) X(clip) X(softmax) X(rope) X(widen) X(patches) X(fill) \
    X(row_norms) X(cross_entropy) X(sum_squares) X(adamw)
#define CHECKED_IN_OPS_ROWS(X) \
    X(gather_rows) X(blend_rows) X(scatter_rows) X(put_columns) X(expert_weights) \
    X(add_weighted_rows) X(weigh_values)
#define CHECKED_IN_OPS_RECURRENT(X) X(sigmoid_gate) X(causal_conv) X(delta_rule)
// clang-format on

struct check {
    const char *op;
    void (*check)(const struct backend *b, int64_t n, int64_t d);
};
#define ENTRY(op) { #op, check_##op },

// Ops of the backward pass are checked by tests/core/graph/gradients.c, which lists them.
static inline bool is_backward(const char *op)
{
    return strstr(op, "_backward") || strstr(op, "_dx") || strstr(op, "_dw");
}

// Fails unless every op of kernels/ops.h is in a list above or has a test file with its name.
static inline void expect_all_checked(void)
{
    static const char *const ops[] = {
#define OP(name, arguments) #name,
#include "kernels/ops.h"
#undef OP
    };
#define NAME(op) #op,
    static const char *const checked[] = { CHECKED_IN_OPS(NAME) CHECKED_IN_OPS_ROWS(NAME)
                                               CHECKED_IN_OPS_RECURRENT(NAME) };
#undef NAME
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        bool found = is_backward(ops[i]);
        for (size_t j = 0; j < sizeof checked / sizeof *checked; j++)
            found = found || !strcmp(ops[i], checked[j]);
        char path[128];
        snprintf(path, sizeof path, "tests/kernels/%s.c", ops[i]);
        if (!found && access(path, R_OK) != 0) fail_msg("no check of the op '%s'", ops[i]);
    }
}

#endif
