// kernels/expert_rows.h -- applies the experts of a mixture to the rows that chose them, one thread
// per piece.
//
//   struct expert_rows p = { .y = y, .x = x, .weights = weights, ... };
//   backend->expert_rows(&p)       // each row of y += the sum of weight * expert(row of x)
#ifndef KERNELS_EXPERT_ROWS_H
#define KERNELS_EXPERT_ROWS_H

#include "kernels/fused.h"

// Rows that a thread computes at a time: `count` entries of the list of rows from `first` on, all
// of one expert.
struct expert_piece {
    int32_t expert, first, count;
};

// Maximum number of rows in a piece.
enum { EXPERT_ROWS = 256 };

// N rows of width D, each routed to K of the experts, whose inner width is m.
struct expert_rows {
    struct tensor *y;                 // [N,D], added to
    const struct tensor *x, *weights; // [N,D] [N*K]
    const struct fused_gated *expert; // [experts]; no biases
    const int32_t *rows, *slots;      // [N*K] rows, expert by expert, and indices of their weights
    const int32_t *entries;           // [N,K] each row's entries in that list, ascending
    const struct expert_piece *piece; // the pieces cover the list
    int64_t pieces;
    float *each;    // [N*K,D] scratch
    void *narrow;   // [N,D] of bf16, scratch
    float *scratch; // [threads, EXPERT_ROWS * (D + 2m)]
    int mode;       // enum matmul_mode
};

#endif
