// core/eval/evaluate_rank.c -- log-likelihood of given answers: the choices of a question, or the
// reference answers.
//
// The prompt's rows are computed once and stay in the cache. For each choice, the row before its
// first token and the choice's rows are computed; one pass computes several choices
// (core/talk/batch.h):
//
//   rows     0 .. p-2          p-1   p  ..  end-2
//            in the cache      computed for each choice -> h[L] -> final norm -> head
//   predict                    p    p+1 ..  end-1       the choice's tokens
//
// where p is the first row at which the prompt and the conversation with the choice differ.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/dialogue.h"
#include "core/eval/evaluate_parts.h"
#include "core/eval/loss.h"
#include "core/model/families/family.h"
#include "core/model/sampler.h"
#include "core/ops/ops.h"
#include "core/stages/stages.h"
#include "core/talk/answer.h"
#include "core/talk/batch.h"

static int failed(const struct graph *g, struct evaluate_passes *p, struct err *err)
{
    p->cancelled = g->cancelled;
    return g->cancelled ? 0 : err_set(err, "%s", g->err.text);
}

// --- choices -------------------------------------------------------------------------------------

struct ranking {
    struct evaluate_passes *passes;
    struct conversation *c;
    struct prompt_options options;
    struct sequence prompt; // with the generation prompt
    struct ids closing;     // tokens that the chat template writes after an answer
};

// A conversation with a choice as its answer. Rows first .. end-1 are the choice's tokens, without
// the text that the chat template writes after an answer.
struct answered {
    struct sequence sequence;
    int64_t first, end;
};

// Renders the conversation with an answer of one token, given by its id.
static int render_id(const struct ranking *k, int32_t id, struct sequence *s, struct err *err)
{
    struct conversation *c = k->c;
    struct prompt_options options = k->options;
    options.generation_prompt = false;
    struct message *answer = conversation_add(c, ROLE_ASSISTANT);
    answer->generated = true;
    ids_add(&answer->ids, id);
    const int status = prompt_sequence(c->messages, c->message_count, c->pictures, c->picture_count,
                                       c->model->tokenizer, &options, s, err);
    conversation_drop(c, 1);
    return status;
}

// Finds the text that the chat template writes after an answer: renders two different answers, and
// takes the rows after the last row in which they differ.
static int find_closing(struct ranking *k, struct err *err)
{
    struct sequence a = { 0 }, b = { 0 };
    int status = render_id(k, 0, &a, err);
    if (status == 0) status = render_id(k, 1, &b, err);
    int64_t n = 0;
    while (n < a.n && n < b.n && a.ids[a.n - 1 - n] == b.ids[b.n - 1 - n]) n++;
    if (status == 0 && n < a.n) ids_append(&k->closing, a.ids + a.n - n, (size_t)n);
    sequence_release(&a);
    sequence_release(&b);
    return status;
}

static int add_choice(const struct ranking *k, const char *choice, struct answered *a,
                      struct err *err)
{
    struct conversation *c = k->c;
    struct prompt_answer *answers = NULL;
    struct prompt_options options = k->options;
    size_t count = 0;
    *a = (struct answered){ 0 };
    options.generation_prompt = false;
    struct message *answer = conversation_add(c, ROLE_ASSISTANT);
    answer->from_data = true;
    message_add_text(answer, choice);
    int status = prompt_answers(c->messages, c->message_count, c->pictures, c->picture_count,
                                c->model->tokenizer, &options, &a->sequence, &answers, &count, err);
    conversation_drop(c, 1);
    if (status == 0 && !count) status = err_set(err, "the chat template drops the answer");
    if (status == 0) {
        if (c->model->family->positions)
            c->model->family->positions(c->model, c->pictures, &a->sequence);
        a->first = answers[count - 1].first;
        a->end = answers[count - 1].end;
        // Excludes the template's text after the answer, unless the tokenizer has merged it with
        // the choice.
        const int64_t n = (int64_t)k->closing.count, end = a->sequence.n - n;
        if (n && end > a->first && end < a->end &&
            !memcmp(k->closing.data, a->sequence.ids + end, (size_t)n * sizeof(int32_t)))
            a->end = end;
    }
    free(answers);
    return status;
}

// Sets *loglik to the sum of the log-probabilities of the tokens in rows p .. s->n - 1. x: h[L] of
// the last rows of s.
static int sum_losses(struct graph *g, const struct decoder *d, const struct sequence *s, int64_t p,
                      struct tensor *x, double *loglik)
{
    const int64_t n = s->n - p;
    float *loss = xcalloc((size_t)n + 1, sizeof *loss);
    int status = 0;
    double sum = 0;
    if (decoder_last(d) && !x) status = -1;
    if (decoder_last(d) && x) {
        // The last row of x predicts no token of s. The rows are counted from the end, because
        // methods may have dropped earlier ones.
        int32_t *row = xreallocarray(NULL, (size_t)n + 1, sizeof *row);
        float *weight = xcalloc((size_t)n + 1, sizeof *weight); // no gradient
        for (int64_t i = 0; i < n; i++) row[i] = (int32_t)(x->shape[0] - n - 1 + i);
        x = op_gather_rows(g, x, row, n); // [n, D]
        x = op_rmsnorm(g, x, graph_weight(&d->norm), (float)d->config.eps);
        status = op_cross_entropy(g, x, graph_weight(&d->head), (float)d->config.logit_cap,
                                  s->ids + p, weight, loss);
        free(weight);
        free(row);
    }
    stages_broadcast(g, stages_of(d), loss, (size_t)n * sizeof *loss);
    if (!graph_ok(g)) status = -1;
    for (int64_t i = 0; i < n; i++) sum += loss[i];
    free(loss);
    *loglik = -sum;
    return status;
}

// Renders the conversation with a choice, up to the choice's last token. *p becomes the first row
// that differs from the prompt.
static int read_choice(const struct ranking *k, const char *choice, struct sequence *s, int64_t *p,
                       struct err *err)
{
    const int64_t limit = conversation_limit(k->c->model, k->passes->settings);
    struct answered a;
    const struct sequence *prompt = &k->prompt, *with = &a.sequence;
    int status = add_choice(k, choice, &a, err);
    *p = 0; // first row at which `prompt` and `with` differ, at most the answer's first row
    while (status == 0 && *p < a.first && *p < prompt->n && prompt->ids[*p] == with->ids[*p] &&
           prompt->picture[*p] == with->picture[*p])
        ++*p;
    if (status == 0 && (*p < 1 || a.end <= *p))
        status = err_set(err, "the choice '%.100s' has no token of its own", choice);
    if (status == 0 && a.end > limit)
        status = err_set(err, "%lld tokens with a choice, but the context holds %lld",
                         (long long)a.end, (long long)limit);
    if (status == 0) sequence_trim(&a.sequence, a.end);
    *s = a.sequence;
    return status;
}

static int rank_alone(const struct ranking *k, const struct sequence *s, int64_t p, double *loglik,
                      struct err *err)
{
    struct conversation *c = k->c;
    struct graph g =
        conversation_graph(c, k->passes->settings, k->passes->hooks, k->passes->cancel);
    struct arena_mark mark = arena_mark(g.arena);
    struct tensor *x = NULL;     // [n, D]
    conversation_trim(c, p - 1); // rows 0 .. p-2 stay in the cache
    int status = conversation_forward(c, &g, s, LOGITS_HIDDEN, false, &x);
    if (status == 0) status = sum_losses(&g, &c->model->decoder, s, p, x, loglik);
    arena_reset(g.arena, mark);
    conversation_trim(c, p - 1);
    return status < 0 ? failed(&g, k->passes, err) : 0;
}

// Computes the rows of several choices in one pass, except the rows that all of them share.
static int rank_together(const struct ranking *k, const struct sequence *s, const int64_t *p,
                         int count, double *loglik, struct err *err)
{
    struct conversation *c = k->c;
    struct batch b;
    struct tensor *x;
    int64_t first = p[0];
    for (int i = 1; i < count; i++)
        if (p[i] < first) first = p[i];
    // The row before a choice predicts its first token.
    int status = batch_open(&b, c, k->passes->settings, k->passes->cancel, s, count, first - 1, 0);
    if (status < 0) return failed(&b.graph, k->passes, err);
    int64_t rows[BATCH_MOST];
    for (int i = 0; i < count; i++) rows[i] = batch_rows(&b, s, i);
    struct arena_mark mark = arena_mark(b.graph.arena);
    status = batch_pass(&b, s, &x);
    for (int64_t i = 0, at = 0; i < count && status == 0; at += rows[i++])
        status = sum_losses(&b.graph, &c->model->decoder, &s[i], p[i],
                            graph_rows(&b.graph, x, at, rows[i]), &loglik[i]);
    arena_reset(b.graph.arena, mark);
    batch_close(&b);
    return status < 0 ? failed(&b.graph, k->passes, err) : 0;
}

// Ranks at most BATCH_MOST choices.
static int rank_choices(const struct ranking *k, const char *const *choices, int count,
                        double *loglik, struct err *err)
{
    struct sequence s[BATCH_MOST] = { { 0 } };
    int64_t p[BATCH_MOST] = { 0 };
    int status = 0;
    for (int i = 0; i < count && status == 0; i++)
        status = read_choice(k, choices[i], &s[i], &p[i], err);
    if (status == 0)
        status = count > 1 ? rank_together(k, s, p, count, loglik, err)
                           : rank_alone(k, &s[0], p[0], loglik, err);
    for (int i = 0; i < count && status == 0 && !k->passes->cancelled; i++)
        if (!isfinite(loglik[i]))
            status = err_set(err, "the model computed %s for the choice '%.100s': %s",
                             isnan(loglik[i]) ? "NaN" : "Inf", choices[i], DAMAGED);
    for (int i = 0; i < count; i++) sequence_release(&s[i]);
    return status;
}

int evaluate_rank(struct evaluate_passes *p, const char *const *choices, size_t count,
                  double *loglik, struct err *err)
{
    static const struct answer_options prefill = { .forward_only = true, .steady = true };
    struct ranking k = { .passes = p, .c = p->c };
    bool done;
    p->cancelled = false;
    if (model_prompt(p->c->model, p->settings, true, &k.options, err) < 0) return -1;
    if (conversation_sequence(p->c, p->c->message_count, p->settings, true, &k.prompt, err) < 0)
        return -1;
    int status = answer_run(p->c, p->settings, p->hooks, p->cancel, &prefill, NULL, &done, err);
    p->cancelled = status == 0 && !done;
    if (status == 0) status = find_closing(&k, err);
    const size_t most = (size_t)evaluate_batch_most(k.c, p->settings, p->hooks);
    for (size_t i = 0, n; i < count && status == 0 && !p->cancelled; i += n) {
        n = count - i < most ? count - i : most;
        status = rank_choices(&k, choices + i, (int)n, loglik + i, err);
    }
    sequence_release(&k.prompt);
    ids_release(&k.closing);
    return status;
}

// --- the loss ------------------------------------------------------------------------------------

int evaluate_loss(struct evaluate_passes *p, const struct message *messages, size_t count,
                  double *loss, struct err *err)
{
    struct conversation *c = p->c;
    struct graph g = conversation_graph(c, p->settings, p->hooks, p->cancel);
    struct labels l = { 0 };
    p->cancelled = false;
    conversation_limit_pictures(c, p->settings);
    conversation_size_pictures(c, messages, count);
    int status =
        labels_make(&l, messages, count, c->pictures, c->picture_count, c->model, p->settings, err);
    if (status == 0 && (!l.trained || !labels_answered(messages, count)))
        status = err_set(err, "%s", dialogue_unanswered(messages, count));
    const int64_t limit = conversation_limit(c->model, p->settings);
    if (status == 0 && l.sequence.n > limit)
        status = err_set(err, "%lld tokens, but the context holds %lld", (long long)l.sequence.n,
                         (long long)limit);
    if (status == 0) {
        bool good = true;
        for (size_t i = 0; i < c->picture_count && good; i++)
            good = conversation_encode(c, &g, (int)i) == 0;
        if (!good || loss_sample(&g, c->model, c->pictures, c->picture_count, &l, 1, loss) < 0)
            status = failed(&g, p, err);
    }
    if (status == 0 && !p->cancelled && !isfinite(*loss))
        status = err_set(err, "the model computed %s as the loss of the answers: %s",
                         isnan(*loss) ? "NaN" : "Inf", DAMAGED);
    labels_release(&l);
    return status;
}
