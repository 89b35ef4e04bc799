// tests/cuda_host/copy_queue.h -- the queue of a GPU's second stream: copies that run in parallel
// with kernels.
//
// Each copy runs as late as allowed: when another stream or the host waits for it, or a later
// copy to the GPU is queued. This reveals memory that kernels overwrite too early. The destination
// of a copy to the GPU holds NaNs until a stream that reads it has waited.
#ifndef TESTS_CUDA_HOST_COPY_QUEUE_H
#define TESTS_CUDA_HOST_COPY_QUEUE_H

#include <climits>
#include <deque>

#include "cuda_runtime.h"

struct cuda_host_queue;

// A copy, or if `other` is set, a dependency: the next task runs only after the first `until` tasks
// of queue `other`.
struct cuda_host_task {
    char *to;
    const char *from;
    size_t size;
    struct cuda_host_queue *other;
    long until;
};

struct cuda_host_queue {
    std::deque<cuda_host_task> tasks; // pending
    long requested, done;             // counts of tasks
};

void cuda_host_queue_copy(cuda_host_queue *b, void *to, const void *from, size_t size, bool to_gpu);
void cuda_host_queue_order(cuda_host_queue *b, cuda_host_queue *other, long until);
// Runs pending tasks until the first `until` of all tasks are done.
void cuda_host_queue_run(cuda_host_queue *b, long until = LONG_MAX);

#endif
