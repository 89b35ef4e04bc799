// kernels/copy.cu -- copies between the host and the GPU.
//
// Uploads go through a ring of pinned slots; small uploads share a slot. (Without the slots, a copy
// from pageable memory could return before CUDA has read that memory, and the caller could free it
// too early.) During a large upload (weights from a mapped file), one slot is transferred while
// threads fill the next from the file's pages. An upload returns once host memory has been read;
// the GPU's stream completes the transfer before later ops. If pinned memory cannot be allocated,
// the driver copies, and the upload waits for the copy.
//
// Asynchronous downloads (tensors for probes) use a pinned ring of their own, whose bytes are
// reserved and released in order. They run on the ops' stream, so that later ops cannot overwrite
// the source too early; these transfers are not a bottleneck, because probes compute for longer.
#include <string.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/cuda.h"

static constexpr size_t SLOT = 16 << 20, LARGE = 1 << 20, BOUNCE = 4 << 20;
static constexpr int SLOTS = 3, FETCHERS = 4;

// One ring per GPU, created by the GPU's first upload and never freed.
static struct ring {
    bool tried, there;
    char *slot[SLOTS];
    cudaEvent_t left[SLOTS]; // the slot's bytes have reached the GPU
    int at;                  // slot being filled
    size_t used;             // bytes used in that slot
} rings[CUDA_GPUS_MOST];

static struct {
    bool tried;
    char *memory; // BOUNCE bytes
} bounce;

static char *pinned(size_t size)
{
    void *memory = nullptr;
    if (cudaHostAlloc(&memory, size, cudaHostAllocDefault) == cudaSuccess)
        return static_cast<char *>(memory);
    cudaGetLastError(); // clears the error: copies work without pinned memory
    return nullptr;
}

static bool ring_ready(struct ring *r)
{
    if (r->tried) return r->there;
    r->tried = true;
    for (int i = 0; i < SLOTS; i++) {
        r->slot[i] = pinned(SLOT);
        if (!r->slot[i]) return false;
        if (cudaEventCreateWithFlags(&r->left[i], cudaEventDisableTiming) != cudaSuccess) {
            cudaGetLastError(); // clears the error: uploads work without the ring
            return false;
        }
    }
    return r->there = true;
}

// From LARGE bytes on, copies with several threads, because one thread cannot read a file's pages
// as fast as the bus transfers them.
static void fetch(char *to, const char *from, size_t bytes)
{
    const size_t share = bytes < LARGE ? bytes : (bytes / FETCHERS + 4095) / 4096 * 4096 + 4096;
    std::vector<std::thread> others;
    size_t done = std::min(share, bytes);
    try {
        for (size_t at = done; at < bytes; at = done) {
            const size_t size = std::min(share, bytes - at);
            others.emplace_back([=] { memcpy(to + at, from + at, size); });
            done = at + size;
        }
    } catch (...) { // no thread available: this thread copies the rest
    }
    memcpy(to, from, std::min(share, bytes));
    if (done < bytes) memcpy(to + done, from + done, bytes - done);
    for (std::thread &t : others) t.join();
}

// Moves on to the next slot; waits until that slot's former contents have been transferred.
static cudaError_t next_slot(struct ring *r, cudaStream_t stream)
{
    const cudaError_t error = cudaEventRecord(r->left[r->at], stream);
    if (error != cudaSuccess) return error;
    r->at = (r->at + 1) % SLOTS;
    r->used = 0;
    return cudaEventSynchronize(r->left[r->at]);
}

static cudaError_t upload_slots(struct ring *r, char *device, const char *host, size_t bytes,
                                cudaStream_t stream)
{
    for (size_t at = 0; at < bytes;) {
        cudaError_t error = r->used < SLOT ? cudaSuccess : next_slot(r, stream);
        if (error != cudaSuccess) return error;
        const size_t size = std::min(SLOT - r->used, bytes - at);
        char *const slot = r->slot[r->at] + r->used;
        fetch(slot, host + at, size);
        error = cudaMemcpyAsync(device + at, slot, size, cudaMemcpyHostToDevice, stream);
        if (error != cudaSuccess) return error;
        at += size;
        r->used = std::min(SLOT, (r->used + size + 63) / 64 * 64);
    }
    return cudaSuccess;
}

static cudaError_t upload_waiting(void *device, const void *host, size_t bytes, cudaStream_t stream)
{
    const cudaError_t error = cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);
    return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

// Returns once the host's memory has been read.
void cuda_upload(void *device, const void *host, size_t bytes)
{
    const cudaStream_t stream = cuda_stream();
    if (!bytes || cuda_unrecordable("an upload")) return;
    struct ring *ring = &rings[cuda_gpu_now()];
    cuda_broke("copying to the GPU",
               ring_ready(ring) ? upload_slots(ring, static_cast<char *>(device),
                                               static_cast<const char *>(host), bytes, stream)
                                : upload_waiting(device, host, bytes, stream));
}

// Uses pinned memory if the data fits, because the driver's own path takes several times as long.
void cuda_download(void *host, const void *device, size_t bytes)
{
    const cudaStream_t stream = cuda_stream();
    if (!bytes) return;
    if (cuda_unrecordable("a download")) {
        memset(host, 0, bytes);
        return;
    }
    if (bytes <= BOUNCE && !bounce.tried) bounce = { true, pinned(BOUNCE) };
    const bool bounced = bytes <= BOUNCE && bounce.memory;
    void *to = bounced ? bounce.memory : host;
    cudaError_t error = cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    cuda_broke("copying from the GPU", error);
    if (error != cudaSuccess)
        memset(host, 0, bytes);
    else if (bounced)
        memcpy(host, bounce.memory, bytes);
}

// --- asynchronous downloads ----------------------------------------------------------------------

static constexpr size_t LATER = 64 << 20;
static constexpr int LATER_MOST = 512;

// A download in the ring: bytes from..to. `there` has an event for each GPU, created when first
// needed; `arrived` is the event of the GPU that copies.
struct parcel {
    size_t from, to;
    cudaEvent_t there[CUDA_GPUS_MOST], arrived;
};

static struct {
    bool tried;
    char *memory; // LATER bytes
    struct parcel parcel[LATER_MOST];
    int first, count; // of parcels not yet taken: index of the oldest; number
} later;

// Returns the offset at which `bytes` bytes fit between the newest and the oldest parcel, or LATER
// if they do not fit.
static size_t later_offset(size_t bytes)
{
    if (later.count == LATER_MOST || bytes > LATER) return LATER;
    if (!later.count) return 0;
    const size_t begin = later.parcel[later.first].from;
    const size_t end = later.parcel[(later.first + later.count - 1) % LATER_MOST].to;
    if (end <= begin) return begin - end >= bytes ? end : LATER;
    if (LATER - end >= bytes) return end;
    return begin >= bytes ? 0 : LATER;
}

static bool download_later(const void *device, size_t bytes)
{
    const cudaStream_t stream = cuda_stream();
    if (!bytes || cuda_unrecordable("a download")) return false;
    if (!later.tried) later.tried = true, later.memory = pinned(LATER);
    const size_t size = (bytes + 63) / 64 * 64; // so that the next parcel is aligned
    const size_t at = later.memory ? later_offset(size) : LATER;
    if (at == LATER) return false;
    struct parcel *p = &later.parcel[(later.first + later.count) % LATER_MOST];
    cudaEvent_t *there = &p->there[cuda_gpu_now()];
    cudaError_t error = cudaSuccess;
    if (!*there) error = cudaEventCreateWithFlags(there, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(later.memory + at, device, bytes, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaEventRecord(*there, stream);
    cuda_broke("copying from the GPU", error);
    if (error != cudaSuccess) return false;
    p->from = at, p->to = at + size, p->arrived = *there;
    later.count++;
    return true;
}

static const void *take(void)
{
    if (!later.count) return nullptr;
    const struct parcel *p = &later.parcel[later.first];
    const cudaError_t error = cudaEventSynchronize(p->arrived);
    later.first = (later.first + 1) % LATER_MOST;
    later.count--;
    cuda_broke("copying from the GPU", error);
    return error == cudaSuccess ? later.memory + p->from : nullptr;
}

const struct copies copies_cuda = { .download = download_later, .take = take };
