// kernels/products.h -- matrix products that read and write packed rows, and that also compute the
// op after the product; a device may offer them besides its ops.
//
//   const struct packed_ops *d = backend->products;         // NULL: none
//   if (d && d->takes(n, mode)) {
//       packed.data = memory of d->bytes(n, k) bytes, 64-byte aligned
//       d->pack(&(struct row_packing){ packed, x, gain, bias, eps });   // a norm, rounded to bf16
//       d->run(&(struct packed_product){ .x = packed, .w = w, .bias = bias, .y = y });
//       d->attend(&(struct packed_attention){ .q = q, .k = k, .v = v, .scale = .., .to = packed });
//   }
//
// Elements are rounded where the ops round them: when a bf16 product reads them. So the results
// have the same bits as those of the ops, with two exceptions: scaled sums (PRODUCT_ADDED) are
// rounded once; GELU and SwiGLU are computed with an error of up to 2e-4 of their value (a tenth of
// bf16's rounding error), or 2e-5 for the exact GELU below -4.5, before they are rounded to bf16.
#ifndef KERNELS_PRODUCTS_H
#define KERNELS_PRODUCTS_H

#include "kernels/tensor.h"

// Rows of k elements in the device's own layout.
struct packed_rows {
    void *data;
    int64_t rows, k;
};

// to = x[N,K] or, with gain[K], norm(x): LayerNorm if bias[K] is given too, else RMSNorm.
struct row_packing {
    struct packed_rows to;
    const struct tensor *x, *gain, *bias; // gain and bias may be NULL
    float eps;
};

// How a product uses s = x w^T + bias.
enum product_epilogue {
    PRODUCT_STORED, // y[N,M] = s, f32 or rounded to bf16
    PRODUCT_ADDED,  // y += scale[M] * s; scale NULL: 1
    PRODUCT_GELU,   // packed = gelu(s)
    PRODUCT_GATED   // packed = silu(s) * (x up^T + up_bias)
};

struct packed_product {
    enum product_epilogue epilogue;
    struct packed_rows x;
    const struct tensor *w, *bias;     // [M,K], not block-quantised; [M] or NULL
    const struct tensor *up, *up_bias; // for PRODUCT_GATED, like w and bias
    struct tensor *y;
    const struct tensor *scale;
    struct packed_rows packed; // rows of M elements; must not be x
    int form;                  // enum gelu_form
};

// Attention whose result is rounded and packed for the product that reads it.
struct packed_attention {
    const struct tensor *q, *k, *v;   // [N,heads,d]: q f32, k and v f32 or bf16
    const struct tensor *cos, *sin;   // f32 [N,d/2]: rotate q and k, both f32, first; NULL: do not
    bool adjacent;                    // rotates elements 2j and 2j+1 of a head, not j and j + d/2
    const struct tensor *first, *end; // i32 [N]: row i sees keys first[i]..end[i]-1; NULL: all
    float scale;
    struct packed_rows to; // rows of heads * d elements
};

struct packed_ops {
    // True if the device multiplies this many packed rows in this mode.
    bool (*takes)(int64_t rows, int mode);
    size_t (*bytes)(int64_t rows, int64_t k);
    // These return 0, or -1 with failure() set.
    int (*pack)(const struct row_packing *p);
    int (*run)(const struct packed_product *p);
    int (*attend)(const struct packed_attention *p);
};

#endif
