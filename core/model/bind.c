// core/model/bind.c -- binds weights by name to a model's structs.
#include "core/model/bind.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/graph/arena.h"
#include "core/model/linear.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

enum { NAME_SIZE = 256 };

// Writes the full name: the prefix, then `format` with the arguments after it.
#define FULL_NAME(b, name, format)                                            \
    do {                                                                      \
        va_list args;                                                         \
        va_start(args, format);                                               \
        const int start = snprintf(name, NAME_SIZE, "%s", (b)->prefix);       \
        vsnprintf((name) + start, (size_t)(NAME_SIZE - start), format, args); \
        va_end(args);                                                         \
    } while (0)

// Records a bound weight as the newest entry.
static struct weight *record_weight(struct binder *b, const char *name, struct tensor *t)
{
    struct weight *w = weights_add(b->weights, name);
    w->tensor = t;
    w->bound = t->data;
    w->gpu = backend_enter(b->arena->backend, -1);
    w->apart = b->apart;
    w->rank = t->rank;
    memcpy(w->shape, t->shape, sizeof t->shape);
    return w;
}

// Returns NULL if only shapes are needed, so that matrices take no memory.
static struct arena *arena_of(const struct binder *b)
{
    return b->shapes_only ? NULL : b->arena;
}

// Binds a weight without conversion, in its stored dtype; NULL on failure.
static struct weight *bind_stored(struct binder *b, struct tensor *t, int rank,
                                  const int64_t *shape, const char *name)
{
    if (b->failed) return NULL;
    b->failed = checkpoint_tensor(b->checkpoint, name, rank, shape, arena_of(b), t, b->err) < 0;
    if (b->failed) return NULL;
    if (b->shapes_only) t->data = NULL;
    struct weight *w = record_weight(b, name, t);
    w->rank = rank;
    memcpy(w->shape, shape, (size_t)rank * sizeof *shape);
    return w;
}

static void bind_widened(struct binder *b, struct tensor *t, int64_t n, const char *name)
{
    if (b->failed) return;
    b->failed = checkpoint_vector(b->checkpoint, name, n, b->arena, t, b->err) < 0;
    if (!b->failed) record_weight(b, name, t);
}

void bind_matrix(struct binder *b, struct tensor *t, int64_t rows, int64_t columns,
                 const char *format, ...)
{
    char name[NAME_SIZE];
    FULL_NAME(b, name, format);
    bind_stored(b, t, 2, (int64_t[]){ rows, columns }, name);
}

void bind_table(struct binder *b, struct tensor *t, int64_t rows, int64_t columns,
                const char *format, ...)
{
    struct arena *const arena = b->arena;
    char name[NAME_SIZE];
    FULL_NAME(b, name, format);
    b->arena = arena_host(arena);
    struct weight *w = bind_stored(b, t, 2, (int64_t[]){ rows, columns }, name);
    if (w) w->apart = true;
    t->on_host = w != NULL;
    b->arena = arena;
}

void bind_vector(struct binder *b, struct tensor *t, int64_t n, const char *format, ...)
{
    char name[NAME_SIZE];
    FULL_NAME(b, name, format);
    bind_widened(b, t, n, name);
}

void bind_gain(struct binder *b, struct tensor *gain, int64_t n, bool from_1, const char *format,
               ...)
{
    char name[NAME_SIZE];
    FULL_NAME(b, name, format);
    if (!from_1) {
        bind_widened(b, gain, n, name);
        return;
    }
    struct tensor *stored =
        weights_add_gain(b->weights, gain, backend_enter(b->arena->backend, -1));
    bind_widened(b, stored, n, name);
    if (b->failed) return;
    *gain = *stored;
    gain->data = stored->data ? arena_alloc(b->arena, tensor_bytes(gain)) : NULL;
    if (!gain->data == !stored->data) return;
    err_set(b->err, "out of memory for '%s'", name);
    b->failed = true;
}

void bind_constant(struct binder *b, struct tensor *t, int64_t n, const char *format, ...)
{
    char name[NAME_SIZE];
    FULL_NAME(b, name, format);
    if (!b->failed) b->failed = checkpoint_vector(b->checkpoint, name, n, b->arena, t, b->err) < 0;
}

void bind_number(struct binder *b, float *value, const char *format, ...)
{
    char name[NAME_SIZE];
    FULL_NAME(b, name, format);
    if (!b->failed) b->failed = checkpoint_number(b->checkpoint, name, value, b->err) < 0;
}

void bind_filter(struct binder *b, struct tensor *t, int64_t channels, int64_t taps,
                 const char *format, ...)
{
    char name[NAME_SIZE];
    const int64_t shape[] = { channels, 1, taps };
    FULL_NAME(b, name, format);
    if (b->failed) return;
    b->failed = checkpoint_floats(b->checkpoint, name, 3, shape, b->arena, t, b->err) < 0;
    if (b->failed) return;
    struct weight *w = record_weight(b, name, t);
    w->rank = 3;
    w->apart = true;
    memcpy(w->shape, shape, sizeof shape);
    t->rank = 2;
    t->shape[1] = taps;
}

void bind_linear(struct binder *b, struct linear *w, int64_t out, int64_t in, bool bias,
                 const char *format, ...)
{
    char layer[NAME_SIZE], name[NAME_SIZE + 8];
    FULL_NAME(b, layer, format);
    snprintf(name, sizeof name, "%s.weight", layer);
    struct weight *noted = bind_stored(b, &w->weight, 2, (int64_t[]){ out, in }, name);
    if (noted) noted->linear = w;
    snprintf(name, sizeof name, "%s.bias", layer);
    if (bias) bind_widened(b, &w->bias, out, name);
}

void bind_norm(struct binder *b, struct norm *w, int64_t n, bool bias, const char *format, ...)
{
    char norm[NAME_SIZE], name[NAME_SIZE + 8];
    FULL_NAME(b, norm, format);
    snprintf(name, sizeof name, "%s.weight", norm);
    bind_widened(b, &w->gain, n, name);
    snprintf(name, sizeof name, "%s.bias", norm);
    if (bias) bind_widened(b, &w->bias, n, name);
}

void bind_part(struct binder *b, struct linear *w, const char *whole,
               const struct checkpoint_part *part, const char *format, ...)
{
    char name[NAME_SIZE], file[NAME_SIZE];
    FULL_NAME(b, name, format);
    snprintf(file, sizeof file, "%s%s", b->prefix, whole);
    if (b->failed) return;
    b->failed = checkpoint_matrix(b->checkpoint, file, part, arena_of(b), &w->weight, b->err) < 0;
    if (b->shapes_only) w->weight.data = NULL;
    if (b->failed) return;
    struct weight *own = record_weight(b, name, &w->weight);
    own->linear = w;
    own->whole = xstrdup(file);
}

void bind_folded(struct binder *b, struct tensor *t, int64_t rows, int rank, const int64_t *shape,
                 const char *format, ...)
{
    char name[NAME_SIZE];
    FULL_NAME(b, name, format);
    if (!bind_stored(b, t, rank, shape, name)) return;
    t->shape[1] = tensor_count(t) / rows;
    t->shape[0] = rows;
    t->rank = 2;
}

bool bind_has(const struct checkpoint *c, const char *prefix, const char *name)
{
    char full[NAME_SIZE];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return checkpoint_has(c, full);
}

const char *bind_prefix(const struct checkpoint *c, const char *const *prefixes, const char *name)
{
    for (int i = 0; prefixes[i]; i++)
        if (bind_has(c, prefixes[i], name)) return prefixes[i];
    return prefixes[0];
}
