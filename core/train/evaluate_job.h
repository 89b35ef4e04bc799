// core/train/evaluate_job.h -- parses the arguments of an evaluation: for /eval and the job.
//
//   struct evaluate_options o;
//   if (evaluate_options_read(&o, argc, argv, &err) < 0) ...
//   struct evaluate_request request = evaluate_options_request(&o);
//   request.model = ...                          // and data, settings, who is told
//   evaluate_options_release(&o);
#ifndef CORE_TRAIN_EVALUATE_JOB_H
#define CORE_TRAIN_EVALUATE_JOB_H

#include "core/train/evaluate.h"

#define EVALUATE_USAGE "DATA [--metric M] [--limit N] [--images DIR] [--kind K,...]"

enum { EVALUATE_KINDS = 64 };

struct evaluate_options {
    const char *data, *images; // borrowed from argv
    const struct metric *metric;
    int64_t limit;
    char *kind_list; // cut into kinds
    const char *kinds[EVALUATE_KINDS];
    size_t kind_count;
};

int evaluate_options_read(struct evaluate_options *o, int argc, char **argv, struct err *err);
void evaluate_options_release(struct evaluate_options *o);
struct evaluate_request evaluate_options_request(const struct evaluate_options *o);

#endif
