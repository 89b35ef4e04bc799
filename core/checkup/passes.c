// core/checkup/passes.c -- the passes that checks compare: answers, logits and log-probabilities of
// one question under some settings.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/base/clock.h"
#include "core/eval/compare_text.h"
#include "core/eval/evaluate_parts.h"
#include "core/jobs/job.h"
#include "core/methods/calibration.h"
#include "core/model/sampler.h"
#include "core/probes/hellinger.h"
#include "core/talk/answer.h"

struct settings *checkup_with(const struct checkup *c, ...)
{
    struct settings *s = settings_copy(c->settings);
    struct err err;
    const char *key;
    va_list args;
    va_start(args, c);
    while ((key = va_arg(args, const char *))) {
        const char *value = va_arg(args, const char *);
        if (settings_set(s, key, value, &err) < 0) BUG("%s", err.text);
    }
    va_end(args);
    return s;
}

struct method_tensors checkup_tensors(const struct checkup *c)
{
    return c->tensors.find ? c->tensors : adapter_tensors(c->adapter);
}

void checkup_ask(struct checkup *c, const int *pictures, size_t count, const char *question)
{
    conversation_drop(&c->talk, c->talk.message_count);
    struct message m = { .role = ROLE_USER };
    for (size_t i = 0; i < count; i++) message_add_picture(&m, pictures[i]);
    message_add_text(&m, question);
    conversation_append(&c->talk, &m, 1);
    message_release(&m);
}

// This hook lets a job wait between layers while a shell computes an answer, and stops the pass if
// the job must pause or end.
static bool yield_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN || site == SITE_VISION_LAYER;
}

static int yield_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    const struct checkup_work *w = self;
    job_yield(w->job);
    if (atomic_load(&w->job->stop_requested) || atomic_load(&w->job->cancel))
        atomic_store(w->stop, true);
    return 0;
}

static int attach(struct checkup *c, const struct settings *s, struct hooks *hooks, struct err *err)
{
    conversation_stale(&c->talk, STALE_KV);
    if (conversation_hooks(&c->talk, s, checkup_tensors(c), hooks, err) < 0) return -1;
    if (c->listener) hooks_add(hooks, c->listener);
    if (c->work->job)
        hooks_add(hooks, &(struct hook){ .wants = yield_wants,
                                         .run = yield_run,
                                         .self = c->work,
                                         .drafts = true,
                                         .idle = true });
    return 0;
}

static int stopped(struct checkup *c, struct err *err)
{
    c->stopped = true;
    return err_set(err, "stopped");
}

// --- answers -------------------------------------------------------------------------------------

static void take_answer(void *self, const struct event *event)
{
    struct checkup_answer *a = self;
    const struct event_answer *from = event->answer;
    if (event->kind != EVENT_ANSWER) return;
    a->text = xstrdup(from->text);
    ids_append(&a->ids, from->ids, from->count);
    snprintf(a->stop, sizeof a->stop, "%s", from->stop);
    a->vision_s = from->vision_s, a->prefill_s = from->prefill_s, a->decode_s = from->decode_s;
    a->prompt = from->prompt_tokens, a->visual = from->visual_tokens;
    a->drafted = from->drafted, a->accepted = from->accepted;
}

int checkup_answer(struct checkup *c, const struct settings *settings, int most, bool whole,
                   struct checkup_answer *a, struct err *err)
{
    const struct answer_options options = { .whole = whole };
    struct settings *s = settings_copy(settings);
    struct sinks sinks = { 0 };
    struct hooks hooks;
    char tokens[16];
    bool answered = false;
    *a = (struct checkup_answer){ 0 };
    snprintf(tokens, sizeof tokens, "%d", most);
    int status = settings_set(s, "sample.max_tokens", tokens, err);
    sinks_add(&sinks, (struct sink){ .emit = take_answer, .self = a });
    if (status == 0) status = attach(c, s, &hooks, err);
    if (status == 0)
        status = answer_run(&c->talk, s, &hooks, c->work->cancel, &options, &sinks, &answered, err);
    if (answered) conversation_drop(&c->talk, 1);
    settings_free(s);
    if (status == 0 && (!a->text || !strcmp(a->stop, "cancelled"))) status = stopped(c, err);
    if (status < 0) checkup_answer_release(a);
    return status;
}

int checkup_answer_some(struct checkup *c, int most, struct checkup_answer *a, struct err *err)
{
    if (checkup_answer(c, c->settings, most, false, a, err) < 0) return -1;
    if (a->ids.count) return 0;
    checkup_answer_release(a);
    struct settings *s = checkup_with(c, "sample.ignore_eos", "on", NULL);
    const int status = checkup_answer(c, s, most, false, a, err);
    settings_free(s);
    return status;
}

void checkup_answer_release(struct checkup_answer *a)
{
    free(a->text);
    ids_release(&a->ids);
    *a = (struct checkup_answer){ 0 };
}

void checkup_answered(struct checkup *c, const struct checkup_answer *a)
{
    struct message *m = conversation_add(&c->talk, ROLE_ASSISTANT);
    m->generated = true;
    message_add_text(m, a->text);
    ids_append(&m->ids, a->ids.data, a->ids.count);
}

// --- logits --------------------------------------------------------------------------------------

// Computes the rows of the sequence before `end`.
static struct tensor *forward_to(struct checkup *c, struct graph *g, const struct sequence *s,
                                 int64_t end, enum logits_rows want, bool prefill)
{
    struct sequence part = { 0 };
    struct tensor *x = NULL;
    sequence_copy(&part, s);
    sequence_trim(&part, end);
    part.prompt = s->prompt < end ? s->prompt : end;
    if (conversation_forward(&c->talk, g, &part, want, prefill, &x) < 0) x = NULL;
    sequence_release(&part);
    return x;
}

// Copies the last `rows` rows of x.
static void take_rows(struct graph *g, struct checkup_logits *l, const struct tensor *x,
                      int64_t rows)
{
    const int64_t from = x->shape[0] - rows;
    graph_download(g, l->data + l->rows * l->vocab, graph_rows(g, (struct tensor *)x, from, rows));
    l->rows += rows;
}

static int run_rows(struct checkup *c, struct graph *g, const struct sequence *s, int64_t prompt,
                    int64_t piece, struct checkup_logits *l)
{
    for (int64_t i = 0; i < prompt; i++)
        if (s->picture[i] >= 0 && conversation_encode(&c->talk, g, s->picture[i]) < 0) return -1;
    int64_t done = 0;
    const double start = clock_seconds();
    while (done < s->n) {
        // One pass ends with the prompt's last row, as when the model answers.
        int64_t end = done < prompt ? prompt : s->n;
        if (piece && end > done + piece) end = done + piece;
        const bool ends_prompt = end == prompt, answer = done >= prompt;
        struct arena_mark mark = arena_mark(g->arena);
        const struct tensor *x =
            forward_to(c, g, s, end, answer ? LOGITS_ALL : LOGITS_LAST, !answer && end - done > 1);
        if (x && graph_ok(g) && (answer || ends_prompt))
            take_rows(g, l, x, answer ? end - done : 1);
        arena_reset(g->arena, mark);
        if (!x || !graph_ok(g)) return -1;
        done = end;
        if (!ends_prompt) continue;
        l->prefill_s = clock_seconds() - start;
        for (int i = 0; i < c->talk.kv.layers; i++)
            l->kv_bytes += (double)c->talk.kv.layer[i].rows * (double)kv_row_bytes(&c->talk.kv, i);
    }
    return 0;
}

int checkup_logits(struct checkup *c, const struct settings *settings, const struct ids *given,
                   int64_t piece, struct checkup_logits *l, struct err *err)
{
    struct conversation *talk = &c->talk;
    struct sequence s = { 0 };
    struct hooks hooks;
    *l = (struct checkup_logits){ .vocab = c->model->decoder.config.vocab };
    if (attach(c, settings, &hooks, err) < 0) return -1;
    conversation_set_dtype(talk, kv_dtype(c->backend, settings));
    if (conversation_sequence(talk, talk->message_count, settings, true, &s, err) < 0) return -1;
    const int64_t prompt = s.prompt = s.n;
    for (size_t i = 0; given && i < given->count; i++) sequence_append(&s, given->data[i]);
    l->data = xreallocarray(NULL, (size_t)((s.n - prompt + 1) * l->vocab), sizeof *l->data);
    struct graph g = conversation_graph(talk, settings, &hooks, c->work->cancel);
    int status = run_rows(c, &g, &s, prompt, piece, l);
    if (status < 0 && g.cancelled)
        stopped(c, err);
    else if (status < 0)
        err_set(err, "%s", g.err.text);
    for (int64_t i = 0; i < l->rows && status == 0; i++) {
        const char *damage = logits_damage(l->data + i * l->vocab, l->vocab);
        if (damage) status = err_set(err, "the model computed %s: %s", damage, DAMAGED);
    }
    sequence_release(&s);
    conversation_stale(talk, STALE_KV);
    if (status < 0) checkup_logits_release(l);
    return status;
}

void checkup_logits_release(struct checkup_logits *l)
{
    free(l->data);
    *l = (struct checkup_logits){ 0 };
}

double logits_log_probability(const struct checkup_logits *l, const struct ids *given, bool *same)
{
    double sum = 0;
    *same = true;
    for (size_t i = 0; i < given->count; i++) {
        const float *x = l->data + (int64_t)i * l->vocab;
        sum += (double)x[given->data[i]] - logits_log_sum(x, l->vocab);
        *same &= logits_best(x, l->vocab) == given->data[i];
    }
    return sum;
}

int checkup_nats(struct checkup *c, const struct settings *s, const struct ids *given, double *sum,
                 struct err *err)
{
    struct checkup_logits l;
    bool same;
    if (checkup_logits(c, s, given, 0, &l, err) < 0) return -1;
    *sum = logits_log_probability(&l, given, &same);
    checkup_logits_release(&l);
    return 0;
}

double logits_distance(const struct checkup_logits *a, const struct checkup_logits *b)
{
    double most = a->rows == b->rows ? 0 : INFINITY;
    for (int64_t i = 0; i < a->rows * a->vocab && isfinite(most); i++)
        most = fmax(most, fabs((double)a->data[i] - (double)b->data[i]));
    return most;
}

double logits_hellinger(const struct checkup_logits *a, const struct checkup_logits *b)
{
    double sum = 0;
    if (a->rows != b->rows) return NAN;
    for (int64_t i = 0; i < a->rows; i++)
        sum += hellinger(a->data + i * a->vocab, b->data + i * b->vocab, a->vocab);
    return sum / (double)a->rows;
}

bool logits_same_bits(const struct checkup_logits *a, const struct checkup_logits *b)
{
    return a->rows == b->rows &&
           !memcmp(a->data, b->data, (size_t)(a->rows * a->vocab) * sizeof *a->data);
}

// --- calibrations --------------------------------------------------------------------------------

int checkup_prefill(struct checkup *c, const struct hook *listener, struct err *err)
{
    static const struct answer_options options = { .forward_only = true };
    struct hooks hooks;
    bool done;
    if (attach(c, c->settings, &hooks, err) < 0) return -1;
    hooks_add(&hooks, listener);
    if (answer_run(&c->talk, c->settings, &hooks, c->work->cancel, &options, NULL, &done, err) < 0)
        return -1;
    return done ? 0 : stopped(c, err);
}

int checkup_calibrate(struct checkup *c, const char *name, const int *pictures, size_t count,
                      const char *path, struct err *err)
{
    const struct calibration_kind *kind = calibration_kind_find(name, err);
    if (!kind) return -1;
    struct calibration_sums *sums = calibration_start(kind, c->model);
    const struct hook hook = calibration_hook(sums);
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        checkup_ask(c, &pictures[i], 1, checkup_question);
        status = checkup_prefill(c, &hook, err);
    }
    const struct calibration_source source = { .model = c->model->checkpoint->weights,
                                               .data = "",
                                               .count = (int64_t)count,
                                               .arithmetic = model_arithmetic(c->model, c->backend,
                                                                              c->settings),
                                               .files = c->model->checkpoint->files };
    if (status == 0) status = calibration_write(sums, &source, path, err);
    calibration_free(sums);
    return status;
}

// --- plain text ----------------------------------------------------------------------------------

enum { TEXT_FIRST = 8, TEXT_TOKENS = 96 };

int checkup_text_nats(struct checkup *c, const struct settings *s, double *nats, int64_t *tokens,
                      struct err *err)
{
    struct ids ids = { 0 };
    if (tokenizer_encode(c->model->tokenizer, compare_sample_text, strlen(compare_sample_text),
                         TOKENIZE_SPECIAL, &ids, err) < 0)
        return -1;
    if (ids.count < 2) {
        ids_release(&ids);
        return err_set(err, "the tokenizer produces fewer than two tokens for plain text");
    }
    const size_t first = ids.count > TEXT_FIRST ? TEXT_FIRST : 1, left = ids.count - first;
    const struct ids given = { .data = ids.data + first,
                               .count = left < TEXT_TOKENS ? left : TEXT_TOKENS };
    conversation_drop(&c->talk, c->talk.message_count);
    ids_append(&conversation_add(&c->talk, ROLE_RAW)->ids, ids.data, first);
    const int status = checkup_nats(c, s, &given, nats, err);
    if (status == 0) *nats /= (double)given.count;
    *tokens = (int64_t)given.count;
    ids_release(&ids);
    return status;
}

// --- texts as answers ----------------------------------------------------------------------------

int checkup_rank(struct checkup *c, const struct settings *s, const char *const *texts,
                 size_t count, double *nats, struct err *err)
{
    struct hooks hooks;
    struct evaluate_passes p = {
        .settings = s, .hooks = &hooks, .cancel = c->work->cancel, .c = &c->talk
    };
    if (attach(c, s, &hooks, err) < 0) return -1;
    if (evaluate_rank(&p, texts, count, nats, err) < 0) return -1;
    if (p.cancelled) return stopped(c, err);
    for (size_t i = 0; i < count; i++) {
        struct ids ids = { 0 };
        if (tokenizer_encode(c->model->tokenizer, texts[i], strlen(texts[i]), TOKENIZE_CONTINUATION,
                             &ids, err) < 0)
            return -1;
        nats[i] /= (double)(ids.count ? ids.count : 1);
        ids_release(&ids);
    }
    return 0;
}
