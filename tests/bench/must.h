// tests/bench/must.h -- ends a benchmark on any failure, and refuses to start with an instruction
// set other than the one that VLMSH_ISA names.
#ifndef TESTS_BENCH_MUST_H
#define TESTS_BENCH_MUST_H

#include <stdio.h>
#include <stdlib.h>

#include "core/base/err.h"
#include "core/engine/device.h"
#include "kernels/backend.h"

static inline void must(int status, const struct err *err)
{
    if (status == 0) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static __attribute__((constructor)) void check_isa(void)
{
    struct err err;
    must(device_check_isa(&err), &err);
}

#endif
