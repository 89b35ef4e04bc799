// tests/cuda_host/runtime.cpp -- the CUDA runtime on the host: memory with walls, copies, no GPU.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <map>
#include <vector>

#include "cuda_runtime.h"

namespace
{

enum { PAGE = 4096 };

enum { GPUS_MOST = 8 };

struct region {
    char *pages;
    size_t size; // without the last page, which nobody may touch
    int gpu;
};

std::map<char *, region> regions; // by what the caller got
int doors;                        // how many accesses are open
size_t handed_out[GPUS_MOST];
int current;                        // GPU
cudaError_t last;                   // of a kernel's start
bool reaches[GPUS_MOST][GPUS_MOST]; // the memory of another

long begun[GPUS_MOST]; // kernels and copies

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

// What a GPU of the host has: $CUDA_HOST_MEMORY bytes.
size_t all_memory(void)
{
    static const char *const said = getenv("CUDA_HOST_MEMORY");
    return said ? (size_t)strtoull(said, nullptr, 10) : (size_t)4 << 30;
}

size_t rounded_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}
} // namespace

// after[i]: how much of what was begun on GPU i has ended when the stream goes on, or the event is.
struct cuda_host_stream {
    int gpu;
    long after[GPUS_MOST];
};

struct cuda_host_event {
    int gpu;
    long after[GPUS_MOST];
};

// The next kernel or copy of the stream: may it begin?
static bool begin(cudaStream_t stream)
{
    bool good = stream && stream->gpu == current;
    for (int i = 0; i < GPUS_MOST && good; i++) good = stream->after[i] == begun[i];
    if (good) stream->after[stream->gpu] = ++begun[stream->gpu];
    return good;
}

cuda_host_access::cuda_host_access()
{
    if (!doors++) protect_all(PROT_READ | PROT_WRITE);
}

cuda_host_access::~cuda_host_access()
{
    if (!--doors) protect_all(PROT_NONE);
}

cudaError_t cudaMalloc(void **memory, size_t size)
{
    *memory = nullptr;
    if (size + 64 > all_memory() - handed_out[current]) return cudaErrorMemoryAllocation;
    // It ends where the last page begins, as far as its alignment lets it.
    const size_t inside = rounded_up(size ? size : 1, 64), pages = rounded_up(inside, PAGE);
    char *at = (char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return cudaErrorMemoryAllocation;
    mprotect(at + pages, PAGE, PROT_NONE);
    char *given = at + (pages - inside);
    if (cuda_host_how() == CUDA_HOST_ALL) // NaNs: what nobody wrote shows
        memset(given, 0xff, inside < 65536 ? inside : 65536);
    regions[given] = { at, pages, current };
    handed_out[current] += inside;
    cuda_host_took(current, (int64_t)inside);
    if (!doors && !always_open()) mprotect(at, pages, PROT_NONE);
    *memory = given;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    if (!memory) return cudaSuccess;
    const auto found = regions.find((char *)memory);
    if (found == regions.end()) return cudaErrorInvalidValue;
    const region r = found->second;
    const size_t inside = r.size - (size_t)(found->first - r.pages);
    munmap(r.pages, r.size + PAGE);
    handed_out[r.gpu] -= inside;
    cuda_host_took(r.gpu, -(int64_t)inside);
    regions.erase(found);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
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

// Where nothing is computed small things are copied all the same if a block may look at them.
static bool is_left_out(size_t size)
{
    return cuda_host_how() == CUDA_HOST_NOTHING ||
           (cuda_host_how() == CUDA_HOST_CORNERS && size > (1 << 20));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if (cuda_host_refuse() || !begin(stream)) return cudaErrorInvalidValue;
    if ((kind != cudaMemcpyDeviceToHost && !cuda_host_reads(to, size)) ||
        (kind != cudaMemcpyHostToDevice && !cuda_host_reads(from, size)))
        return cudaGetLastError();
    cuda_host_copied(current, size);
    if (kind == cudaMemcpyDeviceToHost && cuda_host_how() != CUDA_HOST_ALL) {
        memset(to, 0, size);
    } else if (!is_left_out(size)) {
        cuda_host_access access;
        memmove(to, from, size);
    }
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t stream)
{
    if (cuda_host_refuse() || !begin(stream)) return cudaErrorInvalidValue;
    if (!cuda_host_reads(to, size)) return cudaGetLastError();
    if (is_left_out(size)) return cudaSuccess;
    cuda_host_access access;
    memset(to, byte, size);
    return cudaSuccess;
}

// --- pinned memory, events: every copy has ended when its call returns ---------------------------

// None where nothing is copied: the program would read whole files into it.
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags)
{
    *memory = cuda_host_how() == CUDA_HOST_ALL ? malloc(size) : nullptr;
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new cuda_host_event{ current, {} };
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (event->gpu != stream->gpu) return cudaErrorInvalidValue;
    memcpy(event->after, stream->after, sizeof event->after);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    for (int i = 0; i < GPUS_MOST; i++)
        if (event->after[i] > stream->after[i]) stream->after[i] = event->after[i];
    return cudaSuccess;
}

void cuda_host_began(cudaStream_t stream)
{
    if (!begin(stream)) last = cudaErrorInvalidValue;
}

bool cuda_host_check(cudaStream_t stream, dim3 grid, dim3 block, size_t dynamic, void *kernel)
{
    const cudaError_t error =
        begin(stream) ? cuda_host_limits(grid, block, dynamic, kernel) : cudaErrorInvalidValue;
    if (error) last = error;
    return !error;
}

// --- graphs --------------------------------------------------------------------------------------

struct cuda_host_graph {
    std::vector<std::function<void()>> kernels;
    bool failed;
};

static cuda_host_graph *noting; // the capture that is on

bool cuda_host_note(const std::function<void()> &kernel)
{
    if (!noting) return false;
    noting->kernels.push_back(kernel);
    return true;
}

bool cuda_host_refuse(void)
{
    if (noting) noting->failed = true;
    return noting != nullptr;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    if (noting) return cudaErrorInvalidValue;
    noting = new cuda_host_graph();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cuda_host_graph *const noted = noting;
    noting = nullptr;
    *graph = noted && !noted->failed ? noted : nullptr;
    if (noted && noted->failed) delete noted;
    return *graph ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *run, cudaGraph_t graph, unsigned flags)
{
    *run = new cuda_host_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t stream)
{
    for (const std::function<void()> &kernel : run->kernels) kernel();
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
    if (number < 0 || number >= gpus()) return cudaErrorInvalidValue;
    snprintf(p->name, sizeof p->name, "a GPU that the host plays");
    p->major = cuda_host_architecture() / 10;
    p->minor = cuda_host_architecture() % 10;
    p->multiProcessorCount = 2;
    p->totalGlobalMem = all_memory();
    p->sharedMemPerBlockOptin = cuda_host_shared_most();
    return cudaSuccess;
}

int cuda_host_gpu(void)
{
    return current;
}

cudaError_t cudaSetDevice(int number)
{
    if (number < 0 || number >= gpus()) return cudaErrorInvalidValue;
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
    if (other == current) return cudaErrorInvalidValue;
    if (reaches[current][other]) return cudaErrorPeerAccessAlreadyEnabled;
    reaches[current][other] = true;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    *stream = new cuda_host_stream{ current, {} };
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "invalid value";
    }
}
