// core/train/sft_parts.h -- what the files of the training job share; others use the job
// (core/train/job.h); a sweep asks sft_held_check.
//
//   sft.c       the job: from its arguments to the result, step by step
//   sft_model.c what is trained and the room for it: adapter, methods, parameters, tape
//   sft_data.c  which samples it trains on, and what must stay the same for a resume
//   sft_score.c validation by a metric
//   sft_pass.c  losses and gradients of batches, what is measured of a step, validation
#ifndef CORE_TRAIN_SFT_PARTS_H
#define CORE_TRAIN_SFT_PARTS_H

#include "core/adapter/adapter.h"
#include "core/base/hash.h"
#include "core/graph/tape.h"
#include "core/methods/method.h"
#include "core/metrics/metric.h"
#include "core/train/feed.h"
#include "core/train/forecast.h"
#include "core/train/job.h"
#include "core/train/lanes.h"
#include "core/train/optimizer.h"
#include "core/train/out.h"
#include "core/train/save.h"

struct sft_options {
    const char *data, *out, *images; // images NULL: the data's folder
    bool resume;
};

// Samples of one data file.
struct sft_set {
    struct dataset data;
    struct feed feed;
    int64_t *item;   // [count] indices in data
    int32_t *length; // [count] rows
    int64_t *group;  // [count] samples that show the same pictures have the same number
    int64_t count;
    size_t picture_files;    // different ones
    struct names contents;   // of them
    int64_t answer;          // most trained tokens of a sample
    char pictures[HASH_HEX]; // SHA-256 of all of them
};

// What runs that are compared with each other share.
struct sft_series {
    char pictures[HASH_HEX]; // of the training data: each run must find the same; "": not known yet
    bool broken;             // out: the run failed for a reason that the next one would meet too
};

struct sft {
    struct job *job;
    const struct backend *where; // the run's device, of a forecast too
    struct sft_options options;
    struct sft_series *series; // NULL: the run stands alone
    struct out out;
    struct sft_set train, held; // held.count 0: no validation
    bool validation_file;       // held.data is a file of its own
    bool headers;               // pictures are not decoded for the check: nothing will be trained

    struct adapter *base; // of the setting `adapter`: training goes on from it; NULL: none
    struct methods methods;
    struct hooks hooks;
    struct params params;
    struct optimizer optimizer;
    struct arena arena; // activations
    struct tape tape;
    struct graph graph;
    struct lanes lanes;       // params NULL: none
    struct forecast forecast; // of memory, before anything was taken
    uint64_t peak;            // bytes of memory of its own so far, mapped files not counted

    int64_t batch, accumulate, per_epoch, steps; // per_epoch: steps of an epoch
    int64_t *order; // [train.count] samples in the order of `epoch`, as in the data file
    int64_t epoch;  // -1: no order yet
    struct save_place place;
    const struct metric *metric; // of the validation; NULL: the loss
    bool torn;      // a step was taken whose validation was not: no place to go on from
    char *settings; // what training depends on, "key=value" lines
    char data_hash[HASH_HEX], samples_hash[HASH_HEX]; // "": there is none
    char held_hash[HASH_HEX], adapter_hash[HASH_HEX];
    char pictures_hash[HASH_HEX]; // of both sets
    double loss, kl;              // of the last step
    double saved, begun;          // times
    int64_t begun_step;           // of this process
};

// Arguments: DATA OUT [--images DIR] [--resume].
int sft_options_read(struct sft_options *o, int argc, char **argv, struct err *err);

// How many steps, when t->train is known.
void sft_plan_steps(struct sft *t);

// sft_model.c. Takes everything a pass and a step need on t->job's model and backend: the adapter
// of the settings, methods, parameters, tape. t->forecast says what that keeps, and where.
int sft_prepare(struct sft *t, struct err *err);
void sft_release(struct sft *t); // zeroed, it may be released too
// What it holds and held at most, by part: the one count, of forecasts and of runs.
void sft_memory(const struct sft *t, struct memory_parts *parts);

// sft_data.c. Opens, checks and splits the data. 0, JOB_STOPPED or -1.
int sft_data_open(struct sft *t, struct err *err);
void sft_data_close(struct sft *t);
// Can train.validation be read, where it is a file? For the shell.
int sft_held_check(const struct settings *s, struct err *err);
// What can be known of its identity without going through the samples: t->job and t->options are
// set. `but`: a setting that is left out, or NULL. sft_data_close gives it back.
int sft_identify(struct sft *t, const char *but, struct err *err);
// Fields that are not known yet are NULL.
struct identity sft_identity(const struct sft *t);
// The run failed for a reason that the next one of its series would meet too. -1.
int sft_break(const struct sft *t);
// The whole job. series may be NULL. 0, JOB_STOPPED or -1.
int sft_job(struct job *j, struct sft_series *series, struct err *err);

// sft_pass.c. Adds up the gradients of step t->place.step; *rows: rows computed. 0 or -1 (t->graph
// may be cancelled).
int sft_gradients(struct sft *t, int64_t *rows, struct err *err);
// Losses of `count` samples of a set by their numbers in the data, and `share` times their
// gradients where the pass is recorded; `number` is that of the first draw.
int sft_run(struct sft *t, struct sft_set *set, const int64_t *which, int64_t count,
            uint64_t number, double share, double *sum, int64_t *rows, struct err *err);
// Does a pass of `count` samples with so many rows take another one?
bool sft_pass_takes(const struct sft *t, int64_t count, int64_t rows);
// The micro-batch of the first epochs with the pass of most rows; *count samples, numbers in the
// data; belongs to the caller.
int64_t *sft_heaviest(const struct sft *t, int64_t *count);
// Mean and variance of the gradient of each norm's gain.
void sft_tell_norms(struct sft *t, int64_t step);
// Mean loss over the validation samples.
int sft_validate(struct sft *t, double *loss, struct err *err);

// sft_score.c. Sets t->metric from train.score and the data.
void sft_score_choose(struct sft *t);
// The metric's mean over the validation samples. 0 or -1 (t->graph may be cancelled).
int sft_score(struct sft *t, double *score, struct err *err);

#endif
