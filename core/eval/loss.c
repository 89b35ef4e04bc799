// core/eval/loss.c -- losses and gradients of samples.
//
//   pictures -> encoder -> projector -> visual tokens -> splice -> layers -> h[L]
//   h[L], the rows with a target -> final norm -> head and cross entropy in chunks
//
// Several samples form one long sequence in which every row sees only its sample, so that matrix
// products are large enough to be efficient.
#include "core/eval/loss.h"

#include <stdlib.h>

#include "core/graph/tape.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "core/stages/stages.h"
#include "core/template/message.h"

// The samples of a pass, joined.
struct batch {
    const struct loss_item *items;
    size_t count;
    const struct picture **pictures; // of all samples
    size_t picture_count;
    struct sequence joined; // of several samples
    const struct sequence *sequence;
    struct graph_sample *samples;
};

static void batch_init(struct batch *b, const struct loss_item *items, size_t count)
{
    *b = (struct batch){ .items = items, .count = count, .sequence = &items[0].labels->sequence };
    const struct sequence **sequences = xcalloc(count, sizeof(const struct sequence *));
    size_t *pictures = xcalloc(count, sizeof *pictures), at = 0;
    for (size_t k = 0; k < count; k++) {
        sequences[k] = &items[k].labels->sequence;
        b->picture_count += pictures[k] = items[k].picture_count;
    }
    b->pictures = xcalloc(b->picture_count + 1, sizeof(const struct picture *));
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < items[k].picture_count; i++)
            b->pictures[at++] = &items[k].pictures[i];
    b->samples = xcalloc(count, sizeof *b->samples);
    for (size_t k = 0; k < count; k++) b->samples[k].number = items[k].number;
    if (count > 1) {
        sequence_join(&b->joined, sequences, pictures, count);
        b->sequence = &b->joined;
    }
    free((void *)sequences);
    free(pictures);
}

static void batch_release(struct batch *b)
{
    sequence_release(&b->joined);
    free((void *)b->pictures);
    free(b->samples);
}

// h[0] [n, D]: text embeddings, and the visual tokens of all pictures, which one pass encodes
// unless they were precomputed. A later stage only allocates a tensor of this shape.
static struct tensor *embed(struct graph *g, const struct model *m, const struct batch *b)
{
    model_pass(m, b->sequence->pictures);
    if (!decoder_first(&m->decoder))
        return graph_new2(g, DTYPE_F32, b->sequence->n, m->decoder.config.hidden);
    const size_t size = b->picture_count + 1;
    struct tensor **visual = xcalloc(size, sizeof(struct tensor *)); // [S, D] of each picture
    const float **focus = xcalloc(size, sizeof *focus);

    // The pictures to encode: those in the sequence without visual tokens.
    struct tensor later = { 0 };
    int *number = xcalloc(size, sizeof *number);
    const struct picture **pictures = xcalloc(size, sizeof(const struct picture *));
    size_t count = 0;
    for (int64_t row = 0; row < b->sequence->n; row++) {
        const int i = b->sequence->picture[row];
        if (i < 0 || visual[i]) continue;
        visual[i] = b->pictures[i]->visual;
        focus[i] = b->pictures[i]->focus;
        if (visual[i]) continue;
        visual[i] = &later;
        number[count] = i;
        pictures[count++] = b->pictures[i];
    }
    struct tensor **tokens = xcalloc(size, sizeof(struct tensor *)), *h = NULL;
    float **seen = xcalloc(size, sizeof *seen);
    if (visual_encode_all(g, m, pictures, number, count, tokens, seen) == 0) {
        for (size_t i = 0; i < count; i++) {
            visual[number[i]] = tokens[i];
            focus[number[i]] = seen[i];
        }
        h = splice(g, &m->decoder, b->sequence, 0, visual, focus, (int)b->picture_count);
    }
    free(number);
    free((void *)pictures);
    free((void *)tokens);
    free(seen);
    free((void *)visual);
    free((void *)focus);
    return h;
}

// Records at SITE_FINAL which rows of the sequence remain in h[L]. A method may have dropped the
// others.
struct alive {
    int32_t *number; // [n] row of h[L] for each row of the sequence; NULL: the same row
};

static bool alive_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_FINAL;
}

static int alive_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct alive *a = self;
    if (!args->rows) return 0;
    a->number = xcalloc((size_t)site_sequence(args)->n, sizeof *a->number);
    for (int64_t i = 0; i < args->x->shape[0]; i++) a->number[args->rows[i]] = (int32_t)i;
    return 0;
}

static double tokens_of(const struct loss_item *item)
{
    return item->tokens > 0 ? item->tokens : (double)item->labels->trained;
}

// Computes each sample's loss from the rows of h[L] [n, D] that predict its trained tokens: the sum
// over these tokens, divided by tokens_of.
static int head_loss(struct graph *g, const struct decoder *d, struct tensor *h,
                     const struct batch *b, const struct alive *alive, double share, double *losses)
{
    int64_t trained = 0, n = 0, first = 0;
    for (size_t k = 0; k < b->count; k++) trained += b->items[k].labels->trained;
    int32_t *row = xreallocarray(NULL, (size_t)trained + 1, sizeof *row);
    int32_t *target = xreallocarray(NULL, (size_t)trained + 1, sizeof *target);
    float *weight = xreallocarray(NULL, (size_t)trained + 1, sizeof *weight);
    float *loss = xreallocarray(NULL, (size_t)trained + 1, sizeof *loss);
    for (size_t k = 0; k < b->count; k++) {
        const struct labels *l = b->items[k].labels;
        for (int64_t i = 0; i < l->sequence.n; i++) {
            if (l->target[i] < 0) continue;
            row[n] = alive->number ? alive->number[first + i] : (int32_t)(first + i);
            target[n] = l->target[i];
            weight[n++] = (float)(share / tokens_of(&b->items[k]));
        }
        first += l->sequence.n;
    }
    struct tensor *x = op_gather_rows(g, h, row, n); // [trained, D]
    x = op_rmsnorm(g, x, graph_weight(&d->norm), (float)d->config.eps);
    int status = op_cross_entropy(g, x, graph_weight(&d->head), (float)d->config.logit_cap, target,
                                  weight, loss);
    n = 0;
    for (size_t k = 0; k < b->count && status == 0; k++) {
        const struct labels *l = b->items[k].labels;
        for (int64_t i = 0; i < l->trained; i++) losses[k] += (double)loss[n++];
        losses[k] /= tokens_of(&b->items[k]);
    }
    free(row);
    free(target);
    free(weight);
    free(loss);
    return status;
}

int loss_batch(struct graph *g, const struct model *m, const struct loss_item *items, size_t count,
               double share, double *losses)
{
    if (!count) return 0;
    const struct decoder *d = &m->decoder;
    struct arena_mark mark = arena_mark(g->arena);
    struct batch b;
    batch_init(&b, items, count);
    for (size_t k = 0; k < count; k++) {
        losses[k] = 0;
        if (!items[k].labels->trained)
            graph_fail(g, "the sample has no trained token: it has no answer");
    }
    g->samples = b.samples;
    g->share = share;

    // Pictures and text: h[0].
    struct tensor *h = graph_ok(g) ? embed(g, m, &b) : NULL;

    // The layers: h[L]. Then head and losses.
    struct alive alive = { 0 };
    const struct hook hook = { .wants = alive_wants, .run = alive_run, .self = &alive };
    const struct hooks *former = g->hooks;
    struct hooks hooks = { 0 };
    if (former) hooks = *former;
    hooks_add(&hooks, &hook);
    g->hooks = &hooks;
    const struct stages *stages = stages_of(d);
    struct tensor *last = NULL;
    int status = -1;
    if ((h || stages) &&
        decoder_forward(g, d, NULL, b.sequence, h, LOGITS_HIDDEN, true, &last) == 0) {
        status = decoder_last(d) ? head_loss(g, d, last, &b, &alive, share, losses) : 0;
        stages_broadcast(g, stages, losses, count * sizeof *losses);
        if (!graph_ok(g)) status = -1;
    }
    for (size_t k = 0; k < count; k++) { // adds the loss terms of methods (IRA)
        losses[k] += b.samples[k].penalty;
        if (items[k].kl) *items[k].kl = b.samples[k].kl;
    }

    // The gradients.
    if (g->tape && status == 0) status = tape_backward(g);
    if (g->tape && status < 0) tape_clear(g->tape);
    g->samples = NULL;
    g->hooks = former;
    free(alive.number);
    arena_reset(g->arena, mark);
    arena_settle(g->arena);
    batch_release(&b);
    return status;
}

int loss_sample(struct graph *g, const struct model *m, struct picture *pictures,
                size_t picture_count, const struct labels *l, double share, double *loss)
{
    const struct loss_item item = { .pictures = pictures,
                                    .picture_count = picture_count,
                                    .labels = l };
    return loss_batch(g, m, &item, 1, share, loss);
}
