// core/base/program.h -- runs another program and reads what it writes.
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

enum { PROGRAM_MISSING = 127 }; // it cannot be started, as shells say it

struct program {
    char *const *argv;         // argv[0] is looked for in PATH
    double patience_s;         // then it is killed
    size_t most;               // bytes kept of what it writes; the rest is read and dropped
    bool errors;               // keeps what it writes to stderr, too
    const atomic_bool *cancel; // kills it; NULL: nothing does
};

// Its exit status, with what it wrote added to *out; it reads nothing, and a Ctrl-C of the terminal
// does not reach it. -1: it did not end by itself, and err says why.
int program_run(const struct program *p, struct buf *out, struct err *err);

#endif
