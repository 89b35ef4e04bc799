// core/eval/grid.h -- one grid for what is measured under several conditions, and its one runner.
//
// A cell is one combination of conditions: settings, which name the checkpoint (adapter) and the
// seed, for the model and the set of the grid. A plan says what is done in a cell. What a cell came
// to is kept while it is computed, with the cell's identity (core/jobs/identity.h,
// core/adapter/provenance.h): a run that goes on another day continues behind it, or says what has
// changed.
//
//   plan       cells               in a cell                              kept
//   evaluate   one                 each sample is asked and scored        lines of the job's state
//   ask        one                 an evaluation without a metric         lines of --out
//   compare    two, side by side   each sample under one, then the other  lines of the job's state
//   calibrate  one                 each prompt adds to sums               a file of the job's state
//   sweep      one for each value  a training run                         a folder for each
//   collect    one                 a command                              rows of a CSV file
//
//   struct grid g = grid_of_job(j);                          // or of an engine, in the shell
//   g.self = &work;
//   grid_add(&g, "A", settings);
//   int status = grid_run(&g, &plan, &err);
//   grid_release(&g);
//
// The samples of a cell are dealt to the ranks of a job in rounds, at whose end each has all
// results, in the order of the samples. Cells are dealt to groups of ranks.
#ifndef CORE_EVAL_GRID_H
#define CORE_EVAL_GRID_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/adapter/adapters.h"
#include "core/base/err.h"
#include "core/jobs/job_data.h"

struct buf;
struct ranks;

struct grid_cell {
    char *name;                // in reports and folders; NULL: there is only one
    struct settings *settings; // with the checkpoint and the seed
    char *why;                 // it failed; NULL: it did not
};

struct grid {
    const struct model *model;
    const struct backend *backend;
    struct job *job;          // NULL: in the shell
    struct engine *engine;    // whose model and adapters the cells use; NULL: the job's model, and
    struct adapters adapters; // these
    struct grid_cell *cells;  // [count], owned
    size_t count;
    size_t groups, group; // of a job's ranks, and this rank's; groups 0: one
    void *self;           // the plan's
};

struct grid_plan {
    // 1: an earlier run has kept all of the cell, which is then not run. NULL: run() finds out.
    int (*kept)(struct grid *g, size_t cell, struct err *err);
    // Continues what was kept of the cell, computes and keeps the rest. JOB_STOPPED: stopped before
    // its end.
    int (*run)(struct grid *g, size_t cell, struct err *err);
    // After a failure: would the next cell fail as well? NULL: yes. Otherwise cell.why says why
    // this one did, and the others are run.
    bool (*broken)(const struct grid *g);
    bool together; // run() is called once, for all cells: it goes from one to the other (grid_use)
};

struct grid grid_of_job(struct job *j);
struct grid grid_of_engine(struct engine *e);
// Copies the name (or NULL) and takes the settings.
void grid_add(struct grid *g, const char *name, struct settings *settings);
// Opens a cell: applies its checkpoint to the model, and gives its tensors for methods.
int grid_use(struct grid *g, size_t cell, struct method_tensors *tensors, struct err *err);
// For passes in the grid's cells.
const atomic_bool *grid_cancel(const struct grid *g);
// Opens a file of the job's folder for what is kept of its cells (`of` without path and
// provenance). NULL: they have changed since.
FILE *grid_keep(struct grid *g, const char *file, struct job_data of, job_data_take *take,
                void *self, struct err *err);
// 0 when every cell has been run, or failed alone. -1, JOB_STOPPED.
int grid_run(struct grid *g, const struct grid_plan *plan, struct err *err);
// Takes the cells' checkpoint off the model.
void grid_release(struct grid *g);

// --- rounds --------------------------------------------------------------------------------------

// Samples in a row of one rank: they may show the same picture.
enum { GRID_IN_A_ROW = 4 };
// Does rank `number` of `ranks` compute this sample?
bool grid_deals(int64_t sample, int team, int number);
// Does a round end after this many samples?
bool grid_ends_round(int64_t samples, int team);
// Makes *kept the bytes of all ranks, rank 0's first.
void grid_gather(struct ranks *ranks, struct buf *kept);

#endif
