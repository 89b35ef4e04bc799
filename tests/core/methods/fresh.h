// tests/core/methods/fresh.h -- compares a conversation in which settings changed with a new one
// that had them from the start.
//
//   equals_a_fresh_run(&g);   // after an answer
#ifndef TESTS_CORE_METHODS_FRESH_H
#define TESTS_CORE_METHODS_FRESH_H

#include "core/base/event.h"
#include "core/model/kv.h"
#include "core/model/model.h"
#include "core/talk/conversation.h"
#include "core/template/message.h"
#include "tests/core/model/families/golden.h"

static inline struct engine *engine_like(const struct golden *g)
{
    struct err err = { 0 };
    static struct sinks silent;
    struct engine *e = engine_new(test_device(), &silent);
    must(engine_load(e, engine_model(g->engine)->checkpoint->folder, &err), &err);
    for (int i = 0; settings_row(i); i++) {
        const char *key = settings_row(i)->key;
        must(engine_set(e, key, settings_text(engine_settings(g->engine), key), &err), &err);
    }
    return e;
}

// Says the messages of g's conversation, except the last one, to e.
static inline void say_again(const struct golden *g, struct engine *e)
{
    struct err err = { 0 };
    const struct conversation *c = engine_conversation(g->engine);
    for (size_t i = 0; i < c->picture_count; i++)
        if (c->pictures[i].path) must(engine_attach(e, c->pictures[i].path, &err), &err);
    int number = 0, of[16] = { 0 };
    for (size_t i = 0; i < c->picture_count; i++) of[i] = c->pictures[i].path ? number++ : -1;
    for (size_t i = 0; i + 1 < c->message_count; i++) {
        struct message m = { 0 };
        message_copy(&m, &c->messages[i]);
        for (size_t k = 0; k < m.content_count; k++)
            if (!m.content[k].text) m.content[k].picture = of[m.content[k].picture];
        must(engine_add_message(e, &m, &err), &err);
        message_release(&m);
    }
}

static inline void check_table(int layer, const struct tensor *a, const struct tensor *b,
                               int64_t rows)
{
    const int64_t count = rows * tensor_row(a);
    for (int64_t i = 0; i < count; i++) {
        const float x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
        if (!(fabsf(x - y) <= 1e-4f)) fail_msg("layer %d: %g, afresh %g", layer, x, y);
    }
}

// Compares the newest answer and the cache with those of a new engine.
static inline void equals_a_fresh_run(struct golden *g)
{
    struct err err = { 0 };
    struct engine *e = engine_like(g);
    say_again(g, e);
    must(engine_answer(e, &err), &err);
    const struct conversation *a = engine_conversation(g->engine), *b = engine_conversation(e);
    const struct ids *x = &a->messages[a->message_count - 1].ids;
    const struct ids *y = &b->messages[b->message_count - 1].ids;
    assert_int_equal(x->count, y->count);
    assert_memory_equal(x->data, y->data, x->count * sizeof *x->data);
    for (int l = 0; l < a->kv.layers; l++) {
        const struct kv_layer *p = &a->kv.layer[l], *q = &b->kv.layer[l];
        assert_int_equal(p->rows, q->rows);
        assert_memory_equal(p->position, q->position, (size_t)p->rows * sizeof *p->position);
        check_table(l, &p->k, &q->k, p->rows);
        check_table(l, &p->v, &q->v, p->rows);
    }
    engine_free(e);
}

#endif
