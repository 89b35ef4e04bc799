// core/train/optimizer.h -- AdamW over all parameters, with learning rates by group, a schedule and
// clipping.
//
//   struct optimizer o;
//   optimizer_configure(&o, &params, settings, steps);
//   for (; o.step < o.steps;) {
//       ... gradients of the step in params ...
//       if (optimizer_step(&o, &params, &taken, &err) < 0) ...   // increments o.step
//   }
#ifndef CORE_TRAIN_OPTIMIZER_H
#define CORE_TRAIN_OPTIMIZER_H

#include "core/train/params.h"

enum schedule { SCHEDULE_COSINE, SCHEDULE_CONSTANT };

struct optimizer {
    double rate[PARAM_GROUPS], decay[PARAM_GROUPS];
    double beta1, beta2, eps;
    double clip; // clips the global gradient norm; 0: off
    enum schedule schedule;
    int64_t warmup, steps; // of the whole run
    int64_t step;          // steps taken so far
};

// Result of a step.
struct optimizer_taken {
    double rate; // of the backbone
    double norm; // global gradient norm, before clipping
};

// Returns the fraction of the peak learning rate at a step (from 0) of `steps`: linear from 0 in
// the first `warmup` steps, then half a cosine down to 0, or constantly 1. The same as
// transformers' get_cosine_schedule_with_warmup and get_constant_schedule_with_warmup.
double schedule_share(enum schedule schedule, int64_t step, int64_t steps, int64_t warmup);

void optimizer_configure(struct optimizer *o, const struct params *p, const struct settings *s,
                         int64_t steps);
// Returns -1 if the gradient is not finite, and changes nothing. -1 also if the backend fails; some
// parameters may then be updated.
int optimizer_step(struct optimizer *o, struct params *p, struct optimizer_taken *taken,
                   struct err *err);

#endif
