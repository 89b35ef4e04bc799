// core/train/loss.c -- labels of a conversation, and the pass from its ids to loss and gradients.
//
//   pictures -> encoder -> projector -> visual tokens -> splice -> layers -> h[L]
//   h[L], the rows before labelled tokens only -> final norm -> head and cross entropy in chunks
//
// The step easy to get wrong: where an answer begins. The prompt with a generation prompt need not
// be the beginning of the conversation's ids (a template may write one blank more), so labels begin
// where the two first differ.
#include "core/train/loss.h"

#include <stdlib.h>
#include <string.h>

#include "core/families/family.h"
#include "core/ops.h"
#include "core/splice.h"
#include "core/tape.h"

// --- labels --------------------------------------------------------------------------------------

// Ids of the first `count` messages.
static int render(struct sequence *s, const struct conversation *c, size_t count,
                  const struct settings *settings, bool generation_prompt, struct err *err)
{
    struct conversation part = *c;
    part.message_count = count;
    return conversation_sequence(&part, settings, generation_prompt, s, err);
}

static int64_t common_ids(const struct sequence *a, const struct sequence *b)
{
    int64_t n = 0;
    while (n < a->n && n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

static bool is_end(const struct model *m, int32_t id)
{
    for (size_t i = 0; i < m->eos.count; i++)
        if (m->eos.data[i] == id) return true;
    return false;
}

// Labels message number k, an answer: from where the prompt before it ends to where it ends itself.
static int label_answer(struct sample *s, const struct conversation *c, size_t k,
                        const struct settings *settings, struct err *err)
{
    struct sequence prompt = { 0 }, answered = { 0 };
    int status = render(&prompt, c, k, settings, true, err);
    if (status == 0) status = render(&answered, c, k + 1, settings, false, err);
    if (status == 0) {
        int64_t from = common_ids(&prompt, &answered), to = common_ids(&answered, &s->sequence);
        if (k + 1 == c->message_count) to = s->sequence.n; // the end token appended too
        for (int64_t i = from > 0 ? from : 1; i < to; i++)
            if (s->sequence.picture[i] < 0) s->labels[i] = s->sequence.ids[i];
    }
    sequence_release(&prompt);
    sequence_release(&answered);
    return status;
}

// An answer at the end of the conversation that nothing ends gets the end token.
static void append_end(struct sequence *s, const struct model *m, const struct sequence *prompt)
{
    for (int64_t i = common_ids(prompt, s); i < s->n; i++)
        if (is_end(m, s->ids[i])) return;
    if (m->eos.count) sequence_append(s, m->eos.data[0]);
}

int sample_read(struct sample *s, const struct conversation *c, const struct settings *settings,
                struct err *err)
{
    struct sequence prompt = { 0 };
    size_t count = c->message_count;
    *s = (struct sample){ 0 };
    int status = render(&s->sequence, c, count, settings, false, err);
    if (status == 0 && count && c->messages[count - 1].role == ROLE_ASSISTANT) {
        status = render(&prompt, c, count - 1, settings, true, err);
        if (status == 0) append_end(&s->sequence, c->model, &prompt);
    }
    sequence_release(&prompt);
    if (status < 0) goto out;

    s->labels = xreallocarray(NULL, (size_t)s->sequence.n + 1, sizeof *s->labels);
    for (int64_t i = 0; i < s->sequence.n; i++) s->labels[i] = LABEL_NONE;
    for (size_t k = 0; k < count && status == 0; k++)
        if (c->messages[k].role == ROLE_ASSISTANT) status = label_answer(s, c, k, settings, err);
    if (status < 0) goto out;
    for (int64_t i = 0; i < s->sequence.n; i++) s->labelled += s->labels[i] != LABEL_NONE;
    return 0;
out:
    sample_release(s);
    return -1;
}

void sample_release(struct sample *s)
{
    sequence_release(&s->sequence);
    free(s->labels);
    *s = (struct sample){ 0 };
}

// --- loss ----------------------------------------------------------------------------------------

// h[0] [n, D] with the pictures' visual tokens in their places.
static struct tensor *embed(struct graph *g, const struct model *m, struct picture *pictures,
                            size_t picture_count, const struct sample *s)
{
    struct tensor none = { 0 };
    struct tensor **visual = xcalloc(picture_count + 1, sizeof *visual);
    for (size_t i = 0; i < picture_count; i++) visual[i] = &none;
    for (int64_t row = 0; row < s->sequence.n && graph_ok(g); row++) {
        int i = s->sequence.picture[row];
        if (i < 0 || visual[i] != &none) continue;
        visual[i] = &pictures[i].visual;
        if (!visual[i]->data)
            visual[i] = m->family->picture_encode(g, m, &pictures[i].image, i); // [S, D]
    }
    struct tensor *h = NULL;
    if (graph_ok(g)) h = splice(g, &m->decoder.embed, &s->sequence, 0, visual, (int)picture_count);
    free(visual);
    return h;
}

// Mean loss over the labelled tokens, from h[L] [n, D]: only the rows before them are looked at.
static int head_loss(struct graph *g, const struct decoder *d, struct tensor *h,
                     const struct sample *s, double share, double *loss)
{
    int32_t *row = xreallocarray(NULL, (size_t)s->labelled + 1, sizeof *row);
    int32_t *target = xreallocarray(NULL, (size_t)s->labelled + 1, sizeof *target);
    int64_t n = 0;
    for (int64_t i = 1; i < s->sequence.n; i++)
        if (s->labels[i] != LABEL_NONE) {
            row[n] = (int32_t)(i - 1);
            target[n++] = s->labels[i];
        }
    struct tensor *x = op_gather_rows(g, h, row, n); // [labelled, D]
    x = op_rmsnorm(g, x, graph_weight(&d->norm), (float)d->config.eps);
    int status = op_cross_entropy(g, x, graph_weight(&d->head), target, share / (double)n, loss);
    *loss /= (double)n;
    free(row);
    free(target);
    return status;
}

int sample_loss(struct graph *g, const struct model *m, struct picture *pictures,
                size_t picture_count, const struct sample *s, double share, double *loss)
{
    struct arena_mark mark = arena_mark(g->arena);
    *loss = 0;
    if (!s->labelled) graph_fail(g, "no token of this sample is learned: it has no answer");
    struct tensor *h = embed(g, m, pictures, picture_count, s), *last = NULL;
    int status = -1;
    if (h &&
        decoder_forward(g, &m->decoder, NULL, &s->sequence, h, LOGITS_HIDDEN, true, &last) == 0)
        status = head_loss(g, &m->decoder, last, s, share, loss);
    if (g->tape && status == 0) status = tape_backward(g);
    if (g->tape && status < 0) tape_clear(g->tape);
    arena_reset(g->arena, mark);
    return status;
}
