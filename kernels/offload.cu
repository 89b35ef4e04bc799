// kernels/offload.cu -- keeps tensors in pinned host memory until the GPU needs them (offload.h).
//
// The memory is a stack of chunks, and a tensor may span several chunks. Each GPU has a second
// stream for these copies. Through events, a copy waits for the ops before it, and ops wait for the
// copy at `settle`. Pinning a chunk is slow, so chunks are kept from pass to pass.
#include <algorithm>
#include <vector>

#include "kernels/cuda.h"

static constexpr size_t CHUNK = 64 << 20;

struct piece {
    size_t from, bytes; // in the stack
    int gpu;            // the GPU whose stream copied it last
    bool open;          // later ops do not yet wait for that copy
    cudaEvent_t done[CUDA_GPUS_MOST];
};

// Kept until the process ends, so that events are reused.
static struct host_stack {
    std::vector<char *> chunks;
    std::vector<struct piece> pieces;
    size_t count; // pieces in use
    bool full;    // allocation failed: no retry before release
} &stack = *new struct host_stack();

static struct copier {
    cudaStream_t stream;
    cudaEvent_t requested;
} copiers[CUDA_GPUS_MOST];

// True if a call succeeded. Clears a failure, so that no op reports it.
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

static bool copier_ready(struct copier *c)
{
    return (c->stream || succeeded(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking))) &&
           event_ready(&c->requested);
}

// The aligned offset at which the next piece begins.
static size_t stack_end(void)
{
    if (!stack.count) return 0;
    const struct piece &last = stack.pieces[stack.count - 1];
    return (last.from + last.bytes + 63) / 64 * 64;
}

static bool stack_reach(size_t bytes)
{
    while (stack.chunks.size() * CHUNK < bytes) {
        void *memory = nullptr;
        stack.full = stack.full || !succeeded(cudaHostAlloc(&memory, CHUNK, cudaHostAllocPortable));
        if (stack.full) return false;
        stack.chunks.push_back(static_cast<char *>(memory));
    }
    return true;
}

// The next piece, with an event of this GPU; NULL if the event cannot be created.
static struct piece *stack_next(void)
{
    if (stack.count == stack.pieces.size()) stack.pieces.push_back({});
    struct piece *p = &stack.pieces[stack.count];
    return event_ready(&p->done[cuda_gpu_now()]) ? p : nullptr;
}

static cudaError_t copy_chunks(cudaStream_t stream, const struct piece *p, char *device,
                               cudaMemcpyKind kind)
{
    cudaError_t error = cudaSuccess;
    for (size_t at = 0, size; at < p->bytes && error == cudaSuccess; at += size) {
        const size_t offset = p->from + at;
        char *const host = stack.chunks[offset / CHUNK] + offset % CHUNK;
        size = std::min(CHUNK - offset % CHUNK, p->bytes - at);
        error = kind == cudaMemcpyDeviceToHost
                    ? cudaMemcpyAsync(host, device + at, size, kind, stream)
                    : cudaMemcpyAsync(device + at, host, size, kind, stream);
    }
    return error;
}

// Starts a copy that runs after the ops launched so far.
static cudaError_t start_copy(struct piece *p, char *device, cudaMemcpyKind kind)
{
    struct copier *c = &copiers[cuda_gpu_now()];
    cudaError_t error = cudaEventRecord(c->requested, cuda_stream());
    if (error == cudaSuccess) error = cudaStreamWaitEvent(c->stream, c->requested, 0);
    if (error == cudaSuccess) error = copy_chunks(c->stream, p, device, kind);
    if (error == cudaSuccess) error = cudaEventRecord(p->done[cuda_gpu_now()], c->stream);
    p->gpu = cuda_gpu_now();
    p->open = true;
    return error;
}

static int64_t put(const void *device, size_t bytes)
{
    cuda_stream(); // selects the current GPU
    if (!bytes || cuda_unrecordable("a copy to the host")) return -1;
    const size_t from = stack_end();
    struct piece *p = stack_next();
    if (!p || !copier_ready(&copiers[cuda_gpu_now()]) || !stack_reach(from + bytes)) return -1;
    p->from = from, p->bytes = bytes;
    cuda_broke(
        "copying from the GPU",
        start_copy(p, static_cast<char *>(const_cast<void *>(device)), cudaMemcpyDeviceToHost));
    return (int64_t)stack.count++;
}

// Starts a copy that first waits for the last copy of this piece, which another GPU may have
// started.
static void fetch(int64_t number, void *device)
{
    struct piece *p = &stack.pieces[(size_t)number];
    struct copier *c = &copiers[cuda_gpu_now()];
    cuda_stream(); // selects the current GPU
    cudaError_t error = cudaErrorMemoryAllocation;
    if (copier_ready(c) && event_ready(&p->done[cuda_gpu_now()]))
        error = cudaStreamWaitEvent(c->stream, p->done[p->gpu], 0);
    if (error == cudaSuccess)
        error = start_copy(p, static_cast<char *>(device), cudaMemcpyHostToDevice);
    cuda_broke("copying to the GPU", error);
}

static void settle(int64_t number)
{
    struct piece *p = &stack.pieces[(size_t)number];
    if (p->open) cuda_await(p->done[p->gpu]);
    p->open = false;
}

static void drop(int64_t number)
{
    for (size_t i = (size_t)number; i < stack.count; i++) settle((int64_t)i);
    if ((size_t)number < stack.count) stack.count = (size_t)number;
}

static void release(void)
{
    drop(0);
    stack.full = false;
    if (stack.chunks.empty()) return;
    cuda_broke("copying to the host", cudaStreamSynchronize(cuda_stream()));
    for (char *chunk : stack.chunks) succeeded(cudaFreeHost(chunk));
    stack.chunks.clear();
}

const struct offload offload_cuda = {
    .put = put, .fetch = fetch, .settle = settle, .drop = drop, .release = release
};
