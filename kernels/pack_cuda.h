// kernels/pack_cuda.h -- loads and stores two-byte elements, and elements of f32, f16 or bf16.
#ifndef KERNELS_PACK_CUDA_H
#define KERNELS_PACK_CUDA_H

#include "kernels/cuda.h"

// Loads 16 bytes that are read only once; they bypass the first-level cache, which holds the
// activations.
__device__ inline uint4 load_once(const void *from)
{
#ifdef __CUDA_ARCH__
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
#else
    return *static_cast<const uint4 *>(from);
#endif
}

// An element of two bytes: f16 if HALF, else bf16.
template <bool HALF> __device__ inline float from_short(uint16_t x)
{
    return HALF ? from_f16(x) : from_bf16(x);
}

template <bool HALF> __device__ inline uint16_t to_short(float x)
{
    return HALF ? to_f16(x) : to_bf16(x);
}

struct alignas(8) four_shorts {
    uint16_t x, y, z, w;
};

template <bool HALF> __device__ inline struct four_shorts narrow4(float4 v)
{
    return { to_short<HALF>(v.x), to_short<HALF>(v.y), to_short<HALF>(v.z), to_short<HALF>(v.w) };
}

// Stores x as element i of an array of f32, f16 or bf16.
__device__ inline void put_number(void *data, int64_t i, float x, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        static_cast<float *>(data)[i] = x;
    else
        static_cast<uint16_t *>(data)[i] = dtype == DTYPE_F16 ? to_f16(x) : to_bf16(x);
}

template <bool HALF> struct shorts {
    uint16_t bits;
    __device__ float value() const
    {
        return from_short<HALF>(bits);
    }
};

static __device__ inline float value_of(float x)
{
    return x;
}

template <bool HALF> static __device__ inline float value_of(shorts<HALF> x)
{
    return x.value();
}

#endif
