// core/model/matrices.h -- the dtype of a model's matrices, which `compute.matmul auto` follows.
//
//   matrices_choose_dtype(m);        // after the weights are bound
//   if (m->dtype == DTYPE_BF16) ...
//   if (m->mixed) ...                // a notice, and a row of /info
#ifndef CORE_MODEL_MATRICES_H
#define CORE_MODEL_MATRICES_H

struct model;

// Sets m->dtype and m->mixed. Only matrices that compute.matmul governs count: not the tables whose
// rows are looked up or added, nor routers and filters, which compute in f32. m->dtype is a block
// dtype if any of them has one, else the dtype of all. If some are bf16, it is bf16 if rounding the
// others to bf16 changes no number: GGUF files keep convolutions in f32, and their numbers come
// from bf16 weights. Else it is f32, and m->mixed names the matrices that bf16 would change.
void matrices_choose_dtype(struct model *m);

#endif
