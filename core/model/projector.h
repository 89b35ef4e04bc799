// core/model/projector.h -- features [S,Dv] to visual tokens [S',D].
//
//   x -> norm of each feature -> `merge` features joined to one row -> linear -> GELU -> linear
//
// A kind names the parts as its files do. Where `merge` is more than 1, the features of a token
// stand one after the other.
#ifndef CORE_MODEL_PROJECTOR_H
#define CORE_MODEL_PROJECTOR_H

#include "core/model/norm.h"

struct projector;

struct projector_kind {
    const char *norm; // its name in the file; NULL: none
    bool norm_bias;   // LayerNorm; else RMSNorm
    double eps;       // of the norm
    // The norm is the encoder's last one: its name in a file that holds the encoder alone; else
    // NULL.
    const char *encoder_norm;
    const char *linear_1, *linear_2;
    bool wide; // between the two: as wide as what enters; else as the visual tokens
    // For kinds with other parts; NULL: those above.
    void (*bind)(struct projector *p, struct binder *b, int64_t in, int64_t out);
    struct tensor *(*forward)(struct graph *g, const struct projector *p, struct tensor *x);
};

extern const struct projector_kind projector_linear; // LLaVA's: one linear layer, or two

struct projector {
    const struct projector_kind *kind;
    int64_t merge; // features a token
    enum gelu_form act;
    bool bias;                        // of the linear layers
    struct norm norm;                 // [Dv]
    int64_t inner;                    // of the gated layers
    struct linear gate, up, down;     // GLM-4V's
    struct linear linear_1, linear_2; // [inner,merge*Dv] [D,inner]; the second may be absent
};

// The family sets kind, act, bias and merge (0: 1) first. `in` is Dv, `out` D.
int projector_bind(struct projector *p, struct binder *b, int64_t in, int64_t out);
struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x);

#endif
