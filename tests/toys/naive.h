// tests/toys/naive.h -- a small model of the toy family: its folder and its arithmetic, in loops
// over doubles that share nothing with the program.
#ifndef TESTS_TOYS_NAIVE_H
#define TESTS_TOYS_NAIVE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TOY_WORDS = 569, // of the tokenizer that it borrows
    TOY_WIDTH = 16,
    TOY_HEADS = 4,
    TOY_KV_HEADS = 2,
    TOY_DIM = 6,
    TOY_FFN = 20,
    TOY_LAYERS = 2,
    TOY_TENSORS = 3 + 8 * TOY_LAYERS
};
#define TOY_FADE 0.75 // what a layer leaves is multiplied by it

// A tensor of the file: [rows, columns], or [rows] with columns 1.
struct toy_tensor {
    char name[64];
    int64_t rows, columns;
    double *data;
};

// The same numbers each time, as exactly as the file holds them.
void naive_open(struct toy_tensor t[TOY_TENSORS]);
void naive_close(struct toy_tensor t[TOY_TENSORS]);
// All that a model's folder needs. `tied`: the head is the embedding, and not in the file.
void naive_write(const struct toy_tensor t[TOY_TENSORS], const char *folder, bool tied);
// logits [n, TOY_WORDS] of n ids.
void naive_logits(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, int64_t n,
                  double *logits);
// Mean of -log p over the rows whose target is not -1.
double naive_loss(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, const int32_t *target,
                  int64_t n);

#endif
