// tests/cuda_host/work.h -- the interface between the emulated GPU and tests/cuda_ptx/, which runs
// kernels as nvcc compiled them.
#ifndef TESTS_CUDA_HOST_WORK_H
#define TESTS_CUDA_HOST_WORK_H

#include "cuda_runtime.h"

// An allocation that kernels of the current GPU may access. `*notes`: what tests/cuda_ptx/ records
// about it (from calloc), freed with the allocation.
struct cuda_host_region {
    char *begin;
    size_t size;
    void **notes;
};
std::vector<cuda_host_region> cuda_host_regions(void);

// Bulk copies to shared memory that kernels have begun, for tests.
extern long cuda_host_bulk_copies;
// Runs the PTX of a kernel.
void cuda_ptx_run(const cuda_host_work &work);
// Reports that cuBLASLt wrote a product to this memory.
void cuda_ptx_wrote(const void *begin, size_t size);
// Reports that all work before the next kernel has ended, even if that kernel starts early.
void cuda_ptx_waited(void);

#endif
