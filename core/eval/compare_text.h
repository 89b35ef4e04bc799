// core/eval/compare_text.h -- measures how much two forms of a model differ on a text, such as the
// original and one with quantised weights.
#ifndef CORE_EVAL_COMPARE_TEXT_H
#define CORE_EVAL_COMPARE_TEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/base/err.h"

struct load_progress;
struct model;

struct text_difference {
    int64_t tokens;       // predictions compared
    double kl, kl_most;   // divergence of the second from the first in nats: mean, largest
    double same;          // share of predictions with the same most likely token
    double perplexity[2]; // of the text
    char *pictures;       // what preprocesses pictures differently (picture_config_differ); NULL:
                          // nothing, or the second form has no encoder
};

extern const char compare_sample_text[]; // about 700 tokens

// Checks that the model's tokenizer can encode the text, and into at least two tokens.
int compare_text_check(const struct model *m, const char *text, struct err *err);

// Processes the text in pieces of at most 512 tokens, in f32 arithmetic. `b` is the folder or
// file of the second form, which is loaded. Progress (may be NULL) counts each token once per
// model. Returns 0 or -1. The caller frees difference->pictures.
int compare_text(const struct model *a, const char *b, const char *text,
                 const struct load_progress *progress, const atomic_bool *cancel,
                 struct text_difference *difference, struct err *err);

#endif
