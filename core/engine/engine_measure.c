// core/engine/engine_measure.c -- measurements of the conversation and of data sets.
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/provenance.h"
#include "core/base/clock.h"
#include "core/engine/engine_parts.h"
#include "core/graph/arena.h"
#include "core/ops/ops.h"
#include "core/probes/directions.h"
#include "core/probes/masks.h"
#include "core/probes/measure.h"
#include "core/probes/measure_data.h"
#include "core/probes/where.h"
#include "core/tokenizer/tokenizer.h"

// Copies the conversation up to the answer whose number, counted from 1, `words` holds.
static int copy_to_answer(struct conversation *c, const struct conversation *from,
                          const char *words, struct err *err)
{
    const int64_t wanted = strtoll(words, NULL, 10);
    int64_t number = 0;
    size_t count = 0;
    while (count < from->message_count && number < wanted)
        number += from->messages[count++].role == ROLE_ASSISTANT;
    if (number < wanted)
        return err_set(err, "no answer %s: the conversation has %lld", words, (long long)number);
    conversation_set_model(c, from->model);
    return conversation_copy(c, from, count, err);
}

static int measure_conversation(const struct measuring *m, struct conversation *c,
                                const struct measure_request *request, struct results *r,
                                struct err *err)
{
    struct measuring with = *m;
    struct probe_options options = request->options;
    struct masks masks = { .lines.file = -1 };
    struct conversation until;
    int status = 0;
    if (request->objects && masks_open(&masks, request->objects, err) < 0) return -1;
    if (request->objects) options.objects = &masks;
    options.object_boxes = request->boxes;
    with.options = &options;
    conversation_init(&until, m->backend);
    if (request->probe->numbered && options.words) {
        status = copy_to_answer(&until, c, options.words, err);
        c = &until;
    }
    if (status == 0) status = measure(&with, c, request->probe, r, err);
    results_rank(r);
    masks_close(&masks);
    conversation_release(&until);
    return status;
}

int engine_measure_as(struct engine *e, const struct model *model, const struct settings *settings,
                      const struct method_tensors *tensors, const struct measure_request *request,
                      struct results *results, struct err *err)
{
    const struct measuring m = { .model = model,
                                 .backend = e->backend,
                                 .settings = settings,
                                 .tensors = *tensors,
                                 .cancel = &e->cancel,
                                 .options = &request->options,
                                 .sinks = e->sinks };
    struct conversation copy, *c = &e->conversation;
    int status = 0;
    results_arithmetic(results, model_arithmetic(model, e->backend, settings), NULL);
    if (request->set.data) return measure_data(&m, request, e->sinks, results, err);
    conversation_init(&copy, e->backend);
    if (settings != e->settings) {
        c = &copy;
        bool same;
        status = conversation_copy_for(c, &e->conversation, e->conversation.message_count, model,
                                       &same, err);
        if (!same) results_note(results, "answers are tokenised again: the vocabulary differs");
    }
    if (status == 0) status = measure_conversation(&m, c, request, results, err);
    if (status == 0 && request->probe->times) status = measure_compare_times(&m, c, results, err);
    conversation_release(&copy);
    return status;
}

int engine_measure(struct engine *e, const struct measure_request *request, struct results *results,
                   struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    const struct method_tensors tensors = adapter_tensors(e->adapters.active);
    return engine_measure_as(e, e->model, e->settings, &tensors, request, results, err);
}

int engine_positions(struct engine *e, const struct measure_request *request, struct ids *positions,
                     struct err *err)
{
    struct measure_request where = *request;
    struct results r = { 0 };
    where.probe = &probe_where;
    const int status = engine_measure(e, &where, &r, err);
    const struct result_table *t = status == 0 ? results_find(&r, "where") : NULL;
    for (size_t i = 0; t && i < t->row_count; i++) ids_add(positions, (int32_t)t->rows[i].value[0]);
    results_release(&r);
    return status;
}

int engine_directions(struct engine *e, const struct directions_request *request,
                      struct directions *directions, struct provenance *from, struct err *err)
{
    *from = (struct provenance){ 0 };
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    if (engine_identify(e, err) < 0) return -1;
    struct settings *s = settings_copy(e->settings);
    settings_reset(s, "steer.vectors");
    const struct provenance_env env = {
        .model = e->model, .adapter = e->adapters.active, .backend = e->backend, .settings = s
    };
    provenance_of(from, &env, STALE_SEEN); // settings that change hidden states
    const struct measuring m = { .model = e->model,
                                 .backend = e->backend,
                                 .settings = s,
                                 .tensors = adapter_tensors(e->adapters.active),
                                 .cancel = &e->cancel,
                                 .sinks = e->sinks };
    const int status = directions_make(&m, request, directions, err);
    settings_free(s);
    return status;
}

double engine_speed(const struct engine *e)
{
    enum { ROWS = 256, WIDTH = 1024 };
    static const double steady_s = 0.1;
    struct arena arena = { .backend = e->backend };
    struct graph g = { .backend = e->backend, .arena = &arena, .settings = e->settings };
    g.matmul = graph_matmul(e->backend, e->settings, DTYPE_BF16);
    struct tensor *x = graph_new2(&g, DTYPE_F32, ROWS, WIDTH);
    struct tensor *w = graph_new2(&g, DTYPE_F32, WIDTH, WIDTH), *y = NULL;
    double begun = clock_seconds(), flops = 0;
    float read;
    if (x && w) {
        e->backend->fill(x, 0.5f);
        e->backend->fill(w, 0.5f);
    }
    do {
        const struct arena_mark mark = arena_mark(&arena);
        y = op_matmul(&g, x, w, NULL);
        if (y && !flops) begun = clock_seconds(); // the first product is slower
        if (y && e->backend->download) e->backend->download(&read, y->data, sizeof read);
        arena_reset(&arena, mark);
        flops += 2.0 * ROWS * WIDTH * WIDTH;
    } while (y && clock_seconds() - begun < steady_s);
    flops -= 2.0 * ROWS * WIDTH * WIDTH;
    const double speed = flops / (clock_seconds() - begun);
    arena_release(&arena);
    return speed;
}
