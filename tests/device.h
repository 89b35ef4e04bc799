// tests/device.h -- the device that a test computes on: the CPU, or the one that $TEST_DEVICE names
// (tests/cuda/suites.bash runs the suites of the CPU on the GPU).
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "core/graph/device.h"

static inline const struct backend *test_device(void)
{
    struct err err;
    const char *name = getenv("TEST_DEVICE");
    const struct backend *b = device_find(name, &err);
    if (b && !err.text[0]) return b;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

#endif
