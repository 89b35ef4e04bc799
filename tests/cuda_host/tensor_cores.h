// tests/cuda_host/tensor_cores.h -- the tensor core operations of kernels/mma_cuda.h, on the host.
//
// An asynchronous copy arrives when its thread waits for it, not before: code that forgets to wait,
// or forgets the barrier for other threads, reads the old values. Addresses that are not a multiple
// of 16 end the program.
#ifndef TESTS_CUDA_HOST_TENSOR_CORES_H
#define TESTS_CUDA_HOST_TENSOR_CORES_H

#include <stdint.h>

void multiply(float c[4], const unsigned a[4], const unsigned b[2]);
void read_four(unsigned r[4], const uint16_t *row);
void read_four_transposed(unsigned r[4], const uint16_t *row);
void fetch(void *to, const void *from);
void fetch_wait(void);

#endif
