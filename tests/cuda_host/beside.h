// tests/cuda_host/beside.h -- a second stream of a GPU: copies that run in parallel with the
// kernels.
//
// They are made as late as allowed: when another stream or the host waits for them. This shows
// memory that kernels overwrite too early; data on the way to the GPU are NaNs until a stream that
// reads them has waited.
#ifndef TESTS_CUDA_HOST_BESIDE_H
#define TESTS_CUDA_HOST_BESIDE_H

#include <climits>
#include <deque>

#include "cuda_runtime.h"

struct cuda_host_beside;

// A copy; or with `other` a constraint: that stream's first `until` copies must have ended before
// the next task.
struct cuda_host_task {
    char *to;
    const char *from;
    size_t size;
    struct cuda_host_beside *other;
    long until;
};

struct cuda_host_beside {
    std::deque<cuda_host_task> tasks; // not done yet
    long asked, done;
};

void cuda_host_beside_copy(cuda_host_beside *b, void *to, const void *from, size_t size,
                           bool to_gpu);
void cuda_host_beside_order(cuda_host_beside *b, cuda_host_beside *other, long until);
// Makes the first copies, `until` in all.
void cuda_host_beside_end(cuda_host_beside *b, long until = LONG_MAX);

#endif
