// core/eval/ask.h -- answers every question of a data file: /ask --data, and the job `ask`.
//
//   const struct ask_request request = { .engine = e, .data = "questions.json",
//                                        .out = "answers.jsonl", .progress = tell, .self = me };
//   struct ask_report report;
//   if (ask_run(&request, &report, &err) < 0) ...
//
// Appends one JSON line per sample to `out`, durable once written, and skips samples that are
// already there (core/eval/ask_file.h). A broken sample becomes a line with "error". Each line
// records the model, adapter and settings (core/adapter/provenance.h) and the SHA-256 of its
// pictures. The engine's conversation is stashed meanwhile; front end and session database receive
// no events of the answers.
//
// Several ranks answer a few samples each, again and again; rank 0 writes the lines in the order of
// the samples, and has all of a report.
#ifndef CORE_EVAL_ASK_H
#define CORE_EVAL_ASK_H

#include "core/engine/engine.h"
#include "core/eval/cut.h"
#include "core/ranks/ranks.h"

struct ask_request {
    struct engine *engine; // with model and settings
    const char *data, *out;
    const char *images;  // folder of relative picture paths; NULL = that of data
    const char *system;  // for samples without a system message; NULL: none
    int64_t limit;       // number of new samples; 0 = all
    bool again;          // answers all samples again into a file beside `out`, which replaces it
                         // once complete
    bool resumed;        // a job that ran before: with `again`, its lines may be in `out`
    struct ranks *ranks; // NULL: this process alone
    // Called after each sample, with ranks in all of them after each round; false stops.
    bool (*progress)(void *self, struct pace *pace, int64_t step, int64_t steps);
    void *self;
};

struct ask_report {
    int64_t answered, failed; // new lines
    int64_t cut[CUTS];        // of them by what ended them too early
    int64_t there;            // samples that were already there
    size_t errors;            // of their lines
    struct err why;           // of the first new line with an error
    char *notices;            // of the data (core/data/notices.h), owned; NULL: none
    bool stopped;             // by `progress`, or because the engine was cancelled
    bool waits;               // with `again`: `out` is unchanged until all are answered
};

// -1 also when a setting changed during the run, or --out has errors alone: what was written
// stays.
int ask_run(const struct ask_request *r, struct ask_report *report, struct err *err);
void ask_report_release(struct ask_report *report);
// The name of the file that --again writes first; belongs to the caller.
char *ask_temporary(const char *out);
// "3 answered, 0 with errors, 2 already there: 'out'"; belongs to the caller.
char *ask_report_text(const struct ask_report *report, const char *out);

#endif
