// kernels/copy.cu -- copies between the host and the GPU.
//
// Large uploads (weights, from a mapped file) go through a ring of pinned parts: while one part is
// on its way, threads fetch the next from the file's pages, which the system reads meanwhile. The
// call returns when the last part has left the host's memory; the GPU's stream holds the rest in
// order. Without room for pinned memory, and for small things, the driver copies by itself.
//
// Downloads that nobody waits for (what probes look at) come to a pinned ring of their own, handed
// out and taken back in order. They stand on the stream of the ops: nothing else need keep what is
// copied from being written over, and who looks computes longer than the bus takes.
#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/cuda.h"

static constexpr size_t PART = 16 << 20, LARGE = 1 << 20, BOUNCE = 4 << 20;
static constexpr int PARTS = 3, FETCHERS = 4;

// One for each GPU; kept from its first large copy on.
static struct ring {
    bool tried, there;
    char *part[PARTS];
    cudaEvent_t left[PARTS]; // the part's bytes have reached the GPU
    int next;
} rings[CUDA_PARTS_MOST];

static struct {
    bool tried;
    char *memory; // BOUNCE bytes
} bounce;

static char *pinned(size_t size)
{
    void *memory = nullptr;
    if (cudaHostAlloc(&memory, size, cudaHostAllocDefault) == cudaSuccess)
        return static_cast<char *>(memory);
    cudaGetLastError(); // no op failed: it is done without
    return nullptr;
}

static bool ring_ready(struct ring *r)
{
    if (r->tried) return r->there;
    r->tried = true;
    for (int i = 0; i < PARTS; i++) {
        r->part[i] = pinned(PART);
        if (!r->part[i] ||
            cudaEventCreateWithFlags(&r->left[i], cudaEventDisableTiming) != cudaSuccess)
            return false;
    }
    return r->there = true;
}

// Several threads: one alone cannot read a file's pages as fast as the bus takes them.
static void fetch(char *to, const char *from, size_t bytes)
{
    const size_t share = (bytes / FETCHERS + 4095) / 4096 * 4096 + 4096;
    std::vector<std::thread> others;
    size_t done = std::min(share, bytes);
    try {
        for (size_t at = done; at < bytes; at = done) {
            const size_t size = std::min(share, bytes - at);
            others.emplace_back([=] { memcpy(to + at, from + at, size); });
            done = at + size;
        }
    } catch (...) { // no thread to be had
    }
    memcpy(to, from, std::min(share, bytes));
    if (done < bytes) memcpy(to + done, from + done, bytes - done);
    for (std::thread &t : others) t.join();
}

static cudaError_t upload_parts(struct ring *r, char *device, const char *host, size_t bytes,
                                cudaStream_t stream)
{
    for (size_t at = 0; at < bytes; at += PART) {
        const size_t size = std::min(PART, bytes - at);
        const int i = r->next;
        cudaError_t error = cudaEventSynchronize(r->left[i]);
        if (error != cudaSuccess) return error;
        fetch(r->part[i], host + at, size);
        error = cudaMemcpyAsync(device + at, r->part[i], size, cudaMemcpyHostToDevice, stream);
        if (error == cudaSuccess) error = cudaEventRecord(r->left[i], stream);
        if (error != cudaSuccess) return error;
        r->next = (i + 1) % PARTS;
    }
    return cudaSuccess;
}

// Memory that is not pinned is read before the call returns.
void cuda_upload(void *device, const void *host, size_t bytes)
{
    const cudaStream_t stream = cuda_stream();
    if (!bytes || cuda_unrecordable("an upload")) return;
    struct ring *ring = &rings[cuda_part()];
    const bool large = bytes >= LARGE && ring_ready(ring);
    cuda_broke("copying to the GPU",
               large ? upload_parts(ring, static_cast<char *>(device),
                                    static_cast<const char *>(host), bytes, stream)
                     : cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
}

// What fits comes through pinned memory: the driver's own way there is several times as long.
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

// --- downloads that nobody waits for -------------------------------------------------------------

static constexpr size_t LATER = 64 << 20;
static constexpr int LATER_MOST = 512;

// A stretch of the ring. Each GPU has events of its own.
struct parcel {
    size_t from, to;
    cudaEvent_t there[CUDA_PARTS_MOST], arrived;
};

static struct {
    bool tried;
    char *memory; // LATER bytes
    struct parcel parcel[LATER_MOST];
    int first, count; // of those that nobody has taken
} later;

// Where so many bytes fit behind the newest parcel and before the oldest; LATER: nowhere.
static size_t later_room(size_t bytes)
{
    if (later.count == LATER_MOST || bytes > LATER) return LATER;
    if (!later.count) return 0;
    const size_t begin = later.parcel[later.first].from;
    const size_t end = later.parcel[(later.first + later.count - 1) % LATER_MOST].to;
    if (end <= begin) return begin - end >= bytes ? end : LATER;
    if (LATER - end >= bytes) return end;
    return begin >= bytes ? 0 : LATER;
}

bool cuda_download_later(const void *device, size_t bytes)
{
    const cudaStream_t stream = cuda_stream();
    if (!bytes || cuda_unrecordable("a download")) return false;
    if (!later.tried) later.tried = true, later.memory = pinned(LATER);
    const size_t size = (bytes + 63) / 64 * 64; // so that the next is aligned
    const size_t at = later.memory ? later_room(size) : LATER;
    if (at == LATER) return false;
    struct parcel *p = &later.parcel[(later.first + later.count) % LATER_MOST];
    cudaEvent_t *there = &p->there[cuda_part()];
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

const void *cuda_downloaded(void)
{
    if (!later.count) return nullptr;
    const struct parcel *p = &later.parcel[later.first];
    const cudaError_t error = cudaEventSynchronize(p->arrived);
    later.first = (later.first + 1) % LATER_MOST;
    later.count--;
    cuda_broke("copying from the GPU", error);
    return error == cudaSuccess ? later.memory + p->from : nullptr;
}
