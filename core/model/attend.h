// core/model/attend.h -- attention beyond the plain op: rows that see selected keys only, the
// probabilities of one row, and the contribution of single tokens.
#ifndef CORE_MODEL_ATTEND_H
#define CORE_MODEL_ATTEND_H

#include "core/graph/hooks.h"
#include "core/model/linear.h"

struct pass_view;
struct qkv;

// Computes attention [n,H,dv] of q[n,H,d] over k[P,Hkv,d] and v[P,Hkv,dv], with dv <= d. Row i
// sees the keys of the view or, if `seen` lists keys for row i, only those; it never sees keys that
// seen->hidden hides from it. `scale` multiplies the scores. probs [H,n,P], or NULL, receives the
// probabilities. Hiding keys that a row would not see anyway, or only from other rows, changes no
// bit of the row's output.
struct tensor *attend(struct graph *g, const struct qkv *all, const struct pass_view *view,
                      float scale, const struct seen_keys *seen, struct tensor *probs);

// Like attend(), for a pass with segments: a row sees the prefix and its own segment. The keys of
// the segment are copied so that they follow the prefix; the view's keys include both.
struct tensor *attend_segments(struct graph *g, const struct segments *s,
                               const struct pass_view *view, float scale, const struct qkv *all);

// Returns the probabilities [H,1,P] of one query row q[1,H,d] over keys first..P-1 of k[P,Hkv,d],
// and 0 for earlier keys.
struct tensor *attend_probs(struct graph *g, struct tensor *q, struct tensor *k, int64_t first,
                            float scale);

// Computes the attention contribution C_i (CAPA's paper) of keys index[0..n) to the query row with
// these probabilities [H,1,P]: the norm of the term that token i adds to the residual stream at
// that row. `o` is the layer's output projection; v[P,Hkv,d]; gate[1,H,d]: the logits of the query
// row's gates, or NULL. Returns [n].
struct tensor *attend_contribution(struct graph *g, const struct linear *o, struct tensor *probs,
                                   struct tensor *v, struct tensor *gate, const int32_t *index,
                                   int64_t n);
// Returns `count` columns of x[n,K], from column `first` on, such as the input of one head.
struct tensor *attend_columns(struct graph *g, struct tensor *x, int64_t first, int64_t count);

#endif
