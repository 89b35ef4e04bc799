// core/interventions/shuffled.h -- a copy of a model whose last layers have shuffled weights: the
// rows of each matrix of attention and FFN are in random order. This destroys what a layer has
// learned, but keeps the numbers, dtype and blocks of each matrix.
//
//   struct shuffled s;
//   if (shuffled_open(&s, model, backend, from, &err) < 0) ...   // layers from .. L-1
//   ... passes with &s.model ...
//   shuffled_close(&s);
//
// Everything else is borrowed from the model, adapters included.
#ifndef CORE_INTERVENTIONS_SHUFFLED_H
#define CORE_INTERVENTIONS_SHUFFLED_H

#include "core/model/model.h"

struct shuffled {
    struct model model;
    const struct backend *backend;
    void **memory;             // [count] the shuffled matrices
    const struct backend **of; // [count] the backends that hold these matrices
    size_t count, capacity, of_capacity;
};

// Returns -1 if memory is short; then nothing needs to be closed.
int shuffled_open(struct shuffled *s, const struct model *m, const struct backend *backend,
                  int from, struct err *err);
void shuffled_close(struct shuffled *s);

#endif
