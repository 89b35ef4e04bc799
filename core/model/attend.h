// core/model/attend.h -- attention beyond the plain op: rows that see selected keys only, the
// probabilities of one row, and the contribution of single tokens.
#ifndef CORE_MODEL_ATTEND_H
#define CORE_MODEL_ATTEND_H

#include "core/graph/hooks.h"
#include "core/model/linear.h"

struct pass_view;
struct qkv;

// Computes attention of q[n,H,d] over k[P,Hkv,d] and v[P,Hkv,dv], dv at most d: [n,H,dv]. Row i
// sees the keys of the view, or those of them that `seen` lists for it, except seen->hidden. scale:
// of the scores. probs [H,n,P], or NULL, receives the probabilities. Keys hidden from other rows,
// and hidden keys that a row would not see anyway, do not change a bit of its output.
struct tensor *attend(struct graph *g, const struct qkv *all, const struct pass_view *view,
                      float scale, const struct seen_keys *seen, struct tensor *probs);

// Like attend() for a pass with segments: a row sees the prefix and its own segment, whose keys are
// copied behind the prefix; the view's keys include both the prefix and the copied keys.
struct tensor *attend_segments(struct graph *g, const struct segments *s,
                               const struct pass_view *view, float scale, const struct qkv *all);

// Returns the probabilities [H,1,P] of one query row over keys first..P-1, 0 for earlier ones:
// q[1,H,d], k[P,Hkv,d].
struct tensor *attend_probs(struct graph *g, struct tensor *q, struct tensor *k, int64_t first,
                            float scale);

// Computes the attention contribution C_i (CAPA's paper) of keys index[0..n) to
// the query row with these probabilities [H,1,P]: the norm of token i's own term in the residual
// stream at that row. `o` is the layer's output projection; v[P,Hkv,d]. Returns [n].
struct tensor *attend_contribution(struct graph *g, const struct linear *o, struct tensor *probs,
                                   struct tensor *v, const int32_t *index, int64_t n);
// Returns `count` columns of x[n,K], from column `first` on: the input of one head.
struct tensor *attend_columns(struct graph *g, struct tensor *x, int64_t first, int64_t count);

#endif
