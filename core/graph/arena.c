// core/graph/arena.c -- chunks of device memory, allocated in order and freed back to marks.
#include "core/graph/arena.h"

#include "core/base/mem.h"
#include "kernels/backend.h"

#include <stdlib.h>

enum { ARENA_ALIGN = 64, ARENA_CHUNK = 1 << 20, GROWTH = 8 };

// The header is host memory; only `data` is device memory.
struct arena_chunk {
    struct arena_chunk *older; // the chunk used before this one
    struct arena_chunk *spare; // chunks kept for reuse, on the newest chunk only
    char *data;
    size_t size, offset;
    int gpu; // GPU that holds it
};

// Takes the smallest spare chunk that fits, so that a small request does not use up a large one.
static struct arena_chunk *chunk_reuse(struct arena_chunk **spare, size_t size, int gpu)
{
    struct arena_chunk **best = NULL;
    for (; *spare; spare = &(*spare)->older)
        if ((*spare)->gpu == gpu && (*spare)->size >= size &&
            (!best || (*spare)->size < (*best)->size))
            best = spare;
    if (!best) return NULL;
    struct arena_chunk *found = *best;
    *best = found->older;
    return found;
}

static struct arena_chunk *chunk_new(struct arena *a, size_t size, int gpu)
{
    struct arena_chunk *chunk = xcalloc(1, sizeof *chunk);
    chunk->gpu = gpu;
    if (size < ARENA_CHUNK) size = ARENA_CHUNK;
    if (a->backend->gpus && size < a->reserved / GROWTH) size = a->reserved / GROWTH;
    chunk->size = !a->chunks && a->hint > size ? a->hint : size;
    chunk->data = a->backend->alloc(chunk->size);
    if (!chunk->data && chunk->size > size) // retry with the size needed
        chunk->data = a->backend->alloc(chunk->size = size);
    if (!chunk->data) {
        free(chunk);
        return NULL;
    }
    a->reserved += chunk->size;
    return chunk;
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    size = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct arena_chunk *top = a->chunks;
    const int gpu = backend_enter(a->backend, -1);
    if (!top || top->gpu != gpu || top->size - top->offset < size) {
        struct arena_chunk *spare = top ? top->spare : NULL;
        struct arena_chunk *chunk = chunk_reuse(&spare, size, gpu);
        if (!chunk) chunk = chunk_new(a, size, gpu);
        if (!chunk) return NULL;
        if (top) top->spare = NULL;
        chunk->older = top;
        chunk->spare = spare;
        chunk->offset = 0;
        a->chunks = top = chunk;
    }
    void *memory = top->data + top->offset;
    top->offset += size;
    a->used += size;
    if (a->used > a->peak) a->peak = a->used;
    return memory;
}

void *arena_alloc_alone(struct arena *a, size_t size)
{
    if (size < ARENA_CHUNK || size > SIZE_MAX / 2) return arena_alloc(a, size);
    char *data = a->backend->alloc(size);
    if (!data) return NULL;
    struct arena_chunk *chunk = xcalloc(1, sizeof *chunk);
    *chunk = (struct arena_chunk){ .older = a->alone, .data = data, .size = size, .offset = size };
    a->alone = chunk;
    a->reserved += size;
    a->used += size;
    if (a->used > a->peak) a->peak = a->used;
    return data;
}

struct arena *arena_host(struct arena *a)
{
    if (!a->backend->own_memory) return a;
    if (!a->host) {
        a->host = xcalloc(1, sizeof *a->host);
        a->host->backend = backend_cpu();
    }
    return a->host;
}

void *arena_alloc_host(struct arena *a, size_t size)
{
    return arena_alloc(arena_host(a), size);
}

static struct arena_point point_of(const struct arena *a)
{
    return (struct arena_point){ a->chunks, a->chunks ? a->chunks->offset : 0, a->used };
}

struct arena_mark arena_mark(const struct arena *a)
{
    return (struct arena_mark){ point_of(a),
                                a->host ? point_of(a->host) : (struct arena_point){ 0 } };
}

static void rewind_to(struct arena *a, struct arena_point to)
{
    struct arena_chunk *spare = a->chunks ? a->chunks->spare : NULL;
    // Resetting to a mark of the empty arena keeps the oldest chunk, emptied.
    while (a->chunks && a->chunks != to.chunk && a->chunks->older) {
        struct arena_chunk *chunk = a->chunks;
        a->chunks = chunk->older;
        chunk->older = spare;
        spare = chunk;
    }
    if (a->chunks) {
        a->chunks->offset = to.chunk ? to.offset : 0;
        a->chunks->spare = spare;
    }
    a->used = to.used;
}

void arena_reset(struct arena *a, struct arena_mark mark)
{
    if (a->host) rewind_to(a->host, mark.host);
    rewind_to(a, mark.own);
}

static void chunks_free(struct arena *a, struct arena_chunk *list)
{
    for (struct arena_chunk *next; list; list = next) {
        next = list->older;
        a->reserved -= list->size;
        a->backend->release(list->data);
        free(list);
    }
}

void arena_release(struct arena *a)
{
    arena_reset(a, (struct arena_mark){ 0 });
    if (a->chunks) chunks_free(a, a->chunks->spare);
    chunks_free(a, a->chunks); // only the oldest is left
    chunks_free(a, a->alone);
    a->chunks = a->alone = NULL;
    a->used = 0;
    if (!a->host) return;
    arena_release(a->host);
    free(a->host);
    a->host = NULL;
}

void arena_settle(struct arena *a)
{
    if (a->host && a->host->used) return;
    if (a->backend->gpus) return; // each GPU has its own chunks, which grow (chunk_new)
    if (a->alone || a->used || a->reserved < a->peak + a->peak / 4 ||
        a->reserved <= 2 * ARENA_CHUNK)
        return;
    arena_release(a);
    arena_expect(a, a->peak + a->peak / 16); // later passes may be longer
}

void arena_expect(struct arena *a, size_t bytes)
{
    if (a->backend->gpus) return; // each GPU's share is unknown
    a->hint = bytes;
}
