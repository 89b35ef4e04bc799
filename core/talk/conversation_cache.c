// core/talk/conversation_cache.c -- the computed results of a conversation: visual tokens, the KV
// cache, states of methods.
//
// Easy to get wrong: the cache must always match c->cached, even after a failure or Ctrl-C in the
// middle of a pass. A cancelled pass may leave rows beyond c->cached; conversation_trim (called by
// conversation_reuse) removes them.
#include <stdlib.h>
#include <string.h>

#include "core/model/pass.h"
#include "core/model/visual.h"
#include "core/stages/stages.h"
#include "core/talk/conversation.h"

void conversation_drop_visual(struct conversation *c, int i)
{
    struct picture *p = &c->pictures[i];
    visual_free(c->backend, p->visual);
    p->visual = NULL;
    free(p->focus);
    p->focus = NULL;
}

int64_t conversation_trim(struct conversation *c, int64_t tokens)
{
    if (tokens) tokens = kv_trim(&c->kv, tokens);
    if (!tokens) kv_clear(&c->kv); // frees memory: the next conversation may need less
    methods_trim(&c->methods, tokens);
    sequence_trim(&c->cached, tokens);
    return tokens;
}

// Like conversation_trim, but drops all rows if some layers lack rows, because a pass with pruning
// was stopped before it had filled these layers.
static void trim_whole(struct conversation *c, int64_t tokens)
{
    tokens = conversation_trim(c, tokens);
    if (tokens && !kv_whole(&c->kv, 0, tokens)) conversation_trim(c, 0);
}

void conversation_drop_rows(struct conversation *c, int i)
{
    int64_t row = 0;
    while (row < c->cached.n && c->cached.picture[row] != i) row++;
    if (row < c->cached.n) trim_whole(c, row);
}

void conversation_stale(struct conversation *c, enum setting_stale stale)
{
    int64_t tokens = 0;
    if (stale < STALE_SEEN) return;
    if (stale == STALE_SEEN) // such a setting affects no row before the first visual one
        while (tokens < c->cached.n && c->cached.picture[tokens] < 0) tokens++;
    trim_whole(c, tokens);
    if (stale != STALE_VISUAL) return;
    for (size_t i = 0; i < c->picture_count; i++) conversation_drop_visual(c, (int)i);
}

struct image conversation_swap_pixels(struct conversation *c, int i, struct image image)
{
    const struct image old = c->pictures[i].image;
    if (image.width != old.width || image.height != old.height) BUG("a picture of another size");
    conversation_drop_visual(c, i);
    conversation_drop_rows(c, i);
    c->pictures[i].image = image;
    return old;
}

void conversation_set_dtype(struct conversation *c, enum dtype dtype)
{
    if (c->kv.dtype == dtype) return;
    conversation_trim(c, 0);
    kv_set_dtype(&c->kv, dtype);
}

// Returns the last row, at most n, from which this process can continue.
static int64_t reusable(const struct conversation *c, const struct sequence *s, int64_t n)
{
    const struct decoder_config *config = &c->model->decoder.config;
    for (int64_t whole = -1; n != whole; n = methods_reusable(&c->methods, &c->cached, n))
        n = whole = kv_reusable(&c->kv, pass_start(config, s, n));
    return n;
}

int64_t conversation_reuse(struct conversation *c, const struct sequence *s, int64_t most)
{
    const struct sequence *cached = &c->cached;
    int64_t n = 0; // leading tokens that are cached, without the last token of s, whose logits are
                   // needed
    while (n < s->n - 1 && n < most && n < cached->n && s->ids[n] == cached->ids[n] &&
           s->picture[n] == cached->picture[n] && s->cell[n] == cached->cell[n])
        n++;
    if (c->model->listener.pass &&
        s->pictures != c->cached.pictures) { // cached rows are from other weights
        conversation_trim(c, 0);
        return 0;
    }
    // If several processes share the layers, a method's state covers only the layers of its
    // process. All processes must agree on a row that suits each of them.
    const struct stages *stages = stages_of(&c->model->decoder);
    int64_t from = stages_least(stages, c->number, reusable(c, s, n));
    while ((n = stages_least(stages, c->number, reusable(c, s, from))) != from) from = n;
    conversation_trim(c, from);
    return from;
}

int conversation_hooks(struct conversation *c, const struct settings *s,
                       struct method_tensors tensors, struct hooks *hooks, struct err *err)
{
    const struct method_env env = {
        .model = c->model, .backend = c->backend, .settings = s, .tensors = tensors
    };
    *hooks = (struct hooks){ 0 };
    return methods_attach(&c->methods, hooks, &env, err);
}

void conversation_reset_methods(struct conversation *c)
{
    methods_release(&c->methods);
}

struct graph conversation_graph(struct conversation *c, const struct settings *s,
                                const struct hooks *hooks, const atomic_bool *cancel)
{
    return (struct graph){ .backend = c->backend,
                           .arena = &c->step,
                           .hooks = hooks,
                           .settings = s,
                           .matmul = graph_matmul(c->backend, s, c->model->dtype),
                           .conversation = c->number,
                           .cancel = cancel };
}
