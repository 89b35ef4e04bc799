// kernels/expert_rows.h -- applies the experts of a mixture to the rows routed to them; each thread
// computes a piece at a time.
//
//   struct expert_rows p = { .y = y, .x = x, .weights = weights, ... };
//   backend->expert_rows(&p)       // each row of y += the sum of weight * expert(row of x)
#ifndef KERNELS_EXPERT_ROWS_H
#define KERNELS_EXPERT_ROWS_H

#include "kernels/fused.h"

// Rows that a thread computes at a time: `count` entries of `rows` from entry `first` on, all
// routed to the same expert.
struct expert_piece {
    int32_t expert, first, count;
};

// Maximum number of rows in a piece.
enum { EXPERT_ROWS = 256 };

// N rows of width D, each routed to K experts; m is the inner width of an expert.
struct expert_rows {
    struct tensor *y;                 // [N,D], added to
    const struct tensor *x, *weights; // [N,D] [N*K]
    const struct fused_gated *expert; // [experts]; no biases
    const int32_t *rows, *slots;      // [N*K] rows, sorted by expert; index in `weights` of each
    const int32_t *entries;           // [N,K] for each row, its K indices into `rows`, ascending
    const struct expert_piece *piece; // the pieces cover `rows`
    int64_t pieces;
    float *each;    // [N*K,D] scratch
    void *narrow;   // [N,D] of bf16, scratch
    float *scratch; // [threads, EXPERT_ROWS * (D + 2m)]
    bool gelu;      // the experts' activation is that of the op geglu, else of swiglu
    int mode;       // enum matmul_mode
};

#endif
