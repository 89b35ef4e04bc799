// core/eval/evaluate_batch.c -- eval.batch: answers several questions about the same pictures
// together (core/talk/batch.h), and keeps the answers until their samples are evaluated. Scores,
// reports and resumption work as for single questions.
#include <stdlib.h>
#include <string.h>

#include "core/eval/evaluate_parts.h"
#include "core/sets/set.h"
#include "core/talk/answer.h"
#include "core/talk/batch.h"

static const char *const words[] = { "auto", NULL };

const struct setting eval_settings[] = {
    { .key = "eval.batch",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = BATCH_MOST,
      .def = "auto",
      .choices = words,
      .stale = STALE_NOTHING,
      .help = "Batch size of evaluations: consecutive questions about the same picture, or the "
              "choices of one question, in one pass. auto is 8 for f32 products, where batches "
              "change no score, and 1 for bf16 products, which a batch would round differently. "
              "The size is always 1 with methods, on GPUs, with layers in several processes, and "
              "for models with latent attention (Kimi-VL, DeepSeek), recurrent layers (Qwen3.5) or "
              "Gemma 4's attention; with eval.first, questions run one by one." },
    { 0 },
};

// Limit on the estimated cache rows of a batch, without the common prefix.
enum { ROWS_MOST = 4096 };

int evaluate_batch_most(const struct conversation *c, const struct settings *s,
                        const struct hooks *hooks)
{
    const int most = batch_most(c, hooks);
    const int64_t wanted = settings_integer(s, "eval.batch");
    if (settings_is(s, "eval.batch", "auto"))
        return strcmp(model_arithmetic(c->model, c->backend, s), "f32") ? 1 : most;
    return wanted < most ? (int)wanted : most;
}

// --- the next samples ----------------------------------------------------------------------------

void evaluate_read(struct evaluating *v, int64_t i, struct ahead_sample *a)
{
    if (v->ahead) {
        evaluate_ahead_take(v->ahead, a);
        return;
    }
    *a = (struct ahead_sample){ 0 };
    a->status = dataset_read(v->r->data, evaluate_sample_at(v->r, i), &a->sample, &a->err);
}

bool evaluate_take_next(struct evaluating *v, struct ahead_sample *a)
{
    if (!v->next_count) return false;
    *a = v->next[0];
    v->next_count--;
    memmove(v->next, v->next + 1, (size_t)v->next_count * sizeof *v->next);
    return true;
}

// Returns the k-th sample after the current one (0: the next); NULL: past the request's last sample
// or its limit, or too far ahead.
static struct ahead_sample *peek(struct evaluating *v, int k)
{
    const struct evaluate_request *r = v->r;
    int64_t chosen = v->done + 1;
    for (int i = 0; i < v->next_count; i++) chosen += evaluate_is_chosen(r, &v->next[i].sample);
    if (k < v->next_count) return &v->next[k];
    if (v->next_count == EVALUATE_NEXT || v->at + k >= evaluate_sample_count(r) ||
        (r->limit && chosen >= r->limit))
        return NULL;
    evaluate_read(v, v->at + k, &v->next[v->next_count]);
    return &v->next[v->next_count++];
}

// --- answers -------------------------------------------------------------------------------------

struct questions {
    int count;
    int64_t rows, index[BATCH_MOST]; // rows of the longest question with its answer; sample indices
    struct sequence prompt[BATCH_MOST];
    struct batch_answer answer[BATCH_MOST];
};

// Prepares the question's rows and the maximum length of its answer. Returns false on an error, if
// the context has no row left for an answer, or if eval.first precedes the question.
static bool prepare(struct evaluating *v, const struct sample *s, size_t message,
                    struct sequence *p, struct batch_answer *a)
{
    struct conversation *c = &v->c;
    struct err err;
    if (evaluate_first_at(v, &s->dialogue) < s->dialogue.count) return false;
    eval_set_limit_answers(v->settings, v->r->settings, s);
    evaluate_set_messages(v, &s->dialogue, message);
    *a = (struct batch_answer){ .max_tokens = settings_integer(v->settings, "sample.max_tokens") };
    return conversation_sequence(c, c->message_count, v->settings, true, p, &err) == 0 &&
           conversation_closing(c, v->settings, p->n, &a->closing, &err) == 0 &&
           conversation_limit(c->model, v->settings) - p->n - a->closing >= 1;
}

// Adds a question; returns false if it must be asked alone, or does not fit into this batch.
static bool add(struct evaluating *v, struct questions *q, const struct sample *s, size_t message)
{
    struct sequence *p = &q->prompt[q->count];
    struct batch_answer *a = &q->answer[q->count];
    const bool good = prepare(v, s, message, p, a);
    const int64_t rows = p->n + a->max_tokens > q->rows ? p->n + a->max_tokens : q->rows;
    // Few long prompts fit into a pass unless they share most rows. The common prefix is not known
    // yet, so this assumes half of the first prompt.
    const struct sequence *first = &q->prompt[0];
    const bool fits =
        !q->count || (sequence_visual_count(p, 0) == sequence_visual_count(first, 0) &&
                      (rows - first->n / 2) * (q->count + 2) <= ROWS_MOST);
    if (!good || !fits) {
        sequence_release(p);
        *p = (struct sequence){ 0 };
        return false;
    }
    p->prompt = p->n;
    q->rows = rows;
    q->index[q->count++] = s->index;
    return true;
}

static void gather(struct evaluating *v, const struct sample *s, const struct metric *m, int most,
                   struct questions *q)
{
    size_t message;
    int64_t number = v->done;
    if (!evaluate_only_question(v, s, m, &message) || !add(v, q, s, message)) return;
    for (int k = 0; q->count < most; k++) {
        struct ahead_sample *a = peek(v, k);
        if (!a || a->sample.broken || a->status < 0) return;
        if (!evaluate_is_chosen(v->r, &a->sample)) continue;
        if (!evaluate_is_mine(v, ++number) || !shown_are(&v->shown, &a->sample.dialogue) ||
            !evaluate_only_question(v, &a->sample, m, &message) || !add(v, q, &a->sample, message))
            return;
    }
}

static void keep(struct evaluating *v, const struct questions *q)
{
    for (int i = 0; i < q->count; i++) {
        const struct batch_answer *a = &q->answer[i];
        v->ready[v->ready_count++] =
            (struct ready_answer){ q->index[i], answer_whole(v->c.model, &q->prompt[i], &a->ids),
                                   a->full    ? CUT_CONTEXT
                                   : a->ended ? CUT_NONE
                                              : CUT_LENGTH };
    }
}

static bool find(struct evaluating *v, int64_t index, struct ready_answer *to)
{
    for (int i = 0; i < v->ready_count; i++)
        if (v->ready[i].index == index) {
            *to = v->ready[i];
            v->ready[i] = v->ready[--v->ready_count];
            return true;
        }
    return false;
}

static void forget_ready(struct evaluating *v)
{
    for (int i = 0; i < v->ready_count; i++) free(v->ready[i].text);
    v->ready_count = 0;
}

bool evaluate_batch(struct evaluating *v, const struct sample *s, const struct metric *m,
                    const struct hooks *hooks, struct ready_answer *to)
{
    if (find(v, s->index, to)) return true;
    const int most =
        v->alone || v->r->answered ? 1 : evaluate_batch_most(&v->c, v->settings, hooks);
    struct questions q = { 0 };
    struct err err;
    bool cancelled = false;
    if (most < 2) return false;
    forget_ready(v);
    gather(v, s, m, most, &q);
    // If a batch fails, its questions and all later ones are asked one by one, so that each error
    // is reported for its question.
    if (q.count > 1) {
        if (batch_answers(&v->c, v->settings, v->r->cancel, q.prompt, q.count, q.answer, &cancelled,
                          &err) == 0)
            keep(v, &q);
        else
            v->alone = true;
    }
    for (int i = 0; i < q.count; i++) {
        sequence_release(&q.prompt[i]);
        ids_release(&q.answer[i].ids);
    }
    eval_set_limit_answers(v->settings, v->r->settings, s);
    return find(v, s->index, to);
}

void evaluate_batch_release(struct evaluating *v)
{
    forget_ready(v);
    for (int i = 0; i < v->next_count; i++) evaluate_ahead_release(&v->next[i]);
    v->next_count = 0;
}
