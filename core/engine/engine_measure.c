// core/engine/engine_measure.c -- measurements of the conversation, of data sets, of checkpoints.
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/base/clock.h"
#include "core/engine/engine_parts.h"
#include "core/engine/proposal.h"
#include "core/files/content.h"
#include "core/graph/arena.h"
#include "core/ops/ops.h"
#include "core/probes/masks.h"
#include "core/probes/measure.h"
#include "core/probes/measure_data.h"

// Measures the conversation or the data.
static int measure_one(struct engine *e, const struct measuring *m, struct conversation *c,
                       const struct measure_request *request, struct results *r, struct err *err)
{
    if (request->set.data) return measure_data(m, request, e->sinks, r, err);
    if (!request->objects) return measure(m, c, request->probe, r, err);
    struct measuring with = *m;
    struct probe_options options = request->options;
    struct masks masks;
    if (masks_open(&masks, request->objects, err) < 0) return -1;
    options.objects = &masks;
    options.object_boxes = request->boxes;
    with.options = &options;
    const int status = measure(&with, c, request->probe, r, err);
    masks_close(&masks);
    return status;
}

// Measures with an adapter folder applied to the model, then restores the model.
static int measure_adapter(struct engine *e, struct measuring m, const char *folder,
                           const struct measure_request *request, struct results *r,
                           struct err *err)
{
    const bool loaded = adapters_find(&e->adapters, folder) != NULL;
    struct settings *s = engine_propose(e, &(struct change){ "adapter", folder }, 1, err);
    int status = s ? engine_lend(e, s, &m.tensors, err) : -1;
    m.settings = s;
    m.reencode = true;
    if (status == 0) status = measure_one(e, &m, &e->conversation, request, r, err);
    engine_lend(e, NULL, NULL, NULL);
    struct adapter *a = adapters_find(&e->adapters, folder);
    if (a && !loaded && a != e->adapters.active) adapters_drop(&e->adapters, a);
    settings_free(s);
    return status;
}

// Generated token ids are valid only for a model with the same vocabulary.
static int check_vocabulary(const struct engine *e, const struct model *m, struct err *err)
{
    if (m->decoder.config.vocab == e->model->decoder.config.vocab &&
        tokenizer_size(m->tokenizer) == tokenizer_size(e->model->tokenizer))
        return 0;
    return err_set(err, "'%s' is not a checkpoint of the model '%s': their vocabularies differ",
                   m->name, e->model->name);
}

// Measures with another model folder.
static int measure_model(struct engine *e, struct measuring m, const char *folder,
                         const struct measure_request *request, struct results *r, struct err *err)
{
    const struct load_progress progress = engine_progress(e, "loading");
    struct conversation c;
    struct model *other = model_load(folder, e->backend, &progress, err);
    if (!other) return -1;
    conversation_init(&c, e->backend);
    conversation_set_model(&c, other);
    m.model = other;
    m.tensors = (struct method_tensors){ 0 };
    struct proposal p = { .from = m.settings,
                          .env = { .model = other, .backend = e->backend },
                          .all = true };
    int status = check_vocabulary(e, other, err);
    if (status == 0) status = proposal_check(&p, &(struct change){ "adapter", "none" }, 1, err);
    m.settings = p.env.settings;
    if (status == 0 && !request->set.data)
        status = conversation_copy(&c, &e->conversation, e->conversation.message_count, err);
    if (status == 0) status = measure_one(e, &m, &c, request, r, err);
    proposal_release(&p);
    conversation_release(&c);
    model_free(other);
    return status;
}

// Measures the checkpoints one after the other.
static int measure_checkpoints(struct engine *e, const struct measuring *m,
                               const struct measure_request *request, struct results *results,
                               struct err *err)
{
    struct checkpoints all = { .probe = request->probe };
    int status = 0;
    for (size_t i = 0; i < request->checkpoint_count && status == 0; i++) {
        const char *name = request->checkpoints[i];
        struct results one = { 0 };
        if (!strcmp(name, "now"))
            status = measure_one(e, m, &e->conversation, request, &one, err);
        else if (adapter_is(name))
            status = measure_adapter(e, *m, name, request, &one, err);
        else
            status = measure_model(e, *m, name, request, &one, err);
        if (status == 0)
            checkpoints_add(&all, name, &one);
        else
            err_in(err, "checkpoint '%s'", name);
        results_release(&one);
    }
    checkpoints_finish(&all, results);
    return status;
}

int engine_measure(struct engine *e, const struct measure_request *request, struct results *results,
                   struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    const struct measuring m = { .model = e->model,
                                 .backend = e->backend,
                                 .settings = e->settings,
                                 .tensors = adapter_tensors(e->adapters.active),
                                 .cancel = &e->cancel,
                                 .options = &request->options,
                                 .sinks = e->sinks };
    results_arithmetic(results, engine_arithmetic(e), NULL);
    if (request->checkpoint_count) return measure_checkpoints(e, &m, request, results, err);
    if (measure_one(e, &m, &e->conversation, request, results, err) < 0) return -1;
    if (request->set.data) return 0;
    return request->probe->times ? measure_compare_times(&m, &e->conversation, results, err) : 0;
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
