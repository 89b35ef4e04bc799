// core/methods/ira.h -- sites and ops of information-regularized attention.
#ifndef CORE_METHODS_IRA_H
#define CORE_METHODS_IRA_H

#include "core/graph/hooks.h"

// [S,Hkv,d] the noise drawn for the pass's visual tokens; a method may replace it.
extern const struct site SITE_NOISE[1];
// [S,Hkv] divergence of the pass's visual tokens; v: their gate [S,Hkv].
extern const struct site SITE_KL[1];

// Averages `kl`, the numbers of x [S,Hkv] at SITE_KL, over the heads. Writes each visual row's mean
// to of_row, indexed by row of the sequence.
void ira_divergence(const struct site_args *args, const float *kl, float *of_row);

// Computes the values of visual tokens under IRA.
// z = v + delta + gate * sigma_q * noise, with v[S,Hkv,d], head[S*Hkv,d+1] (delta, log sigma_q^2),
// gate[S,Hkv] and noise[S,Hkv,d]. gate and noise are constants. noise NULL: none is added, and gate
// is not used.
struct tensor *op_ira_values(struct graph *g, struct tensor *v, struct tensor *head,
                             struct tensor *gate, struct tensor *noise);
// Computes the KL divergence [S,Hkv] of these values from the prior[Hkv,d] (log sigma_p^2). The
// last two arguments (v, mean) depend on ira.prior: (v, NULL) for local, (NULL, NULL) for
// local-printed, (v, mean[Hkv,d]) for global.
struct tensor *op_ira_kl(struct graph *g, struct tensor *head, struct tensor *prior,
                         struct tensor *v, struct tensor *mean);

#endif
