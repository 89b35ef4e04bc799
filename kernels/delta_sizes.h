// kernels/delta_sizes.h -- the sizes of the gated delta rule, for the CPU, CUDA and dry runs.
#ifndef KERNELS_DELTA_SIZES_H
#define KERNELS_DELTA_SIZES_H

#include "kernels/backend.h"

struct delta_sizes {
    int64_t rows, key_heads, heads, dk, dv; // N, Hk, Hv
    int64_t row;                            // elements of a row of x: queries, keys, values
    bool alternate;                         // delta_inputs.alternate
};

static inline struct delta_sizes delta_sizes(const struct tensor *y, const struct delta_inputs *p)
{
    struct delta_sizes s = { .rows = y->shape[0],
                             .key_heads = p->key_heads,
                             .heads = y->shape[1],
                             .dv = y->shape[2],
                             .row = p->x->shape[1],
                             .alternate = p->alternate };
    s.dk = (s.row - s.heads * s.dv) / (2 * s.key_heads);
    return s;
}

#endif
