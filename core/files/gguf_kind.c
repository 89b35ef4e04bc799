// core/files/gguf_kind.c -- the types in which weights are written.
#include "core/files/gguf_kind.h"

#include <string.h>

#include "core/base/mem.h"

static const struct gguf_kind kinds[] = {
    { "q8_0", DTYPE_Q8_0, DTYPE_Q8_0, 7 },
    { "q4_k", DTYPE_Q4_K, DTYPE_Q6_K, 15 },
    { "f16", DTYPE_F16, DTYPE_F16, 1 },
    { "bf16", DTYPE_BF16, DTYPE_BF16, 32 },
    { 0 },
};

const struct gguf_kind *gguf_kind_find(const char *name)
{
    for (const struct gguf_kind *k = kinds; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}

char *gguf_kind_names(void)
{
    struct buf names = { 0 };
    for (const struct gguf_kind *k = kinds; k->name; k++)
        buf_printf(&names, "%s%s", k == kinds ? "" : ", ", k->name);
    return buf_take(&names);
}

enum dtype gguf_dtype_that_fits(enum dtype first, int64_t width)
{
    const enum dtype order[] = { first, DTYPE_Q8_0, DTYPE_F16 };
    int i = 0;
    while (i < 2 && width % dtype_form(order[i]).numbers) i++;
    return order[i];
}
