// core/model/fused.h -- fused parts of a layer: false or NULL if the device has no such form, or
// intermediate results are wanted.
#ifndef CORE_MODEL_FUSED_H
#define CORE_MODEL_FUSED_H

#include "core/model/decoder.h"

// Computes queries of rows h [m, D] into q, their keys and values into rows `places` of k and v:
// rows first, first + 1.., or -1 if only the device knows. `w` is grouped-query attention with a
// norm before it.
bool fused_qkv(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
               struct tensor *cos, struct tensor *sin, struct tensor *places, int64_t first,
               struct tensor *q, struct tensor *k, struct tensor *v);
// The same for all rows of a pass without a cache, also when recorded on a tape: `to` gets queries,
// keys and values, [n, H, d] [n, Hkv, d] [n, Hkv, d].
bool fused_qkv_taped(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
                     struct tensor *cos, struct tensor *sin, struct tensor *places,
                     struct tensor *to[3]);
// h [n, D] += w(attention(q, k, v)); first and last may be NULL.
bool fused_attend(struct graph *g, struct tensor *h, struct tensor *q, struct tensor *k,
                  struct tensor *v, struct tensor *first, struct tensor *last,
                  const struct linear *w);
// h [m, D] + w(x): in place, or on a tape in a new tensor.
struct tensor *fused_add(struct graph *g, struct tensor *h, struct tensor *x,
                         const struct linear *w);
// h [m, D] + down(silu(gate(x)) * up(x)), x = rmsnorm(h), likewise. If unread and recorded, the
// content is undefined: it only carries gradients back.
struct tensor *fused_ffn(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
                         bool unread);

#endif
