// core/ops/patches.c -- pixels[C,H,W] -> one row per patch [S, C*patch*patch].
#include "core/ops/check.h"

static int patches_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dpixels, dy;
    if (!tape_grad(g, s->in[0], &dpixels) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "patches", g->backend->patches_backward(&dpixels, &dy, s->integer));
}

struct tensor *op_patches(struct graph *g, struct tensor *pixels, int64_t patch)
{
    if (!pixels || !graph_ok(g)) return NULL;
    char text[96];
    if (!op_want_f32(g, "patches", "pixels", pixels)) return NULL;
    if (pixels->rank != 3 || patch < 1 || pixels->shape[1] < patch || pixels->shape[2] < patch)
        return graph_fail(g, "patches: pixels %s hold no patch of %lld", op_shape(pixels, text),
                          (long long)patch);
    int64_t count = (pixels->shape[1] / patch) * (pixels->shape[2] / patch);
    struct tensor *y = graph_new2(g, DTYPE_F32, count, pixels->shape[0] * patch * patch);
    if (!y) return NULL;
    return op_record(
        g, "patches", g->backend->patches(y, pixels, patch), y,
        &(struct tape_step){ .backward = patches_backward, .in = { pixels }, .integer = patch });
}
