// core/eval/grid.h -- one grid for all that is computed under several conditions, and its runner.
//
// A cell is one combination of a model, a checkpoint (adapter), settings, a set of samples and a
// seed: settings name checkpoint and seed. A plan says what is computed in a cell. The runner loads
// each model once, goes from cell to cell, keeps what a job computes with its identity
// (core/jobs/identity.h, core/adapter/provenance.h), and reports progress over all cells. A resumed
// job continues behind what was kept, or says what has changed.
//
//   plan         cells                      in a cell                              kept
//   evaluate     one, or several            each sample is asked and scored        lines of the
//   state compare      two, side by side          each sample under one, then the other  lines of
//   the state ask          one                        an evaluation without a metric         lines
//   of --out calibrate    one                        each prompt adds to sums               a file
//   of the state collect      one                        a command rows of a CSV file checkpoints
//   one for each model or      a probe measures                       nothing
//                adapter of --checkpoint
//   sweep        one for each value         a training run                         a folder for
//   each
//
// (Training validates by evaluations: the plan of sweeps is in the room above, core/train/sweep.c.)
//
//   struct grid g = grid_of_job(j);                          // or of an engine, in the shell
//   g.self = &work;
//   grid_add(&g, "base A", settings)->set = set;             // for each combination
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
#include "core/base/event.h"
#include "core/base/pace.h"
#include "core/jobs/job_data.h"
#include "core/methods/method.h"

struct buf;
struct dataset;
struct eval_set;
struct ranks;
struct set_way;

// Samples: a data set, or an evaluation set as it is downloaded. Borrowed.
struct grid_set {
    const char *data, *images;   // images NULL: beside the data
    const struct eval_set *kind; // NULL: a data set
    const struct set_way *way;   // of the evaluation set
};

struct grid_cell {
    char *name;                // of a folder, file or series; NULL: there is only one
    const char *model;         // folder to load it from, borrowed; NULL: the job's or the engine's
    struct grid_set set;       // data NULL: none
    struct settings *settings; // with the checkpoint and the seed; owned
    char *why;                 // it failed; NULL: it did not
};

struct grid {
    struct job *job;       // NULL: in the shell
    struct engine *engine; // whose model and adapters the cells use; NULL: the job's
    const struct backend *backend;
    struct sinks *sinks;
    struct grid_cell *cells; // [count], owned
    size_t count;
    const char *reserved; // a name that no cell may have; NULL
    size_t groups, group; // of a job's ranks, and this rank's; groups 0: one
    void *self;           // the plan's

    // Of the cell that is open: its model, and the checkpoint's tensors for methods.
    const struct model *model;
    struct method_tensors tensors;
    struct model *loaded;     // for a cell that names one; NULL
    const char *loaded_from;  // as the cell names it
    struct adapters adapters; // of it, or of the job's model

    // Of the runner.
    bool together;
    FILE *state;                // what is kept of the cell; NULL: nothing
    size_t at, mine;            // cells of this group done, and all
    double begun, told;         // times: of the cell, of its last progress in the shell
    struct pace pace;           // of the cell
    int64_t number;             // reports so far, in earlier processes too: the index of the next
    struct event_progress last; // the end of group 0, told when the groups have met
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
// Adds a cell, which takes the settings. Its name is the given one (or NULL) with letters, digits
// and "+-._" only, and a number if another cell has it.
struct grid_cell *grid_add(struct grid *g, const char *name, struct settings *settings);
// 0 when every cell has been run, or failed alone. -1, JOB_STOPPED. Cells of one model, and of one
// checkpoint of it, are run one after the other.
int grid_run(struct grid *g, const struct grid_plan *plan, struct err *err);
// Takes the cells' checkpoint off the model.
void grid_release(struct grid *g);

// --- for plans -----------------------------------------------------------------------------------

// Opens a cell: loads its model, if it names one, and applies its checkpoint.
int grid_use(struct grid *g, size_t cell, struct err *err);
int grid_set_open(const struct grid_set *s, struct dataset *d, struct err *err);
int grid_set_check(const struct grid_set *s, struct err *err); // its beginning only
// Opens what a job keeps of the open cell, or of all cells of a plan that runs them together: lines
// of a file in its folder, which begins with the cell's name if it has one. `of` has no path and no
// provenance. Not in the shell and in other ranks than the first. -1: the cell has changed since.
int grid_keep(struct grid *g, size_t cell, const char *file, struct job_data of,
              job_data_take *take, void *self, struct err *err);
// Adds a line to it, and frees the line.
int grid_keep_line(struct grid *g, cJSON *line, struct err *err);
// Progress within the cell becomes that of all cells: of a job, or in the shell under that name, a
// few times a second.
void grid_progress(struct grid *g, const char *doing, double done, double all);
void grid_report(struct grid *g, struct event_progress p);
bool grid_stopped(const struct grid *g);
// For passes in the grid's cells.
const atomic_bool *grid_cancel(const struct grid *g);

// Samples in a row of one rank: they may show the same picture.
enum { GRID_IN_A_ROW = 4 };
// Does rank `number` of `ranks` compute this sample?
bool grid_deals(int64_t sample, int team, int number);
// Does a round end after this many samples?
bool grid_ends_round(int64_t samples, int team);
// Makes *kept the bytes of all ranks, rank 0's first.
void grid_gather(struct ranks *ranks, struct buf *kept);

#endif
