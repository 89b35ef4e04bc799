// core/train/frozen.c -- rounds frozen f16 matrices to bf16, and restores them.
//
// Fused ops that have a backward pass (kernels/fused.h) need bf16, because gradients need the range
// of bf16. Only the decoder uses such ops; embedding, head and encoder are unchanged.
#include "core/train/frozen.h"
#include "core/adapter/adapter_entry.h"
#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/model/model.h"
#include "core/model/parts.h"
#include "core/model/weights.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

static bool replaced(const struct adapter *a, const struct weight *w)
{
    for (size_t i = 0; a && i < a->count; i++)
        if (a->list[i].kind == ADAPTER_WEIGHT && a->list[i].weight == w) return true;
    return false;
}

int frozen_round(struct model *m, const struct adapter *base, struct err *err)
{
    const struct backend *b = m->arena.backend;
    int status = 0;
    for (size_t i = 0; i < m->weights.count && status == 0; i++) {
        struct weight *w = &m->weights.list[i];
        struct tensor rounded = *w->tensor;
        const struct safetensor *s = checkpoint_find(m->checkpoint, w->name);
        if (w->part != PART_DECODER || !s || s->quantised || !w->linear ||
            rounded.dtype != DTYPE_F16 || replaced(base, w))
            continue;
        rounded.dtype = DTYPE_BF16;
        backend_enter(b, w->gpu);
        status = b->widen(&rounded, w->tensor);
        if (status < 0) {
            err_set(err, "round '%s': %s", w->name, b->failure());
        } else {
            w->tensor->dtype = DTYPE_BF16;
            w->rounded = true;
        }
    }
    backend_enter(b, 0);
    return status;
}

void frozen_restore(struct model *m)
{
    const struct backend *b = m->arena.backend;
    for (size_t i = 0; i < m->weights.count; i++) {
        struct weight *w = &m->weights.list[i];
        if (!w->rounded) continue;
        const struct safetensor *s = checkpoint_find(m->checkpoint, w->name);
        backend_enter(b, w->gpu);
        // A device that computes nothing uses the file's own memory, which is unchanged.
        if (b->own_memory && s) b->upload(w->tensor->data, s->data, s->bytes);
        w->tensor->dtype = DTYPE_F16;
        w->rounded = false;
    }
    backend_enter(b, 0);
}
