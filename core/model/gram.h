// core/model/gram.h -- contributions of single tokens as inner products (CAPA's paper): G_i[n,m] =
// (v_i W_O[n]).(v_i W_O[m]), so that for any query with probabilities a = A[:,q,i] the contribution
// is C^2 = a^T G_i a.
//
//   struct grams s = { 0 };
//   if (grams_add(&s, g, attention_output(w), v, heads) < 0) ...   // v [P,Hkv,d]
//   c = grams_contribution(&s, key, a);                               // a [H]
//   grams_release(&s);
#ifndef CORE_MODEL_GRAM_H
#define CORE_MODEL_GRAM_H

#include "core/model/linear.h"

struct grams {
    float *gram; // [P,H,H]
    int64_t keys, heads;
};

// Appends the Gram matrices of the P keys in v. 0, or -1 after graph_fail.
int grams_add(struct grams *s, struct graph *g, const struct linear *o, struct tensor *v,
              int64_t heads);
void grams_trim(struct grams *s, int64_t keys); // keeps only the first `keys`
double grams_contribution(const struct grams *s, int64_t key, const double *a); // C; a [H]
void grams_release(struct grams *s);

#endif
