// tests/cuda_host/runtime.cpp -- the CUDA runtime on the host: memory with walls, copies, no GPU.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <map>
#include <vector>

#include "work.h"

namespace
{

enum { PAGE = 4096 };

enum { GPUS_MOST = 8 };

struct region {
    char *pages;
    size_t size; // without the last page, which nobody may touch
    int gpu;
    size_t asked;
    void *notes;
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

bool reached(const region &r)
{
    return r.gpu == current || reaches[current][r.gpu];
}

void protect_all(int rights)
{
    if (always_open()) return;
    for (auto &r : regions)
        if (reached(r.second)) mprotect(r.second.pages, r.second.size, rights);
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

std::vector<cuda_host_region> cuda_host_regions(void)
{
    std::vector<cuda_host_region> all;
    for (auto &r : regions)
        if (reached(r.second)) all.push_back({ r.first, r.second.asked, &r.second.notes });
    return all;
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
    if (size > all_memory() - handed_out[current] - 64) return cudaErrorMemoryAllocation;
    // It ends where the last page begins, as far as its alignment lets it.
    const size_t inside = rounded_up(size ? size : 1, 64), pages = rounded_up(inside, PAGE);
    char *at = (char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return cudaErrorMemoryAllocation;
    mprotect(at + pages, PAGE, PROT_NONE);
    char *given = at + (pages - inside);
    memset(given, 0xff, inside < 65536 ? inside : 65536); // NaNs: what nobody wrote shows
    regions[given] = { at, pages, current, size, nullptr };
    handed_out[current] += inside;
    if (!doors && !always_open()) mprotect(at, pages, PROT_NONE);
    *memory = given;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    if (!memory) return cudaSuccess;
    const auto found = regions.find((char *)memory);
    if (found == regions.end()) return cudaErrorInvalidValue;
    munmap(found->second.pages, found->second.size + PAGE);
    free(found->second.notes);
    handed_out[found->second.gpu] -=
        found->second.size - (size_t)(found->first - found->second.pages);
    regions.erase(found);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    *total = all_memory();
    *unused = *total - handed_out[current];
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if (cuda_host_refuse() || !begin(stream)) return cudaErrorInvalidValue;
    cuda_host_access access;
    memmove(to, from, size);
    cuda_ptx_wrote(to, size);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t stream)
{
    if (cuda_host_refuse() || !begin(stream)) return cudaErrorInvalidValue;
    cuda_host_access access;
    memset(to, byte, size);
    cuda_ptx_wrote(to, size);
    return cudaSuccess;
}

// --- pinned memory, events: every copy has ended when its call returns ---------------------------

cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags)
{
    *memory = malloc(size);
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

void cuda_host_check(cudaStream_t stream)
{
    if (!begin(stream)) last = cudaErrorInvalidValue;
}

// --- what a GPU does not start
// --------------------------------------------------------------------

static std::map<const void *, int> &allowed_of(int gpu)
{
    static std::map<const void *, int> *const all = new std::map<const void *, int>[GPUS_MOST];
    return all[gpu];
}

cudaError_t cuda_host_allow(const void *kernel, int bytes)
{
    if (bytes > 227 * 1024) return cudaErrorInvalidValue;
    allowed_of(current)[kernel] = bytes;
    return cudaSuccess;
}

bool cuda_host_starts(const cuda_host_work &work)
{
    const auto allowed = allowed_of(current).find(work.kernel);
    const size_t shared_most =
        allowed == allowed_of(current).end() ? 48 * 1024 : (size_t)allowed->second;
    const size_t threads = (size_t)work.block.x * work.block.y * work.block.z;
    const dim3 g = work.grid;
    const bool good = g.x && g.x <= INT32_MAX && g.y && g.y < 65536 && g.z && g.z < 65536 &&
                      threads && threads <= 1024 && work.block.z <= 64 &&
                      work.dynamic <= (shared_most < 48 * 1024 ? 48 * 1024 : shared_most);
    if (!good) last = cudaErrorInvalidValue;
    return good;
}

// --- graphs --------------------------------------------------------------------------------------

struct cuda_host_graph {
    std::vector<cuda_host_work> kernels;
    bool failed;
};

static cuda_host_graph *noting; // the capture that is on

bool cuda_host_note(const cuda_host_work &work)
{
    if (!noting) return false;
    noting->kernels.push_back(work);
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
    for (const cuda_host_work &k : run->kernels) cuda_host_launch(k);
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
    p->major = 9;
    p->multiProcessorCount = 2;
    p->totalGlobalMem = all_memory();
    p->sharedMemPerBlockOptin = 227 * 1024;
    return cudaSuccess;
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
    cuda_ptx_waited();
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
    return error == cudaErrorMemoryAllocation ? "out of memory" : "invalid value";
}
