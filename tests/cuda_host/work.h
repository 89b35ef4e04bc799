// tests/cuda_host/work.h -- the interface between the emulated GPU and tests/cuda_ptx/, which runs
// kernels as nvcc compiled them.
#ifndef TESTS_CUDA_HOST_WORK_H
#define TESTS_CUDA_HOST_WORK_H

#include "cuda_runtime.h"

// An allocation that a kernel of the GPU may touch; `notes` about it, from calloc, live with it.
struct cuda_host_region {
    char *begin;
    size_t size;
    void **notes;
};
std::vector<cuda_host_region> cuda_host_regions(void);

// tests/cuda_ptx/ runs a kernel; cuBLASLt wrote a product; all work before the next kernel has
// ended.
void cuda_ptx_run(const cuda_host_work &work);
void cuda_ptx_wrote(const void *begin, size_t size);
void cuda_ptx_waited(void);

#endif
