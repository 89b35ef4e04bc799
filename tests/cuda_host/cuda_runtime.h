// tests/cuda_host/cuda_runtime.h -- enough of CUDA for g++ to compile kernels/*.cu and run them on
// the CPU, to test them without a GPU.
//
// A block's threads are fibers of one host thread and run one after the other, as do blocks. A
// thread that waits (__syncthreads, a shuffle) yields to the next. Because everything runs in
// order, this checks arithmetic and indices, and finds barriers that some threads do not reach (the
// program ends with a message). It finds a missing barrier if the reading thread runs before the
// writing one: with CUDA_HOST_ORDER=back the last thread runs first.
//
// Device memory is host memory that is accessible only while a kernel or a copy runs, and it ends
// at the end of a page: reading it from the host, or past its end, raises a signal. (With
// CUDA_HOST_OPEN=1 it is always accessible.)
//
// The emulated GPU refuses much of what a GPU would: grids, blocks and shared memory beyond its
// limits, pointers outside of device memory, copies and products that exceed an allocation.
// With CUDA_HOST_DRY=1 (counts.cpp) it only checks: memory is address space only, kernels and
// products do not run, and copies to the host give zeros, so a model of any size takes seconds.
// CUDA_HOST_DRY=corners also runs the first and the last block of each kernel along each direction
// of its grid, once per grid size: indices that overflow hit a guard page, or the sanitizer reports
// them. When the process ends, it appends a line of JSON per GPU to the file $CUDA_HOST_REPORT:
// peak memory and counts of kernels, products and copies.
#ifndef TESTS_CUDA_HOST_CUDA_RUNTIME_H
#define TESTS_CUDA_HOST_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__      static
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    dim3(size_t x_ = 1, size_t y_ = 1, size_t z_ = 1);
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// --- kernels -------------------------------------------------------------------------------------

// Runs a kernel; `dynamic` bytes of shared memory begin as NaNs.
void cuda_host_launch(dim3 grid, dim3 block, size_t dynamic, const std::function<void()> &kernel);
void *cuda_host_shared(void);
typedef struct cuda_host_stream *cudaStream_t;
// Runs only the blocks at the corners of the grid.
void cuda_host_launch_corners(dim3 grid, dim3 block, size_t dynamic,
                              const std::function<void()> &kernel);
// Begins work on a stream. Fails if the stream does not belong to the current GPU (cudaSetDevice),
// or is not ordered after all work begun before.
void cuda_host_begin(cudaStream_t stream);
// True if the launch is valid. False for a grid or block that no GPU accepts, or for more dynamic
// shared memory than this kernel was allowed (cudaFuncSetAttribute).
bool cuda_host_fits(const void *kernel, dim3 grid, dim3 block, size_t dynamic);
// True for NULL or `size` bytes of device memory; else cudaGetLastError returns an error.
bool cuda_host_is_memory(const void *memory, size_t size = 0);
template <typename T> bool cuda_host_argument(const T &)
{
    return true;
}
template <typename T> bool cuda_host_argument(T *const &argument)
{
    return cuda_host_is_memory(argument);
}
// Runs a kernel, or adds it to the active capture. `call` holds copies of the arguments, since a
// graph runs it later.
void cuda_host_submit(dim3 grid, dim3 block, size_t dynamic, const void *kernel,
                      const std::function<void()> &call);
// A kernel as a GPU receives it: its pointer and the bytes of its arguments (tests/cuda_ptx/).
struct cuda_host_work {
    dim3 grid, block;
    size_t dynamic; // bytes of shared memory
    bool early;     // the kernel may begin before the preceding one has ended
    const void *kernel;
    std::vector<std::vector<char>> arguments;
};
void cuda_host_submit_ptx(const cuda_host_work &work);
bool cuda_ptx_wanted(void); // $CUDA_HOST_PTX is set, and this is not a dry run
template <typename T> std::vector<char> cuda_host_bytes(T x)
{
    const char *const from = reinterpret_cast<const char *>(&x);
    return std::vector<char>(from, from + sizeof x);
}
template <typename... Wants, typename... Gives>
void cuda_host_start(bool early, cudaStream_t stream, dim3 grid, dim3 block, size_t dynamic,
                     void (*kernel)(Wants...), Gives... arguments)
{
    static_assert((sizeof(Wants) + ... + 0) + 16 * sizeof...(Wants) <= 4096,
                  "a kernel takes at most 4 KB of arguments");
    const void *const name = reinterpret_cast<const void *>(kernel);
    cuda_host_begin(stream);
    if (!cuda_host_fits(name, grid, block, dynamic) ||
        !(cuda_host_argument(static_cast<Wants>(arguments)) & ... & true))
        return;
    if (cuda_ptx_wanted())
        cuda_host_submit_ptx(
            { grid, block, dynamic, early, name, { cuda_host_bytes<Wants>(arguments)... } });
    else
        cuda_host_submit(grid, block, dynamic, name, [=]() { kernel(arguments...); });
}

void __syncthreads(void);

// Blocks run one after another, and a thread is not interrupted between waits, so fences do
// nothing.
static inline void __threadfence(void)
{
}

static inline unsigned atomicInc(unsigned *count, unsigned most)
{
    const unsigned before = *count;
    *count = before >= most ? 0 : before + 1;
    return before;
}

// Called by all lanes of a warp: returns the value (up to 8 bytes) that lane `from` passed.
uint64_t cuda_host_shuffle(uint64_t mine, unsigned from);
unsigned cuda_host_lane(void);
// Called by all lanes of a warp with `size` bytes, at most 32. The first lane to continue computes
// a result from the inputs of all lanes, stored one after the other: at most 512 bytes, valid until
// the calling lane's next call.
const void *cuda_host_collective(const void *mine, size_t size,
                                 void (*make)(const void *all, void *made));
// Suspends the thread until ready(what) is true; if no thread can continue, report(what) prints
// what it waits for.
void cuda_host_wait(bool (*ready)(void *what), void (*report)(void *what), void *what);
// Returns how many blocks have begun.
unsigned cuda_host_block(void);

template <typename T> T cuda_host_shuffled(T value, unsigned from)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = cuda_host_shuffle(bits, from);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes)
{
    return cuda_host_shuffled(value, cuda_host_lane() ^ (unsigned)lanes);
}
template <typename T> T __shfl_sync(unsigned mask, T value, int lane)
{
    return cuda_host_shuffled(value, (unsigned)lane);
}
static inline void __syncwarp(unsigned mask = 0xffffffff)
{
    cuda_host_shuffle(0, cuda_host_lane());
}

static inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

// --- the runtime ---------------------------------------------------------------------------------

// Kernel or copy number $CUDA_HOST_FAULT faults, and every later call fails. There are
// $CUDA_HOST_GPUS GPUs (default 1), each with its own memory and a stream for kernels; a GPU
// accesses another's memory once peer access is enabled. A kernel or copy fails unless it is
// ordered after all work begun on other GPUs (cudaStreamWaitEvent). Data copied to pinned memory
// (cudaHostAlloc; at most $CUDA_HOST_PINNED bytes) arrive when the host waits for them; until then,
// the destination holds NaNs. A second stream, created while the first is in use, runs only copies
// from and to pinned memory: these, too, must be ordered after all kernels started before; later
// kernels run in parallel (copy_queue.h).
typedef int cudaError_t;
typedef struct cuda_host_event *cudaEvent_t;
enum {
    cudaSuccess,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorIllegalAddress = 700,
    cudaErrorPeerAccessAlreadyEnabled = 704
};
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
};
enum {
    cudaStreamNonBlocking = 1,
    cudaHostAllocDefault = 0,
    cudaHostAllocPortable = 1,
    cudaEventDisableTiming = 2
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem, sharedMemPerBlockOptin;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int number);
cudaError_t cudaSetDevice(int number);
cudaError_t cudaGetDevice(int *number);
cudaError_t cudaMemGetInfo(size_t *unused, size_t *total);
cudaError_t cudaMalloc(void **memory, size_t size);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaDeviceCanAccessPeer(int *can, int number, int other);
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
struct cudaFuncAttributes {
    int ptxVersion;
};
// Fails if $CUDA_HOST_IMAGE is set, like a library built for other GPUs.
cudaError_t cuda_host_attributes(struct cudaFuncAttributes *kernel);
template <typename F> cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *to, F *kernel)
{
    return cuda_host_attributes(to);
}
cudaError_t cuda_host_allow(const void *kernel, int bytes);
template <typename F> cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute what, int value)
{
    return cuda_host_allow(reinterpret_cast<const void *>(kernel), value);
}

// Graphs: the kernels of a capture run in order. Copies from and to the host, cuBLASLt and
// everything that a GPU would refuse make the capture fail. A stream that waits for a captured one
// joins the capture; at the end, the first stream must have waited for all joined streams.
typedef struct cuda_host_graph *cudaGraph_t, *cudaGraphExec_t;
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *run, cudaGraph_t graph, unsigned flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t run);
// If a capture is active, records the kernel and returns true.
bool cuda_host_capture(const std::function<void()> &kernel);
// For calls that a capture cannot contain: if one is active, makes it fail and returns true.
bool cuda_host_fail_capture(void);

// --- dry runs and counts (counts.cpp) ------------------------------------------------------------

enum cuda_host_run { CUDA_HOST_ALL, CUDA_HOST_CORNERS, CUDA_HOST_NOTHING };
cuda_host_run cuda_host_mode(void);
// Counts for the report: bytes allocated on a GPU (negative: freed), kernels, products, copies.
void cuda_host_allocated(int gpu, int64_t bytes);
void cuda_host_started(int gpu); // a kernel has started
void cuda_host_multiplied(int gpu,
                          bool odd); // odd: 16-bit rows that do not begin at multiples of 16 bytes
void cuda_host_copied(int gpu, size_t size);
int cuda_host_gpu(void); // the current GPU

// While one of these exists, the host may access device memory.
struct cuda_host_access {
    cuda_host_access();
    ~cuda_host_access();
};

#endif
