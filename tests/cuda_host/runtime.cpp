// tests/cuda_host/runtime.cpp -- the CUDA runtime on the host, without a GPU: memory with guard
// pages, copies, streams, events and graphs.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <deque>
#include <map>
#include <vector>

#include "copy_queue.h"
#include "work.h"

namespace
{

enum { PAGE = 4096 };

enum { GPUS_MOST = 8 };

struct region {
    char *pages;
    size_t size; // bytes without the last page, a guard page
    int gpu;
    size_t requested; // bytes
    void *notes;      // records of tests/cuda_ptx/
};

// A copy to the GPU that was requested and has not begun.
struct upload {
    char *to;
    const char *from;
    size_t size;
    int gpu;
};

std::vector<upload> uploads;
size_t arrived;                         // uploads made before the pending ones
std::map<char *, region> regions;       // by the address given to the caller
int open_accesses;                      // cuda_host_access objects that exist
size_t allocated[GPUS_MOST];            // bytes
int current;                            // GPU
cudaError_t last;                       // error of the last call or launch, until it is queried
bool peer_access[GPUS_MOST][GPUS_MOST]; // [i][j]: GPU i may access the memory of GPU j

long begun[GPUS_MOST]; // kernels and copies
long ended[GPUS_MOST]; // how many of these have ended, as far as the host knows

std::map<char *, size_t> pinned; // sizes by address
size_t pinned_size;              // sum of all

// A copy to pinned memory that the host has not waited for: the bytes at the time of the request.
// Until the host waits, the destination holds NaNs.
struct download {
    char *to;
    std::vector<char> bytes;
};

int gpus(void)
{
    static const char *const said = getenv("CUDA_HOST_GPUS");
    return said ? atoi(said) : 1;
}

bool always_open(void)
{
    static const char *const open = getenv("CUDA_HOST_OPEN");
    return open && *open == '1';
}

void protect_all(int rights)
{
    if (always_open()) return;
    for (auto &r : regions)
        if (r.second.gpu == current || peer_access[current][r.second.gpu])
            mprotect(r.second.pages, r.second.size, rights);
}

// Memory of an emulated GPU: $CUDA_HOST_MEMORY bytes.
size_t all_memory(void)
{
    static const char *const said = getenv("CUDA_HOST_MEMORY");
    return said ? (size_t)strtoull(said, nullptr, 10) : (size_t)4 << 30;
}

// Shared memory of a block: $CUDA_HOST_SHARED bytes, by default an H200's.
size_t shared_most(void)
{
    const char *const said = getenv("CUDA_HOST_SHARED");
    return said ? (size_t)strtoull(said, nullptr, 10) : (size_t)227 << 10;
}

// Limit of pinned memory: $CUDA_HOST_PINNED bytes.
size_t pinned_most(void)
{
    const char *const said = getenv("CUDA_HOST_PINNED");
    return said ? (size_t)strtoull(said, nullptr, 10) : SIZE_MAX;
}

// Dynamic shared memory beyond 48 KB that kernels were allowed, per GPU.
std::map<const void *, size_t> allowed[GPUS_MOST];

// True if a kernel has faulted.
bool faulted(void)
{
    static const char *const said = getenv("CUDA_HOST_FAULT");
    return said && begun[0] >= atol(said);
}

// Records a call's failure, which cudaGetLastError then returns, too, as on a GPU.
cudaError_t failed(cudaError_t why)
{
    return last = faulted() ? cudaErrorIllegalAddress : why;
}

size_t rounded_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}
} // namespace

// after[i]: the stream's next work, or the event, is ordered after the first after[i] kernels and
// copies begun on GPU i.
struct cuda_host_stream {
    int gpu;
    long after[GPUS_MOST];
    std::deque<download> copies; // copies to pinned memory that the host has not waited for
    long arrived;                // number of earlier copies
    long capture;                // capture that the stream belongs to; 0: none
    bool second;           // a second stream of its GPU: runs only copies, in parallel with kernels
    cuda_host_queue queue; // the copies of a second stream
};

struct cuda_host_event {
    int gpu;
    size_t uploads; // uploads requested before the event
    long after[GPUS_MOST];
    cudaStream_t stream;
    long copies;  // copies requested on the stream before the event
    long capture; // the stream's capture at the event
    long queue;   // tasks requested before the event, on a second stream
};

static std::vector<cudaStream_t> streams;
static cudaStream_t kernel_streams[GPUS_MOST]; // one per GPU

// Makes the first `until` of all uploads. Uploads run as late as on a GPU, which reveals host
// memory that the program changed too early.
static void arrive(size_t until = SIZE_MAX)
{
    const int before = current;
    size_t n = 0;
    for (; n < uploads.size() && arrived + n < until; n++) {
        current = uploads[n].gpu;
        if (!open_accesses) protect_all(PROT_READ | PROT_WRITE);
        memcpy(uploads[n].to, uploads[n].from, uploads[n].size);
        if (!open_accesses) protect_all(PROT_NONE);
    }
    current = before;
    arrived += n;
    uploads.erase(uploads.begin(), uploads.begin() + (ptrdiff_t)n);
}

// True if the stream is ordered after all work begun on streams of kernels.
static bool is_last(cudaStream_t stream)
{
    bool good = stream && stream->gpu == current && !faulted();
    for (int i = 0; i < GPUS_MOST && good; i++) good = stream->after[i] == begun[i];
    return good;
}

// Counts the next kernel or copy of a stream of kernels; false if that work may not begin.
static bool begin(cudaStream_t stream)
{
    const bool good = is_last(stream) && !stream->second;
    if (good) stream->after[stream->gpu] = ++begun[stream->gpu];
    return good;
}

static void run_copy_queues(void)
{
    for (cudaStream_t s : streams) cuda_host_queue_run(&s->queue);
}

__attribute__((visibility("default"))) long cuda_host_drains, cuda_host_bulk_copies;

// Makes the host wait for the stream's first `copies` copies and all work in `after`.
static void wait_for(cudaStream_t stream, long copies, const long after[GPUS_MOST])
{
    for (; stream->arrived < copies; stream->arrived++, stream->copies.pop_front()) {
        const download &one = stream->copies.front();
        memcpy(one.to, one.bytes.data(), one.bytes.size());
    }
    const int gpu = stream->gpu;
    if (after[gpu] == begun[gpu] && ended[gpu] < begun[gpu]) cuda_host_drains++;
    if (after[gpu] > ended[gpu]) ended[gpu] = after[gpu];
}

static bool is_pinned(const void *memory)
{
    const char *const at = (const char *)memory;
    auto next = pinned.upper_bound((char *)memory);
    return next != pinned.begin() && at < (--next)->first + next->second;
}

std::vector<cuda_host_region> cuda_host_regions(void)
{
    std::vector<cuda_host_region> all;
    for (auto &r : regions)
        if (r.second.gpu == current || peer_access[current][r.second.gpu])
            all.push_back({ r.first, r.second.requested, &r.second.notes });
    return all;
}

cuda_host_access::cuda_host_access()
{
    arrive();
    if (!open_accesses++) protect_all(PROT_READ | PROT_WRITE);
}

cuda_host_access::~cuda_host_access()
{
    if (!--open_accesses) protect_all(PROT_NONE);
}

cudaError_t cudaMalloc(void **memory, size_t size)
{
    *memory = nullptr;
    if (faulted()) return failed(cudaErrorIllegalAddress);
    if (size + 64 > all_memory() - allocated[current]) return failed(cudaErrorMemoryAllocation);
    // The memory ends at the guard page, as far as its alignment allows.
    const size_t inside = rounded_up(size ? size : 1, 64), pages = rounded_up(inside, PAGE);
    char *at = (char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
    mprotect(at + pages, PAGE, PROT_NONE);
    char *given = at + (pages - inside);
    if (cuda_host_mode() == CUDA_HOST_ALL) // NaNs reveal reads of uninitialized memory
        memset(given, 0xff, inside < 65536 ? inside : 65536);
    regions[given] = { at, pages, current, size, nullptr };
    allocated[current] += inside;
    cuda_host_allocated(current, (int64_t)inside);
    if (!open_accesses && !always_open()) mprotect(at, pages, PROT_NONE);
    *memory = given;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    arrive();
    run_copy_queues();
    if (!memory) return cudaSuccess;
    const auto found = regions.find((char *)memory);
    if (found == regions.end()) return failed(cudaErrorInvalidValue);
    const region r = found->second;
    const size_t inside = r.size - (size_t)(found->first - r.pages);
    munmap(r.pages, r.size + PAGE);
    free(r.notes);
    allocated[r.gpu] -= inside;
    cuda_host_allocated(r.gpu, -(int64_t)inside);
    regions.erase(found);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    if (faulted()) return failed(cudaErrorIllegalAddress);
    *total = all_memory();
    *unused = *total - allocated[current];
    return cudaSuccess;
}

bool cuda_host_is_memory(const void *memory, size_t size)
{
    if (!memory || always_open()) return true; // tests may pass host memory too
    auto found = regions.upper_bound((char *)memory);
    if (found != regions.begin()) {
        const region &r = (--found)->second;
        const size_t left = (size_t)(r.pages + r.size - (char *)memory);
        if ((char *)memory <= r.pages + r.size && size <= left) return true;
    }
    last = cudaErrorIllegalAddress;
    return false;
}

// Dry runs of corners still make small copies, whose data a block may read.
static bool is_left_out(size_t size)
{
    return cuda_host_mode() == CUDA_HOST_NOTHING ||
           (cuda_host_mode() == CUDA_HOST_CORNERS && size > (1 << 20));
}

// Captures a copy from GPU to GPU like a kernel.
static bool capture_copy(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                         cudaStream_t stream)
{
    if (kind != cudaMemcpyDeviceToDevice) return false;
    cuda_host_begin(stream);
    return cuda_host_capture([=]() {
        cuda_host_access access;
        if (!is_left_out(size)) memmove(to, from, size);
    });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const bool second = stream && stream->second;
    if (stream && stream->capture && capture_copy(to, from, size, kind, stream)) return cudaSuccess;
    if (cuda_host_fail_capture() || !(second ? is_last(stream) : begin(stream)))
        return failed(cudaErrorInvalidValue);
    if ((kind != cudaMemcpyDeviceToHost && !cuda_host_is_memory(to, size)) ||
        (kind != cudaMemcpyHostToDevice && !cuda_host_is_memory(from, size)))
        return cudaErrorIllegalAddress;
    cuda_host_copied(current, size);
    if (second) {
        if (!is_pinned(kind == cudaMemcpyHostToDevice ? from : to))
            return failed(cudaErrorInvalidValue); // the host would wait
        cuda_host_queue_copy(&stream->queue, to, from, size, kind == cudaMemcpyHostToDevice);
        return cudaSuccess;
    }
    cuda_ptx_waited(); // an early start overlaps with kernels, never with a copy
    if (kind == cudaMemcpyDeviceToHost && cuda_host_mode() != CUDA_HOST_ALL) {
        memset(to, 0, size);
        return cudaSuccess;
    }
    if (is_left_out(size)) return cudaSuccess;
    if (kind == cudaMemcpyHostToDevice) {
        uploads.push_back({ (char *)to, (const char *)from, size, current });
        return cudaSuccess;
    }
    cuda_host_access access;
    if (kind != cudaMemcpyDeviceToHost || !is_pinned(to)) {
        memmove(to, from, size);
        return cudaSuccess;
    }
    const char *const bytes = (const char *)from;
    stream->copies.push_back({ (char *)to, { bytes, bytes + size } });
    memset(to, 0xff, size);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t stream)
{
    if (cuda_host_fail_capture() || !begin(stream)) return failed(cudaErrorInvalidValue);
    if (!cuda_host_is_memory(to, size)) return cudaErrorIllegalAddress;
    if (is_left_out(size)) return cudaSuccess;
    cuda_host_access access;
    memset(to, byte, size);
    cuda_ptx_waited();
    return cudaSuccess;
}

// --- pinned memory, events -----------------------------------------------------------------------

// Dry runs provide only portable memory, which only GPUs access: the program would read whole files
// into other pinned memory.
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags)
{
    const bool wanted = cuda_host_mode() == CUDA_HOST_ALL || flags == cudaHostAllocPortable;
    *memory = wanted && pinned_size + size <= pinned_most() ? malloc(size) : nullptr;
    if (!*memory) return failed(cudaErrorMemoryAllocation);
    pinned[(char *)*memory] = size;
    pinned_size += size;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    const auto found = pinned.find((char *)memory);
    if (found == pinned.end()) return failed(cudaErrorInvalidValue);
    arrive();
    run_copy_queues();
    pinned_size -= found->second;
    pinned.erase(found);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new cuda_host_event{ current, 0, {}, nullptr, 0, 0, 0 };
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (event->gpu != stream->gpu) return failed(cudaErrorInvalidValue);
    memcpy(event->after, stream->after, sizeof event->after);
    event->stream = stream;
    event->capture = stream->capture;
    event->copies = stream->arrived + (long)stream->copies.size();
    event->uploads = arrived + uploads.size();
    event->queue = stream->queue.requested;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (event->capture) return failed(cudaErrorInvalidValue);
    if (faulted()) return failed(cudaErrorIllegalAddress);
    arrive(event->uploads);
    if (!event->stream) return cudaSuccess;
    cuda_host_queue_run(&event->stream->queue, event->queue);
    wait_for(event->stream, event->copies, event->after);
    return cudaSuccess;
}

cudaError_t cuda_host_attributes(struct cudaFuncAttributes *kernel)
{
    if (getenv("CUDA_HOST_IMAGE")) return failed(cudaErrorNoKernelImageForDevice);
    kernel->ptxVersion = 90;
    return cudaSuccess;
}

cudaError_t cuda_host_allow(const void *kernel, int bytes)
{
    if (bytes < 0 || (size_t)bytes > shared_most()) return failed(cudaErrorInvalidValue);
    allowed[current][kernel] = (size_t)bytes;
    return cudaSuccess;
}

// By default a kernel may use 48 KB of shared memory, of which 1 KB is reserved for static shared
// memory.
bool cuda_host_fits(const void *kernel, dim3 grid, dim3 block, size_t dynamic)
{
    const bool memory = dynamic <= (47 << 10) || dynamic <= allowed[current][kernel];
    const bool shape = grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= 65535 &&
                       grid.z <= 65535 && block.x * block.y * block.z <= 1024;
    if (!shape)
        failed(cudaErrorInvalidConfiguration);
    else if (!memory)
        failed(cudaErrorInvalidValue);
    else
        cuda_host_started(current);
    return memory && shape;
}

// --- graphs --------------------------------------------------------------------------------------

struct cuda_host_kernel {
    int gpu;
    std::function<void()> call;
};

struct cuda_host_graph {
    std::vector<cuda_host_kernel> kernels;
    bool failed;
};

static cuda_host_graph *capturing; // the active capture
static long captures;              // number of that capture
static cudaStream_t origin;        // stream where it began
static cudaStream_t started;       // stream of the kernel being started

// A stream that waits for a captured one joins the capture. A captured stream cannot wait for an
// uncaptured one, and no stream can wait for an event of an earlier capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const bool old = event->capture && !(capturing && event->capture == captures);
    if (old || (stream->capture && !event->capture)) {
        cuda_host_fail_capture();
        return failed(cudaErrorInvalidValue);
    }
    stream->capture = event->capture;
    for (int i = 0; i < GPUS_MOST; i++)
        if (event->after[i] > stream->after[i]) stream->after[i] = event->after[i];
    if (!event->stream) return cudaSuccess;
    if (stream->second)
        cuda_host_queue_order(&stream->queue, &event->stream->queue, event->queue);
    else
        cuda_host_queue_run(&event->stream->queue, event->queue);
    return cudaSuccess;
}

void cuda_host_begin(cudaStream_t stream)
{
    started = stream;
    if (!begin(stream)) last = cudaErrorInvalidValue;
}

bool cuda_host_capture(const std::function<void()> &kernel)
{
    if (!capturing || !started->capture) return false;
    capturing->kernels.push_back({ started->gpu, kernel });
    return true;
}

bool cuda_host_fail_capture(void)
{
    if (capturing) capturing->failed = true;
    return capturing != nullptr;
}

void cuda_host_submit_ptx(const cuda_host_work &work)
{
    const auto call = [=]() {
        cuda_host_access access;
        cuda_ptx_run(work);
    };
    if (!cuda_host_capture(call)) call();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    if (capturing) return failed(cudaErrorInvalidValue);
    capturing = new cuda_host_graph();
    stream->capture = ++captures;
    origin = stream;
    return cudaSuccess;
}

// A capture must end on the stream where it began, after all work of the streams that joined.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cuda_host_graph *const noted = capturing;
    bool good = noted && !noted->failed && stream == origin;
    for (cudaStream_t s : streams) {
        if (s->capture && origin->after[s->gpu] < s->after[s->gpu]) good = false;
        s->capture = 0;
    }
    capturing = nullptr;
    *graph = good ? noted : nullptr;
    if (!good) delete noted;
    return good ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *run, cudaGraph_t graph, unsigned flags)
{
    *run = new cuda_host_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t stream)
{
    const int before = current;
    if (!begin(stream)) return failed(cudaErrorInvalidValue);
    for (const cuda_host_kernel &k : run->kernels) {
        current = k.gpu;
        cuda_host_started(current);
        k.call();
    }
    current = before;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t run)
{
    delete run;
    return cudaSuccess;
}

// --- the GPU -------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = gpus();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int number)
{
    memset(p, 0, sizeof *p);
    if (number < 0 || number >= gpus()) return failed(cudaErrorInvalidValue);
    snprintf(p->name, sizeof p->name, "an emulated GPU");
    p->major = 9;
    p->multiProcessorCount = 2;
    p->totalGlobalMem = all_memory();
    p->sharedMemPerBlockOptin = shared_most();
    return cudaSuccess;
}

int cuda_host_gpu(void)
{
    return current;
}

cudaError_t cudaSetDevice(int number)
{
    if (number < 0 || number >= gpus()) return failed(cudaErrorInvalidValue);
    current = number;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *number)
{
    *number = current;
    return cudaSuccess;
}

// With $CUDA_HOST_ALONE=1 no GPU can access another's memory.
cudaError_t cudaDeviceCanAccessPeer(int *can, int number, int other)
{
    *can = number != other && !getenv("CUDA_HOST_ALONE");
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags)
{
    if (other == current) return failed(cudaErrorInvalidValue);
    if (peer_access[current][other]) return failed(cudaErrorPeerAccessAlreadyEnabled);
    peer_access[current][other] = true;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    const cudaStream_t first = kernel_streams[current];
    bool second = false; // an unused stream belongs to a device that could not be opened
    for (int i = 0; i < GPUS_MOST && first; i++) second |= first->after[i] > 0;
    *stream = new cuda_host_stream{ current, {}, {}, 0, 0, second, {} };
    if (!second) kernel_streams[current] = *stream;
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cuda_ptx_waited();
    if (faulted()) return failed(cudaErrorIllegalAddress);
    if (stream->capture && cuda_host_fail_capture()) return failed(cudaErrorInvalidValue);
    arrive();
    cuda_host_queue_run(&stream->queue);
    wait_for(stream, stream->arrived + (long)stream->copies.size(), stream->after);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = faulted() ? (cudaError_t)cudaErrorIllegalAddress : last;
    last = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "invalid value";
    }
}
