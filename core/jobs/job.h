// core/jobs/job.h -- a job: long work (training, evaluation, calibration) in a separate process.
//
// A kind of job is one constant struct in the file of its subject and a line X(NAME) in
// core/lists.h. The runner (sessions/job_run.h, `vlmsh job run ID`) reads the request from the
// database, loads the model and calls run(), which reports through events and regularly checks
// whether to stop:
//
//   static int run(struct job *j, struct err *err)
//   {
//       int64_t step = 0;
//       if (j->resumed && load_checkpoint(..., &step, err) < 0) return -1;
//       job_rewind(j, step);                       // discards reports of later steps
//       for (; step < steps; step++) {
//           ... forward pass with job_hooks(j, &hooks) among its hooks ...
//           job_metric(j, "loss", step, loss);
//           job_progress(j, &pace, step + 1, steps, loss);
//           job_step(j, step);                     // stored in the database
//           const enum job_stop stop = job_stopped(j);
//           if (stop == JOB_PAUSE && save_checkpoint(..., err) < 0) return -1;
//           if (stop) return JOB_STOPPED;
//       }
//       job_result(j, "adapter", out);
//       return 0;
//   }
//   const struct job_kind job_kind_train = { .name = "train", .needs_model = true, .run = run };
//
// Paths in argv are relative to the process's working folder, which the runner sets. EVENT_NOTICE
// adds a line to the job's log; no other log file is needed.
//
// Room core/jobs/: kinds of jobs and their reports, state files, the identity of work that is
// resumed, and the memory of a process. Uses data, adapter, ranks and what they use.
#ifndef CORE_JOBS_JOB_H
#define CORE_JOBS_JOB_H

#include <stdatomic.h>

#include "core/base/event.h"
#include "core/base/options.h"
#include "core/base/pace.h"

// Options of every job, for the lists of options; the shell removes them from the arguments.
// clang-format off
#define JOB_OPTIONS                                                                     \
    { .name = "--ranks", .argument = "N" }, { .name = "--sbatch", .argument = "FILE" }, \
    { .name = "--submit" }
// clang-format on

struct hooks;

// Reasons to stop. In each case run() returns JOB_STOPPED.
enum job_stop {
    JOB_GO,     // none
    JOB_PAUSE,  // write a checkpoint: another process will resume from it
    JOB_CANCEL, // end without a checkpoint; files on disk stay
};

enum { JOB_STOPPED = 1 };

struct job {
    int64_t id;
    const struct job_kind *kind;
    int argc; // the arguments as typed, split into words: DATA OUT options
    char **argv;
    struct model *model; // loaded and freed by the runner; NULL if !needs_model. The job may change
                         // the model, which is not shared
    struct settings *settings; // a copy of the starting shell's settings
    const struct backend *backend;
    struct sinks *sinks;
    // The processes that share the work; NULL: only this process. All run the job; only rank 0
    // writes, and only rank 0 reports (but see report_part). A rank that fails or must stop ends
    // all ranks; job_agree gives all ranks the same answer.
    struct ranks *ranks;
    bool resumed;      // the job ran before: continue from the last checkpoint, if any
    const char *state; // the job's folder beside the database, for internal files
    // Setting this flag cancels the job at once: the job passes the flag's address as graph.cancel,
    // which stops the pass at the next layer. job_stopped gives the reason.
    atomic_bool cancel;
    atomic_bool stop_requested; // a stop was requested: job_yield no longer blocks
    // Set by the runner: returns the reason to stop. NULL: never stops.
    enum job_stop (*stop_reason)(struct job *j);
    // Set by the runner, for ranks that work in parts (ranks_part): the first rank of part 1, 2,
    // ... calls it once; from then on that rank's reports are stored, and the rank checks for a
    // reason to stop. NULL: no ranks.
    void (*report_part)(struct job *j, int part);
    // Set by the runner: its text says why reports can no longer be stored, or is empty. NULL:
    // reports are not stored.
    const struct err *write_error;
    // Set by the runner; called within a step, from any thread: sets `cancel` and `stop_requested`
    // on request. NULL: nothing to check.
    void (*poll)(struct job *j);
    void *runner;
    struct pace reading; // progress of reading long files outside the job's code
    int answer_lock;     // file that shells lock while they answer (job_yield); -1 = none
};

// A result of a job: "best step", "12".
struct job_result {
    char *key, *value;
};
struct job_results {
    struct job_result *list; // in the order of reporting
    size_t count;
};
// Adds a result; takes ownership of `value`.
void job_results_add(struct job_results *r, const char *key, char *value);
void job_results_free(struct job_result *results, size_t count);

// Results of a finished job, for `outcome` and `show`.
struct job_end {
    const struct job_result *results; // in the order of reporting
    size_t count;
    double steps, loss; // of the job's last progress event; NaN: unknown
};

struct job_kind {
    const char *name; // "train"
    bool needs_model;
    bool in_ranks;  // several ranks can share the work (job.ranks)
    bool in_layers; // ranks can split the layers (job.split): the job runs a conversation's passes
    bool submits;   // handles "--submit FILE" itself; "--submit" alone queues the job
    // Replaces settings that depend on the date with fixed values. May be NULL.
    void (*settle)(struct settings *settings, const struct model *model);
    // Checks the arguments in the shell, before the job is created: -1 with a message rejects them.
    // Must be fast. model is the shell's (NULL if none is loaded). May be NULL.
    int (*check)(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err);
    // 0: done. JOB_STOPPED: job_stopped was true. -1: failed with a message.
    int (*run)(struct job *j, struct err *err);
    // The outcome in one line: "loss 0.2500 after 40 steps; ...". The caller frees it;
    // NULL: nothing to add. May be NULL.
    char *(*outcome)(const struct job_end *end);
    // Shows tables after the outcome. May be NULL.
    void (*show)(const struct job_end *end, struct sinks *sinks);
};

// Returns true if the ranks of a job with these settings share the model's layers, not the samples.
bool job_splits_layers(const struct settings *s);

const char *job_end_value(const struct job_end *end, const char *key); // NULL: not reported

// Sets the list of all kinds: NULL-terminated, and valid as long as the program runs.
void job_kinds_register(const struct job_kind *const *all);
const struct job_kind *job_kind_find(const char *name);

// Lets the job cancel long file reads in this thread, and reports their progress
// (core/base/cancel.h), until cancel_unwatch(&j->cancel), or until an engine is created.
void job_watch(struct job *j);

// Returns the reason to stop. Call it often, at least once a step: it looks for a request at most a
// few times a second.
enum job_stop job_stopped(struct job *j);

// Returns rank 0's job_stopped on every rank; all ranks must call it at the same points.
enum job_stop job_agree(struct job *j);

// Checks a few times a second whether the job must end at once. Blocks while a shell with
// job.pause_while_answering answers; otherwise, or once a stop is requested, returns at once (after
// two system calls). job_hooks calls it before every layer, training also in the backward pass.
void job_yield(struct job *j);
void job_hooks(struct job *j, struct hooks *hooks);

// Reports of a job.
void job_metric(struct job *j, const char *series, int64_t step, double value); // for one step
void job_step(struct job *j, int64_t step); // ends the reports of this step, which are then stored
// Continues at this step: discards reports of this step and later ones.
void job_rewind(struct job *j, int64_t step);
// Reports progress: `step` of `steps`; loss NaN: unknown. `pace` estimates the time left.
void job_progress(struct job *j, struct pace *pace, double step, double steps, double loss);
void job_log(struct job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Results shown at the end of `/job show`: "best checkpoint", "score", "adapter"; each key once.
void job_result(struct job *j, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void job_score(struct job *j, const struct event_score *score);

#endif
