// core/eval/evaluate_job.h -- an evaluation as a plan of a grid: for /eval and the job.
//
//   struct grid g = grid_of_engine(e);
//   struct evaluate_work w = { .report = report, .self = me };   // for several cells: an array
//   if (evaluate_options_read(&w.options, argc, argv, &err) < 0) ...
//   g.self = &w;
//   grid_add(&g, NULL, settings)->set = w.options.set;
//   int status = grid_run(&g, &evaluate_plan, &err);
//   ... w.result ...
//   evaluate_work_release(&w);
//   grid_release(&g);
#ifndef CORE_EVAL_EVALUATE_JOB_H
#define CORE_EVAL_EVALUATE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/names.h"
#include "core/base/options.h"
#include "core/data/dataset.h"
#include "core/data/notices.h"
#include "core/eval/evaluate.h"
#include "core/eval/grid.h"
#include "core/metrics/suite.h"

struct settings;

#define EVALUATE_USAGE                                                                       \
    "DATA [--set NAME [--rule SUITE] [--columns NAME=COLUMN,...] [--submit FILE] "           \
    "[--export-predictions SUITE[:FILE]] [--force]] [--metric M] [--limit N] "               \
    "[--images DIR] [--shots FILE] [--kind K,...] [--answers FILE] [--thinking keep|strip] " \
    "[--expect NAME>=X,...]"

struct evaluate_options {
    struct set_source set; // texts borrowed from argv
    const struct metric *metric;
    const char *submit;      // as typed
    const char *predictions; // SUITE[:FILE] as typed; NULL: not exported
    char *predictions_suite, *predictions_file;
    const char *answers;             // file with the answers to score
    struct answer_file *answer_file; // its contents, once DATA is open
    enum thinking thinking;          // of answers
    bool force;                      // --submit may replace a file that vlmsh did not write
    int64_t limit;
    struct names kinds;
    struct names expected; // --expect
};

// The options of a data set and its scores, for commands whose struct begins with struct
// evaluate_options.
#define EVALUATE_DATA_OPTIONS                                                                     \
    SET_SOURCE_OPTIONS(struct evaluate_options, set,                                              \
                       "treats the data as the downloaded files of an evaluation set (/help "     \
                       "sets) and uses its prompt, answer length, rule and totals"),              \
        { "--metric", "M",                                                                        \
          "metric of all samples (default: each sample's \"metric\", otherwise loss); /help "     \
          "metrics lists them. loglik: if the reference names one of the \"choices\" by number "  \
          "or letter, the prompt lists the choices as \"A. ...\" and ends with \"Answer:\", and " \
          "the letters are ranked (MMLU)",                                                        \
          .take = evaluate_take_metric },                                                         \
        { "--limit",                                                                              \
          "N",                                                                                    \
          "only the first N samples",                                                             \
          OPTION_WHOLE,                                                                           \
          .at = offsetof(struct evaluate_options, limit),                                         \
          1,                                                                                      \
          INT64_MAX },                                                                            \
        { "--images", "DIR",                                                                      \
          "base folder for relative picture paths, or a ZIP archive (default: the folder of the " \
          "data)",                                                                                \
          OPTION_TEXT, .at = offsetof(struct evaluate_options, set.images) },                     \
    {                                                                                             \
        "--shots", "FILE",                                                                        \
            "few-shot examples: questions with answers, in any data set format, with or without " \
            "pictures, in front of every sample; they are not scored",                            \
            OPTION_TEXT, .at = offsetof(struct evaluate_options, set.shots)                       \
    }
int evaluate_take_metric(void *self, const char *value, struct err *err);
extern const struct option_row evaluate_rows[];
extern const struct option_row calibrate_rows[]; // of the job `calibrate` (core/eval/calibrate.c)
int evaluate_options_read(struct evaluate_options *o, int argc, char **argv, struct err *err);
// Checks the conditions of --expect; r NULL: checks only their syntax. Returns -1 with a message
// that names the condition that does not hold.
int evaluate_expect(const struct evaluate_options *o, const struct job_results *r, struct err *err);
void evaluate_options_release(struct evaluate_options *o);
// Checks that DATA and the file of --answers can be read, and that the output files can be written.
// Reads only the beginning of the data: for the shell, before a job is started.
int evaluate_options_check(const struct evaluate_options *o, struct err *err);
// Adds the files of --answers and --shots to a report and, for an evaluation set, its name, suite,
// prompt, answer length and source.
void evaluate_options_report(const struct evaluate_options *o, const struct settings *settings,
                             struct job_results *to);

struct evaluate_work {
    struct evaluate_options options;
    // Called with each question, scored or skipped, and each skipped sample.
    void (*report)(struct evaluate_work *w, const struct evaluated *e);
    // Called with each kept score; NULL: not needed.
    void (*take)(struct evaluate_work *w, const struct evaluated *e);
    void *self; // for the callbacks
    struct evaluation result;

    struct grid *grid;
    struct dataset data;
    struct submission *submission;  // answers for --submit; NULL: not requested
    struct submission *predictions; // as generated, for --export-predictions; NULL: not requested
    struct data_notices notices;
    int64_t first;    // number of samples that earlier processes evaluated
    int64_t pictured; // number (from 1) of the last sample whose pictures were written
    int64_t marred; // number of the last kept sample counted as skipped, so that it is counted once
    bool stopped;   // stopped while matching a file's answers
    struct err lost; // why the state cannot be written
};
// A job keeps a line for each question. Unless the cell is complete, the last sample of an earlier
// process is asked again.
extern const struct grid_plan evaluate_plan;
// Does the plan's work in one cell, for plans whose g->self is not an array of evaluate_work.
int evaluate_cell(struct grid *g, size_t cell, struct evaluate_work *w, struct err *err);
extern const char evaluate_kept[]; // name of the cell's kept lines (grid_kept_file)
// Reads the totals and scores of kept lines; compares nothing. w->options are the cell's.
int evaluate_work_read(struct evaluate_work *w, const char *kept, struct err *err);
// Adds the model's fingerprint, the adapter and the settings that differ from the defaults and
// affect scores, so that a result of a set can be cited. `settings`: of the run.
void evaluate_work_report(const struct evaluate_work *w, const struct settings *settings,
                          struct job_results *to);
// Writes the files of --submit and --export-predictions, if requested.
int evaluate_work_submit(const struct evaluate_work *w, struct err *err);
void evaluate_work_release(struct evaluate_work *w);

#endif
