// core/model/norm.h -- a norm as a file has it: LayerNorm with a bias, RMSNorm without.
#ifndef CORE_MODEL_NORM_H
#define CORE_MODEL_NORM_H

#include "core/model/bind.h"
#include "kernels/tensor.h"

struct graph;

struct norm {
    struct tensor gain, bias; // [D]; bias data NULL: RMSNorm; gain data NULL: no norm
};

// NAME.weight and, with `bias`, NAME.bias [n].
void bind_norm(struct binder *b, struct norm *w, int64_t n, bool bias, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// x[N,D] normalised; x itself if there is no norm.
struct tensor *norm_forward(struct graph *g, struct tensor *x, const struct norm *w, double eps);

#endif
