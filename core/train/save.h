// core/train/save.h -- checkpoints of a training run: the complete state for its next step.
//
//   OUT/checkpoint-STEP/state.safetensors     masters, both moments and, in the metadata, the step
//   OUT/checkpoint-STEP/...                   with train.keep > 0: the weights as a model or an
//                                             adapter, like a result (core/train/result.h)
//   OUT/best-STEP.safetensors                 masters of the best validation so far
//
// state.safetensors and best-STEP.safetensors contain their own hash, which readers check.
//
//   struct save_point at = { .step = 40, .best_step = -1 };
//   if (save_write(out, &params, base, &at, &identity, keep, &err) < 0) ...
//   if (save_newest(out) >= 0 && save_read(out, &params, &at, &identity, &err) < 0) ...
//
// save_write writes a checkpoint under a temporary name, syncs and renames it, and only then
// deletes older ones. save_best also writes under a temporary name; save_best_trim deletes older
// best masters, and in a resumed run those of steps that it must repeat. Sample order and noise are
// counter-based (core/base/random.h), so the step number alone determines the random state and the
// position in the data.
#ifndef CORE_TRAIN_SAVE_H
#define CORE_TRAIN_SAVE_H

#include "core/adapter/adapter.h"
#include "core/jobs/identity.h"
#include "core/train/params.h"

enum { SAVE_SETS = 16 };

struct save_point {
    int64_t step;           // steps done
    double loss;            // of the last step; NaN: unknown
    double validation;      // loss of the last validation; NaN: none
    double score;           // score of the last validation; NaN: none
    double sets[SAVE_SETS]; // scores of the evaluation sets in that validation; NaN: none
    double best;            // score of the best validation; without a metric, its loss
    double best_loss;       // loss of that validation: breaks ties of the score
    int64_t best_step;      // -1: none yet
};

// Writes a checkpoint; all ranks call it, rank 0 writes. Writes nothing if the checkpoint of this
// step exists. Keeps the newest `keep` checkpoints, with loadable weights; 0: only the newest,
// without loadable weights, for resuming. `base`: the adapter that training continues from; NULL:
// none.
int save_write(const char *out, const struct params *p, const struct adapter *base,
               const struct save_point *at, const struct identity *id, int64_t keep,
               struct err *err);
// Returns the step of the newest checkpoint; -1: none. Removes the remains of interrupted writes.
int64_t save_newest(const char *out);
// Returns where the newest checkpoint's run trained an embedding table of host memory.
enum table_place save_table_place(const char *out);
// Checks that the same run wrote the newest checkpoint.
int save_check(const char *out, const struct identity *id, struct err *err);
// Deletes all but the newest `keep` checkpoints.
void save_trim(const char *out, int64_t keep);
// Loads masters, moments and *at from the newest checkpoint. -1 if another run wrote it: the
// message names the difference.
int save_read(const char *out, struct params *p, struct save_point *at, const struct identity *id,
              struct err *err);

// Writes the masters after a step, by parameter name.
int save_best(const char *out, const struct params *p, int64_t step, struct err *err);
// Checks that the best masters can be read and match their hash.
int save_best_check(const char *out, int64_t step, struct err *err);
int save_best_read(const char *out, struct params *p, int64_t step, struct err *err);
// Removes best masters of other steps (-1: of all), and the remains of interrupted writes.
void save_best_trim(const char *out, int64_t step);

#endif
