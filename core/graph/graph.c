// core/graph/graph.c -- tensors of a step and the first failure of a pass.
#include "core/graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/graph/tape.h"
#include "core/settings/settings.h"

enum matmul_mode graph_matmul_auto(const struct backend *b, enum dtype weights)
{
    // Block quantisation has already lost more precision than bf16 would.
    const bool rounds = b->own_memory || weights == DTYPE_BF16 || dtype_in_blocks(weights);
    return backend_favours_bf16(b) && rounds ? MATMUL_BF16 : MATMUL_F32;
}

enum matmul_mode graph_matmul(const struct backend *b, const struct settings *s, enum dtype weights)
{
    if (!s || settings_is(s, "compute.matmul", "f32")) return MATMUL_F32;
    if (settings_is(s, "compute.matmul", "auto")) return graph_matmul_auto(b, weights);
    return backend_multiplies_bf16(b) ? MATMUL_BF16 : MATMUL_F32;
}

const char *graph_precision(enum matmul_mode mode)
{
    return mode == MATMUL_BF16 ? "bf16" : "f32";
}

bool graph_ok(const struct graph *g)
{
    return !g->failed && !g->cancelled;
}

void *graph_fail(struct graph *g, const char *format, ...)
{
    if (!g->failed) {
        va_list args;
        va_start(args, format);
        vsnprintf(g->err.text, sizeof g->err.text, format, args);
        va_end(args);
        g->failed = true;
    }
    return NULL;
}

bool graph_stop(struct graph *g)
{
    if (g->cancel && atomic_load_explicit(g->cancel, memory_order_relaxed)) g->cancelled = true;
    return !graph_ok(g);
}

static void *no_memory(struct graph *g, const struct backend *b, size_t bytes)
{
    size_t unused = 0, total = 0;
    if (!b->memory)
        return graph_fail(g, "out of memory: %.1f MB more are needed on %s", (double)bytes / 1e6,
                          b->name);
    b->memory->sizes(&unused, &total);
    if (!total) return graph_fail(g, "%s", b->failure()); // the device does not respond
    return graph_fail(
        g,
        "out of memory: %.1f MB more are needed on %s, where %.1f of %.1f MB are free; use a "
        "shorter context (/set ctx.max), a smaller batch, or --device cpu",
        (double)bytes / 1e6, b->name, (double)unused / 1e6, (double)total / 1e6);
}

static struct tensor *new_in(struct graph *g, struct arena *arena, enum dtype dtype, int rank,
                             const int64_t *shape)
{
    if (!graph_ok(g)) return NULL;
    const struct dtype_form form = dtype_form(dtype);
    size_t bytes = (size_t)form.bytes;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)shape[i], &bytes))
            return graph_fail(g, "a tensor of this step is too large");
    bytes /= (size_t)form.numbers;
    struct tensor *t = arena_alloc_host(g->arena, sizeof *t);
    void *data = t ? arena_alloc(arena, bytes) : NULL;
    if (!data) return no_memory(g, arena->backend, bytes);
    *t = (struct tensor){ .data = data, .dtype = dtype, .rank = rank };
    memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
    return t;
}

struct tensor *graph_new(struct graph *g, enum dtype dtype, int rank, const int64_t *shape)
{
    return new_in(g, g->arena, dtype, rank, shape);
}

struct tensor *graph_new_host(struct graph *g, enum dtype dtype, int rank, const int64_t *shape)
{
    struct tensor *t = new_in(g, arena_host(g->arena), dtype, rank, shape);
    if (t) t->on_host = true;
    return t;
}

struct tensor *graph_new1(struct graph *g, enum dtype dtype, int64_t n)
{
    return graph_new(g, dtype, 1, (int64_t[]){ n });
}

struct tensor *graph_new2(struct graph *g, enum dtype dtype, int64_t n, int64_t m)
{
    return graph_new(g, dtype, 2, (int64_t[]){ n, m });
}

struct tensor *graph_new3(struct graph *g, enum dtype dtype, int64_t n, int64_t m, int64_t k)
{
    return graph_new(g, dtype, 3, (int64_t[]){ n, m, k });
}

// Makes the view's gradient the corresponding part of the whole tensor's gradient.
static bool share_grad(struct graph *g, struct tensor *view, const struct tensor *t, int64_t from)
{
    view->grad = NULL;
    if (!t->grad || !g->tape) return true;
    struct grad *whole = t->grad->whole ? t->grad->whole : t->grad;
    view->grad = arena_alloc_host(g->arena, sizeof *view->grad);
    if (!view->grad) return graph_fail(g, "out of memory on %s", g->backend->name);
    *view->grad = (struct grad){ .count = tensor_count(view),
                                 .whole = whole,
                                 .offset = t->grad->offset + from };
    return true;
}

struct tensor *graph_view(struct graph *g, struct tensor *t, int rank, const int64_t *shape)
{
    if (!t || !graph_ok(g)) return NULL;
    struct tensor *view = arena_alloc_host(g->arena, sizeof *view);
    if (!view) return graph_fail(g, "out of memory on %s", g->backend->name);
    *view =
        (struct tensor){ .data = t->data, .dtype = t->dtype, .rank = rank, .on_host = t->on_host };
    memcpy(view->shape, shape, (size_t)rank * sizeof *shape);
    if (tensor_count(view) != tensor_count(t)) return graph_fail(g, "a view changes the size");
    return share_grad(g, view, t, 0) ? view : NULL;
}

struct tensor *graph_view3(struct graph *g, struct tensor *t, int64_t n, int64_t m, int64_t k)
{
    return graph_view(g, t, 3, (int64_t[]){ n, m, k });
}

struct tensor *graph_rows(struct graph *g, struct tensor *t, int64_t from, int64_t count)
{
    if (!t || !graph_ok(g)) return NULL;
    if (from < 0 || count < 0 || from > t->shape[0] - count)
        return graph_fail(g, "rows %lld..%lld exceed the %lld rows of a tensor", (long long)from,
                          (long long)(from + count), (long long)t->shape[0]);
    struct tensor *view = arena_alloc_host(g->arena, sizeof *view);
    if (!view) return graph_fail(g, "out of memory on %s", g->backend->name);
    *view = *t;
    view->data = (char *)t->data + dtype_bytes(t->dtype, from * tensor_row(t));
    view->shape[0] = count;
    return share_grad(g, view, t, from * tensor_row(t)) ? view : NULL;
}

struct tensor *graph_upload(struct graph *g, enum dtype dtype, int rank, const int64_t *shape,
                            const void *host)
{
    struct tensor *t = graph_new(g, dtype, rank, shape);
    if (t) g->backend->upload(t->data, host, tensor_bytes(t));
    return t;
}

void graph_download(struct graph *g, float *to, const struct tensor *t)
{
    if (t->dtype == DTYPE_F32) {
        g->backend->download(to, t->data, tensor_bytes(t));
        return;
    }
    void *stored = xmalloc(tensor_bytes(t) + 1);
    g->backend->download(stored, t->data, tensor_bytes(t));
    floats_from(to, stored, t->dtype, (size_t)tensor_count(t));
    free(stored);
}

struct arena_mark graph_scratch_begin(const struct graph *g)
{
    return arena_mark(g->arena);
}

void graph_scratch_end(struct graph *g, struct arena_mark mark)
{
    if (!tape_on(g)) arena_reset(g->arena, mark);
}
