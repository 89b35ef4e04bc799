// core/model/fused.h -- the parts of a layer in one call each: false or NULL where the device has
// no such form, or its parts are wanted one by one.
#ifndef CORE_MODEL_FUSED_H
#define CORE_MODEL_FUSED_H

#include "core/model/decoder.h"

// Queries of rows h [m, D] into q, their keys and values to `places` in k and v: rows first, first
// + 1.., or -1 where only the device knows. `w` is grouped-query attention with a norm before it.
bool fused_qkv(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
               struct tensor *cos, struct tensor *sin, struct tensor *places, int64_t first,
               struct tensor *q, struct tensor *k, struct tensor *v);
// The same of all rows of a pass without a cache, also where it is recorded: to gets queries, keys
// and values, [n, H, d] [n, Hkv, d] [n, Hkv, d].
bool fused_qkv_taped(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
                     struct tensor *cos, struct tensor *sin, struct tensor *places,
                     struct tensor *to[3]);
// h [n, D] += w(attention(q, k, v)); first and last may be NULL.
bool fused_attend(struct graph *g, struct tensor *h, struct tensor *q, struct tensor *k,
                  struct tensor *v, struct tensor *first, struct tensor *last,
                  const struct linear *w);
// h [m, D] + w(x): in h's place, recorded in one of its own.
struct tensor *fused_add(struct graph *g, struct tensor *h, struct tensor *x,
                         const struct linear *w);
// h [m, D] + down(silu(gate(x)) * up(x)), x = rmsnorm(h), in the same way. Unread and recorded it
// holds anything: it only leads gradients back.
struct tensor *fused_ffn(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
                         bool unread);

#endif
