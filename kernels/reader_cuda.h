// kernels/reader_cuda.h -- how a lane reads weights of any dtype: COUNT elements of a row at a
// time, which are 16 bytes of f32, bf16 or f16, or eight elements of a block.
//
//   const auto some = reader<T>::load(row, i); // starts loading elements i.. of the row; `staged`
//                                              // loads them from shared memory
//   float x[reader<T>::COUNT];
//   reader<T>::widen(x, some);
#ifndef KERNELS_READER_CUDA_H
#define KERNELS_READER_CUDA_H

#include "kernels/blocks_cuda.h"
#include "kernels/pack_cuda.h"

// For blocks of type T, each of NUMBERS elements.
template <typename T> struct reader {
    using raw = struct eight;
    static constexpr int COUNT = 8, NUMBERS = block_numbers<T>;
    static __device__ raw load(const T *row, int64_t i)
    {
        return eight_of(row + i / NUMBERS, (int)(i % NUMBERS));
    }
    static __device__ raw staged(const T *row, int64_t i)
    {
        return load(row, i);
    }
    static __device__ void widen(float x[COUNT], const raw &some)
    {
        widen_eight(x, some);
    }
};

template <> struct reader<float> {
    using raw = uint4;
    static constexpr int COUNT = 4, NUMBERS = 1;
    static __device__ raw load(const float *row, int64_t i)
    {
        return load_once(row + i);
    }
    static __device__ raw staged(const float *row, int64_t i)
    {
        return *reinterpret_cast<const uint4 *>(row + i);
    }
    static __device__ void widen(float x[COUNT], const raw &v)
    {
        x[0] = __uint_as_float(v.x), x[1] = __uint_as_float(v.y);
        x[2] = __uint_as_float(v.z), x[3] = __uint_as_float(v.w);
    }
};

template <bool HALF> struct reader<shorts<HALF>> {
    using raw = uint4;
    static constexpr int COUNT = 8, NUMBERS = 1;
    static __device__ raw load(const shorts<HALF> *row, int64_t i)
    {
        return load_once(row + i);
    }
    static __device__ raw staged(const shorts<HALF> *row, int64_t i)
    {
        return *reinterpret_cast<const uint4 *>(row + i);
    }
    static __device__ void widen(float x[COUNT], const raw &v)
    {
        const unsigned part[4] = { v.x, v.y, v.z, v.w };
        UNROLL
        for (int i = 0; i < 4; i++) {
            x[2 * i] =
                HALF ? from_f16((uint16_t)(part[i] & 0xffff)) : __uint_as_float(part[i] << 16);
            x[2 * i + 1] =
                HALF ? from_f16((uint16_t)(part[i] >> 16)) : __uint_as_float(part[i] & 0xffff0000);
        }
    }
};

// times: a * b. add_product: sum + a * b. add_four: sum plus the dot product of x[0..3] and v. The
// order of operations is fixed, so a row of the result has the same bits however many rows are
// computed with it.
static __device__ inline float times(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

static __device__ inline float add_product(float sum, float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, sum);
#else
    return sum + a * b;
#endif
}

static __device__ inline float add_four(float sum, const float *x, float4 v)
{
    sum = add_product(sum, x[0], v.x);
    sum = add_product(sum, x[1], v.y);
    sum = add_product(sum, x[2], v.z);
    return add_product(sum, x[3], v.w);
}

// True if a reader can read rows of k weights.
static inline bool weights_readable(const void *data, int64_t k, enum dtype dtype)
{
    if (dtype_in_blocks(dtype)) return true;
    return (uintptr_t)data % 16 == 0 && k % (16 / (int64_t)dtype_size(dtype)) == 0;
}

// Calls F<T>(...), where T is the C++ type of weights of `dtype`.
#define FOR_WEIGHTS(dtype, F, ...)                           \
    ((dtype) == DTYPE_F32    ? F<float>(__VA_ARGS__)         \
     : (dtype) == DTYPE_BF16 ? F<shorts<false>>(__VA_ARGS__) \
     : (dtype) == DTYPE_F16  ? F<shorts<true>>(__VA_ARGS__)  \
                             : FOR_BLOCKS(dtype, F, __VA_ARGS__))

#endif
