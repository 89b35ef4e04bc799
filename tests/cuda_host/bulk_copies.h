// tests/cuda_host/bulk_copies.h -- the bulk copies and mbarriers of kernels/bulk_cuda.h, on the
// host.
//
// A copy arrives when a thread waits for its phase or the next phase begins, not before: code that
// forgets to wait reads the old values. Like tests/cuda_ptx/, this ends the program with a message
// for addresses or sizes that are not multiples of 16, copies that bring more bytes than announced,
// an mbarrier that is not initialised, and too many arrivals; if threads wait for bytes or arrivals
// that never come, the report of the hang names them. Only tests/cuda_ptx/ knows which thread still
// reads.
#ifndef TESTS_CUDA_HOST_BULK_COPIES_H
#define TESTS_CUDA_HOST_BULK_COPIES_H

#include <stdint.h>

void bulk_barrier_init(uint64_t *b, unsigned count);
void bulk_expect(uint64_t *b, unsigned bytes);
void bulk_arrive(uint64_t *b);
void bulk_copy(void *to, const void *from, unsigned bytes, uint64_t *b);
void bulk_wait(uint64_t *b, unsigned phase);

static inline void bulk_barriers_ready(void)
{
}

#endif
