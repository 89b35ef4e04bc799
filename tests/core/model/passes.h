// tests/core/model/passes.h -- passes of a text model over given ids, without the rest of the
// program: logits, losses, gradients.
//
//   float *logits = pass_logits(m, &kv, ids, 4, NULL);          // rows 0..3, which enter the cache
//   pass_want_gradients(m);
//   double loss = pass_loss(m, ids, target, count, false);      // adds its gradients
//   pass_free_gradients(m);
#ifndef TESTS_CORE_MODEL_PASSES_H
#define TESTS_CORE_MODEL_PASSES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/eval/loss.h"
#include "core/graph/tape.h"
#include "core/model/visual.h"
#include "tests/device.h"

// Logits [to - cached, V] of the ids up to `to` after those in the cache (NULL: no cache); the
// caller frees them. A single row after cached ones takes the path of an answer's token: on a GPU,
// usually a recording (decoder_step).
static inline float *pass_logits(const struct model *m, struct kv *kv, const int32_t *ids,
                                 int64_t to, const struct hooks *hooks)
{
    const int64_t past = kv ? kv->layer[0].rows : 0;
    const enum logits_rows want = to - past > 1 ? LOGITS_ALL : LOGITS_LAST;
    struct arena step = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step, .hooks = hooks };
    struct sequence s;
    struct tensor *logits = NULL;
    sequence_init(&s, to, 1);
    memcpy(s.ids, ids, (size_t)to * sizeof *s.ids);
    struct tensor *h = splice(&g, &m->decoder, &s, past, NULL, NULL, 0);
    if (decoder_forward(&g, &m->decoder, kv, &s, h, want, past == 0, &logits) < 0)
        fail_msg("%s", g.err.text);
    float *host = xmalloc(tensor_bytes(logits));
    graph_download(&g, host, logits);
    sequence_release(&s);
    arena_release(&step);
    return host;
}

// Mean loss over the rows of the ids whose target is not -1; adds its gradients to the weights with
// a gradient. `recompute`: the backward pass computes the layers again.
static inline double pass_loss(const struct model *m, const int32_t *ids, const int32_t *target,
                               int64_t n, bool recompute)
{
    struct arena step = { .backend = test_device() };
    struct tape tape = { .backend = test_device(), .recompute = recompute };
    struct graph g = { .backend = test_device(), .arena = &step, .tape = &tape };
    struct labels l = { .target = xreallocarray(NULL, (size_t)n, sizeof *l.target) };
    double loss;
    sequence_init(&l.sequence, n, 1);
    memcpy(l.sequence.ids, ids, (size_t)n * sizeof *ids);
    memcpy(l.target, target, (size_t)n * sizeof *target);
    for (int64_t i = 0; i < n; i++) l.trained += target[i] >= 0;
    if (loss_sample(&g, m, NULL, 0, &l, 1, &loss) < 0) fail_msg("%s", g.err.text);
    labels_release(&l);
    tape_release(&tape);
    arena_release(&step);
    return loss;
}

// Gives every weight a gradient.
static inline void pass_want_gradients(struct model *m)
{
    for (size_t i = 0; i < m->weights.count; i++) {
        struct tensor *t = m->weights.list[i].tensor;
        t->grad = grad_new(backend_of(test_device(), t), tensor_count(t));
    }
    model_weights_changed(m);
}

static inline void pass_free_gradients(struct model *m)
{
    for (size_t i = 0; i < m->weights.count; i++) {
        struct tensor *t = m->weights.list[i].tensor;
        grad_free(backend_of(test_device(), t), t->grad);
        t->grad = NULL;
    }
}

#endif
