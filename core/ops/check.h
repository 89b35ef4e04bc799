// core/ops/check.h -- checks shared by the ops of this folder. A failed check is recorded in the
// graph, with the name of the op.
#ifndef CORE_OPS_CHECK_H
#define CORE_OPS_CHECK_H

#include "core/graph/tape.h"
#include "core/ops/ops.h"

// Returns the number of elements in a row: the product of all dimensions but the first.
int64_t op_columns(const struct tensor *t);
// True if ops accept t as a weight: f32, f16, bf16 or block-quantised.
bool op_is_weight(const struct tensor *t);
// Checks that t holds f32 activations and has at least one dimension.
bool op_want_f32(struct graph *g, const char *op, const char *what, const struct tensor *t);
// Checks that t has n elements of f32.
bool op_want_vector(struct graph *g, const char *op, const char *what, const struct tensor *t,
                    int64_t n);
// Checks that a and b have the same dtype and shape.
bool op_want_same(struct graph *g, const char *op, const struct tensor *a, const struct tensor *b);
// Checks that every index is in 0..limit-1.
bool op_want_indices(struct graph *g, const char *op, const int32_t *index, int64_t n,
                     int64_t limit);
// Allocates an op's result of x's shape; NULL if x is NULL or not f32, or memory is short.
struct tensor *op_new_like(struct graph *g, const char *op, const char *what, struct tensor *x);
// Returns y, or NULL after recording the message of a failed backend function.
struct tensor *op_done(struct graph *g, const char *op, int result, struct tensor *y);
// Like op_done, but also records the op on the tape.
struct tensor *op_record(struct graph *g, const char *op, int result, struct tensor *y,
                         const struct tape_step *step);
// Ends a backward function: records the message of a failed backend function. Returns 0, or -1 if
// this or anything before has failed.
int op_back(struct graph *g, const char *op, int result);
// Writes "[3,4] f32" to text; returns text.
const char *op_shape(const struct tensor *t, char text[96]);

#endif
