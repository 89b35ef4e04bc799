// core/interventions/parts.h -- reads the outputs of a part of each layer in one pass, and replaces
// them in later passes.
//
//   struct parts w;
//   parts_open(&w, env, OUTPUT_FFN);
//   w.layers[3] = true; w.at[row] = true; ...
//   w.collecting = true;  ... a pass with parts_hook(&w) ...     // w.outputs[l]
//   w.collecting = false; w.replacement = mean; w.self = me;
//   w.layer = 3;          ... a pass ...                         // with layer 3 replaced at w.at
//   parts_close(&w);
#ifndef CORE_INTERVENTIONS_PARTS_H
#define CORE_INTERVENTIONS_PARTS_H

#include "core/probes/kit.h"

enum part {
    OUTPUT_RESIDUAL,  // [N,D] the residual stream after the layer
    OUTPUT_LAYER,     // [N,D] what the layer adds to the residual stream
    OUTPUT_ATTENTION, // [N,H*dv] the outputs of all heads, before the output projection
    OUTPUT_HEAD,      // like OUTPUT_ATTENTION, but only one head is replaced
    OUTPUT_FFN,       // [N,D] what the FFN adds to the residual stream
    OUTPUT_VALUE,     // [N,Hkv*dv] the values that positions attend to
};

// The outputs of the part in one layer.
struct outputs {
    float *output; // [N,width]; NULL: not read
    bool *there;   // [N] positions that the layer computed
    int64_t width;
};

struct parts {
    const struct probe_env *env;
    enum part part;
    bool *layers;            // [L] layers in which the hook listens
    bool *at;                // [N] positions whose outputs are replaced
    struct outputs *outputs; // [L]
    bool collecting;
    int layer, head; // replaced in this pass; -1: none
    // Fills the zero-initialised to[width] with the replacement of the output at a position.
    void (*replacement)(void *self, int layer, int64_t row, int64_t width, float *to);
    void *self;
    bool *reached; // [L] layers in which the hook has run

    float *before; // [N,D] the residual stream before the part, in the current layer
    struct rows rows;
};

void parts_open(struct parts *w, const struct probe_env *env, enum part part);
// Returns a hook that changes nothing while `collecting`, or while `layer` is -1.
struct hook parts_hook(struct parts *w);
void parts_close(struct parts *w);

#endif
