// core/train/job.h -- a job: long work (training, evaluation, calibration) in a process of its own.
//
// A kind of job is one constant struct in core/train/NAME.c and a line X(NAME) in
// core/lists.h. The runner (sessions/job_run.h, `vlmsh job run ID`) reads what was asked
// for from the database, loads the model and calls run(), which tells everything by events and
// looks now and then whether to stop:
//
//   static int run(struct job *j, struct err *err)
//   {
//       int64_t step = 0;
//       if (j->resumed && load_checkpoint(..., &step, err) < 0) return -1;
//       job_rewind(j, step);                       // what was told of later steps is forgotten
//       for (; step < steps; step++) {
//           ... forward pass with job_hooks(j, &hooks) among its hooks ...
//           job_metric(j, "loss", step, loss);
//           job_progress(j, step + 1, steps, loss, eta_s);
//           job_step(j, step);                     // in the database from here on
//           const enum job_stop stop = job_stopped(j);
//           if (stop == JOB_PAUSE && save_checkpoint(..., err) < 0) return -1;
//           if (stop) return JOB_STOPPED;
//       }
//       job_result(j, "adapter", out);
//       return 0;
//   }
//   const struct job_kind job_kind_train = { .name = "train", .needs_model = true, .run = run };
//
// Relative paths in argv begin at the process's folder, which the runner has set. A message longer
// than the job needs no file of its own: EVENT_NOTICE is a line of the job's log.
//
// Room core/train/: training, evaluation, calibration and sweeps, as jobs. It uses engine, new,
// metrics and what they use.
#ifndef CORE_TRAIN_JOB_H
#define CORE_TRAIN_JOB_H

#include <stdatomic.h>

#include "core/base/event.h"
#include "core/graph/hooks.h"
#include "core/model/model.h"
#include "core/settings/settings.h"

// Why to stop now. In each case run() returns JOB_STOPPED.
enum job_stop {
    JOB_GO,     // not at all
    JOB_PAUSE,  // write a checkpoint: a resume goes on from it in another process
    JOB_CANCEL, // for good: what is on disk stays, nothing need be written
};

enum { JOB_STOPPED = 1 };

struct job {
    int64_t id;
    const struct job_kind *kind;
    int argc; // as typed behind the command, split: DATA OUT options
    char **argv;
    struct model *model;       // loaded by the runner, freed by it; NULL if !needs_model. The job
                               // may change it: nobody else uses it
    struct settings *settings; // those of the shell that started it, a copy of its own
    const struct backend *backend;
    struct sinks *sinks;
    bool resumed;      // it ran before: go on from the last checkpoint, if there is one
    const char *state; // a folder of its own beside the database, for what belongs nowhere else
    // Set when the job is to end at once (cancelled): for graph.cancel, which stops the pass at the
    // next layer. job_stopped says why.
    atomic_bool cancel;
    atomic_bool hurry; // asked to stop: no standing still any more
    // Of the runner: is there a reason to stop? NULL: never.
    enum job_stop (*ask)(struct job *j);
    // Of the runner, within a step, from any thread: sets `cancel` and `hurry` as was asked for.
    // NULL: nothing to look at.
    void (*look)(struct job *j);
    void *runner;
    int answering; // file that shells lock while they answer (job_breathe); -1 = none
};

// What a job told at its end: "best step", "12".
struct job_result {
    char *key, *value;
};

// A job that is done, for those who tell what came of it.
struct job_end {
    const struct job_result *results; // in the order in which they were told
    size_t count;
    double steps, loss; // of its last progress; NaN: unknown
};

struct job_kind {
    const char *name;  // "train"
    const char *usage; // "DATA.json OUT [--option ...]", for messages
    const char *help;  // one sentence
    bool needs_model;
    // Looks at the arguments in the shell, before there is a job: -1 with a message refuses them.
    // Must be quick. model is the shell's (NULL when none is loaded). May be NULL.
    int (*check)(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err);
    // 0: done. JOB_STOPPED: job_stopped said so. -1: failed with a message.
    int (*run)(struct job *j, struct err *err);
    // What came of it, on one line: "loss 0.25 after 40 steps; adapter in 'norms'". Belongs to the
    // caller; NULL: nothing to add to its being done. May be NULL.
    char *(*outcome)(const struct job_end *end);
    // What one line does not hold, as a table. May be NULL.
    void (*show)(const struct job_end *end, struct sinks *sinks);
};

const char *job_end_value(const struct job_end *end, const char *key); // NULL: it was not told

// All kinds, NULL behind the last; they live as long as the program.
void job_kinds_hand_over(const struct job_kind *const *all);
const struct job_kind *job_kind_at(int index); // NULL past the end
const struct job_kind *job_kind_find(const char *name);

// Call it as often as convenient, once a step at least: it looks at the request at most a few times
// a second.
enum job_stop job_stopped(struct job *j);

// Looks whether to end at once, a few times a second. Stands still while a shell with
// job.pause_while_answering answers; returns at once otherwise (two system calls) and when it is
// asked to stop. job_hooks calls it before every layer; training also on the way back.
void job_breathe(struct job *j);
void job_hooks(struct job *j, struct hooks *hooks);

// What a job tells.
void job_metric(struct job *j, const char *series, int64_t step, double value); // of this step
void job_step(struct job *j, int64_t step); // all of this step is told: kept from here on
// It goes on with this step: what was told of it and of later ones is forgotten.
void job_rewind(struct job *j, int64_t step);
// steps done of how many; loss and eta_s NaN when unknown.
void job_progress(struct job *j, double step, double steps, double loss, double eta_s);
void job_log(struct job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
// What `/job show` prints at the end: "best checkpoint", "score", "adapter"; a key once.
void job_result(struct job *j, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void job_score(struct job *j, const struct event_score *score);

#endif
