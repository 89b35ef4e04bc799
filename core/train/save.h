// core/train/save.h -- checkpoints of a training run: everything that its next step depends on.
//
//   OUT/checkpoint-STEP/state.safetensors     masters, both moments, and in the metadata the step
//   OUT/checkpoint-STEP/...                   the weights as a result (core/train/result.h), in
//                                             checkpoints that are kept: a model or an adapter
//   OUT/best-STEP.safetensors                 masters of the best validation so far
//
//   struct save_place at = { .step = 40, .best_step = -1 };
//   if (save_write(out, &params, base, &at, &identity, keep, &err) < 0) ...
//   if (save_newest(out) >= 0 && save_read(out, &params, &at, &identity, &err) < 0) ...
//
// A checkpoint appears under its name only when it is on disk (written beside, fsync, rename), and
// older ones go only then; so do the best masters of before. Those of steps that a crash lost go
// when the run goes on. Order of samples and noise are drawn by counters (core/base/random.h), so
// the step is all of the random state and of the position in the data.
#ifndef CORE_TRAIN_SAVE_H
#define CORE_TRAIN_SAVE_H

#include "core/adapter/adapter.h"
#include "core/train/identity.h"
#include "core/train/params.h"

struct save_place {
    int64_t step;      // steps done
    double loss;       // of the last of them; NaN: not known
    double validation; // loss of the validation after it; NaN: there was none
    double score;      // ... and its score
    double best;       // score of the validation, without a metric its loss
    double best_loss;  // of that validation: decides between equal scores
    int64_t best_step; // -1: none yet
};

// Nothing is done when the checkpoint of this step exists. Keeps the newest `keep`, to be used; 0:
// the newest alone, only to go on from. `base`: the adapter that was on the model, NULL: none.
int save_write(const char *out, const struct params *p, const struct adapter *base,
               const struct save_place *at, const struct identity *id, int64_t keep,
               struct err *err);
// Step of the newest checkpoint, -1: none. What an interrupted one left is removed.
int64_t save_newest(const char *out);
// Does the newest checkpoint belong to the same run?
int save_check(const char *out, const struct identity *id, struct err *err);
// Only the newest `keep` stay.
void save_trim(const char *out, int64_t keep);
// Fills masters, moments and *at from the newest. -1 when it belongs to another run: says what
// differs.
int save_read(const char *out, struct params *p, struct save_place *at, const struct identity *id,
              struct err *err);

// The masters after a step, under the parameters' names.
int save_best(const char *out, const struct params *p, int64_t step, struct err *err);
bool save_best_there(const char *out, int64_t step);
int save_best_read(const char *out, struct params *p, int64_t step, struct err *err);
// Removes those of other steps (-1: of all), and what attempts to write them left when they were
// killed.
void save_best_trim(const char *out, int64_t step);

#endif
