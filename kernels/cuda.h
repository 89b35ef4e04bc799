// kernels/cuda.h -- shared by the .cu files: kernel launches, sums over warps and blocks, elements
// of f32, f16 and bf16; and the design of the CUDA device.
//
// An op NAME is written in NAME.cu as `int NAME_cuda(...)`, beside NAME.c. It launches kernels on
// the GPU's one stream and returns at once; the order of the stream makes uploads, downloads and
// other ops wait for these kernels. Only the copies of offload.cu run concurrently. Data
// that the host itself reads and writes lies in host memory (core/graph/arena.h); code above
// kernels/ touches device memory only by upload, download and ops (backend->own_memory).
//
// The files are compiled by nvcc for the GPU, and by g++ with tests/cuda_host/ for tests without a
// GPU. Both compile the same source: LAUNCH launches kernels, SHARED_MEMORY declares dynamic shared
// memory, blocks have whole warps, and no thread returns before the last barrier or shuffle. Sums
// have a fixed order: the same input gives the same bits on the same GPU.
#ifndef KERNELS_CUDA_H
#define KERNELS_CUDA_H

#include <cuda_runtime.h>

extern "C" {
#include "kernels/cuda_library.h"
#define OP(name, arguments) int name##_cuda arguments;
#include "kernels/ops.h"
#undef OP
}

static constexpr int WARP = 32;
static constexpr unsigned ALL_LANES = 0xffffffff;

// --- host code -----------------------------------------------------------------------------------

// Selects the current GPU (struct gpus) in the calling thread and returns its stream. cuda_gpu_now
// returns the GPU's index.
cudaStream_t cuda_stream(void);
int cuda_gpu_now(void);
// Allocates GPU memory and counts it (struct device_memory); NULL on failure.
void *cuda_alloc(size_t bytes);
// Scratch memory for one op, valid until the next op requests scratch; on failure, records why and
// returns NULL.
void *cuda_scratch(size_t bytes);
const void *cuda_scratch_of(int gpu); // the GPU's scratch; NULL: none
// Records why an op failed; returns -1.
int cuda_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Returns 0, or -1 if the last launch or anything before it failed; failure() gives the reason.
int cuda_started(const char *kernel);
// Allows a kernel to use `bytes` bytes of dynamic shared memory. By default, dynamic and static
// shared memory together are limited to 48 KB. Returns 0 or -1.
static constexpr size_t SHARED_PLAIN = 47 << 10;
template <typename Kernel>
static inline int cuda_allow_shared(const char *name, Kernel kernel, size_t bytes)
{
    cuda_stream(); // selects the current GPU
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error == cudaSuccess) return 0;
    cudaGetLastError(); // reported here, not by a later op
    return cuda_fail("%s: %zu bytes of shared memory: %s", name, bytes, cudaGetErrorString(error));
}
// Records a failure outside of an op, unless `error` is success; all later ops report it.
void cuda_broke(const char *what, cudaError_t error);
// Makes later ops wait for an event of another stream.
void cuda_await(cudaEvent_t event);

// copy.cu
void cuda_upload(void *device, const void *host, size_t bytes);
void cuda_download(void *host, const void *device, size_t bytes);
extern const struct copies copies_cuda;

extern const struct offload offload_cuda; // offload.cu

// record.cu: struct recorder of backend.h. If ops are being recorded, cuda_unrecordable makes the
// recording fail, with `what` in the reason, and returns true.
extern const struct recorder recorder_cuda;
bool cuda_unrecordable(const char *what);

// Multiprocessors of the GPU.
int cuda_processors(void);

// True if the next kernel may start before the previous kernel has ended; called once per
// LAUNCH_EARLY.
bool cuda_early(void);

// True if products of few rows are computed by few_rows_ring.cu where it can
// (VLMSH_CUDA_FEW_ROWS=ring), which needs kernels compiled for sm_90 or newer.
bool cuda_ring(void);

// LAUNCH_EARLY: launches a kernel that may start while the previous kernel in the stream is ending.
// Each thread of the launched kernel calls cuda_wait_previous() before it reads data that other
// kernels write, and before it writes anything.
#ifdef __CUDACC__
template <typename... Wants, typename... Gives>
static inline void cuda_launch_early(void (*kernel)(Wants...), dim3 grid, dim3 block, size_t shared,
                                     Gives... arguments)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = cuda_stream();
    config.attrs = &early;
    config.numAttrs = cuda_early() ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, arguments...);
}
#define LAUNCH_EARLY(kernel, grid, block, shared, ...) \
    (cuda_launch_early(kernel, (grid), (block), (shared), __VA_ARGS__), cuda_started(#kernel))
#define LAUNCH(kernel, grid, block, shared, ...) \
    (kernel<<<(grid), (block), (shared), cuda_stream()>>>(__VA_ARGS__), cuda_started(#kernel))
#define SHARED_MEMORY(type, name)                                  \
    extern __shared__ __align__(16) unsigned char shared_memory[]; \
    type *name = reinterpret_cast<type *>(shared_memory)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#define LAUNCH_AS(early, kernel, grid, block, shared, ...)                      \
    (cuda_host_start((early), cuda_stream(), (grid), (block), (size_t)(shared), \
                     kernel __VA_OPT__(, ) __VA_ARGS__),                        \
     cuda_started(#kernel))
#define LAUNCH_EARLY(...)         LAUNCH_AS(cuda_early(), __VA_ARGS__)
#define LAUNCH(...)               LAUNCH_AS(false, __VA_ARGS__)
#define SHARED_MEMORY(type, name) type *name = static_cast<type *>(cuda_host_shared())
#endif

// Number of blocks of `size` threads for n elements. The number is capped; beyond the cap, each
// thread processes several elements.
static inline dim3 blocks_for(int64_t n, int64_t size)
{
    const int64_t blocks = (n + size - 1) / size;
    return dim3((unsigned)(blocks < 1 ? 1 : blocks < 65535 ? blocks : 65535));
}

// The data of a float tensor; NULL if t is NULL.
static inline float *floats(const struct tensor *t)
{
    return t ? static_cast<float *>(t->data) : nullptr;
}

static inline const int32_t *integers(const struct tensor *t)
{
    return t ? static_cast<const int32_t *>(t->data) : nullptr;
}

static constexpr int EACH = 256; // threads per block of elementwise kernels

// Loops over the elements 0..n-1 of an elementwise kernel.
#define FOR_EACH(i, n)                                                        \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); \
         i += (int64_t)gridDim.x * blockDim.x)

// True if n elements at each of these addresses can be accessed four at a time.
template <typename... Numbers> static inline bool in_fours(int64_t n, const Numbers *...numbers)
{
    return ((n % 4 == 0) && ... && ((uintptr_t)numbers % 16 == 0));
}

// --- device code ---------------------------------------------------------------------------------

// Waits until the previous kernel has ended and its writes are visible (LAUNCH_EARLY).
__device__ inline void cuda_wait_previous(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Once every block has called this or ended, the next kernel may start if it was launched early.
__device__ inline void cuda_let_next_start(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Prefetches memory into the second-level cache; from and bytes are multiples of 16. Only a hint:
// reads still see writes that follow the prefetch.
__device__ inline void cuda_prefetch(const void *from, unsigned bytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
#endif
}

template <typename T> __device__ inline T warp_sum(T x)
{
    for (int lanes = WARP / 2; lanes; lanes /= 2) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}

__device__ inline float warp_most(float x)
{
    for (int lanes = WARP / 2; lanes; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, lanes));
    return x;
}

// The sum over the block's threads (at most 1024), returned to all of them. All threads must call
// it.
template <typename T> __device__ inline T block_sum(T x)
{
    __shared__ T part[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    x = warp_sum(x);
    __syncthreads(); // threads may still read `part` for the previous sum
    if (lane == 0) part[warp] = x;
    __syncthreads();
    x = lane < (int)blockDim.x / WARP ? part[lane] : T(0);
    return warp_sum(x);
}

__device__ inline float block_most(float x)
{
    __shared__ float part[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    x = warp_most(x);
    __syncthreads();
    if (lane == 0) part[warp] = x;
    __syncthreads();
    x = lane < (int)blockDim.x / WARP ? part[lane] : -INFINITY;
    return warp_most(x);
}

__device__ inline float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

// COUNT adjacent elements: 4, or 1.
template <int COUNT> struct several {
    float x[COUNT];
};

__device__ inline struct several<4> several_of(const float4 v) {
    return { { v.x, v.y, v.z, v.w } };
}

template <int COUNT>
__device__ inline struct several<COUNT> several_at(const float *from) {
    if constexpr (COUNT == 1)
        return { { *from } };
    else
        return several_of(*reinterpret_cast<const float4 *>(from));
}

template <int COUNT>
__device__ inline void put_several(float *to, const struct several<COUNT> &v)
{
    if constexpr (COUNT == 1)
        *to = v.x[0];
    else
        *reinterpret_cast<float4 *>(to) = { v.x[0], v.x[1], v.x[2], v.x[3] };
}

__device__ inline float from_bf16(uint16_t x)
{
    return __uint_as_float((unsigned)x << 16);
}

// The nearest bf16, ties to even; NaN stays NaN.
__device__ inline uint16_t to_bf16(float x)
{
    const unsigned u = __float_as_uint(x);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

__device__ inline float from_f16(uint16_t x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#else
    const unsigned sign = (unsigned)(x & 0x8000) << 16, rest = x & 0x7fff;
    if (rest >= 0x7c00) // infinity, NaN
        return __uint_as_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400) return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
    const float tiny = (float)rest * 0x1p-24f; // denormal
    return sign ? -tiny : tiny;
#endif
}

// Clamps to the largest finite f16, keeping the sign; NaN stays NaN.
static constexpr float F16_MOST = 65504;

__device__ inline float within_f16(float x)
{
    return fabsf(x) > F16_MOST ? copysignf(F16_MOST, x) : x;
}

// The nearest f16, ties to even; never infinite.
__device__ inline uint16_t to_f16(float x)
{
    const float near = within_f16(x);
#ifdef __CUDA_ARCH__
    uint16_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(near));
    return y;
#else
    const unsigned u = __float_as_uint(near), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (rest < 0x38800000) // denormal: just above 0.5, floats have the spacing of f16 denormals
        return (uint16_t)(sign | (__float_as_uint(fabsf(near) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1) - (112u << 23)) >> 13));
#endif
}

// Element i of an array of f32, f16 or bf16.
__device__ inline float number_at(const void *data, int64_t i, enum dtype dtype)
{
    if (dtype == DTYPE_F32) return static_cast<const float *>(data)[i];
    const uint16_t x = static_cast<const uint16_t *>(data)[i];
    return dtype == DTYPE_BF16 ? from_bf16(x) : from_f16(x);
}

#endif
