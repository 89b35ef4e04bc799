// core/model/matrices.c -- the dtype of a model's matrices, which `compute.matmul auto` follows.
#include "core/model/matrices.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/model/model.h"
#include "core/model/tensor_groups.h"

static bool is_governed(const struct model *m, const struct weight *w)
{
    const struct vision *v = &m->vision;
    return w->rank >= 2 && !w->apart && w->tensor != &v->position && w->tensor != &v->class_token;
}

// Returns whether bf16 can represent all numbers of a stored tensor. Reads the file, because a
// process that computes only some layers has not bound the data of the others.
static bool fits_bf16(const struct safetensor *t)
{
    enum { PIECE = 4096 };
    if (!t || !t->data || !safetensor_is_float(t)) return false;
    const int64_t n = safetensor_count(t);
    const enum dtype dtype = (enum dtype)t->dtype;
    bool fits = true;
#pragma omp parallel for schedule(static) reduction(&& : fits) if (n > 16 * PIECE)
    for (int64_t at = 0; at < n; at += PIECE) {
        float x[PIECE];
        const int64_t count = n - at < PIECE ? n - at : PIECE;
        if (!fits) continue;
        floats_from(x, (const char *)t->data + dtype_bytes(dtype, at), dtype, (size_t)count);
        uint32_t low = 0; // bits that bf16 does not have
        for (int64_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            low |= bits & 0xffff;
        }
        fits = !low;
    }
    return fits;
}

// Lists the file's matrices that are not bf16 and that bf16 would change. The parts of one stored
// matrix, such as a layer's experts, are bound one after the other.
static struct tensor_groups matrices_changed(const struct model *m)
{
    struct tensor_groups changed = { 0 };
    const char *before = "";
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        const char *name = w->whole ? w->whole : w->name;
        if (!is_governed(m, w) || w->tensor->dtype == DTYPE_BF16 || !strcmp(name, before)) continue;
        const struct safetensor *t = checkpoint_find(m->checkpoint, name);
        before = name;
        if (!fits_bf16(t))
            tensor_groups_add(&changed, tensor_pattern(t && t->stored ? t->stored : name, false));
    }
    return changed;
}

void matrices_choose_dtype(struct model *m)
{
    bool seen[DTYPE_COUNT] = { false };
    int dtypes = 0;
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        const enum dtype dtype = w->tensor->dtype;
        if (!is_governed(m, w) || seen[dtype]) continue;
        seen[dtype] = true;
        m->dtype = dtypes++ ? DTYPE_F32 : dtype;
        if (!dtype_in_blocks(dtype)) continue;
        m->dtype = dtype;
        return;
    }
    if (dtypes < 2 || !seen[DTYPE_BF16]) return;
    struct tensor_groups changed = matrices_changed(m);
    if (changed.tensors) {
        char *names = tensor_groups_text(&changed);
        m->mixed = xasprintf("bf16 except %s", names);
        free(names);
    } else {
        m->dtype = DTYPE_BF16;
    }
    tensor_groups_release(&changed);
}
