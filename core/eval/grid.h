// core/eval/grid.h -- a grid: one computation under several conditions; and the runner of grids.
//
// A cell is one combination of a model, a checkpoint (adapter), settings, a set of samples and a
// seed; its settings name the checkpoint and the seed. A plan computes one cell. The runner loads
// each model once, goes from cell to cell, keeps a job's lines with their identity
// (core/jobs/identity.h, core/adapter/provenance.h), and reports progress over all cells. A resumed
// job continues after the kept lines of a cell; if the cell differs now, it fails and names the
// difference (grid_plan.broken: whether the other cells run).
//
//   plan       cells               work in a cell                         kept as
//   evaluate   one or more         asks and scores each sample            lines of the job's state
//   compare    two, side by side   asks each sample in A, then in B       lines of the job's state
//   ask        one                 an evaluation without a metric         lines of --out
//   calibrate  one                 adds each prompt to sums               a file of the job's state
//   collect    one                 a command                              rows of a CSV file
//   sweep      one for each value  a training run                         a folder for each value
//   scores     rows x sets         an evaluation (core/eval/score_job.c)  a file for each cell
//   measure    one for each row    a probe (core/eval/conditions.c)       nothing
//
// (core/train/sweep.c has the plan of sweeps, because training uses evaluations for validation.)
//
//   struct grid g = grid_of_job(j);                          // or of an engine, in the shell
//   g.self = &work;
//   grid_add(&g, "base A", settings)->set = set;             // for each combination
//   int status = grid_run(&g, &plan, &err);
//   grid_release(&g);
//
// The ranks of a job share the samples of a cell in rounds: at the end of a round each rank has all
// results, in the order of the samples. Groups of ranks share the cells.
#ifndef CORE_EVAL_GRID_H
#define CORE_EVAL_GRID_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/adapter/adapters.h"
#include "core/base/err.h"
#include "core/base/event.h"
#include "core/base/pace.h"
#include "core/jobs/job_data.h"
#include "core/methods/method.h"
#include "core/sets/source.h"

struct buf;
struct ranks;

struct grid_cell {
    char *name;                // names its folder, file or series; NULL: the only cell
    const char *model;         // folder to load it from, borrowed; NULL: the job's or the engine's
    struct set_source set;     // borrowed; data NULL: none
    struct settings *settings; // with the checkpoint and the seed; owned
    char *why;                 // error of a failed cell; NULL: none
};

struct grid {
    struct job *job;       // NULL: in the shell
    struct engine *engine; // whose model and adapters the cells use; NULL: the job's
    const struct backend *backend;
    struct sinks *sinks;
    struct grid_cell *cells; // [count], owned
    size_t count;
    const char *const *reserved; // names that no cell may have, ended by NULL; NULL: none
    const char *folder;   // of the kept lines, which other jobs continue; NULL: the job's own
    size_t groups, group; // number of groups of the job's ranks (0: one); this rank's group
    void *self;           // argument of the plan's functions

    // The open cell's model, and its checkpoint's tensors for methods.
    const struct model *model;
    struct method_tensors tensors;
    struct model *loaded;     // the open cell's model, if the cell names one; else NULL
    const char *loaded_from;  // `model` of that cell
    struct adapters adapters; // of the loaded model, or of the job's

    // Used by the runner.
    bool together;
    FILE *state;            // the kept lines of the open cell; NULL: none
    size_t at, mine;        // number of this group's finished cells, and of all its cells
    double begun, reported; // times: start of the cell; last progress report in the shell
    struct pace pace;       // of the cell
    // Set by run() before it fails, if the group's other ranks do not wait for this one any more.
    bool in_step;
    int64_t number;             // number of reports so far, including those of earlier processes
    struct event_progress last; // of group 0, emitted once all groups have finished
};

struct grid_plan {
    // Returns 1 if an earlier run has computed the cell, which is then skipped. NULL: run() checks.
    int (*kept)(struct grid *g, size_t cell, struct err *err);
    // Computes and keeps the part of the cell that is not kept yet. Returns JOB_STOPPED if the job
    // was stopped.
    int (*run)(struct grid *g, size_t cell, struct err *err);
    // Called after a failure: returns true if the next cell would fail too. NULL: always true. If
    // it returns false, cell.why receives the error, and the run continues with the next cell; with
    // several ranks in the group, only if they are in step.
    bool (*broken)(const struct grid *g);
    bool together; // run() computes all cells at once, and switches between them (grid_use)
};

struct grid grid_of_job(struct job *j);
struct grid grid_of_engine(struct engine *e);
// Adds a cell, which owns the settings from then on. The cell's name is `name` (or NULL), cut to 60
// bytes, with "_" for a leading dot and for characters other than letters, digits and "+-._", and
// with a number if another cell has that name or it is reserved.
struct grid_cell *grid_add(struct grid *g, const char *name, struct settings *settings);
// Runs the cells, grouped by model, then by checkpoint. Returns 0 even if single cells failed; -1
// on an error of the whole grid; or JOB_STOPPED.
int grid_run(struct grid *g, const struct grid_plan *plan, struct err *err);
// Restores the adapter of the engine's settings, and frees the cells and the loaded model.
void grid_release(struct grid *g);

// --- for plans -----------------------------------------------------------------------------------

// Opens a cell: loads its model, if it names one, and applies its checkpoint.
int grid_use(struct grid *g, size_t cell, struct err *err);
// Opens the kept lines of the open cell, or of all cells of a plan that runs them together. They
// are in g->folder or the job's state folder, in `file` with the cell's name, if any, as a prefix.
// The caller leaves path and provenance of `of` empty. Does nothing in the shell and in ranks other
// than the first. -1 also if the cell has changed since the lines were written.
int grid_keep(struct grid *g, size_t cell, const char *file, struct job_data of,
              job_data_take *take, void *self, struct err *err);
// Returns the path of a cell's kept lines; the caller frees it.
char *grid_kept_file(const struct grid *g, size_t cell, const char *file);
// Adds a line to the kept lines of the open cell, and frees it.
int grid_keep_line(struct grid *g, cJSON *line, struct err *err);
// Makes the outcome of a step of the open cell the same on all ranks of the group (ranks_agree).
int grid_agree(struct grid *g, int status, struct err *err);
// Reports progress over all cells, computed from the open cell's `done` of `all`. In the shell
// reports it as `doing`, a few times a second.
void grid_progress(struct grid *g, const char *doing, double done, double all);
void grid_report(struct grid *g, struct event_progress p);
bool grid_stopped(const struct grid *g);
// Returns the cancel flag for passes in the grid's cells.
const atomic_bool *grid_cancel(const struct grid *g);

// Number of consecutive samples that one rank computes, because they may show the same picture.
enum { GRID_IN_A_ROW = 4 };
// Returns true if member `number` of a team (the ranks of a job, or the flights of a rank) computes
// this sample.
bool grid_computes(int64_t sample, int team, int number);
// Returns true if a round ends after this many samples.
bool grid_ends_round(int64_t samples, int team);
// Replaces *kept with the bytes of all ranks, in the order of the ranks.
void grid_gather(struct ranks *ranks, struct buf *kept);

#endif
