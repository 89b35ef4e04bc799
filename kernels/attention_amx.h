// kernels/attention_amx.h -- attention of many rows in bf16 with AMX, for kernels/attention.c.
#ifndef KERNELS_ATTENTION_AMX_H
#define KERNELS_ATTENTION_AMX_H

#include "kernels/attention.h"
#include "kernels/matmul_amx.h"

#if defined(__AMX_BF16__)

// Extra parameters of attention between packed products (kernels/products.h); struct call then has
// no y and no probabilities.
struct attention_packed {
    struct amx_rows to;     // [tokens, heads * value_width]
    enum dtype values;      // of v: f32 or bf16
    const float *cos, *sin; // [tokens, width / 2]: rotate q and k (f32); NULL: no rotation
    bool adjacent;          // rotary pair j is elements 2j and 2j + 1
};

// Computes attention of more than ATTENTION_FEW tokens. The bits of a result row depend neither on
// the number of rows nor on the number of threads. `by`: NULL if there are no packed products.
// Returns -1 if out of memory.
int KERNEL(attention_tiles)(struct call *c, const struct attention_packed *by);

#endif

#endif
