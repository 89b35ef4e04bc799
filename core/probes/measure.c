// core/probes/measure.c -- a pass over prompt and answer, in separate memory.
//
// Runs prompt and answer in one pass: causal attention shows each row the same keys as when it was
// generated, and pruning uses the prompt's last row as its query (sequence->prompt).
#include "core/probes/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/dtype.h"
#include "core/graph/readback.h"
#include "core/methods/prune.h"
#include "core/model/sampler.h"
#include "core/model/visual.h"
#include "core/probes/kit.h"
#include "core/probes/measure_parts.h"
#include "core/probes/passes.h"
#include "core/probes/results.h"
#include "core/settings/settings.h"
#include "core/talk/conversation.h"
#include "core/template/message.h"

// --- the sequence --------------------------------------------------------------------------------

int measure_sequence(struct conversation *c, const struct settings *s, struct sequence *sequence,
                     struct err *err)
{
    const struct message *last = conversation_last(c);
    const bool answered = last && last->role == ROLE_ASSISTANT;
    if (!last) return err_set(err, "the conversation is empty: ask something first");
    if (conversation_sequence(c, c->message_count - answered, s, true, sequence, err) < 0)
        return -1;
    sequence->prompt = sequence->n;
    if (answered && last->generated) {
        for (size_t i = 0; i < last->ids.count; i++) sequence_append(sequence, last->ids.data[i]);
    } else if (answered) {
        struct sequence whole = { 0 };
        if (conversation_sequence(c, c->message_count, s, false, &whole, err) < 0) return -1;
        int64_t common = 0; // length of the common prefix
        while (common < sequence->n && common < whole.n &&
               sequence->ids[common] == whole.ids[common] &&
               sequence->picture[common] == whole.picture[common])
            common++;
        whole.prompt = common;
        sequence_release(sequence);
        *sequence = whole;
    }
    if (!sequence->n || !sequence->prompt) return err_set(err, "no prompt to measure");
    return 0;
}

struct settings *measure_without_methods(const struct settings *s)
{
    struct settings *plain = settings_copy(s);
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++)
        for (const struct setting *row = m->settings; row->key; row++)
            settings_reset(plain, row->key);
    return plain;
}

// --- a pass --------------------------------------------------------------------------------------

static bool kept_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_KEPT;
}

// Records the tokens that a pruning step keeps; the last step overrides earlier ones.
static int kept_take(void *self, const struct site *site, const struct site_args *args,
                     struct err *err)
{
    struct passing *p = self;
    const int64_t count = tensor_count(args->x);
    const int32_t *list = args->x->data;
    if (!p->kept) p->kept = xcalloc((size_t)p->visual_count + 1, sizeof *p->kept);
    memset(p->kept, 0, (size_t)p->visual_count * sizeof *p->kept);
    for (int64_t i = 0; i < count; i++)
        if (list[i] >= 0 && list[i] < p->visual_count) p->kept[list[i]] = true;
    return 0;
}

static int pass_begin(struct passing *p, const struct measuring *m, struct conversation *c,
                      struct err *err)
{
    const struct method_env env = {
        .model = m->model, .backend = m->backend, .settings = m->settings, .tensors = m->tensors
    };
    *p = (struct passing){ .m = m, .c = c, .arena = { .backend = m->backend } };
    decoder_cache(&m->model->decoder, m->backend, &p->kv);
    kv_set_dtype(&p->kv, kv_dtype(m->backend, m->settings));
    p->visual = xcalloc(c->picture_count + 1, sizeof *p->visual);
    p->focus = xcalloc(c->picture_count + 1, sizeof *p->focus);
    p->ours = xcalloc(c->picture_count + 1, sizeof *p->ours);
    if (measure_sequence(c, m->settings, &p->sequence, err) < 0) return -1;
    // Precedes the start of methods and probes, because they read weights (an adapter may apply
    // only to passes with pictures).
    model_pass(m->model, p->sequence.pictures);
    p->visual_count = sequence_visual_count(&p->sequence, 0);
    if (p->sequence.n > conversation_limit(c->model, m->settings))
        return err_set(err, "prompt and answer have %lld tokens, but ctx.max is %lld",
                       (long long)p->sequence.n,
                       (long long)conversation_limit(c->model, m->settings));
    if (methods_attach(&p->methods, &p->hooks, &env, err) < 0) return -1;
    hooks_add(&p->hooks, &(struct hook){ .wants = kept_wants, .take = kept_take, .self = p });
    p->graph = (struct graph){ .backend = m->backend,
                               .arena = &p->arena,
                               .hooks = &p->hooks,
                               .settings = m->settings,
                               .matmul = graph_matmul(m->backend, m->settings, m->model->dtype),
                               .cancel = m->cancel };
    return 0;
}

static void pass_end(struct passing *p)
{
    for (size_t i = 0; i < p->c->picture_count; i++) {
        if (!p->ours[i]) continue;
        visual_free(p->m->backend, p->visual[i]);
        free(p->focus[i]);
    }
    free(p->visual);
    free(p->focus);
    free(p->ours);
    free(p->kept);
    free(p->texts);
    methods_release(&p->methods);
    kv_release(&p->kv);
    free(p->stream);
    arena_release(&p->arena);
    sequence_release(&p->sequence);
}

int pass_failed(struct passing *p, struct err *err)
{
    if (p->graph.cancelled) return err_set(err, "stopped");
    return err_set(err, "%s", p->graph.err.text);
}

int pass_encode_pictures(struct passing *p, bool all)
{
    struct graph *g = &p->graph;
    for (int64_t row = 0; row < p->sequence.n; row++) {
        const int i = p->sequence.picture[row];
        if (i < 0 || p->visual[i]) continue;
        const struct picture *picture = &p->c->pictures[i];
        if (picture->visual && !all && (picture->focus || !hooks_wanted(g, SITE_FOCUS, -1))) {
            p->visual[i] = picture->visual;
            p->focus[i] = picture->focus;
            continue;
        }
        struct arena_mark mark = arena_mark(&p->arena);
        float *focus;
        struct tensor *v = visual_encode(g, p->m->model, picture, i, &focus);
        if (v && graph_ok(g) && v->shape[0] == picture->tokens &&
            (p->visual[i] = visual_keep(g, v))) {
            p->ours[i] = true;
            if (focus) {
                p->focus[i] = xreallocarray(NULL, (size_t)picture->tokens, sizeof *focus);
                memcpy(p->focus[i], focus, (size_t)picture->tokens * sizeof *focus);
            }
        }
        arena_reset(&p->arena, mark);
        if (!graph_ok(g) || !p->visual[i]) return -1;
    }
    return 0;
}

// Runs rows [from, n) of s through the decoder.
static int compute(struct passing *p, const struct sequence *s, int64_t from, bool prefill,
                   enum logits_rows want)
{
    struct graph *g = &p->graph;
    const struct decoder *d = &p->m->model->decoder;
    struct arena_mark mark = arena_mark(&p->arena);
    struct tensor *logits;
    model_pass(p->m->model, s->pictures);
    struct tensor *h =
        splice(g, d, s, from, p->visual, (const float *const *)p->focus, (int)p->c->picture_count);
    const int status =
        h ? decoder_forward(g, d, &p->kv, s, h, want, prefill, &logits) : -1; // [1,V]
    float first;
    if (status == 0 && graph_ok(g) &&
        want != LOGITS_NONE) // waits, so that timings include all work
        g->backend->download(&first, logits->data, sizeof first);
    arena_reset(&p->arena, mark);
    return status == 0 && graph_ok(g) ? 0 : -1;
}

// --- NaN and Inf ---------------------------------------------------------------------------------

static bool finite_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_OUT;
}

static int finite_take(void *self, const struct site *site, const struct site_args *args,
                       struct err *err)
{
    const float *x = args->x->data;
    const int64_t n = tensor_count(args->x);
    if (floats_finite(x, (size_t)n)) return 0;
    return err_set(err, "the model computed NaN or Inf in layer %d: %s", args->layer, DAMAGED);
}

struct hook finite_hook(void)
{
    return (struct hook){ .wants = finite_wants, .take = finite_take };
}

// --- with a probe --------------------------------------------------------------------------------

struct listener {
    const struct probe *probe;
    void *state;
    struct probe_env env;
};

static bool listener_wants(void *self, const struct site *site, int layer)
{
    const struct listener *l = self;
    return probe_listens(l->probe, l->state, &l->env, site, layer);
}

static int listener_run(void *self, struct graph *g, const struct site *site,
                        struct site_args *args)
{
    const struct listener *l = self;
    return l->probe->run ? l->probe->run(l->state, g, site, args)
                         : readback(g, args->x, site, args, l->probe->take, l->state);
}

static int check_needs(const struct probe *probe, const struct passing *p, struct err *err)
{
    const int64_t only = p->m->options->picture;
    if (probe->pictures && !model_has_vision(p->m->model))
        return err_set(err, "the model '%s' is text-only: /%s needs a picture", p->m->model->name,
                       probe->name);
    if (probe->pictures && !p->visual_count)
        return err_set(err, "the conversation has no picture: /image FILE, then ask");
    if (probe->answer && p->sequence.n == p->sequence.prompt)
        return err_set(err, "no answer to measure: ask something first");
    if (only >= (int64_t)p->c->picture_count)
        return err_set(err,
                       "--picture %lld: the conversation has only %zu picture%s, counted from 0",
                       (long long)only, p->c->picture_count, p->c->picture_count == 1 ? "" : "s");
    return 0;
}

int measure(const struct measuring *m, struct conversation *c, const struct probe *probe,
            struct results *r, struct err *err)
{
    struct passing p;
    struct listener listener = { .probe = probe,
                                 .env = { .model = m->model,
                                          .settings = m->settings,
                                          .backend = m->backend,
                                          .options = m->options,
                                          .pictures = c->pictures,
                                          .picture_count = c->picture_count,
                                          .sequence = &p.sequence,
                                          .data = m->data } };
    int status = pass_begin(&p, m, c, err);
    if (status == 0 && (probe->words || probe->passes))
        status = pass_find_positions(&p, &listener.env, err);
    if (status == 0) status = check_needs(probe, &p, err);
    if (status == 0) status = probe_env_open(&listener.env, probe, err);
    if (status == 0 && !(listener.state = probe->start(&listener.env, err))) status = -1;
    if (status == 0) {
        const struct hook finite = finite_hook();
        hooks_add(&p.hooks, &finite);
    }
    if (status == 0 && probe->passes) {
        status = pass_encode_pictures(&p, false) < 0 ? pass_failed(&p, err)
                                                     : probe->passes(listener.state, &p, err);
    } else if (status == 0) {
        hooks_add(&p.hooks, &(struct hook){
                                .wants = listener_wants, .run = listener_run, .self = &listener });
        if (pass_encode_pictures(&p, probe->encoder) < 0 ||
            compute(&p, &p.sequence, 0, true, LOGITS_NONE) < 0)
            status = pass_failed(&p, err);
        if (status == 0 && probe->after) status = probe->after(listener.state, &p, err);
    }
    listener.env.kept = p.kept;
    if (status == 0) status = probe->finish(listener.state, r, err);
    if (status == 0 && m->data && probe->data_add) probe->data_add(m->data, listener.state);
    // .results must describe every map: the screen can step only to described maps, and takes units
    // from their descriptions.
    for (size_t i = 0; status == 0 && i < r->map_count; i++) {
        const struct result_kind *k = probe->results;
        while (k && k->name && (!k->map || strcmp(k->name, r->maps[i].name) != 0)) k++;
        if (!k || !k->name)
            BUG("the results of /%s do not describe its maps %s", probe->name, r->maps[i].name);
    }
    if (listener.state) probe->release(listener.state);
    probe_env_close(&listener.env);
    pass_end(&p);
    return status;
}

// --- times ---------------------------------------------------------------------------------------

enum { RUNS = 3, STEPS = 8, ENCODER = 0, PREFILL, TOKEN, TIMES };

// Times the encoder, the prompt, then single rows: the answer's, then the last token repeatedly.
static int run_timed(const struct measuring *m, struct conversation *c, double ms[TIMES],
                     struct err *err)
{
    struct passing p;
    struct sequence s = { 0 };
    const struct sequence *all = &p.sequence;
    int status = pass_begin(&p, m, c, err);
    if (status == 0) {
        sequence_copy(&s, all);
        sequence_trim(&s, all->prompt);
        s.prompt = all->prompt;
        double start = clock_seconds();
        status = pass_encode_pictures(&p, true);
        ms[ENCODER] = (clock_seconds() - start) * 1e3;
        start = clock_seconds();
        if (status == 0) status = compute(&p, &s, 0, true, LOGITS_LAST);
        ms[PREFILL] = (clock_seconds() - start) * 1e3;
        start = clock_seconds();
        for (int i = 0; i < STEPS && status == 0; i++) {
            const int64_t row = all->prompt + i < all->n ? all->prompt + i : all->n - 1;
            sequence_append(&s, all->ids[row] == m->model->placeholder ? 0 : all->ids[row]);
            status = compute(&p, &s, s.n - 1, false, LOGITS_LAST);
        }
        ms[TOKEN] = (clock_seconds() - start) * 1e3 / STEPS;
        if (status < 0) pass_failed(&p, err);
    }
    sequence_release(&s);
    pass_end(&p);
    return status;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int measure_compare_times(const struct measuring *m, struct conversation *c, struct results *r,
                          struct err *err)
{
    static const char *const names[TIMES + 1] = { "encoder", "prefill", "one token",
                                                  "first token (encoder + prefill)" };
    struct settings *plain = measure_without_methods(m->settings);
    double ms[2][TIMES][RUNS], middle[2][TIMES + 1];
    int status = 0;
    // Runs alternate, so that other load on the machine affects both sides.
    for (int run = 0; run < RUNS && status == 0; run++)
        for (int now = 0; now < 2 && status == 0; now++) {
            struct measuring with = *m;
            double t[TIMES] = { 0 };
            if (!now) with.settings = plain;
            status = run_timed(&with, c, t, err);
            for (int i = 0; i < TIMES; i++) ms[now][i][run] = t[i];
        }
    settings_free(plain);
    if (status < 0) return -1;
    for (int now = 0; now < 2; now++) {
        for (int i = 0; i < TIMES; i++) {
            qsort(ms[now][i], RUNS, sizeof ms[now][i][0], by_size);
            middle[now][i] = ms[now][i][RUNS / 2];
        }
        middle[now][TIMES] = middle[now][ENCODER] + middle[now][PREFILL];
    }
    struct result_table *t = results_table(r, "times", "what|ms, full|ms, now|full/now");
    for (int i = 0; i <= TIMES; i++) {
        double *v = result_row(t, "%s", names[i]);
        v[0] = middle[0][i], v[1] = middle[1][i], v[2] = v[0] / v[1];
    }
    return 0;
}
