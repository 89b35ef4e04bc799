// core/eval/ask.h -- answers every question of a data file: /ask --data, and the job `ask`. A plan
// of a grid.
//
//   struct grid g = grid_of_engine(e);                 // its model and settings; a job sets g.job
//   struct ask_work w = { 0 };
//   if (ask_options_read(&w.options, argc, argv, &err) < 0) ...
//   g.self = &w;
//   grid_add(&g, NULL, settings)->set = w.options.set;
//   int status = grid_run(&g, &ask_plan, &err);        // w.report
//
// Appends one JSON line per sample to `out`, durable once written, and skips samples that are
// already there (core/eval/ask_file.h). A sample that cannot be answered becomes a line with
// "error". Each line records the model, adapter and settings (core/adapter/provenance.h) and the
// SHA-256 of its pictures. The engine's conversation is stashed meanwhile; front end and session
// database receive no events about the answers.
//
// Several ranks answer a few samples each, in rounds; rank 0 writes the lines in the order of the
// samples, and has the complete report.
#ifndef CORE_EVAL_ASK_H
#define CORE_EVAL_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/options.h"
#include "core/eval/evaluate.h"
#include "core/eval/grid.h"

#define ASK_USAGE \
    "--data FILE --out FILE.jsonl [--images DIR] [--limit N] [--system TEXT] [--again]"

// The options as typed; texts are borrowed from argv.
struct ask_options {
    struct set_source set;
    const char *out;
    const char *system; // for samples without a system message; NULL: none
    int64_t limit;      // number of new samples; 0 = all
    bool again;         // answers all samples again into a file beside `out`, which replaces it
                        // once complete
};

extern const struct option_row ask_rows[];
int ask_options_read(struct ask_options *o, int argc, char **argv, struct err *err);
bool ask_is_option(const char *word);

struct ask_report {
    int64_t answered, failed; // new lines
    int64_t cut[CUTS];        // number of answers that each limit ended
    int64_t there;            // samples already in `out`
    size_t errors;            // how many of these have a line with an error
    struct err why;           // error of the first new line that has one
    char *notices;            // of the data (core/data/notices.h), owned; NULL: none
    bool stopped;             // the job was stopped, or the engine cancelled
    bool waits; // with `again`: some samples have no new answer yet, so `out` is unchanged
};

struct ask_work {
    struct ask_options options;
    struct ask_report report; // set by the run
};
// A run fails if a setting changes during it, or if every line of --out is an error; lines that are
// already written stay.
extern const struct grid_plan ask_plan;
void ask_report_release(struct ask_report *report);
// Returns the name of the file that --again writes first; the caller frees it.
char *ask_temporary(const char *out);
// Returns "3 answered, 0 with errors, 2 already there: 'out'"; the caller frees it.
char *ask_report_text(const struct ask_report *report, const char *out);

#endif
