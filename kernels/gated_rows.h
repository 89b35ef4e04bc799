// kernels/gated_rows.h -- the gated FFN of many rows as one kernel, with AMX:
//
//   y (+)= down(act(gate(x)) * up(x)),  x = rows, or rmsnorm(rows);  act = silu or gelu
//
//   if (KERNEL(gated_rows_fit)(&p)) status = KERNEL(gated_rows)(&p);
//
// The bits equal those of the ops rmsnorm, matmul (in bf16), swiglu or geglu, matmul and add.
#ifndef KERNELS_GATED_ROWS_H
#define KERNELS_GATED_ROWS_H

#include "kernels/fused.h"
#include "kernels/isa.h"

struct gated_rows {
    const float *x; // rows of D elements
    // x in bf16, read instead of x if there is no norm; or NULL.
    const void *narrow;
    const int32_t *index; // [rows] indices into x; NULL: 0, 1 ..
    const float *gain;    // [D] gain of rmsnorm; NULL: no norm
    float eps;
    struct fused_linear gate, up, down; // weights [F,D] [F,D] [D,F]; no parts of packed weights
    float *y;                           // [rows,D]
    int64_t rows;
    bool add; // adds to y
    // y is not needed soon: stores bypass the caches if they fill whole cache lines.
    bool past_caches;
    bool gelu; // act is that of the op geglu
    int mode;  // enum matmul_mode
};

// True if the kernel supports this call; else use the ops.
bool KERNEL(gated_rows_fit)(const struct gated_rows *p);

// Rounds x[n] to bf16, as products do, and writes it to `to`, for `narrow`; n is a multiple of 32.
void KERNEL(gated_rows_narrow)(void *to, const float *x, int64_t n);

// Returns 0, or -1 if out of memory.
int KERNEL(gated_rows)(const struct gated_rows *p);

// Computes struct fused_ffn for many rows, if it has neither `saved_gate` nor `after.gain`. If
// `gain` is set, y must be h. If `gain` is NULL, y must be another tensor, which becomes FFN(h),
// without norm and residual. Returns FUSED_NOT for other calls, and if gated_rows_fit is false.
int KERNEL(ffn_rows)(const struct fused_ffn *p);

#endif
