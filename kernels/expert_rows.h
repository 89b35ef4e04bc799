// kernels/expert_rows.h -- the experts of a mixture on the rows that chose them, each whole in one
// thread.
//
//   struct expert_rows p = { .y = y, .x = x, .weights = weights, ... };
//   backend->expert_rows(&p)       // y += for each row the sum of weight * expert(row)
#ifndef KERNELS_EXPERT_ROWS_H
#define KERNELS_EXPERT_ROWS_H

#include "kernels/fused.h"

// Rows that a thread takes at a time: entries first.. of the list of rows, `count` of them, which
// are all of one expert.
struct expert_piece {
    int32_t expert, first, count;
};

// Rows of a piece at most.
enum { EXPERT_ROWS = 256 };

// N rows, each with K of the experts; D wide, the experts m inside.
struct expert_rows {
    struct tensor *y;                 // [N,D], added to
    const struct tensor *x, *weights; // [N,D] [N*K]
    const struct fused_gated *expert; // by number; no biases
    const int32_t *rows, *slots;      // [N*K] rows, expert by expert, and where their weights stand
    const int32_t *places;            // [N,K] where in that list each row stands, ascending
    const struct expert_piece *piece; // together all of the list
    int64_t pieces;
    float *each;  // [N*K,D] room
    void *narrow; // [N,D] of bf16, room
    float *room;  // [threads, EXPERT_ROWS * (D + 2m)]
    int mode;     // enum matmul_mode
};

#endif
