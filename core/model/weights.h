// core/model/weights.h -- a model's weights by name, for training, adapters and merging.
//
//   const struct weight *w = weights_find(&m->weights, "model.layers.3.input_layernorm.weight");
//   w->tensor->data = mine;                      // the model now computes with it
//   model_weights_changed(m);                    // updates a tied head, and gains of 1 + w
//
// The binder (core/model/bind.h) records the weights that it binds, except constants and numbers,
// which are never trained. A tied head has no entry: the embedding's entry covers both.
#ifndef CORE_MODEL_WEIGHTS_H
#define CORE_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/parts.h"

struct weight {
    char *name;   // as the file spells it
    char *common; // as Llama's files would spell it; train.params accepts it for any family
    struct tensor *tensor; // in the model's structs
    const void *bound;     // data of the tensor when it was bound
    char *whole;           // the file's tensor of which it is a part; NULL: it has its own
    struct linear *linear; // the layer that has this as its weight (not bias); else NULL
    enum model_part_kind part;
    int gpu;      // GPU that holds the weight (backend_enter)
    bool rounded; // temporarily rounded from f16 to bf16 on the device (core/train/frozen.h)
    // compute.matmul does not govern how the matrix is used: a router or filter, which compute in
    // f32, or a table of rows.
    bool apart;
    int rank; // shape as in the file: a convolution over patches has rank 4, over video patches 5
    int64_t shape[WEIGHT_MAX_RANK];
};

// A gain whose value is 1 + `stored`. `stored` is the vector in the file, and the tensor of the
// weight's entry.
struct gain_from_1 {
    struct tensor *gain, *stored;
    int gpu;
};

struct weights {
    struct weight *list; // in the order of binding
    size_t count, capacity;
    size_t *slots; // number + 1, 0 = free; open addressing by the plain name (weight_plain_name)
    size_t slot_count;
    struct gain_from_1 *gains;
    size_t gain_count, gain_capacity;
};

// Adds an entry with a copy of the name; the caller fills the rest.
struct weight *weights_add(struct weights *w, const char *name);
// Adds a gain that is 1 + a stored vector (model_weights_changed); returns the tensor for that
// vector, still empty.
struct tensor *weights_add_gain(struct weights *w, struct tensor *gain, int gpu);
// Returns the gain that is 1 + this weight; NULL if none.
const struct tensor *weights_gain(const struct weights *w, const struct tensor *stored);
void weights_release(struct weights *w);

// Finds a weight by the file's name. If no name is equal, ignores the levels "model",
// "language_model", "text_model" and "vision_model", which differ between library versions. NULL:
// none.
const struct weight *weights_find(const struct weights *w, const char *name);
// Like weights_find, but looks first at the weights just after `last`, unless it is NULL: for the
// many weights of experts, in their order.
const struct weight *weights_find_after(const struct weights *w, const struct weight *last,
                                        const char *name);
// Returns the number of the decoder layer or encoder block that a weight belongs to; -1: none.
int weight_layer(const struct weight *w);
// Returns the first weight of a part; NULL: none.
const struct weight *weights_of(const struct weights *w, enum model_part_kind part);
// Returns the name without the levels that weights_find ignores: "layers.3.mlp.up_proj.weight". The
// caller frees it.
char *weight_plain_name(const char *name);

#endif
