// tests/toys/naive.h -- a small model of the toy family: its folder and its arithmetic, in loops
// over doubles that share no code with the program.
#ifndef TESTS_TOYS_NAIVE_H
#define TESTS_TOYS_NAIVE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TOY_WORDS = 569, // vocabulary of the borrowed tokenizer
    TOY_WIDTH = 16,
    TOY_HEADS = 4,
    TOY_KV_HEADS = 2,
    TOY_DIM = 6,
    TOY_FFN = 20,
    TOY_LAYERS = 2,
    TOY_TENSORS = 3 + 8 * TOY_LAYERS
};
#define TOY_FADE 0.75 // factor of each layer's result

// A tensor of the file: [rows, columns], or [rows] with columns 1.
struct toy_tensor {
    char name[64];
    int64_t rows, columns;
    double *data;
};

// Fills the same random weights each time, rounded as in the file.
void naive_open(struct toy_tensor t[TOY_TENSORS]);
void naive_close(struct toy_tensor t[TOY_TENSORS]);
// Writes all files of the model's folder. `tied`: the head is the embedding, and not in the file.
void naive_write(const struct toy_tensor t[TOY_TENSORS], const char *folder, bool tied);
// A change of the pass. Attention to cut: rows `to` do not see the keys `from` (but each sees
// itself) in `head`; -1: in all heads.
struct naive_cut {
    const bool *from, *to; // [n]; NULL: no attention is cut
    int head;
    int layers; // number of layers to compute before the last norm; 0: all
    // Removes the output of a part: NAIVE_HEAD: head `head` in all layers with attention; else the
    // FFN of layer `layer` or that layer, whose output `mean` replaces with its mean over all rows.
    enum naive_part { NAIVE_NONE, NAIVE_HEAD, NAIVE_FFN, NAIVE_LAYER } part;
    int layer;
    bool mean;
};
// Like naive_logits; cut NULL: no change.
void naive_cut_logits(const struct toy_tensor t[TOY_TENSORS], const struct naive_cut *cut,
                      const int32_t *ids, int64_t n, double *logits);
// logits [n, TOY_WORDS] of n ids.
void naive_logits(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, int64_t n,
                  double *logits);
// Mean of -log p over the rows whose target is not -1.
double naive_loss(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, const int32_t *target,
                  int64_t n);

#endif
