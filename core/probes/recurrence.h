// core/probes/recurrence.h -- the weight with which a query reads each token's value through the
// state of a layer with Gated DeltaNet (core/model/attention_delta.c).
#ifndef CORE_PROBES_RECURRENCE_H
#define CORE_PROBES_RECURRENCE_H

#include <stdint.h>

struct delta_config;

// The inputs of a layer's recurrence: x [N, 2*Hk*dk + Hv*dv + 2*Hv] of SITE_RECURRENCE, and the
// layer's vectors log_a and bias [Hv].
struct recurrence {
    const struct delta_config *config;
    const float *x, *log_a, *bias;
};

// Sets w[0..row] to the weights of the values of rows 0..row in the output o [dv] of value head
// `head` at a row: o = sum over i of w[i] v[i].
void recurrence_weights(const struct recurrence *r, int64_t head, int64_t row, double *w);

#endif
