// core/eval/compare.c -- two answers to one question, and their distance at each step.
#include "core/eval/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/eval/grid.h"
#include "core/graph/readback.h"
#include "core/methods/prune.h"
#include "core/model/flops.h"
#include "core/probes/hellinger.h"
#include "core/probes/live.h"
#include "core/talk/answer.h"
#include "core/tokenizer/tokenizer.h"

// --- the cost of an answer -----------------------------------------------------------------------

static bool meter_wants(void *self, const struct site *site, int layer)
{
    const struct compare_meter *m = self;
    return site == SITE_VALUES || site == SITE_FFN || site == SITE_STEP_LOGITS ||
           site == SITE_KEPT || site == SITE_EMBED || site == SITE_FINAL ||
           methods_cost(m->settings, site);
}

// Mean norms of the rows of x [n,D] by modality.
static int take_norms(void *self, const struct site *site, const struct site_args *args,
                      struct err *err)
{
    struct compare_meter *m = self;
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    double *norm = &m->cost.of[site == SITE_FINAL ? COST_NORM_LAST : COST_NORM_FIRST];
    double sum[2] = { 0 };
    int64_t count[2] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const int text = !site_visual(args, i);
        const float *row = (const float *)args->x->data + i * width;
        double squares = 0;
        for (int64_t k = 0; k < width; k++) squares += (double)row[k] * row[k];
        sum[text] += sqrt(squares);
        count[text]++;
    }
    for (int k = 0; k < 2; k++) norm[k] = count[k] ? sum[k] / (double)count[k] : NAN;
    return 0;
}

static int meter_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct compare_meter *m = self;
    const struct decoder *d = &m->model->decoder;
    double *flops = &m->cost.of[args->prefill ? COST_PREFILL_FLOPS : COST_DECODE_FLOPS];
    if (site == SITE_VALUES) {
        double pairs = 0; // each a query and a key that it can see
        for (int64_t i = 0; i < args->q->shape[0]; i++) pairs += (double)flops_keys(args, i);
        *flops += flops_attention(&d->config, args->layer, pairs);
    }
    if (site == SITE_FFN) {
        const double n = (double)args->x->shape[0];
        if (!args->layer) *flops += n * flops_inputs(d);
        *flops += flops_projections(&d->layer[args->layer], n) +
                  flops_recurrence(&d->config, args->layer, n) +
                  flops_ffn(&d->layer[args->layer], args->only ? (double)args->only_count : n);
    }
    if (methods_cost(m->settings, site))
        *flops += methods_flops(m->settings, &d->config, site, args, INT64_MAX);
    if (site == SITE_STEP_LOGITS) *flops += flops_head(&d->config);
    if (site == SITE_KEPT && args->prefill) m->cost.of[COST_KEPT] = (double)args->x->shape[0];
    if ((site == SITE_EMBED || site == SITE_FINAL) && args->prefill)
        return readback(g, args->x, site, args, take_norms, m);
    return 0;
}

struct hook compare_meter_hook(struct compare_meter *m, const struct settings *s)
{
    m->settings = s;
    m->cost = (struct compare_cost){ .of[COST_KEPT] = -1 };
    return (struct hook){ .wants = meter_wants, .run = meter_run, .self = m };
}

void compare_meter_end(struct compare_meter *m, const struct conversation *c,
                       const struct event_answer *answer)
{
    double *cost = m->cost.of;
    cost[COST_PROMPT_TOKENS] = (double)answer->prompt_tokens;
    cost[COST_VISUAL_TOKENS] = (double)answer->visual_tokens;
    cost[COST_VISION_S] = answer->vision_s;
    cost[COST_PREFILL_S] = answer->prefill_s;
    cost[COST_DECODE_S] = answer->decode_s;
    if (cost[COST_KEPT] < 0) cost[COST_KEPT] = cost[COST_VISUAL_TOKENS];
    for (int l = 0; l < c->kv.layers; l++)
        cost[COST_KV_BYTES] += (double)c->kv.layer[l].rows * (double)kv_row_bytes(&c->kv, l);
}

// --- one answer ----------------------------------------------------------------------------------

static const struct settings *settings_of(const struct compare_request *r, int side)
{
    return r->grid->cells[side].settings;
}

struct listener {
    const struct compare_request *r;
    struct compared_side *side;
    struct compare_meter *meter;
    const struct conversation *c;
    size_t length; // of the text so far
    double done, count;
};

static void listen(void *self, const struct event *e)
{
    struct listener *l = self;
    struct compared_side *s = l->side;
    if (e->kind == EVENT_TOKEN && e->id >= 0) { // -1: the rest of a character, without a token
        s->starts = xreallocarray(s->starts, s->tokens + 1, sizeof *s->starts);
        s->starts[s->tokens++] = l->length;
        l->length += e->value ? strlen(e->value) : 0; // reasoning too
        grid_progress(l->r->grid, "comparing", l->done++, l->count);
    }
    if (e->kind != EVENT_ANSWER) return;
    s->text = xstrdup(e->answer->whole);
    ids_append(&s->ids, e->answer->ids, e->answer->count);
    snprintf(s->stop, sizeof s->stop, "%s", e->answer->stop);
    compare_meter_end(l->meter, l->c, e->answer);
    s->cost = l->meter->cost;
}

static int attach(const struct compare_request *r, struct conversation *c, int side,
                  struct hooks *hooks, struct err *err)
{
    if (grid_use(r->grid, (size_t)side, err) < 0) return -1;
    return conversation_hooks(c, settings_of(r, side), r->grid->tensors, hooks, err);
}

// Computes one side's own answer; stores its logits unless `logits` is NULL.
static int answer_side(struct listener *l, struct conversation *c, int side,
                       struct step_logits *logits, struct err *err)
{
    static const struct answer_options options = { 0 };
    static const char *const names[] = { "compare.A", "compare.B" };
    const struct compare_request *r = l->r;
    struct compare_meter meter = { .model = r->grid->model };
    struct hook hook = compare_meter_hook(&meter, settings_of(r, side));
    struct sinks sinks = { 0 };
    struct hooks hooks;
    bool answered;
    if (attach(r, c, side, &hooks, err) < 0) return -1;
    hooks_add(&hooks, &hook);
    if (logits) {
        hook = step_logits_hook(logits);
        hooks_add(&hooks, &hook);
    }
    struct live *live = NULL; // attention maps of each token
    if (r->watch && c->picture_count) {
        live = live_new(names[side], r->grid->model, settings_of(r, side), r->grid->backend,
                        c->pictures, c->picture_count, r->watch);
        hook = live_hook(live);
        hooks_add(&hooks, &hook);
    }
    // cppcheck-suppress autoVariables ; used during this answer only
    l->meter = &meter;
    l->length = 0;
    sinks_add(&sinks, (struct sink){ .emit = listen, .self = l });
    conversation_stale(c, STALE_VISUAL); // each side computes everything
    const int status = answer_run(c, settings_of(r, side), &hooks, grid_cancel(r->grid), &options,
                                  &sinks, &answered, err);
    live_free(live);
    if (status < 0) return -1;
    if (!strcmp(l->side->stop, "cancelled")) return err_set(err, "stopped");
    conversation_drop(c, 1);
    return 0;
}

// --- the distance --------------------------------------------------------------------------------

struct forced {
    const struct step_logits *full;
    struct step_logits one; // logits of the current step
    struct compare_distance *d;
    int64_t step;
};

void compare_distance_release(struct compare_distance *d)
{
    free(d->hellinger);
    for (int k = 0; k < 2; k++) free(d->best[k]);
    d->hellinger = NULL;
    d->best[0] = d->best[1] = NULL;
}

static bool forced_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_STEP_LOGITS;
}

static int forced_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct forced *f = self;
    struct compare_distance *d = f->d;
    const struct hook hook = step_logits_hook(&f->one);
    const int64_t t = f->step++;
    step_logits_clear(&f->one);
    if (t >= d->steps) return 0;
    if (hook.run(&f->one, g, site, args) < 0) return -1;
    const float *first = f->full->data + t * f->full->vocab;
    d->hellinger[t] = hellinger(first, f->one.data, f->one.vocab);
    d->best[0][t] = logits_best(first, f->full->vocab);
    d->best[1][t] = logits_best(f->one.data, f->one.vocab);
    d->agreed += d->best[0][t] == d->best[1][t];
    d->mean += d->hellinger[t] / (double)d->steps;
    d->most = fmax(d->most, d->hellinger[t]);
    return 0;
}

int compare_forced(struct conversation *c, const struct settings *settings,
                   const struct hooks *methods, const atomic_bool *cancel,
                   const struct step_logits *full, const struct ids *tokens,
                   struct compare_distance *d, struct err *err)
{
    const struct answer_options options = { .forced = tokens->data, .forced_count = tokens->count };
    const size_t size = (size_t)full->steps + 1;
    struct forced f = { .full = full, .d = d };
    const struct hook hook = { .wants = forced_wants, .run = forced_run, .self = &f };
    struct settings *s = settings_copy(settings);
    struct sinks sinks = { 0 };
    struct hooks hooks = *methods;
    char steps[24], raise[80];
    bool answered, cancelled = false;
    *d = (struct compare_distance){ .steps = full->steps,
                                    .hellinger = xcalloc(size, sizeof *d->hellinger) };
    for (int k = 0; k < 2; k++) d->best[k] = xcalloc(size, sizeof *d->best[k]);
    // Takes one step for each row of `full`: the last token is chosen without another pass.
    snprintf(steps, sizeof steps, "%lld", (long long)(full->steps > 0 ? full->steps : 1));
    settings_set(s, "sample.max_tokens", steps, NULL);
    settings_set(s, "sample.ignore_eos", "on", NULL);
    hooks_add(&hooks, &hook);
    sinks_add(&sinks, (struct sink){ .emit = answer_note_cancelled, .self = &cancelled });
    int status = answer_run(c, s, &hooks, cancel, &options, &sinks, &answered, err);
    if (status == 0 && cancelled) status = err_set(err, "stopped");
    if (status == 0 && f.step < full->steps)
        status = err_set(err,
                         "only %lld of the other answer's %lld tokens fit into the context: lower "
                         "sample.max_tokens%s",
                         (long long)f.step, (long long)full->steps,
                         conversation_raise(c->model, s, raise, sizeof raise));
    if (status == 0 && answered) conversation_drop(c, 1);
    if (status < 0) {
        compare_distance_release(d);
        *d = (struct compare_distance){ 0 };
    }
    step_logits_release(&f.one);
    settings_free(s);
    return status;
}

int64_t compare_first(const struct ids *a, const struct ids *b)
{
    size_t i = 0;
    while (i < a->count && i < b->count && a->data[i] == b->data[i]) i++;
    return i < a->count || i < b->count ? (int64_t)i : -1;
}

static int measure_distance(const struct compare_request *r, struct conversation *c,
                            const struct step_logits *full, struct comparison *out, struct err *err)
{
    struct hooks hooks;
    if (attach(r, c, 1, &hooks, err) < 0) return -1;
    conversation_stale(c, STALE_KV); // the whole prompt in one pass, as for the first side
    return compare_forced(c, settings_of(r, 1), &hooks, grid_cancel(r->grid), full,
                          &out->side[0].ids, &out->distance, err);
}

// --- both ----------------------------------------------------------------------------------------

// The first pass reads the model's weights from the disk: the times of neither side should include
// that.
static int warm_up(const struct compare_request *r, struct conversation *c, int side,
                   struct err *err)
{
    static const struct answer_options options = { .forward_only = true };
    static const struct sinks silent;
    struct hooks hooks;
    bool answered;
    if (attach(r, c, side, &hooks, err) < 0) return -1;
    return answer_run(c, settings_of(r, side), &hooks, grid_cancel(r->grid), &options, &silent,
                      &answered, err);
}

// Returns whether both sides use the same model.
static bool one_model(const struct compare_request *r)
{
    const char *a = r->grid->cells[0].model, *b = r->grid->cells[1].model;
    return a && b ? !strcmp(a, b) : a == b;
}

// Hashes the texts of all tokens, and the width of the logits.
static void hash_tokens(const struct model *m, char hex[HASH_HEX])
{
    struct hash h;
    hash_start(&h);
    hash_add(&h, &m->decoder.config.vocab, sizeof m->decoder.config.vocab);
    for (int32_t id = 0; id < tokenizer_size(m->tokenizer); id++) {
        const char *text = tokenizer_token(m->tokenizer, id);
        hash_add(&h, &id, sizeof id);
        hash_add(&h, text ? text : "", text ? strlen(text) + 1 : 0);
    }
    hash_end(&h, hex);
}

// Copies the conversation for a side, and asks the question. The second side continues with the
// first one's copy if it has the same model. *same: the model has the conversation's tokens.
static int open_side(const struct compare_request *r, struct conversation *c, int side, bool *same,
                     struct err *err)
{
    if (side && one_model(r)) return 0;
    conversation_release(c); // before its model is freed
    conversation_init(c, r->grid->backend);
    if (grid_use(r->grid, (size_t)side, err) < 0) return -1;
    if (conversation_copy_for(c, r->from, r->messages, r->grid->model, same, err) < 0) return -1;
    if (r->question) conversation_say(c, ROLE_USER, r->question, NULL, 0, NULL);
    return side || !r->from->cached.n || r->grid->loaded ? warm_up(r, c, side, err) : 0;
}

int compare_run(const struct compare_request *r, struct comparison *out, struct err *err)
{
    struct conversation c;
    struct step_logits full = { 0 };
    struct listener l = { .r = r, .c = &c };
    bool same[2] = { true, true };
    char tokens[2][HASH_HEX] = { "", "" }; // needed only if !same[0]
    int status = 0;
    *out = (struct comparison){ .first = -1 };
    for (int k = 0; k < 2; k++)
        l.count += (double)settings_integer(settings_of(r, k), "sample.max_tokens");
    conversation_init(&c, r->grid->backend);
    for (int k = 0; k < 2 && status == 0; k++) {
        status = open_side(r, &c, k, &same[k], err);
        if (status < 0) break;
        if (!same[0]) hash_tokens(r->grid->model, tokens[k]);
        l.side = &out->side[k];
        l.side->arithmetic = model_arithmetic(r->grid->model, r->grid->backend, settings_of(r, k));
        status = answer_side(&l, &c, k, k ? NULL : &full, err);
    }
    out->distance.mean = out->distance.most = NAN;
    out->known = same[0] && same[1];
    out->comparable = same[0] ? same[1] : !strcmp(tokens[0], tokens[1]);
    if (out->comparable) out->first = compare_first(&out->side[0].ids, &out->side[1].ids);
    if (status == 0 && out->comparable) status = measure_distance(r, &c, &full, out, err);
    if (status < 0) comparison_release(out);
    step_logits_release(&full);
    conversation_release(&c);
    return status;
}

void comparison_release(struct comparison *c)
{
    for (int k = 0; k < 2; k++) {
        free(c->side[k].text);
        ids_release(&c->side[k].ids);
        free(c->side[k].starts);
    }
    compare_distance_release(&c->distance);
    *c = (struct comparison){ 0 };
}
