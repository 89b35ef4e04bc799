// core/model/layer_inputs.h -- an input of its own for each layer and row (Gemma 3n and 4,
// "per-layer embeddings"), and the factor of a layer's output.
#ifndef CORE_MODEL_LAYER_INPUTS_H
#define CORE_MODEL_LAYER_INPUTS_H

#include "core/model/layer.h"

// Reads the sizes and the padding row from a text config; the config has no inputs unless its
// family supports them.
int layer_inputs_read(struct decoder_config *c, const cJSON *json, struct err *err);
// Binds the table, the projection and its norm; does nothing if the config has no inputs.
void layer_inputs_bind(struct decoder *d, struct binder *b);
// Computes the inputs of all layers for the rows of p, whose h[0] is h [n, D]: [n, L*P]. NULL after
// a failure.
struct tensor *layer_inputs_of(struct graph *g, const struct decoder *d, const struct pass *p,
                               struct tensor *h);
// Implements end_weight and after_layer of a family's decoder.
bool layer_inputs_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w);
struct tensor *layer_inputs_add(struct graph *g, const struct layer *layer, struct tensor *h);

#endif
