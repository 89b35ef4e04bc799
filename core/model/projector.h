// core/model/projector.h -- features [S,Dv] to visual tokens [S,D]: one linear layer, or two with
// GELU.
#ifndef CORE_MODEL_PROJECTOR_H
#define CORE_MODEL_PROJECTOR_H

#include "core/model/bind.h"

struct projector {
    int layers; // 1 or 2, as the file has them
    enum gelu_form act;
    bool bias;                        // multimodal_projector_bias
    struct linear linear_1, linear_2; // [D,Dv] [D,D]
};

// The family sets act and bias first.
int projector_bind(struct projector *p, struct binder *b, int64_t in, int64_t out);
struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x);

#endif
