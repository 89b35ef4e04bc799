// core/eval/ask_job.h -- parses the options of /ask --data: for the command and the job `ask`.
#ifndef CORE_EVAL_ASK_JOB_H
#define CORE_EVAL_ASK_JOB_H

#include "core/eval/ask.h"

#define ASK_USAGE \
    "--data FILE --out FILE.jsonl [--images DIR] [--limit N] [--system TEXT] [--again]"

struct ask_options {
    const char *data, *out, *images, *system; // borrowed from argv; NULL: not given
    int64_t limit;
    bool again;
};

int ask_options_read(struct ask_options *o, int argc, char **argv, struct err *err);
bool ask_is_option(const char *word);
struct ask_request ask_options_request(const struct ask_options *o);

#endif
