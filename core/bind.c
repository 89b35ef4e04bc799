// core/bind.c -- weights by name into a model's structs.
#include "core/bind.h"

#include <stdarg.h>
#include <stdio.h>

enum { NAME_SIZE = 256 };

static void full_name(const struct binder *b, char name[NAME_SIZE], const char *format,
                      va_list args)
{
    int n = snprintf(name, NAME_SIZE, "%s", b->prefix);
    vsnprintf(name + n, (size_t)(NAME_SIZE - n), format, args);
}

// A weight in place as the file stores it.
static void bind_stored(struct binder *b, struct tensor *t, int rank, const int64_t *shape,
                        const char *format, va_list args)
{
    char name[NAME_SIZE];
    if (b->failed) return;
    full_name(b, name, format, args);
    b->failed = checkpoint_tensor(b->checkpoint, name, rank, shape, b->arena, t, b->err) < 0;
}

void bind_matrix(struct binder *b, struct tensor *t, int64_t rows, int64_t columns,
                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bind_stored(b, t, 2, (int64_t[]){ rows, columns }, format, args);
    va_end(args);
}

void bind_vector(struct binder *b, struct tensor *t, int64_t n, const char *format, ...)
{
    char name[NAME_SIZE];
    va_list args;
    if (b->failed) return;
    va_start(args, format);
    full_name(b, name, format, args);
    va_end(args);
    b->failed = checkpoint_vector(b->checkpoint, name, n, b->arena, t, b->err) < 0;
}

void bind_patches(struct binder *b, struct tensor *t, int64_t rows, int64_t patch,
                  const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bind_stored(b, t, 4, (int64_t[]){ rows, 3, patch, patch }, format, args);
    va_end(args);
    if (b->failed) return;
    t->rank = 2;
    t->shape[1] = 3 * patch * patch;
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
