// kernels/cuda.cu -- the CUDA device: one GPU of the process, its memory and stream, the table.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda.h"
#include "kernels/cuda_library.h"
#include "kernels/matmul_cuda.h"

// The one device of this process, from cuda_open on.
static struct {
    bool open;
    int number, processors;
    char name[16], text[192];
    cudaStream_t stream;
    void *scratch; // grows only
    size_t scratch_size;
    char failure[256];
    bool broken; // a copy failed: the next op says so
    bool early;  // kernels may begin before the one in front has ended
} gpu;

static thread_local bool entered; // the calling thread's device is the GPU

int cuda_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(gpu.failure, sizeof gpu.failure, format, args);
    va_end(args);
    return -1;
}

static const char *failure(void)
{
    return gpu.failure;
}

cudaStream_t cuda_stream(void)
{
    if (!entered) entered = cudaSetDevice(gpu.number) == cudaSuccess;
    return gpu.stream;
}

bool cuda_early(void)
{
    return gpu.early;
}

int cuda_processors(void)
{
    return gpu.processors;
}

int cuda_started(const char *kernel)
{
    const cudaError_t error = cudaGetLastError();
    if (gpu.broken) return -1; // its reason stays
    return error ? cuda_fail("%s: %s", kernel, cudaGetErrorString(error)) : 0;
}

// --- memory --------------------------------------------------------------------------------------

static void *device_alloc(size_t bytes)
{
    void *memory = nullptr;
    cuda_stream();
    if (cudaMalloc(&memory, bytes ? bytes : 1) == cudaSuccess) return memory;
    cudaGetLastError(); // it is told here: no later op failed
    return nullptr;
}

static void device_release(void *memory)
{
    cuda_stream();
    if (memory) cudaFree(memory);
}

static void device_memory(size_t *unused, size_t *total)
{
    cuda_stream();
    if (cudaMemGetInfo(unused, total) != cudaSuccess) *unused = *total = 0;
}

void *cuda_scratch(size_t bytes)
{
    if (gpu.scratch && bytes <= gpu.scratch_size) return gpu.scratch;
    const size_t size = (bytes + (1 << 20)) >> 20 << 20; // never nothing
    if (cuda_unrecordable("more scratch memory")) return nullptr;
    device_release(gpu.scratch); // waits for the ops that use it
    gpu.scratch = device_alloc(size);
    gpu.scratch_size = gpu.scratch ? size : 0;
    if (gpu.scratch) return gpu.scratch;
    size_t unused, total;
    device_memory(&unused, &total);
    cuda_fail("out of memory on %s: an op needs %.1f MB of scratch, %.1f of %.1f MB are free",
              gpu.name, (double)size / 1e6, (double)unused / 1e6, (double)total / 1e6);
    return nullptr;
}

size_t cuda_scratch_held(void)
{
    return gpu.scratch_size;
}

void cuda_broke(const char *what, cudaError_t error)
{
    if (error == cudaSuccess || gpu.broken) return;
    gpu.broken = true;
    cuda_fail("%s: %s", what, cudaGetErrorString(error));
}

// --- the table -----------------------------------------------------------------------------------

static void set_threads(int count)
{
}

static int threads(void)
{
    return 1;
}

static const char *describe(void)
{
    return gpu.text;
}

static const struct backend device = {
    .name = gpu.name,
    .apart = true,
    .alloc = device_alloc,
    .release = device_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .memory = device_memory,
    .set_threads = set_threads,
    .threads = threads,
    .describe = describe,
    .scratch = cuda_scratch_held,
    .fused = &fused_cuda,
    .record = cuda_record,
    .recorded = cuda_recorded,
    .play = cuda_play,
    .forget = cuda_forget,
    .failure = failure,
#define OP(name, arguments) .name = name##_cuda,
#include "kernels/ops.h"
#undef OP
};

// --- the library ---------------------------------------------------------------------------------

static int count_gpus(char *why, size_t room)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) return count;
    cudaGetLastError();
    snprintf(why, room, "the driver says: %s", cudaGetErrorString(error));
    return -1;
}

static int properties(int number, struct cudaDeviceProp *p, char *why, size_t room)
{
    const int count = count_gpus(why, room);
    if (count < 0) return -1;
    if (number >= count) {
        snprintf(why, room, "there is no cuda:%d: the driver sees %d GPU%s", number, count,
                 count == 1 ? "" : "s");
        return -1;
    }
    const cudaError_t error = cudaGetDeviceProperties(p, number);
    if (error == cudaSuccess) return 0;
    cudaGetLastError();
    snprintf(why, room, "cuda:%d: %s", number, cudaGetErrorString(error));
    return -1;
}

static int look(int number, struct cuda_gpu *it, char *why, size_t room)
{
    struct cudaDeviceProp p;
    int former = 0;
    if (properties(number, &p, why, room) < 0) return -1;
    snprintf(it->text, sizeof it->text, "%.120s, sm_%d%d", p.name, p.major, p.minor);
    it->total = p.totalGlobalMem;
    cudaGetDevice(&former);
    if (cudaSetDevice(number) == cudaSuccess) cudaMemGetInfo(&it->unused, &it->total);
    cudaSetDevice(former);
    cudaGetLastError();
    return 0;
}

static const struct backend *open_gpu(int number, char *why, size_t room)
{
    struct cudaDeviceProp p;
    if (gpu.open && gpu.number == number) return &device;
    if (gpu.open) {
        snprintf(why, room, "this program computes on %s already", gpu.name);
        return nullptr;
    }
    if (properties(number, &p, why, room) < 0) return nullptr;
    gpu.number = number;
    gpu.processors = p.multiProcessorCount;
    gpu.early = p.major >= 9;
    cudaError_t error = cudaSetDevice(number);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking);
    snprintf(gpu.name, sizeof gpu.name, "cuda:%d", number);
    snprintf(gpu.text, sizeof gpu.text, "%s (%.120s, sm_%d%d, %.1f GB)", gpu.name, p.name, p.major,
             p.minor, (double)p.totalGlobalMem / 1e9);
    if (error != cudaSuccess) {
        snprintf(why, room, "%s: %s", gpu.name, cudaGetErrorString(error));
        return nullptr;
    }
    if (matmul_open() < 0) {
        snprintf(why, room, "%s: %s", gpu.name, gpu.failure);
        return nullptr;
    }
    gpu.open = true;
    return &device;
}

static int product(float *y, const void *x, const void *w, int64_t n, int64_t k, int64_t m)
{
    const struct lt_product p = { .y = y,
                                  .y_dtype = DTYPE_F32,
                                  .a = { x, DTYPE_BF16, false, 0 },
                                  .b = { w, DTYPE_BF16, false, 0 },
                                  .n = n,
                                  .m = m,
                                  .k = k,
                                  .row = m,
                                  .bias = nullptr,
                                  .add = false };
    return lt_multiply(&p);
}

extern "C" __attribute__((visibility("default"))) const struct cuda_library *vlmsh_cuda_library(
    void)
{
    static const struct cuda_library library = { .version = VERSION,
                                                 .table = sizeof(struct backend),
                                                 .count = count_gpus,
                                                 .look = look,
                                                 .open = open_gpu,
                                                 .product = product };
    return &library;
}
