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
// Attention that is missing: rows `to` do not see the keys `from` (each sees itself) in this head;
// -1: in all.
struct naive_cut {
    const bool *from, *to; // [n]; NULL: nothing is missing
    int head;
    int layers; // only these many; 0: all
    // Without what a part adds in one layer: a head, the FFN, the whole layer; or with its mean
    // over all rows instead.
    enum naive_part { NAIVE_NONE, NAIVE_HEAD, NAIVE_FFN, NAIVE_LAYER } part;
    int layer;
    bool mean;
};
// Like naive_logits; cut NULL: nothing is missing.
void naive_cut_logits(const struct toy_tensor t[TOY_TENSORS], const struct naive_cut *cut,
                      const int32_t *ids, int64_t n, double *logits);
// logits [n, TOY_WORDS] of n ids.
void naive_logits(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, int64_t n,
                  double *logits);
// Mean of -log p over the rows whose target is not -1.
double naive_loss(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, const int32_t *target,
                  int64_t n);

#endif
