// tests/cuda/both.h -- the two devices of pair.h by name, for suites that call them one by one.
#ifndef TESTS_CUDA_BOTH_H
#define TESTS_CUDA_BOTH_H

#include "tests/cuda/pair.h"

static const struct backend *cpu, *gpu;

static inline int open_both(void **state)
{
    if (devices_open(state) < 0) return -1;
    cpu = devices[0];
    gpu = devices[1];
    return 0;
}

#define DONE(call) \
    if (call) fail_msg("%s: %s", #call, gpu->failure())

#endif
