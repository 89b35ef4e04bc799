// core/eval/evaluate_questions.c -- selects samples, finds their questions and references, and
// gathers the references of all samples for metrics that need them.
#include <stdlib.h>
#include <string.h>

#include "core/data/notices.h"
#include "core/eval/answer_file.h"
#include "core/eval/evaluate_parts.h"

// --- samples -------------------------------------------------------------------------------------

int64_t evaluate_sample_at(const struct evaluate_request *r, int64_t i)
{
    return r->indices ? r->indices[i] : i;
}

int64_t evaluate_sample_count(const struct evaluate_request *r)
{
    return r->indices ? r->index_count : r->data->count;
}

bool evaluate_is_chosen(const struct evaluate_request *r, const struct sample *s)
{
    return s->broken || (!s->repeats && evaluate_is_of_kind(r, s));
}

bool evaluate_is_of_kind(const struct evaluate_request *r, const struct sample *s)
{
    for (size_t i = 0; i < r->kind_count; i++)
        if (!strcmp(r->kinds[i], s->kind)) return true;
    return r->kind_count == 0;
}

char *evaluate_name(const struct sample *s)
{
    return s->id ? xstrdup(s->id) : xasprintf("#%lld", (long long)s->index);
}

// --- questions -----------------------------------------------------------------------------------

void question_release(struct question *q)
{
    free(q->text);
    free(q->reference);
    *q = (struct question){ 0 };
}

bool question_is_last(const struct dialogue *d, size_t message)
{
    for (size_t i = message + 1; i < d->count; i++)
        if (d->messages[i].role == ROLE_USER) return false;
    return true;
}

bool question_at(const struct sample *s, const struct metric *m, size_t i, struct question *q)
{
    const struct dialogue *d = &s->dialogue;
    *q = (struct question){ .message = i };
    if (d->messages[i].role != ROLE_USER || d->messages[i].example) return false;
    const bool last = question_is_last(d, i);
    for (size_t k = 0; k < i; k++)
        q->turn += d->messages[k].role == ROLE_USER && !d->messages[k].example;
    q->text = message_text(&d->messages[i]);
    if (last && s->reference_count) {
        q->references = (const char *const *)s->references;
        q->reference_count = s->reference_count;
        return true;
    }
    if (i + 1 < d->count && d->messages[i + 1].role == ROLE_ASSISTANT) {
        q->reference = message_text(&d->messages[i + 1]);
        q->references = (const char *const *)&q->reference;
        q->reference_count = 1;
        return true;
    }
    if (last && s->choice_count && (s->right >= 0 || m->none)) return true;
    question_release(q);
    return false;
}

const struct metric *evaluate_metric(const struct evaluating *v, const struct sample *s,
                                     struct err *err)
{
    if (v->r->metric) return v->r->metric;
    const struct metric *m = metric_need(s->metric ? s->metric : "loss", err);
    if (!m) err_in(err, "\"metric\"");
    return m;
}

// A loss depends on the references only: it cannot score the answers of a file.
static int check_metric(const struct evaluate_request *r, const struct sample *s,
                        const struct metric *m, struct err *err)
{
    if (m->way != METRIC_LOSS || !evaluate_is_chosen(r, s)) return 0;
    if (r->metric)
        return err_set(err,
                       "--answers needs a metric that scores answers, and --metric %s does not: "
                       "use --metric exact, or another of /help metrics",
                       m->name);
    char *id = evaluate_name(s);
    err_set(
        err,
        "--answers needs a metric that scores answers, and sample %s names none (\"metric\"): add "
        "--metric exact, or another of /help metrics",
        id);
    free(id);
    return -1;
}

int evaluate_match_answers(const struct evaluate_request *r, struct answer_file *g,
                           evaluate_reading *reading, void *self, struct err *err)
{
    enum { LOOK = 64 }; // samples between two calls
    const struct evaluating v = { .r = r };
    int status = 0;
    for (int64_t i = 0; i < r->data->count && status == 0; i++) {
        struct sample s;
        struct question q;
        // The evaluation reports a sample that cannot be read.
        const bool read = dataset_read(r->data, i, &s, NULL) == 0;
        const struct metric *m = read && !s.repeats ? evaluate_metric(&v, &s, NULL) : NULL;
        if (m) status = check_metric(r, &s, m, err);
        char *id = evaluate_name(&s);
        if (!m && !s.repeats && s.id) answer_file_add_question(g, id, "", i, 0);
        for (size_t k = 0; m && k < s.dialogue.count; k++) {
            if (!question_at(&s, m, k, &q)) continue;
            answer_file_add_question(g, id, q.text, i, k);
            question_release(&q);
        }
        free(id);
        sample_release(&s);
        if (status == 0 && reading && i % LOOK == 0 && !reading(self, i, r->data->count))
            status = err_set(err, "stopped while samples and answers were matched");
    }
    if (status == 0) answer_file_match(g);
    return status;
}

bool evaluate_only_question(struct evaluating *v, const struct sample *s, const struct metric *m,
                            size_t *message)
{
    int count = 0;
    if (!m || evaluate_metric(v, s, NULL) != m) return false;
    for (size_t i = 0; i < s->dialogue.count; i++) {
        struct question q;
        if (!question_at(s, m, i, &q)) continue;
        count++;
        *message = i;
        question_release(&q);
    }
    return count == 1;
}

// --- notices about the data ----------------------------------------------------------------------

void evaluate_note_sample(const struct evaluating *v, const struct sample *s, bool read)
{
    static const int parts[] = { [METRIC_ANSWERS] = DATA_PROMPT,
                                 [METRIC_RANKS] = DATA_PROMPT | DATA_CHOICES,
                                 [METRIC_LOSS] = DATA_PROMPT | DATA_ANSWERS };
    if (!v->r->notices) return;
    const struct metric *m = read ? evaluate_metric(v, s, NULL) : NULL;
    const bool asks = m && !(m->way == METRIC_ANSWERS && v->r->answer_file);
    data_notices_sample(v->r->notices, v->r->model->tokenizer, s, asks ? parts[m->way] : 0);
}

// --- the corpus of references --------------------------------------------------------------------

const void *evaluate_corpus(struct evaluating *v, const struct metric *m)
{
    if (!m->corpus_new) return NULL;
    const int number = metric_index(m);
    if (v->corpus[number]) return v->corpus[number];
    void *corpus = v->corpus[number] = m->corpus_new();
    int64_t taken = 0;
    for (int64_t i = 0; i < evaluate_sample_count(v->r) && (!v->r->limit || taken < v->r->limit);
         i++) {
        if (v->r->cancel && atomic_load(v->r->cancel)) v->stopped = true;
        if (v->stopped) return NULL;
        struct sample s;
        const int status = dataset_read(v->r->data, evaluate_sample_at(v->r, i), &s, NULL);
        const bool chosen = evaluate_is_chosen(v->r, &s);
        if (status == 0 && chosen && evaluate_metric(v, &s, NULL) == m)
            for (size_t k = 0; k < s.dialogue.count; k++) {
                struct question q;
                if (!question_at(&s, m, k, &q)) continue;
                m->corpus_add(m, corpus, q.references, q.reference_count);
                question_release(&q);
            }
        taken += chosen;
        sample_release(&s);
    }
    return corpus;
}
