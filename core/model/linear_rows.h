// core/model/linear_rows.h -- rows that only linear layers read. A device with products of packed
// rows (kernels/products.h) rounds and packs them once, and fuses the step after a product;
// elsewhere, and with a tape, separate ops compute each step.
//
//   const struct linear *const read_by[] = { &w->fc1, NULL };
//   struct linear_rows x = linear_rows_norm(g, h, &w->norm, eps, read_by); // norm(h)
//   x = linear_rows_gelu(g, &x, &w->fc1, form, &w->fc2);                   // gelu(fc1 x) for fc2
//   h = linear_rows_add(g, h, 0, &x, &w->fc2, &w->scale);                  // h + scale fc2 x
//
// linear_rows_attention packs the output of an encoder's attention in the same way; call it only if
// linear_rows_attends returns true.
//
// After a failure (graph_ok is false) the content of results is undefined, and tensors may be NULL.
#ifndef CORE_MODEL_LINEAR_ROWS_H
#define CORE_MODEL_LINEAR_ROWS_H

#include "core/model/linear.h"

struct linear_rows {
    struct tensor *plain;      // [N,K], or
    struct packed_rows packed; // data NULL: `plain` is used
};

// Computes norm(x[N,K]) for the layers `read_by`, a NULL-terminated list. A norm without a gain
// leaves x unchanged.
struct linear_rows linear_rows_norm(struct graph *g, struct tensor *x, const struct norm *norm,
                                    double eps, const struct linear *const *read_by);
// Computes W x + bias, [N,M]: in `dtype`, f32 or bf16, if x is packed; otherwise in f32.
struct tensor *linear_rows_times(struct graph *g, const struct linear_rows *x,
                                 const struct linear *w, enum dtype dtype);
// Like linear_rows_times, but splits the result into `parts` equal matrices, each in its own dtype
// if x is packed.
void linear_rows_apart(struct graph *g, const struct linear_rows *x, const struct linear *w,
                       int parts, const enum dtype *dtype, struct tensor **part);
// Compute gelu(W x + bias), and silu(gate x) * up x, for the layer `next`.
struct linear_rows linear_rows_gelu(struct graph *g, const struct linear_rows *x,
                                    const struct linear *w, enum gelu_form form,
                                    const struct linear *next);
struct linear_rows linear_rows_gated(struct graph *g, const struct linear_rows *x,
                                     const struct linear *gate, const struct linear *up,
                                     const struct linear *next);
// True if the device can compute attention of `rows` rows whose output only `next` reads.
bool linear_rows_attends(const struct graph *g, int64_t rows, const struct linear *next);
// Computes that attention; leave p->to unset. q, k and v may be NULL after a failure.
struct linear_rows linear_rows_attention(struct graph *g, const struct packed_attention *p);
// Adds scale[M] * (W x + bias) to rows from.. of h (in place without a tape); a scale without data
// is 1.
struct tensor *linear_rows_add(struct graph *g, struct tensor *h, int64_t from,
                               const struct linear_rows *x, const struct linear *w,
                               const struct tensor *scale);

#endif
