// tests/bench/must.h -- a benchmark ends where something fails.
#ifndef TESTS_BENCH_MUST_H
#define TESTS_BENCH_MUST_H

#include <stdio.h>
#include <stdlib.h>

#include "core/base/err.h"

static inline void must(int status, const struct err *err)
{
    if (status == 0) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

#endif
