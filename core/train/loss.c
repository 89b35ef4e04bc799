// core/train/loss.c -- the pass from a sample's rows to its loss and gradients.
//
//   pictures -> encoder -> projector -> visual tokens -> splice -> layers -> h[L]
//   h[L], the rows that must predict something -> final norm -> head and cross entropy in chunks
#include "core/train/loss.h"

#include <stdlib.h>

#include "core/families/family.h"
#include "core/ops.h"
#include "core/splice.h"
#include "core/tape.h"

// h[0] [n, D] with the pictures' visual tokens in their places.
static struct tensor *embed(struct graph *g, const struct model *m, struct picture *pictures,
                            size_t picture_count, const struct labels *l)
{
    struct tensor none = { 0 };
    struct tensor **visual = xcalloc(picture_count + 1, sizeof *visual);
    for (size_t i = 0; i < picture_count; i++) visual[i] = &none;
    for (int64_t row = 0; row < l->sequence.n && graph_ok(g); row++) {
        int i = l->sequence.picture[row];
        if (i < 0 || visual[i] != &none) continue;
        visual[i] = &pictures[i].visual;
        if (!visual[i]->data)
            visual[i] = m->family->picture_encode(g, m, &pictures[i].image, i); // [S, D]
    }
    struct tensor *h = NULL;
    if (graph_ok(g)) h = splice(g, &m->decoder.embed, &l->sequence, 0, visual, (int)picture_count);
    free(visual);
    return h;
}

// Mean loss over the trained tokens, from h[L] [n, D]: only the rows that predict them are looked
// at.
static int head_loss(struct graph *g, const struct decoder *d, struct tensor *h,
                     const struct labels *l, double share, double *loss)
{
    int32_t *row = xreallocarray(NULL, (size_t)l->trained + 1, sizeof *row);
    int32_t *target = xreallocarray(NULL, (size_t)l->trained + 1, sizeof *target);
    int64_t n = 0;
    for (int64_t i = 0; i < l->sequence.n; i++)
        if (l->target[i] >= 0) {
            row[n] = (int32_t)i;
            target[n++] = l->target[i];
        }
    struct tensor *x = op_gather_rows(g, h, row, n); // [trained, D]
    x = op_rmsnorm(g, x, graph_weight(&d->norm), (float)d->config.eps);
    int status = op_cross_entropy(g, x, graph_weight(&d->head), target, share / (double)n, loss);
    *loss /= (double)n;
    free(row);
    free(target);
    return status;
}

int loss_sample(struct graph *g, const struct model *m, struct picture *pictures,
                size_t picture_count, const struct labels *l, double share, double *loss)
{
    struct arena_mark mark = arena_mark(g->arena);
    *loss = 0;
    if (!l->trained) graph_fail(g, "no token of this sample is trained: it has no answer");
    struct tensor *h = embed(g, m, pictures, picture_count, l), *last = NULL;
    int status = -1;
    if (h &&
        decoder_forward(g, &m->decoder, NULL, &l->sequence, h, LOGITS_HIDDEN, true, &last) == 0)
        status = head_loss(g, &m->decoder, last, l, share, loss);
    if (g->tape && status == 0) status = tape_backward(g);
    if (g->tape && status < 0) tape_clear(g->tape);
    arena_reset(g->arena, mark);
    return status;
}
