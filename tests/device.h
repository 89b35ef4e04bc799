// tests/device.h -- the device that a test computes on: the CPU, or the one that $TEST_DEVICE names
// (tests/cuda/suites.bash runs the CPU's suites on the GPU). If a test must skip checks on that
// device, it reports them in a line that tests/run.sh shows and counts.
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/engine/device.h"
#include "kernels/backend.h"

static inline const struct backend *test_device(void)
{
    struct err err;
    const char *name = getenv("TEST_DEVICE");
    const struct backend *b = device_check_isa(&err) < 0 ? NULL : device_find(name, &err);
    if (b && !err.text[0]) return b;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

// The CPU's instruction sets; NULL for a set that this CPU lacks, which each program reports once.
enum { TEST_ISAS = 4 };
static inline const struct backend *test_isa(int i)
{
    static const char *const names[TEST_ISAS] = { "base", "avx2", "avx512", "amx" };
    static bool said[TEST_ISAS];
    const struct backend *b = backend_cpu_isa(names[i]);
    if (!b && !said[i]) printf("SKIPPED: this CPU has no %s: its kernels\n", names[i]);
    said[i] = !b;
    return b;
}

// True if the device multiplies a few rows with quantised weights as 16-bit integers
// (kernels/blocks_dot_avx2.h), which are less precise than f32 sums.
static inline bool test_in_16_bits(const struct backend *b)
{
    return strstr(b->describe(), "avx2");
}

// True if the device has bf16 products, which a test of `what` needs; otherwise reports the test as
// skipped.
static inline bool test_multiplies_bf16(const char *what)
{
    const bool can = backend_multiplies_bf16(test_device());
    if (!can) printf("SKIPPED: this device does not multiply bf16: %s\n", what);
    return can;
}

#endif
