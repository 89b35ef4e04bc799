// kernels/bulk_cuda.h -- bulk copies from global to shared memory, and the mbarriers at which they
// complete, for code that is compiled for sm_90 or newer (cuda_ring() of kernels/cuda.h).
//
//   bulk_barrier_init(b, count)    one thread; bulk_barriers_ready() and __syncthreads() follow
//   bulk_expect(b, bytes)          arrives, and announces the bytes that copies will bring
//   bulk_copy(to, from, bytes, b)  addresses and size are multiples of 16
//   bulk_arrive(b)
//   bulk_wait(b, phase)            waits until phase number `phase` (only its parity counts) has
//                                  ended: `count` threads have arrived, and all announced bytes
//
// A phase begins when the one before it ends. A thread that has waited sees the copied bytes, and
// may overwrite, by later copies, what the arrived threads have read.
#ifndef KERNELS_BULK_CUDA_H
#define KERNELS_BULK_CUDA_H

#include "kernels/mma_cuda.h"

#ifdef __CUDACC__

static __device__ inline void bulk_barrier_init(uint64_t *b, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(shared_address(b)), "r"(count)
                 : "memory");
}

static __device__ inline void bulk_barriers_ready(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ inline void bulk_expect(uint64_t *b, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(b)), "r"(bytes)
                 : "memory");
}

static __device__ inline void bulk_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(b)) : "memory");
}

static __device__ inline void bulk_copy(void *to, const void *from, unsigned bytes, uint64_t *b)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];"
        :
        : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
          "r"(shared_address(b))
        : "memory");
}

static __device__ inline void bulk_wait(uint64_t *b, unsigned phase)
{
    unsigned ended;
    do {
        asm volatile("{\n\t.reg .pred %%ended;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 %%ended, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, %%ended;\n\t}"
                     : "=r"(ended)
                     : "r"(shared_address(b)), "r"(phase & 1)
                     : "memory");
    } while (!ended);
}

#else
#include "bulk_copies.h"
#endif

#endif
