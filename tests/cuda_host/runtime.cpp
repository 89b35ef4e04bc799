// tests/cuda_host/runtime.cpp -- the CUDA runtime on the host: memory with guard pages, copies, no
// GPU.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <deque>
#include <map>
#include <vector>

#include "beside.h"
#include "work.h"

namespace
{

enum { PAGE = 4096 };

enum { GPUS_MOST = 8 };

struct region {
    char *pages;
    size_t size; // without the last page, a guard page
    int gpu;
    size_t asked;
    void *notes;
};

// A copy to the GPU that was requested and has not begun.
struct upload {
    char *to;
    const char *from;
    size_t size;
    int gpu;
};

std::vector<upload> uploads;
size_t arrived;                   // number of earlier ones, which are done
std::map<char *, region> regions; // by the address that the caller got
int doors;                        // how many accesses are open
size_t handed_out[GPUS_MOST];
int current;                        // GPU
cudaError_t last;                   // error of a call or launch, until it is queried
bool reaches[GPUS_MOST][GPUS_MOST]; // the memory of another

long begun[GPUS_MOST]; // kernels and copies
long idle[GPUS_MOST];  // how many had ended at the last wait for all of them

std::map<char *, size_t> pinned; // by its beginning
size_t pinned_size;              // of all

// A copy to pinned memory that nothing has waited for: the bytes at the time of the request. Until
// something waits, the destination holds NaNs.
struct late {
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
        if (r.second.gpu == current || reaches[current][r.second.gpu])
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

// Shared memory allowed to kernels beyond 48 KB, GPU by GPU.
std::map<const void *, size_t> allowed[GPUS_MOST];

// True if a kernel has faulted.
bool faulted(void)
{
    static const char *const said = getenv("CUDA_HOST_FAULT");
    return said && begun[0] >= atol(said);
}

// Every call's failure is also the next cudaGetLastError's, as on a GPU.
cudaError_t failed(cudaError_t why)
{
    return last = faulted() ? cudaErrorIllegalAddress : why;
}

size_t rounded_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}
} // namespace

// after[i]: how much of the work begun on GPU i has ended when the stream continues, or the event
// occurs.
struct cuda_host_stream {
    int gpu;
    long after[GPUS_MOST];
    std::deque<late> copies; // that nothing has waited for
    long arrived;            // number of earlier ones
    long capture;            // number of the capture that it is part of; 0: none
    bool second;             // of its GPU: copies alone run there, beside the kernels
    cuda_host_beside beside; // those
};

struct cuda_host_event {
    int gpu;
    size_t uploads; // requested before it
    long after[GPUS_MOST];
    cudaStream_t stream;
    long copies;  // of the stream, when it was recorded
    long capture; // of the stream, then
    long beside;  // copies requested of it, if it is a GPU's second stream
};

static std::vector<cudaStream_t> streams;
static cudaStream_t home[GPUS_MOST]; // the stream of a GPU's kernels

// Makes the first `until` copies ever requested, as late as a GPU may: this shows host memory that
// was changed too early.
static void arrive(size_t until = SIZE_MAX)
{
    const int before = current;
    size_t n = 0;
    for (; n < uploads.size() && arrived + n < until; n++) {
        current = uploads[n].gpu;
        if (!doors) protect_all(PROT_READ | PROT_WRITE);
        memcpy(uploads[n].to, uploads[n].from, uploads[n].size);
        if (!doors) protect_all(PROT_NONE);
    }
    current = before;
    arrived += n;
    uploads.erase(uploads.begin(), uploads.begin() + (ptrdiff_t)n);
}

// True if the stream waits for all that was started on streams of kernels.
static bool is_last(cudaStream_t stream)
{
    bool good = stream && stream->gpu == current && !faulted();
    for (int i = 0; i < GPUS_MOST && good; i++) good = stream->after[i] == begun[i];
    return good;
}

// True if the next kernel or copy of a stream of kernels may begin.
static bool begin(cudaStream_t stream)
{
    const bool good = is_last(stream) && !stream->second;
    if (good) stream->after[stream->gpu] = ++begun[stream->gpu];
    return good;
}

static void end_copies_beside(void)
{
    for (cudaStream_t s : streams) cuda_host_beside_end(&s->beside);
}

__attribute__((visibility("default"))) long cuda_host_drains;

// The host waits for the stream's first `copies` copies and all of `after`.
static void wait_for(cudaStream_t stream, long copies, const long after[GPUS_MOST])
{
    for (; stream->arrived < copies; stream->arrived++, stream->copies.pop_front()) {
        const late &one = stream->copies.front();
        memcpy(one.to, one.bytes.data(), one.bytes.size());
    }
    const int gpu = stream->gpu;
    if (after[gpu] == begun[gpu] && idle[gpu] < begun[gpu]) cuda_host_drains++;
    if (after[gpu] > idle[gpu]) idle[gpu] = after[gpu];
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
        if (r.second.gpu == current || reaches[current][r.second.gpu])
            all.push_back({ r.first, r.second.asked, &r.second.notes });
    return all;
}

cuda_host_access::cuda_host_access()
{
    arrive();
    if (!doors++) protect_all(PROT_READ | PROT_WRITE);
}

cuda_host_access::~cuda_host_access()
{
    if (!--doors) protect_all(PROT_NONE);
}

cudaError_t cudaMalloc(void **memory, size_t size)
{
    *memory = nullptr;
    if (faulted()) return failed(cudaErrorIllegalAddress);
    if (size + 64 > all_memory() - handed_out[current]) return failed(cudaErrorMemoryAllocation);
    // It ends where the last page begins, as far as its alignment lets it.
    const size_t inside = rounded_up(size ? size : 1, 64), pages = rounded_up(inside, PAGE);
    char *at = (char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
    mprotect(at + pages, PAGE, PROT_NONE);
    char *given = at + (pages - inside);
    if (cuda_host_how() == CUDA_HOST_ALL) // NaNs: what nobody wrote shows
        memset(given, 0xff, inside < 65536 ? inside : 65536);
    regions[given] = { at, pages, current, size, nullptr };
    handed_out[current] += inside;
    cuda_host_took(current, (int64_t)inside);
    if (!doors && !always_open()) mprotect(at, pages, PROT_NONE);
    *memory = given;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    arrive();
    end_copies_beside();
    if (!memory) return cudaSuccess;
    const auto found = regions.find((char *)memory);
    if (found == regions.end()) return failed(cudaErrorInvalidValue);
    const region r = found->second;
    const size_t inside = r.size - (size_t)(found->first - r.pages);
    munmap(r.pages, r.size + PAGE);
    free(r.notes);
    handed_out[r.gpu] -= inside;
    cuda_host_took(r.gpu, -(int64_t)inside);
    regions.erase(found);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    if (faulted()) return failed(cudaErrorIllegalAddress);
    *total = all_memory();
    *unused = *total - handed_out[current];
    return cudaSuccess;
}

bool cuda_host_reads(const void *memory, size_t size)
{
    if (!memory || always_open()) return true; // open: tests give memory of the host too
    auto found = regions.upper_bound((char *)memory);
    if (found != regions.begin()) {
        const region &r = (--found)->second;
        const size_t left = (size_t)(r.pages + r.size - (char *)memory);
        if ((char *)memory <= r.pages + r.size && size <= left) return true;
    }
    last = cudaErrorIllegalAddress;
    return false;
}

// If nothing is computed, small amounts are copied nevertheless if a block may read them.
static bool is_left_out(size_t size)
{
    return cuda_host_how() == CUDA_HOST_NOTHING ||
           (cuda_host_how() == CUDA_HOST_CORNERS && size > (1 << 20));
}

// A copy from GPU to GPU is noted like a kernel.
static bool note_copy(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                      cudaStream_t stream)
{
    if (kind != cudaMemcpyDeviceToDevice) return false;
    cuda_host_check(stream);
    return cuda_host_note([=]() {
        cuda_host_access access;
        if (!is_left_out(size)) memmove(to, from, size);
    });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const bool beside = stream && stream->second;
    if (stream && stream->capture && note_copy(to, from, size, kind, stream)) return cudaSuccess;
    if (cuda_host_refuse() || !(beside ? is_last(stream) : begin(stream)))
        return failed(cudaErrorInvalidValue);
    if ((kind != cudaMemcpyDeviceToHost && !cuda_host_reads(to, size)) ||
        (kind != cudaMemcpyHostToDevice && !cuda_host_reads(from, size)))
        return cudaErrorIllegalAddress;
    cuda_host_copied(current, size);
    if (beside) {
        if (!is_pinned(kind == cudaMemcpyHostToDevice ? from : to))
            return failed(cudaErrorInvalidValue); // the host would wait
        cuda_host_beside_copy(&stream->beside, to, from, size, kind == cudaMemcpyHostToDevice);
        return cudaSuccess;
    }
    cuda_ptx_waited(); // a kernel that starts early does so beside kernels, not beside a copy
    if (kind == cudaMemcpyDeviceToHost && cuda_host_how() != CUDA_HOST_ALL) {
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
    if (cuda_host_refuse() || !begin(stream)) return failed(cudaErrorInvalidValue);
    if (!cuda_host_reads(to, size)) return cudaErrorIllegalAddress;
    if (is_left_out(size)) return cudaSuccess;
    cuda_host_access access;
    memset(to, byte, size);
    cuda_ptx_waited();
    return cudaSuccess;
}

// --- pinned memory, events -----------------------------------------------------------------------

// In runs that copy nothing, this allocates only memory shared by all GPUs, which only GPUs access:
// the program would read whole files into other memory.
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags)
{
    const bool wanted = cuda_host_how() == CUDA_HOST_ALL || flags == cudaHostAllocPortable;
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
    end_copies_beside();
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
    event->beside = stream->beside.asked;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (event->capture) return failed(cudaErrorInvalidValue);
    if (faulted()) return failed(cudaErrorIllegalAddress);
    arrive(event->uploads);
    if (!event->stream) return cudaSuccess;
    cuda_host_beside_end(&event->stream->beside, event->beside);
    wait_for(event->stream, event->copies, event->after);
    return cudaSuccess;
}

cudaError_t cuda_host_look(struct cudaFuncAttributes *kernel)
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

// Every kernel may have 48 KB, of which 1 KB is left for static shared memory.
bool cuda_host_fits(const void *kernel, dim3 grid, dim3 block, size_t dynamic)
{
    const bool room = dynamic <= (47 << 10) || dynamic <= allowed[current][kernel];
    const bool shape = grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= 65535 &&
                       grid.z <= 65535 && block.x * block.y * block.z <= 1024;
    if (!shape)
        failed(cudaErrorInvalidConfiguration);
    else if (!room)
        failed(cudaErrorInvalidValue);
    else
        cuda_host_started(current);
    return room && shape;
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

static cuda_host_graph *noting; // the active capture
static long captures;           // its number
static cudaStream_t origin;     // where it began
static cudaStream_t started;    // of the kernel that is started

// A stream that waits for a captured one joins the capture. A captured stream cannot wait for an
// uncaptured one, and nobody for an earlier capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const bool old = event->capture && !(noting && event->capture == captures);
    if (old || (stream->capture && !event->capture)) {
        cuda_host_refuse();
        return failed(cudaErrorInvalidValue);
    }
    stream->capture = event->capture;
    for (int i = 0; i < GPUS_MOST; i++)
        if (event->after[i] > stream->after[i]) stream->after[i] = event->after[i];
    if (!event->stream) return cudaSuccess;
    if (stream->second)
        cuda_host_beside_order(&stream->beside, &event->stream->beside, event->beside);
    else
        cuda_host_beside_end(&event->stream->beside, event->beside);
    return cudaSuccess;
}

void cuda_host_check(cudaStream_t stream)
{
    started = stream;
    if (!begin(stream)) last = cudaErrorInvalidValue;
}

bool cuda_host_note(const std::function<void()> &kernel)
{
    if (!noting || !started->capture) return false;
    noting->kernels.push_back({ started->gpu, kernel });
    return true;
}

bool cuda_host_refuse(void)
{
    if (noting) noting->failed = true;
    return noting != nullptr;
}

void cuda_host_go_ptx(const cuda_host_work &work)
{
    const auto call = [=]() {
        cuda_host_access access;
        cuda_ptx_run(work);
    };
    if (!cuda_host_note(call)) call();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    if (noting) return failed(cudaErrorInvalidValue);
    noting = new cuda_host_graph();
    stream->capture = ++captures;
    origin = stream;
    return cudaSuccess;
}

// It ends on the stream where it began, after all work of the streams that joined.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cuda_host_graph *const noted = noting;
    bool good = noted && !noted->failed && stream == origin;
    for (cudaStream_t s : streams) {
        if (s->capture && origin->after[s->gpu] < s->after[s->gpu]) good = false;
        s->capture = 0;
    }
    noting = nullptr;
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

// $CUDA_HOST_ALONE=1: none reaches another's memory.
cudaError_t cudaDeviceCanAccessPeer(int *can, int number, int other)
{
    *can = number != other && !getenv("CUDA_HOST_ALONE");
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags)
{
    if (other == current) return failed(cudaErrorInvalidValue);
    if (reaches[current][other]) return failed(cudaErrorPeerAccessAlreadyEnabled);
    reaches[current][other] = true;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    const cudaStream_t first = home[current];
    bool second = false; // one that never did anything was of a device that could not be opened
    for (int i = 0; i < GPUS_MOST && first; i++) second |= first->after[i] > 0;
    *stream = new cuda_host_stream{ current, {}, {}, 0, 0, second, {} };
    if (!second) home[current] = *stream;
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cuda_ptx_waited();
    if (faulted()) return failed(cudaErrorIllegalAddress);
    if (stream->capture && cuda_host_refuse()) return failed(cudaErrorInvalidValue);
    arrive();
    cuda_host_beside_end(&stream->beside);
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
