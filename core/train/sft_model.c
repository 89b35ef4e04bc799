// core/train/sft_model.c -- sets up a training run on its model: the adapter, if any, that it
// continues from, methods, parameters with gradients and moments, arena and tape; and counts their
// memory.
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapters.h"
#include "core/settings/settings.h"
#include "core/train/frozen.h"
#include "core/train/roles.h"
#include "core/train/sft_parts.h"

static void add_extra(void *self, const char *name, struct tensor *tensor)
{
    struct sft *t = self;
    struct method_tensor shape;
    const struct method *m = method_learning(t->job->model, name, &shape);
    if (!m) BUG("no method learns %s", name);
    const struct param_extra extra = roles_extra(m, t->job->settings, name, tensor);
    params_extra(&t->params, &extra);
}

static int open_params(struct sft *t, struct err *err)
{
    struct job *j = t->job;
    const struct method_env env = { .model = j->model,
                                    .backend = j->backend,
                                    .settings = j->settings,
                                    .tensors = adapter_tensors(t->base),
                                    .training = true };
    t->params.backend = j->backend;
    t->params.ranks = j->ranks;
    t->params.moves_tables = t->plan.forecast.moves_tables;
    job_hooks(j, &t->hooks);
    if (methods_attach(&t->methods, &t->hooks, &env, err) < 0) return -1;
    methods_params(&t->methods, add_extra, t);
    if (params_open(&t->params, j->model, j->settings, err) < 0) return -1;
    sft_sum_by_layer(t);
    // True if the visual tokens before the methods are independent of the trained weights.
    bool frozen = true;
    for (size_t i = 0; i < t->params.count; i++) {
        const struct weight *w = t->params.list[i].weight;
        frozen &= !w || (w->part != PART_VISION && w->part != PART_PROJECTOR);
    }
    t->train.loader.frozen = t->validation.loader.frozen = frozen;
    return 0;
}

static void yield(void *self)
{
    job_yield(self);
}

static void set_graph(struct sft *t)
{
    struct job *j = t->job;
    t->arena.backend = j->backend;
    arena_expect(&t->arena, t->plan.forecast.arena);
    t->tape = (struct tape){ .backend = j->backend,
                             .recompute = !settings_is(j->settings, "train.checkpointing", "off"),
                             .keep = t->plan.forecast.keep,
                             .offloads = { .on = t->plan.forecast.offload },
                             .norms = sft_norms_watch(t) };
    t->graph = (struct graph){ .backend = j->backend,
                               .arena = &t->arena,
                               .hooks = &t->hooks,
                               .settings = j->settings,
                               .cancel = &j->cancel,
                               .yield = yield,
                               .yield_self = j };
    t->graph.matmul = graph_matmul(t->where, j->settings, j->model->dtype);
}

int sft_prepare(struct sft *t, struct err *err)
{
    struct settings *s = t->job->settings;
    if (roles_switch(s, err) < 0) return -1;
    // The adapter's weights are part of the trained model.
    if (adapter_apply_settings(&t->base, t->job->model, s, err) < 0 || open_params(t, err) < 0)
        return -1;
    set_graph(t);
    if (t->where->own_memory && t->graph.matmul == MATMUL_BF16 &&
        frozen_round(t->job->model, t->base, err) < 0)
        return -1;
    // Concurrent passes would share the state of a method, or keep all gradients.
    if (methods_on(&t->methods) || t->params.buckets || !lanes_wanted(&t->params)) return 0;
    if (lanes_open(&t->lanes, &t->params, t->job->backend, &t->tape, err) < 0) return -1;
    for (int k = 0; k < LANES; k++) arena_expect(&t->lanes.list[k].arena, t->plan.forecast.lane);
    return 0;
}

void sft_release(struct sft *t)
{
    sft_sums_release(t);
    lanes_release(&t->lanes);
    tape_release(&t->tape);
    sft_norms_release(t);
    if (t->params.backend) params_release(&t->params);
    if (t->job && t->job->model) frozen_restore(t->job->model);
    methods_release(&t->methods);
    if (t->base) adapter_free(t->base);
    if (t->arena.backend) arena_release(&t->arena);
    free(t->report.unscored);
    t->base = NULL;
    t->report.unscored = NULL;
}

// Adds the bytes that one pass held when its backward pass began, its arena's peak, and the peak of
// its pool of gradient buffers.
static void count_pass(const struct arena *a, const struct tape *t, uint64_t *held, uint64_t *peak,
                       uint64_t *pool)
{
    *held += t->held < a->peak ? t->held : a->peak;
    *peak += a->peak;
    *pool += t->peak;
}

void sft_memory(const struct sft *t, struct memory_parts *parts)
{
    const struct model *m = t->job->model;
    const bool exact = settings_flag(t->job->settings, "train.exact_sum");
    const uint64_t gradients = t->lanes.params ? 1 + LANES : 1;
    const bool own = t->where->own_memory;
    uint64_t held = 0, peak = 0, pool = 0, trained = 0, on_host = 0, moments = 0, host_moments = 0;
    uint64_t kept = 0; // gradients on the device; those of a pass come from the tape's pool
    uint64_t offloaded = t->tape.offloads.peak; // layer inputs on the host
    count_pass(&t->arena, &t->tape, &held, &peak, &pool);
    for (int k = 0; t->lanes.params && k < LANES; k++) {
        const struct tape *tape = &t->lanes.list[k].tape;
        count_pass(&t->lanes.list[k].arena, tape, &held, &peak, &pool);
        // With offloads, lanes run one after the other.
        if (tape->offloads.peak > offloaded) offloaded = tape->offloads.peak;
    }
    for (size_t i = 0; i < t->params.count; i++) {
        const struct param *one = &t->params.list[i];
        const bool host = own && one->tensor->on_host;
        const uint64_t bytes = (uint64_t)one->count * sizeof(float);
        *(host ? &on_host : &trained) += bytes;
        if (!host && params_keep(&t->params, one)) kept += bytes;
        if (params_own(&t->params, one)) *(host ? &host_moments : &moments) += 2 * bytes;
    }
    // MEMORY_PROGRAM keeps the forecast's value, as does MEMORY_PICTURES if no picture is cached.
    *parts = t->plan.forecast.parts;
    parts->of[MEMORY_MAPPED] = checkpoint_mapped(m->checkpoint);
    // With train.exact_sum, sft_ranks.c sums all gradients on the host.
    parts->of[MEMORY_HOST] = on_host * (1 + gradients) + host_moments + offloaded +
                             (exact && own ? trained + on_host : 0);
    parts->of[MEMORY_WEIGHTS] = m->arena.used + (t->base ? t->base->arena->used : 0);
    parts->of[MEMORY_MASTERS] = trained;
    parts->of[MEMORY_GRADIENTS] = kept * (gradients + (exact && !own));
    parts->of[MEMORY_OPTIMIZER] = moments;
    parts->of[MEMORY_ACTIVATIONS] = held;
    parts->of[MEMORY_WORKSPACE] = peak - held + pool + t->job->backend->scratch();
    if (t->train.loader.most)
        parts->of[MEMORY_PICTURES] = t->train.loader.most + t->validation.loader.most;
}
