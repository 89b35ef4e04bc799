// kernels/mma_cuda.h -- tensor cores: a warp multiplies small bf16 tiles, sums the products in f32,
// and loads tiles from memory to shared memory and from there to registers.
//
//   multiply(c, a, b)        c[16,8] += a[16,16] b[16,8]      (mma.sync.m16n8k16)
//
// A tile is spread over the 32 lanes of a warp. With g = lane / 4 and t = lane % 4, a lane holds
//   a[0] (g, 2t..2t+1)   a[1] (g+8, 2t..2t+1)   a[2] (g, 2t+8..2t+9)   a[3] (g+8, 2t+8..2t+9)
//   b[0] (2t..2t+1, g)   b[1] (2t+8..2t+9, g)
//   c[0], c[1] (g, 2t..2t+1)   c[2], c[3] (g+8, 2t..2t+1)
// as (row, column); a register of a or b holds two bf16, the lower half first; each c[i] is one f32
// (PTX ISA, "Matrix Fragments for mma.m16n8k16"). So two adjacent tiles c, rounded, form the tile a
// of the next product. This makes attention possible without a round trip through memory.
//
//   read_four(r, row)        four 8x8 tiles from shared memory (ldmatrix.x4): lane l passes row
//                            l % 8 of tile l / 8; r[i] = (g, 2t..2t+1) of tile i
//   read_four_transposed(r, row)
//                            like read_four, with each tile transposed: r[i] = (2t..2t+1, g)
//
// read_four reads a from [rows,K], and b from [columns,K], whose rows are the columns of b;
// read_four_transposed reads b from [K,columns].
//
//   fetch(to, from)          copies 16 bytes from memory to shared memory asynchronously
//   fetch_wait()             waits for the calling thread's copies; to wait for those of other
//                            threads, a barrier must follow
//
// tests/cuda_host/tensor_cores.h has twins of these functions for tests without a GPU.
#ifndef KERNELS_MMA_CUDA_H
#define KERNELS_MMA_CUDA_H

#include "kernels/cuda.h"

static constexpr int SIXTEEN = 16; // rows of a, columns of a, rows of b

#ifdef __CUDACC__

#define ROLLED _Pragma("unroll 1")

static __device__ inline void multiply(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ inline unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ inline void read_four(unsigned r[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

static __device__ inline void read_four_transposed(unsigned r[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Caches in the second level only, because other blocks read the same tiles.
static __device__ inline void fetch(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from))
                 : "memory");
}

static __device__ inline void fetch_wait(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Rounds two elements to the nearest bf16, ties to even; `low` is in the lower half.
static __device__ inline unsigned pack(float low, float high)
{
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// Like pack, for f16; never infinite.
static __device__ inline unsigned pack_half(float low, float high)
{
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(within_f16(high)), "f"(within_f16(low)));
    return both;
}

// 2^x, with an error of at most two units in the last place; 0 for -infinity.
static __device__ inline float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else
#define ROLLED
#include "tensor_cores.h"

static inline unsigned pack(float low, float high)
{
    return to_bf16(low) | (unsigned)to_bf16(high) << 16;
}

static inline unsigned pack_half(float low, float high)
{
    return to_f16(low) | (unsigned)to_f16(high) << 16;
}

static inline float power_of_two(float x)
{
    return exp2f(x);
}
#endif

#endif
