// core/graph/arena.h -- arena allocation: memory with one lifetime, on any device.
//
// Arenas by lifetime: a model's or adapter's (until unload), and the *step* arena (activations of
// one forward pass: mark, compute, reset). Blocks are never freed individually.
//
//   struct arena a = { .backend = backend_cpu() };
//   struct arena_mark m = arena_mark(&a);
//   float *x = arena_alloc(&a, bytes);   // NULL when device memory is exhausted
//   arena_reset(&a, m);                  // frees x; its memory is reused
#ifndef CORE_GRAPH_ARENA_H
#define CORE_GRAPH_ARENA_H

#include <stddef.h>

// On a device with separate memory (backend->own_memory), data that the host itself reads and
// writes, such as tensor structs, goes to host memory of the same lifetime: arena_alloc_host.

struct arena {
    const struct backend *backend;
    struct arena_chunk *chunks; // newest first
    struct arena_chunk *alone;  // chunks of arena_alloc_alone
    size_t used, peak;          // bytes in use, and their peak
    size_t reserved;            // bytes taken from the device
    size_t hint;                // size of the next first chunk: see arena_expect
    struct arena *host;         // on a device with separate memory: the host's arena
};

struct arena_mark {
    struct arena_point {
        struct arena_chunk *chunk;
        size_t offset, used;
    } own, host; // host: the mark of arena.host
};

// Allocates 64-byte aligned memory, not zeroed; NULL on failure (size 0 gives a valid pointer).
void *arena_alloc(struct arena *a, size_t size);
// For arenas that are never reset: like arena_alloc, but a block of 1 MB or more takes exactly its
// size from the device and leaves chunks free for small blocks. Only arena_release frees it.
void *arena_alloc_alone(struct arena *a, size_t size);
// Returns the host arena of the same lifetime: `a` itself if the device uses host memory.
struct arena *arena_host(struct arena *a);
// Allocates from the host arena.
void *arena_alloc_host(struct arena *a, size_t size);
struct arena_mark arena_mark(const struct arena *a);
// Frees everything allocated since the mark; the memory is kept for reuse.
void arena_reset(struct arena *a, struct arena_mark mark);
// Defragments an empty arena before the next similar pass: returns fragmented chunks to the device;
// the next chunk then holds everything. Does nothing on a device with several GPUs.
void arena_settle(struct arena *a);
// Makes the first chunk of an empty arena hold at least `bytes`. Unused parts cost only address
// space on the CPU, but real memory on a GPU. Does nothing on a device with several GPUs.
void arena_expect(struct arena *a, size_t bytes);
// Returns all memory to the device; the arena is empty and usable.
void arena_release(struct arena *a);

#endif
