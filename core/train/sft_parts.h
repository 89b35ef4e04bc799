// core/train/sft_parts.h -- shared by the files of the training job, the forecast (forecast.c) and
// the sweep (sweep.c).
//
//   sft.c       the job: from its arguments to the result, step by step
//   sft_model.c the trained parameters and their memory: adapter, methods, masters, tape
//   sft_data.c  the samples, and the identity of a run that is resumed
//   sft_score.c validation by a metric
//   sft_sets.c  evaluation sets as validation
//   sft_ranks.c the samples of a step that each rank computes; sums over ranks
//   sft_pass.c  losses and gradients of batches, validation
//   sft_norms.c the gradients of norms: of their gains, and with train.norm_inputs of their inputs
//
// Room core/train/: training: steps, the order of samples, checkpoints, optimizers; and sweeps.
// Uses eval, jobs, new and what they use.
#ifndef CORE_TRAIN_SFT_PARTS_H
#define CORE_TRAIN_SFT_PARTS_H

#include "core/adapter/adapter.h"
#include "core/base/hash.h"
#include "core/base/pace.h"
#include "core/data/dataset.h"
#include "core/graph/tape.h"
#include "core/jobs/job.h"
#include "core/methods/method.h"
#include "core/metrics/metric.h"
#include "core/sets/source.h"
#include "core/train/forecast.h"
#include "core/train/lanes.h"
#include "core/train/loader.h"
#include "core/train/optimizer.h"
#include "core/train/run_folder.h"
#include "core/train/save.h"
#include "core/train/sft_options.h"

// Samples of one data file. A set of held-out samples has only `item` and `count`: its data are
// in the training set.
struct sft_set {
    struct dataset data;
    struct loader loader;
    int64_t *item;    // [count] indices in data
    int32_t *length;  // [count] rows
    int32_t *trained; // [count] trained tokens
    int64_t *group;   // [count] group number: samples that share pictures have the same one
    int64_t count;
    int64_t chosen, skipped; // samples of the chosen kinds, and unusable ones among them
    char *why;               // why the first skipped sample is unusable; NULL: none
    char *unread;            // keys that nothing reads, with counts; NULL: none
    size_t picture_files;    // number of distinct picture files
    struct names contents;   // SHA-256 of each picture that could be read
    int64_t answer;          // largest number of trained tokens in a sample
    char pictures[HASH_HEX]; // SHA-256 over sizes and bytes of these files
};

// The evaluation sets of train.validation.
enum { SFT_SETS = SAVE_SETS };
struct sft_sets {
    struct sft_scored {
        char *name; // of its series of scores: the set's name, numbered if several files belong to
                    // one set
        struct set_source from;
        struct dataset data;
    } list[SFT_SETS];
    size_t count;
    const struct metric *metric; // of the first set; all sets' scores have its direction
    char *words;                 // train.validation, cut into the texts that `list` borrows
};

// Shared by runs that are compared with each other (a sweep).
struct sft_series {
    char pictures[HASH_HEX]; // hash of the data's pictures, the same in each run; "": unknown yet
    int64_t seed;            // of each run's split into training and validation
    bool broken;             // out: the run failed for a reason that would also fail the next one,
                             // or left other ranks waiting
};

// Buffers of the sums over ranks and micro-batches: allocated at their first use, for the whole
// run.
struct sft_sums {
    float *piece;          // numbers to send to other ranks
    struct bucket *bucket; // small gradients to send together
    float **exact;         // train.exact_sum: by parameter; NULL: not used
    int next;              // the next bucket that the pass sums (struct params)
};

// The plan of a run, known before its first step.
struct sft_plan {
    int64_t batch, accumulate, per_epoch, steps; // per_epoch: steps of an epoch
    const struct metric *metric;                 // of the validation; NULL: the loss
    struct forecast forecast;                    // made before anything was allocated
    enum table_place table; // of the checkpoint, or chosen because of another rank
    // A resumed run must have the same settings and hashes.
    char *settings; // the settings that training depends on, as "key=value" lines
    struct sft_hashes {
        char data[HASH_HEX], samples[HASH_HEX], validation[HASH_HEX], adapter[HASH_HEX];
        char calibration[HASH_HEX], pictures[HASH_HEX]; // of training and validation
    } hashes;                                           // SHA-256; "": none
};

// The progress of a run.
struct sft_state {
    struct save_point point; // steps, losses and best validation
    int64_t epoch;           // of `order`; -1: no order yet
    int64_t *order;  // [train.count] indices of the samples in the data file, in this epoch's order
    int32_t *rows;   // [train.count] rows of each sample
    int32_t *tokens; // [train.count] trained tokens of each sample
    double loss;     // of the last step
    struct graph_kl kl; // of the last step
    int64_t not_finite; // the first sample of the last step whose loss is not finite, or -1
    bool torn;    // the step's validation has failed or was stopped: no checkpoint may be written
    double saved; // time of the last checkpoint
};

// Measurements of this process.
struct sft_report {
    struct pace pace;
    double begun; // start time, moved forward by the time that writing checkpoints takes
    int64_t begun_step;
    int64_t begun_waited;    // microseconds of waiting for other ranks outside of steps
    int64_t bytes, moved_us; // of the steps' sums and messages
    int64_t passes;          // in which the ranks summed buckets of gradients
    uint64_t peak;           // of this process's memory (memory_record_peak)
    char *unscored;          // samples that the last validation could not score; NULL: none
};

struct sft {
    struct job *job;
    const struct backend *where; // the device of the run or forecast
    struct sft_options options;
    struct sft_series *series; // NULL: a single run
    bool in_step; // the error that ends the run is the same on all ranks, and none waits
    struct run_folder out;
    struct sft_set train, validation; // validation.count 0: none
    bool validation_file;             // validation.data is a separate file
    struct sft_sets sets;             // validation by evaluation sets; count 0: none
    bool headers; // for forecasts: the check reads headers of pictures and does not decode them

    struct adapter *base; // of the setting `adapter`, which training continues from; NULL: none
    struct methods methods;
    struct hooks hooks;
    struct params params;
    struct optimizer optimizer;
    struct arena arena; // activations
    struct tape tape;
    struct sft_norms *norms; // with train.norm_inputs, else NULL
    struct graph graph;
    struct lanes lanes; // params NULL: none
    struct sft_sums sums;
    struct sft_plan plan;
    struct sft_state state;
    struct sft_report report;
};

// Sets the number of steps, allocates the order of samples and resets the progress; t->train
// must be open.
void sft_plan_steps(struct sft *t);

// sft_model.c. Prepares everything a pass and a step need on t->job's model and backend: the
// adapter of the settings, methods, parameters, tape. t->plan.forecast says which activations are
// kept, and where.
int sft_prepare(struct sft *t, struct err *err);
void sft_release(struct sft *t); // a zeroed one may also be released
// Counts the current and peak memory of a run by part, in the same way for forecasts and real runs.
void sft_memory(const struct sft *t, struct memory_parts *parts);

// sft_unused.c. Returns the changed settings of training that have no effect in the prepared run,
// separated by commas; NULL: none. free() it.
char *sft_unused(const struct sft *t);

// sft_data.c. Opens, checks and splits the data. 0, JOB_STOPPED or -1.
int sft_data_open(struct sft *t, struct err *err);
void sft_data_close(struct sft *t);
// Checks, for the shell, that the file or the evaluation sets of train.validation can be read.
int sft_validation_check(const struct settings *s, struct err *err);
// Sets the part of the identity that needs no scan of the samples, from t->job and t->options.
// `but`: a setting to leave out, or NULL. sft_data_close frees it.
int sft_identify(struct sft *t, const char *but, struct err *err);
// Returns the run's identity; NULL fields are not known yet.
struct identity sft_identity(const struct sft *t);
// Marks the series, if any, as broken (struct sft_series). Returns -1.
int sft_fail_series(const struct sft *t);
// Runs the whole job. series may be NULL. 0, JOB_STOPPED or -1.
int sft_job(struct job *j, struct sft_series *series, struct err *err);

// sft_pass.c. Accumulates the gradients of step t->state.point.step; *rows: rows of all its
// samples. 0 or -1 (t->graph may be cancelled).
int sft_gradients(struct sft *t, int64_t *rows, struct err *err);
// Computes the losses of `count` samples of a set, given by their indices in the data, and adds
// `share` times their gradients if the pass is recorded; `number` is the index of the first random
// draw, `tokens` as in struct loss_item. Adds the samples' rows to *rows, unless it is NULL.
struct sft_losses { // only doubles: the ranks sum them
    double loss;
    struct graph_kl kl;
};
int sft_run(struct sft *t, struct sft_set *set, const int64_t *which, int64_t count,
            uint64_t number, double share, double tokens, struct sft_losses *losses, int64_t *rows,
            struct err *err);
// Returns true if a pass of `count` samples with `rows` rows in total can take another sample.
bool sft_pass_takes(const struct sft *t, int64_t count, int64_t rows);
// Finds the largest pass of the first epochs, and returns the samples of the part of a step that
// contains it: *count indices in the data, which the caller frees.
int64_t *sft_heaviest(const struct sft *t, int64_t *count);
// Computes the mean over the finite losses of the validation samples; -1 if none is finite.
int sft_validate(struct sft *t, double *loss, struct err *err);

// sft_norms.c. Returns the callback that the tapes call for each norm, which sft_norms_release
// frees; NULL without train.norm_inputs.
struct norm_watch *sft_norms_watch(struct sft *t);
void sft_norms_release(struct sft *t);
// Reports mean and variance of the gradient of each trained norm's gain. With train.norm_inputs,
// also reports statistics of the gradients of its input, as means over this rank's tokens.
void sft_report_norms(struct sft *t, int64_t step);

// sft_ranks.c. Samples from..to of a step that a rank computes together.
struct sft_work {
    int64_t from, to;
};
// Sets the work of a rank in a step of `count` samples with these rows; rank -1: the work of all
// ranks, in the order of the samples. Returns the number of parts in `work`, at most `count`. With
// train.exact_sum, or if the number of ranks divides the number of micro-batches, each rank gets
// whole micro-batches of about equal total cost (rows); otherwise the samples are cut into runs of
// about equal cost.
int64_t sft_assign(const struct sft *t, const int32_t *rows, int64_t count, int rank,
                   struct sft_work *work);
// Returns true if each rank gets whole micro-batches.
bool sft_assigns_batches(const struct sft *t, int64_t count);
// Returns the number of ranks that share a step: the job's, or job.ranks before the job runs.
int sft_ranks(const struct sft *t);
// Returns the bytes that a step of `samples` samples sums and shares over the ranks, by formula: 4
// for each trained element (train.exact_sum: for each micro-batch), 4 for each row of a table whose
// reached rows are tracked (train.exact_sum: for each round of the ranks), and 24 for the losses of
// a sample. If the moments are distributed, adds 4 for each element's updated master, and 8 for
// each parameter's part of the norm. sft_pass_bytes: the bytes that a pass adds if the gradients
// are sharded.
int64_t sft_step_bytes(const struct sft *t, int64_t samples);
int64_t sft_pass_bytes(const struct sft *t);
// Adds up the gradients of all ranks, for the ranks that need them (params_sum_to).
int sft_sum_gradients(struct sft *t, struct err *err);
// train.shard gradients: the ranks sum each layer's matrices when the backward pass has completed
// them, and only the owner keeps the sum. So all ranks take part in the same number of passes:
// sft_pass_begin returns false when no rank has another one. `works`: this rank has one; otherwise
// it adds zeros in sft_pass_end, which sums all buckets that are left.
void sft_sum_by_layer(struct sft *t); // adds the listener to t->hooks
bool sft_pass_begin(struct sft *t, bool works);
int sft_pass_end(struct sft *t, struct err *err);
// Sums the losses over the ranks; each rank passes 0 for other ranks' samples.
void sft_gather_losses(const struct sft *t, struct sft_losses *losses, int64_t count);
// For train.exact_sum: add the gradients of micro-batches one by one in their order, in float32, so
// that the sums have the same bits on all ranks, and with any number of ranks.
void sft_exact_begin(struct sft *t); // sets the sums of a step to 0
// Adds the gradients of `count` ranks, one micro-batch each.
void sft_exact_add(struct sft *t, int64_t count);
void sft_exact_end(struct sft *t); // replaces the gradients with the sums
// Frees the buffers of the sums.
void sft_sums_release(struct sft *t);

// sft_score.c. Sets t->plan.metric from train.score and the data.
void sft_score_choose(struct sft *t);
// Computes the metric's mean over the validation samples or, with evaluation sets, the mean of
// their scores; writes each set's score to of_set[SFT_SETS]. 0 or -1 (t->graph may be cancelled).
int sft_score(struct sft *t, double *score, double *of_set, struct err *err);

// sft_sets.c. Reads the sets of train.validation; *sets is empty if the setting names none.
int sft_sets_read(struct sft_sets *sets, const struct settings *s, struct err *err);
// Opens the sets' files; hex: SHA-256 over all of them.
int sft_sets_open(struct sft_sets *sets, char hex[HASH_HEX], struct err *err);
char *sft_sets_names(const struct sft_sets *sets); // "mean of pope, mmstar"
void sft_sets_release(struct sft_sets *sets);

#endif
