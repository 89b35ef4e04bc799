// core/eval/compare_text.h -- how much two forms of one model differ on a text: what was lost by
// writing it with smaller weights.
#ifndef CORE_COMPARE_COMPARE_TEXT_H
#define CORE_COMPARE_COMPARE_TEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/base/err.h"

struct load_progress;
struct model;

struct text_difference {
    int64_t tokens;       // whose next token was predicted
    double kl, kl_most;   // of the second's distribution from the first's, in nats: mean, largest
    double same;          // share of places at which both find the same token the likeliest
    double perplexity[2]; // of the text
};

extern const char compare_sample_text[]; // about 700 tokens

// Can it be compared on that text? A text of fewer than two tokens is an error.
int compare_text_check(const struct model *m, const char *text, struct err *err);

// The text is read in pieces of at most 512 tokens, or a sliding window, in f32 arithmetic.
// `b` is the name of the second form. Progress (may be NULL) counts tokens, once for each model. 0
// or -1.
int compare_text(const struct model *a, const char *b, const char *text,
                 const struct load_progress *progress, const atomic_bool *cancel,
                 struct text_difference *difference, struct err *err);

#endif
