// kernels/offload.cu -- keeps tensors in pinned host memory until the GPU needs them (offload.h).
//
// The memory is a stack of chunks, and a tensor may span several. Each GPU has a second stream for
// these copies. Through events, a copy waits for the ops before it, and ops wait for the copy at
// `settle`. Pinning a chunk is slow, so chunks are kept from pass to pass.
#include <algorithm>
#include <vector>

#include "kernels/cuda.h"

static constexpr size_t CHUNK = 64 << 20;

struct piece {
    size_t from, bytes; // in the stack
    int gpu;            // whose stream copied it last
    bool open;          // no op has waited for that copy yet
    cudaEvent_t done[CUDA_GPUS_MOST];
};

// Kept until the process ends, so that events are reused.
static struct shelf {
    std::vector<char *> chunks;
    std::vector<struct piece> pieces;
    size_t count; // pieces in use
    bool full;    // allocation failed: stops retrying in each layer
} &shelf = *new struct shelf();

static struct carrier {
    cudaStream_t stream;
    cudaEvent_t asked;
} carriers[CUDA_GPUS_MOST];

// True if a call succeeded. Clears a failure, which is no error of an op.
static bool succeeded(cudaError_t error)
{
    if (error == cudaSuccess) return true;
    cudaGetLastError();
    return false;
}

static bool event_ready(cudaEvent_t *event)
{
    return *event || succeeded(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

static bool carrier_ready(struct carrier *c)
{
    return (c->stream || succeeded(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking))) &&
           event_ready(&c->asked);
}

// The stack's end.
static size_t shelf_end(void)
{
    if (!shelf.count) return 0;
    const struct piece &last = shelf.pieces[shelf.count - 1];
    return (last.from + last.bytes + 63) / 64 * 64;
}

static bool shelf_reach(size_t bytes)
{
    while (shelf.chunks.size() * CHUNK < bytes) {
        void *memory = nullptr;
        shelf.full = shelf.full || !succeeded(cudaHostAlloc(&memory, CHUNK, cudaHostAllocPortable));
        if (shelf.full) return false;
        shelf.chunks.push_back(static_cast<char *>(memory));
    }
    return true;
}

// The next piece, with an event of this GPU; NULL if memory is exhausted.
static struct piece *shelf_next(void)
{
    if (shelf.count == shelf.pieces.size()) shelf.pieces.push_back({});
    struct piece *p = &shelf.pieces[shelf.count];
    return event_ready(&p->done[cuda_gpu_now()]) ? p : nullptr;
}

static cudaError_t copy_chunks(cudaStream_t stream, const struct piece *p, char *device,
                               cudaMemcpyKind kind)
{
    cudaError_t error = cudaSuccess;
    for (size_t at = 0, size; at < p->bytes && error == cudaSuccess; at += size) {
        const size_t place = p->from + at;
        char *const host = shelf.chunks[place / CHUNK] + place % CHUNK;
        size = std::min(CHUNK - place % CHUNK, p->bytes - at);
        error = kind == cudaMemcpyDeviceToHost
                    ? cudaMemcpyAsync(host, device + at, size, kind, stream)
                    : cudaMemcpyAsync(device + at, host, size, kind, stream);
    }
    return error;
}

// Starts a copy after the ops launched so far.
static cudaError_t carry(struct piece *p, char *device, cudaMemcpyKind kind)
{
    struct carrier *c = &carriers[cuda_gpu_now()];
    cudaError_t error = cudaEventRecord(c->asked, cuda_stream());
    if (error == cudaSuccess) error = cudaStreamWaitEvent(c->stream, c->asked, 0);
    if (error == cudaSuccess) error = copy_chunks(c->stream, p, device, kind);
    if (error == cudaSuccess) error = cudaEventRecord(p->done[cuda_gpu_now()], c->stream);
    p->gpu = cuda_gpu_now();
    p->open = true;
    return error;
}

static int64_t put(const void *device, size_t bytes)
{
    cuda_stream(); // its GPU
    if (!bytes || cuda_unrecordable("a copy to the host")) return -1;
    const size_t from = shelf_end();
    struct piece *p = shelf_next();
    if (!p || !carrier_ready(&carriers[cuda_gpu_now()]) || !shelf_reach(from + bytes)) return -1;
    p->from = from, p->bytes = bytes;
    cuda_broke("copying from the GPU",
               carry(p, static_cast<char *>(const_cast<void *>(device)), cudaMemcpyDeviceToHost));
    return (int64_t)shelf.count++;
}

// First waits until another GPU's copy to it has arrived.
static void fetch(int64_t number, void *device)
{
    struct piece *p = &shelf.pieces[(size_t)number];
    struct carrier *c = &carriers[cuda_gpu_now()];
    cuda_stream(); // its GPU
    cudaError_t error = cudaErrorMemoryAllocation;
    if (carrier_ready(c) && event_ready(&p->done[cuda_gpu_now()]))
        error = cudaStreamWaitEvent(c->stream, p->done[p->gpu], 0);
    if (error == cudaSuccess) error = carry(p, static_cast<char *>(device), cudaMemcpyHostToDevice);
    cuda_broke("copying to the GPU", error);
}

static void settle(int64_t number)
{
    struct piece *p = &shelf.pieces[(size_t)number];
    if (p->open) cuda_await(p->done[p->gpu]);
    p->open = false;
}

static void drop(int64_t number)
{
    for (size_t i = (size_t)number; i < shelf.count; i++) settle((int64_t)i);
    if ((size_t)number < shelf.count) shelf.count = (size_t)number;
}

static void release(void)
{
    drop(0);
    shelf.full = false;
    if (shelf.chunks.empty()) return;
    cuda_broke("copying to the host", cudaStreamSynchronize(cuda_stream()));
    for (char *chunk : shelf.chunks) succeeded(cudaFreeHost(chunk));
    shelf.chunks.clear();
}

const struct offload offload_cuda = {
    .put = put, .fetch = fetch, .settle = settle, .drop = drop, .release = release
};
