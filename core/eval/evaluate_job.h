// core/eval/evaluate_job.h -- parses the arguments of an evaluation: for /eval and the job.
//
//   struct evaluate_options o;
//   if (evaluate_options_read(&o, argc, argv, &err) < 0) ...
//   struct evaluate_request request = evaluate_options_request(&o);
//   request.model = ...                          // and data, settings, who is told
//   evaluate_options_release(&o);
#ifndef CORE_EVAL_EVALUATE_JOB_H
#define CORE_EVAL_EVALUATE_JOB_H

#include "core/eval/evaluate.h"
#include "core/sets/set.h"

#define EVALUATE_USAGE                                                                   \
    "DATA [--set NAME [--as SUITE] [--submit FILE [--force]]] [--metric M] [--limit N] " \
    "[--images DIR] [--kind K,...] [--answers FILE] [--thinking keep|strip]"

enum { EVALUATE_KINDS = 64 };

struct evaluate_options {
    const char *data, *images; // borrowed from argv
    const struct metric *metric;
    const struct eval_set *set; // NULL: DATA is a data set
    const struct set_way *way;  // of the set
    const char *suite, *submit; // as typed
    const char *answers;        // file of answers that are scored
    struct given *given;        // its contents, once DATA is open
    enum thinking thinking;     // of answers
    bool force;                 // --submit may replace a file that vlmsh did not write
    int64_t limit;
    char *kind_list; // cut into kinds
    const char *kinds[EVALUATE_KINDS];
    size_t kind_count;
};

int evaluate_options_read(struct evaluate_options *o, int argc, char **argv, struct err *err);
void evaluate_options_release(struct evaluate_options *o);
struct evaluate_request evaluate_options_request(const struct evaluate_options *o);
// Can DATA be read, and --submit's file be written? Looks at the beginning of DATA only: for the
// shell, before a job is started.
int evaluate_options_check(const struct evaluate_options *o, struct err *err);
// Can the file of --submit be written? After hours of answers it would be late to ask.
int evaluate_options_check_submission(const struct evaluate_options *o, struct err *err);
// Opens DATA, as an evaluation set if --set says which. With --answers reads all samples once, and
// calls `reading`, which may be NULL.
int evaluate_options_open(struct evaluate_options *o, struct dataset *data,
                          evaluate_reading *reading, void *self, struct err *err);
// What an evaluation set adds to a report: its name, the suite, prompt, answer length, source.
void evaluate_options_report(const struct evaluate_options *o, const struct settings *settings,
                             void (*put)(void *self, const char *key, const char *value),
                             void *self);

#endif
