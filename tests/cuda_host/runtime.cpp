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

// A copy to the GPU that has been asked for and has not begun.
struct upload {
    char *to;
    const char *from;
    size_t size;
    int gpu;
};

std::vector<upload> uploads;
size_t arrived;                   // how many came before them
std::map<char *, region> regions; // by what the caller got
int doors;                        // how many accesses are open
size_t handed_out[GPUS_MOST];
int current;                        // GPU
cudaError_t last;                   // that a call or a kernel's start gave, until it is asked for
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

// The most that a block can have: $CUDA_HOST_SHARED bytes, else what an H200 has.
size_t shared_most(void)
{
    const char *const said = getenv("CUDA_HOST_SHARED");
    return said ? (size_t)strtoull(said, nullptr, 10) : (size_t)227 << 10;
}

// What is allowed to kernels beyond 48 KB, GPU by GPU.
std::map<const void *, size_t> allowed[GPUS_MOST];

// Has a kernel faulted?
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

// after[i]: how much of what was begun on GPU i has ended when the stream goes on, or the event is.
struct cuda_host_stream {
    int gpu;
    long after[GPUS_MOST];
};

struct cuda_host_event {
    int gpu;
    size_t copies; // to the GPU, asked for before it
    long after[GPUS_MOST];
};

// Does the first `until` copies that were ever asked for, as late as a GPU may: memory of the host
// that was changed too early shows.
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

// The next kernel or copy of the stream: may it begin?
static bool begin(cudaStream_t stream)
{
    bool good = stream && stream->gpu == current && !faulted();
    for (int i = 0; i < GPUS_MOST && good; i++) good = stream->after[i] == begun[i];
    if (good) stream->after[stream->gpu] = ++begun[stream->gpu];
    return good;
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
    if (size > all_memory() - handed_out[current] - 64) return failed(cudaErrorMemoryAllocation);
    // It ends where the last page begins, as far as its alignment lets it.
    const size_t inside = rounded_up(size ? size : 1, 64), pages = rounded_up(inside, PAGE);
    char *at = (char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
    mprotect(at + pages, PAGE, PROT_NONE);
    char *given = at + (pages - inside);
    memset(given, 0xff, inside < 65536 ? inside : 65536); // NaNs: what nobody wrote shows
    regions[given] = { at, pages, current };
    handed_out[current] += inside;
    if (!doors && !always_open()) mprotect(at, pages, PROT_NONE);
    *memory = given;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    arrive();
    if (!memory) return cudaSuccess;
    const auto found = regions.find((char *)memory);
    if (found == regions.end()) return failed(cudaErrorInvalidValue);
    munmap(found->second.pages, found->second.size + PAGE);
    handed_out[found->second.gpu] -=
        found->second.size - (size_t)(found->first - found->second.pages);
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

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if (cuda_host_refuse() || !begin(stream)) return failed(cudaErrorInvalidValue);
    if (kind == cudaMemcpyHostToDevice) {
        uploads.push_back({ (char *)to, (const char *)from, size, current });
        return cudaSuccess;
    }
    cuda_host_access access;
    memmove(to, from, size);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t stream)
{
    if (cuda_host_refuse() || !begin(stream)) return failed(cudaErrorInvalidValue);
    cuda_host_access access;
    memset(to, byte, size);
    return cudaSuccess;
}

// --- pinned memory, events -----------------------------------------------------------------------

cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags)
{
    *memory = malloc(size);
    return *memory ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new cuda_host_event{ current, 0, {} };
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (event->gpu != stream->gpu) return failed(cudaErrorInvalidValue);
    memcpy(event->after, stream->after, sizeof event->after);
    event->copies = arrived + uploads.size();
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    arrive(event->copies);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    for (int i = 0; i < GPUS_MOST; i++)
        if (event->after[i] > stream->after[i]) stream->after[i] = event->after[i];
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

// 48 KB are everyone's, of which a kilobyte is left for what kernels have of a fixed size.
bool cuda_host_fits(const void *kernel, dim3 grid, dim3 block, size_t dynamic)
{
    const bool room = dynamic <= (47 << 10) || dynamic <= allowed[current][kernel];
    const bool shape = grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= 65535 &&
                       grid.z <= 65535 && block.x * block.y * block.z <= 1024;
    if (!room || !shape) last = cudaErrorInvalidValue;
    return room && shape;
}

void cuda_host_check(cudaStream_t stream)
{
    if (!begin(stream)) last = cudaErrorInvalidValue;
}

// --- graphs --------------------------------------------------------------------------------------

struct cuda_host_kernel {
    dim3 grid, block;
    size_t dynamic;
    std::function<void()> call;
};

struct cuda_host_graph {
    std::vector<cuda_host_kernel> kernels;
    bool failed;
};

static cuda_host_graph *noting; // the capture that is on

bool cuda_host_note(dim3 grid, dim3 block, size_t dynamic, const std::function<void()> &kernel)
{
    if (!noting) return false;
    noting->kernels.push_back({ grid, block, dynamic, kernel });
    return true;
}

bool cuda_host_refuse(void)
{
    if (noting) noting->failed = true;
    return noting != nullptr;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    if (noting) return failed(cudaErrorInvalidValue);
    noting = new cuda_host_graph();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cuda_host_graph *const noted = noting;
    noting = nullptr;
    *graph = noted && !noted->failed ? noted : nullptr;
    if (noted && noted->failed) delete noted;
    return *graph ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *run, cudaGraph_t graph, unsigned flags)
{
    *run = new cuda_host_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t stream)
{
    for (const cuda_host_kernel &k : run->kernels)
        cuda_host_launch(k.grid, k.block, k.dynamic, k.call);
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
    snprintf(p->name, sizeof p->name, "a GPU that the host plays");
    p->major = 9;
    p->multiProcessorCount = 2;
    p->totalGlobalMem = all_memory();
    p->sharedMemPerBlockOptin = shared_most();
    return cudaSuccess;
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
    *stream = new cuda_host_stream{ current, {} };
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (faulted()) return failed(cudaErrorIllegalAddress);
    arrive();
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
    return error == cudaErrorMemoryAllocation         ? "out of memory"
           : error == cudaErrorIllegalAddress         ? "an illegal memory access was encountered"
           : error == cudaErrorNoKernelImageForDevice ? "no kernel image is available"
                                                      : "invalid value";
}
