// kernels/cuda.cu -- the CUDA device: its GPUs, their memory and streams, and its table of ops.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <mutex>

#include "kernels/cuda.h"
#include "kernels/matmul_cuda.h"

// The device of this process after open_gpus: one GPU, or several that share a model's layers
// (struct gpus). Each GPU has a stream; when ops move to another GPU, its stream waits for the work
// on the previous GPU.
static struct gpu {
    int number, processors;
    cudaStream_t stream;
    cudaEvent_t left; // recorded when ops moved to another GPU
    void *scratch;    // grows only
    size_t scratch_size;
    bool early; // kernels may begin before the previous kernel has ended
    bool bulk;  // kernels may use bulk copies (kernels/bulk_cuda.h)
    bool fresh; // no LAUNCH_EARLY since the stream began to wait for another stream
} gpus[CUDA_GPUS_MOST];

static struct {
    int count;                // 0: not open
    int at;                   // the GPU that ops run on
    char name[96], text[256]; // in `name`, CUDA_GPUS_MOST numbers of four digits fit
    char failure[256];
    bool broken; // a copy, a wait or an allocation failed: all later ops fail
    bool ring;   // few_rows_ring.cu is wanted
} device;

static thread_local int entered = -1; // current GPU of the calling thread

int cuda_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(device.failure, sizeof device.failure, format, args);
    va_end(args);
    return -1;
}

static const char *failure(void)
{
    return device.failure;
}

int cuda_gpu_now(void)
{
    return device.at;
}

static struct gpu *here(void)
{
    return &gpus[device.at];
}

cudaStream_t cuda_stream(void)
{
    if (entered != device.at && cudaSetDevice(here()->number) == cudaSuccess) entered = device.at;
    return here()->stream;
}

// False for the first LAUNCH_EARLY after waiting for another stream, because an early start needs a
// preceding kernel.
bool cuda_early(void)
{
    const bool early = here()->early && !here()->fresh;
    here()->fresh = false;
    return early;
}

bool cuda_ring(void)
{
    return device.ring && here()->bulk;
}

int cuda_processors(void)
{
    return here()->processors;
}

// After a fault in a kernel, every call fails until the process ends.
static int report_error(const char *what, cudaError_t error)
{
    size_t unused, total;
    const bool lost = cudaMemGetInfo(&unused, &total) != cudaSuccess;
    return cuda_fail("%s: %s%s", what, cudaGetErrorString(error),
                     lost ? "; the GPU cannot be used any more: restart vlmsh" : "");
}

int cuda_started(const char *kernel)
{
    const cudaError_t error = cudaGetLastError();
    if (device.broken) return -1; // keeps the message of the first failure
    return error ? report_error(kernel, error) : 0;
}

// A failure during a recording affects only the recording.
static void moved(const char *what, cudaError_t error)
{
    if (error == cudaSuccess) return;
    if (cuda_unrecordable(what))
        cudaGetLastError();
    else
        cuda_broke(what, error);
}

// Records an event on the old GPU and makes the new one wait for it. During a recording this adds
// the new GPU's stream to the recording; the return to the old GPU joins the two streams.
static int enter(int gpu)
{
    const int before = device.at;
    if (gpu < 0 || gpu == before || gpu >= device.count) return before;
    cudaStream_t stream = cuda_stream();
    moved("leaving a GPU", cudaEventRecord(here()->left, stream));
    device.at = gpu;
    stream = cuda_stream();
    moved("entering a GPU", cudaStreamWaitEvent(stream, gpus[before].left, 0));
    here()->fresh = true;
    return before;
}

void cuda_await(cudaEvent_t event)
{
    cuda_broke("waiting for a copy", cudaStreamWaitEvent(cuda_stream(), event, 0));
    here()->fresh = true;
}

// --- memory --------------------------------------------------------------------------------------

// Sizes of allocated memory. The tally itself is never freed.
static struct tally {
    std::mutex lock; // threads of a training step (core/train/lanes.h) allocate concurrently
    std::map<void *, size_t> sizes;
    size_t held, most;
} &tally = *new struct tally();

static void count_in(void *memory, size_t bytes)
{
    const std::lock_guard<std::mutex> guard(tally.lock);
    tally.sizes[memory] = bytes;
    tally.held += bytes;
    if (tally.held > tally.most) tally.most = tally.held;
}

static void count_out(void *memory)
{
    const std::lock_guard<std::mutex> guard(tally.lock);
    const auto found = tally.sizes.find(memory);
    if (found == tally.sizes.end()) return;
    tally.held -= found->second;
    tally.sizes.erase(found);
}

static size_t memory_held(size_t *most)
{
    const std::lock_guard<std::mutex> guard(tally.lock);
    *most = tally.most;
    return tally.held;
}

void *cuda_alloc(size_t bytes)
{
    void *memory = nullptr;
    cuda_stream();
    const cudaError_t error = cudaMalloc(&memory, bytes ? bytes : 1);
    if (error == cudaSuccess) {
        count_in(memory, bytes);
        return memory;
    }
    cudaGetLastError(); // clears the error: later ops must not report it
    if (error != cudaErrorMemoryAllocation) cuda_broke("allocating memory", error);
    return nullptr;
}

// cudaFree waits only for the GPU that holds the memory, but other GPUs may still read it, so this
// waits for all GPUs.
static void device_release(void *memory)
{
    cuda_stream();
    count_out(memory);
    for (int i = 0; i < device.count && device.count > 1 && memory; i++)
        cudaStreamSynchronize(gpus[i].stream);
    if (memory) cudaFree(memory);
}

static void memory_sizes(size_t *unused, size_t *total)
{
    cuda_stream();
    const cudaError_t error = cudaMemGetInfo(unused, total);
    if (error == cudaSuccess) return;
    *unused = *total = 0;
    cuda_broke("reading how much memory is free", error);
}

void *cuda_scratch(size_t bytes)
{
    struct gpu *g = here();
    if (g->scratch && bytes <= g->scratch_size) return g->scratch;
    const size_t size = (bytes + (1 << 20)) >> 20 << 20; // at least 1 MB
    if (cuda_unrecordable("allocating scratch memory")) return nullptr;
    device_release(g->scratch); // waits for the ops that use it
    g->scratch = cuda_alloc(size);
    g->scratch_size = g->scratch ? size : 0;
    if (g->scratch || device.broken) return g->scratch;
    size_t unused, total;
    memory_sizes(&unused, &total);
    cuda_fail("out of memory on cuda:%d: an op needs %.1f MB of scratch, %.1f of %.1f MB are free",
              g->number, (double)size / 1e6, (double)unused / 1e6, (double)total / 1e6);
    return nullptr;
}

const void *cuda_scratch_of(int gpu)
{
    return gpus[gpu].scratch;
}

static size_t working_memory(void)
{
    size_t held = (size_t)device.count * CUDA_WORKSPACE;
    for (int i = 0; i < device.count; i++) held += gpus[i].scratch_size;
    return held;
}

void cuda_broke(const char *what, cudaError_t error)
{
    if (error == cudaSuccess || device.broken) return;
    device.broken = true;
    report_error(what, error);
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
    return device.text;
}

static const struct device_memory memory_cuda = { .sizes = memory_sizes, .held = memory_held };
static struct gpus joined = { .count = 0, .enter = enter };

static int64_t few_rows(void)
{
    return CUDA_FEW_ROWS;
}

// Every member, in order: nvcc 12.0 drops the initialisers after a gap.
static struct backend table = {
    .name = device.name,
    .own_memory = true,
    .alloc = cuda_alloc,
    .release = device_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .set_threads = set_threads,
    .threads = threads,
    .multiplies_bf16 = nullptr,
    .favours_bf16 = nullptr,
    .few_rows = few_rows,
    .describe = describe,
    .scratch = working_memory,
    .memory = &memory_cuda,
    .copies = &copies_cuda,
    .offload = &offload_cuda,
    .fused = &fused_cuda,
    .expert_rows = nullptr,
    .products = nullptr,
    .ffn_rows = nullptr,
    .rows_products = nullptr,
    .rope_tail = nullptr,
    .recorder = &recorder_cuda,
    .gpus = nullptr,
    .failure = failure,
#define OP(name, arguments) .name = name##_cuda,
#include "kernels/ops.h"
#undef OP
};

// --- the library ---------------------------------------------------------------------------------

static int count_gpus(char *why, size_t size)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) return count;
    cudaGetLastError();
    snprintf(why, size, "the driver reports: %s", cudaGetErrorString(error));
    return -1;
}

static int properties(int number, struct cudaDeviceProp *p, char *why, size_t size)
{
    const int count = count_gpus(why, size);
    if (count < 0) return -1;
    if (number >= count) {
        snprintf(why, size, "no cuda:%d: the driver sees %d GPU%s", number, count,
                 count == 1 ? "" : "s");
        return -1;
    }
    const cudaError_t error = cudaGetDeviceProperties(p, number);
    if (error == cudaSuccess) return 0;
    cudaGetLastError();
    snprintf(why, size, "cuda:%d: %s", number, cudaGetErrorString(error));
    return -1;
}

static int look(int number, struct cuda_gpu *it, char *why, size_t size)
{
    struct cudaDeviceProp p;
    int former = 0;
    if (properties(number, &p, why, size) < 0) return -1;
    snprintf(it->text, sizeof it->text, "%.120s, sm_%d%d", p.name, p.major, p.minor);
    it->total = p.totalGlobalMem;
    cudaGetDevice(&former);
    if (cudaSetDevice(number) == cudaSuccess) cudaMemGetInfo(&it->unused, &it->total);
    cudaSetDevice(former);
    cudaGetLastError();
    return 0;
}

// Represents the kernels of all files, which are compiled for the same GPUs.
static __global__ void any_kernel(void)
{
}

// Checks that the library has kernels for this GPU; sets g->bulk, and g->early if they can wait for
// the previous kernel.
static int look_at_kernels(struct gpu *g, const struct cudaDeviceProp *p, char *why, size_t size)
{
    struct cudaFuncAttributes made;
    const cudaError_t error = cudaFuncGetAttributes(&made, any_kernel);
    if (error == cudaSuccess) {
        // In kernels compiled for GPUs before sm_90, cuda_wait_previous() is empty, so they must
        // not start early. VLMSH_CUDA_ORDERED disables early starts, to rule them out as the cause
        // of a fault.
        g->bulk = made.ptxVersion >= 90;
        g->early = g->bulk && !getenv("VLMSH_CUDA_ORDERED");
        return 0;
    }
    cudaGetLastError();
    snprintf(why, size,
             "cuda:%d is an sm_%d%d, for which this library has no kernels (%s): build them with "
             "`make cuda CUDA_ARCH=%d%d`",
             g->number, p->major, p->minor, cudaGetErrorString(error), p->major, p->minor);
    return -1;
}

// Adds GPU `number` to the device as member `gpu` and makes it current.
static int open_gpu(int gpu, int number, char *why, size_t size)
{
    struct cudaDeviceProp p;
    struct gpu *g = &gpus[gpu];
    char *end = device.text + strlen(device.text);
    if (properties(number, &p, why, size) < 0) return -1;
    *g = { .number = number, .processors = p.multiProcessorCount };
    cudaError_t error = cudaSetDevice(number);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&g->left, cudaEventDisableTiming);
    device.at = entered = gpu;
    snprintf(end, sizeof device.text - (size_t)(end - device.text),
             "%scuda:%d (%.60s, sm_%d%d, %.1f GB)", gpu ? ", " : "", number, p.name, p.major,
             p.minor, (double)p.totalGlobalMem / 1e9);
    if (error != cudaSuccess) {
        snprintf(why, size, "cuda:%d: %s", number, cudaGetErrorString(error));
        return -1;
    }
    if (look_at_kernels(g, &p, why, size) < 0) return -1;
    if (matmul_open() == 0) return 0;
    snprintf(why, size, "cuda:%d: %s", number, device.failure);
    return -1;
}

// Enables each GPU to access the memory of all others.
static int join_gpus(int count, char *why, size_t size)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) {
            int can = 0;
            if (i == k) continue;
            cudaError_t error = cudaDeviceCanAccessPeer(&can, gpus[i].number, gpus[k].number);
            if (error == cudaSuccess) error = cudaSetDevice(gpus[i].number);
            if (error == cudaSuccess && can) error = cudaDeviceEnablePeerAccess(gpus[k].number, 0);
            if (error != cudaSuccess) cudaGetLastError(); // clears the error: no op has failed
            if (error == cudaErrorPeerAccessAlreadyEnabled) error = cudaSuccess;
            if (error == cudaSuccess && can) continue;
            snprintf(why, size, "cuda:%d cannot reach the memory of cuda:%d%s%s", gpus[i].number,
                     gpus[k].number, error ? ": " : "", error ? cudaGetErrorString(error) : "");
            return -1;
        }
    return 0;
}

static bool same_gpus(const int *numbers, int count)
{
    bool same = device.count == count;
    for (int i = 0; i < count && same; i++) same = gpus[i].number == numbers[i];
    return same;
}

static void name_gpus(const int *numbers, int count)
{
    int n = snprintf(device.name, sizeof device.name, "cuda");
    for (int i = 0; i < count; i++)
        n += snprintf(device.name + n, sizeof device.name - (size_t)n, "%c%d", i ? ',' : ':',
                      numbers[i]);
}

// VLMSH_CUDA_FEW_ROWS: ring, or registers (the default).
static int read_few_rows(char *why, size_t size)
{
    const char *const said = getenv("VLMSH_CUDA_FEW_ROWS");
    device.ring = said && !strcmp(said, "ring");
    if (!said || device.ring || !strcmp(said, "registers")) return 0;
    snprintf(why, size, "VLMSH_CUDA_FEW_ROWS is '%.60s': it must be 'ring' or 'registers'", said);
    return -1;
}

static int open_all(const int *numbers, int count, char *why, size_t size)
{
    if (read_few_rows(why, size) < 0) return -1;
    device.text[0] = '\0';
    name_gpus(numbers, count);
    for (int i = 0; i < count; i++)
        if (open_gpu(i, numbers[i], why, size) < 0) return -1;
    return count > 1 ? join_gpus(count, why, size) : 0;
}

// Closes nothing after a failure: the program then computes on the CPU.
static const struct backend *open_gpus(const int *numbers, int count, char *why, size_t size)
{
    if (device.count && same_gpus(numbers, count)) return &table;
    if (device.count) {
        snprintf(why, size, "this process already computes on %s", device.name);
        return nullptr;
    }
    const int status = open_all(numbers, count, why, size);
    device.at = 0, entered = -1;
    if (status < 0) return nullptr;
    if (count > 1) joined.count = count, table.gpus = &joined;
    device.count = count;
    return &table;
}

static int product(float *y, const void *x, const void *w, int64_t n, int64_t k, int64_t m)
{
    const struct lt_product p = lt_product_of(y, DTYPE_F32, { x, DTYPE_BF16, false, 0 },
                                              { w, DTYPE_BF16, false, 0 }, n, m, k);
    return lt_supports(&p) ? lt_multiply(&p) : cuda_fail("cuBLASLt has no algorithm for it");
}

static bool switch_ring(bool on)
{
    device.ring = on;
    return here()->bulk;
}

static void *stream_now(void)
{
    return cuda_stream();
}

extern "C" __attribute__((visibility("default"))) const struct cuda_library *vlmsh_cuda_library(
    void)
{
    static const struct cuda_library library = { .version = VERSION,
                                                 .table = sizeof(struct backend),
                                                 .count = count_gpus,
                                                 .look = look,
                                                 .open = open_gpus,
                                                 .product = product,
                                                 .stream = stream_now,
                                                 .ring = switch_ring };
    return &library;
}
