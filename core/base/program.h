// core/base/program.h -- runs another program and reads its output.
//
//   char *const argv[] = { "squeue", "--noheader", NULL };
//   struct buf out = { 0 };
//   int status = program_run(&(struct program){ .argv = argv, .patience_s = 20, .most = 1 << 20 },
//   &out, err);
#ifndef CORE_BASE_PROGRAM_H
#define CORE_BASE_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "core/base/mem.h"

enum { PROGRAM_MISSING = 127 }; // the status that shells use for a program that is not found

struct program {
    char *const *argv;         // searches PATH for argv[0]
    double patience_s;         // kills it after that time
    size_t most;               // bytes of output kept; the rest is read and dropped
    bool errors;               // keeps stderr too
    const atomic_bool *cancel; // kills it once true; NULL: cannot be cancelled
};

// Runs a program, returns its exit status (PROGRAM_MISSING also if it is not found or cannot be
// executed) and appends its output to *out. Its standard input is empty, and Ctrl-C in the terminal
// does not interrupt it. Returns -1 if there were too few resources to start it, if it timed out,
// or if it was cancelled or killed.
int program_run(const struct program *p, struct buf *out, struct err *err);

#endif
