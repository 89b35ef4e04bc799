// core/graph/arena.h -- memory with one lifetime, on any device.
//
// Three arenas live in the program: *model* (until unload), *run* (KV cache, adapters) and *step*
// (activations of one forward pass: mark, compute, reset). Nothing is freed one by one.
//
//   struct arena a = { .backend = backend_cpu() };
//   struct arena_mark m = arena_mark(&a);
//   float *x = arena_alloc(&a, bytes);   // NULL when the device has no more
//   arena_reset(&a, m);                  // x is gone, its memory is used again
#ifndef CORE_GRAPH_ARENA_H
#define CORE_GRAPH_ARENA_H

#include <stddef.h>

#include "kernels/backend.h"

struct arena_chunk;

// On a device with memory of its own (backend->own_memory) what the host reads and writes itself,
// such as the heads of tensors, is host memory of the same lifetime: arena_alloc_host.

struct arena {
    const struct backend *backend;
    struct arena_chunk *chunks; // newest first
    struct arena_chunk *alone;  // of arena_alloc_alone
    size_t used, peak;          // bytes handed out now, and at most so far
    size_t reserved;            // bytes taken from the device
    size_t hint;                // size of the first chunk to come: see arena_expect
    struct arena *host;         // of a device with memory of its own: memory of the host
};

struct arena_mark {
    struct arena_chunk *chunk;
    size_t offset, used;
    // The same in arena.host.
    struct arena_chunk *host_chunk;
    size_t host_offset, host_used;
};

// 64-byte aligned memory, not zeroed; NULL when there is none (size 0 gives a valid pointer).
void *arena_alloc(struct arena *a, size_t size);
// The same for what stays until the arena is released, whatever mark it is reset to: something
// large takes exactly so much of the device, and chunks of small things beside it stay in use.
void *arena_alloc_alone(struct arena *a, size_t size);
// The arena of the same lifetime in the host's memory: a itself where that is the device's.
struct arena *arena_host(struct arena *a);
// arena_alloc from it.
void *arena_alloc_host(struct arena *a, size_t size);
struct arena_mark arena_mark(const struct arena *a);
// Everything allocated since the mark is gone; its memory is kept for reuse.
void arena_reset(struct arena *a, struct arena_mark mark);
// For an arena that is empty now and will be used again in the same way: when its memory lies in
// chunks that do not fit well together, they are given back, and the next one will hold all.
void arena_settle(struct arena *a);
// For an empty arena that will need so much: its first chunk holds all of it. What of that is never
// used costs address space alone, but on a GPU memory.
void arena_expect(struct arena *a, size_t bytes);
// Gives all memory back; the arena is empty and usable.
void arena_release(struct arena *a);

#endif
