// core/eval/evaluate.c -- asks, answers and scores a data set's questions in order.
//
// The conversation lives as long as the run: a sample with the same pictures as the previous one
// reuses their visual tokens and, unless a method is on, the common prefix of the prompt in the
// cache.
#include "core/eval/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/notices.h"
#include "core/eval/answer_file.h"
#include "core/eval/evaluate_parts.h"
#include "core/metrics/choices.h"
#include "core/metrics/python.h"
#include "core/sets/set.h"
#include "core/stages/stages.h"
#include "core/talk/answer.h"

// --- reports -------------------------------------------------------------------------------------

static void add_outcome(struct evaluating *v, const struct evaluated *outcome)
{
    if (v->packs)
        evaluate_pack(&v->kept, outcome);
    else
        evaluate_count(v, outcome);
}

// `q` NULL: the outcome is about the whole sample.
static struct evaluated outcome_of(const struct evaluating *v, const struct sample *s,
                                   const struct question *q, const struct metric *m, const char *id)
{
    return (struct evaluated){ .index = s->index,
                               .line = s->line,
                               .turn = q ? q->turn : 0,
                               .id = id,
                               .kind = s->kind,
                               .group = s->group ? s->group : "",
                               .metric = m,
                               .prompt = q ? q->text : "",
                               .answer = "",
                               .scored_text = "",
                               .reference = q && q->reference_count ? q->references[0] : "",
                               .score = NAN,
                               .class = -1,
                               .done = v->done + 1,
                               .count = v->count };
}

// Reports a question, or the whole sample (q NULL), as skipped.
static void skip(struct evaluating *v, const struct sample *s, const struct question *q,
                 const struct metric *m, const char *why)
{
    char *id = evaluate_name(s);
    struct evaluated outcome = outcome_of(v, s, q, m, id);
    outcome.skipped = why;
    add_outcome(v, &outcome);
    free(id);
}

// Scores the case. Returns 1 if it was skipped, else 0.
static int score_case(struct evaluating *v, const struct sample *s, const struct question *q,
                      const struct metric *m, struct metric_case *mc, enum cut cut)
{
    struct metric_outcome o;
    struct err err;
    enum thought thought = THOUGHT_NONE;
    const char *raw = mc->answer ? mc->answer : "";
    const bool own = v->r->metric || !s->suite; // not the rule of the sample's set
    mc->answer = NULL;
    if (m->way == METRIC_ANSWERS)
        mc->answer =
            suite_answer(mc->scratch, own ? m->suite : suite_find(s->suite), m, raw,
                         v->r->model ? &v->r->model->thinking : NULL, v->r->thinking, &thought);
    mc->corpus = evaluate_corpus(v, m);
    if (v->stopped) return 0;
    if (m->score(m, mc, &o, &err) < 0) {
        skip(v, s, q, m, err.text);
        return 1;
    }
    char *id = evaluate_name(s);
    struct evaluated outcome = outcome_of(v, s, q, m, id);
    outcome.answer = raw;
    outcome.scored_text = mc->answer ? mc->answer : "";
    outcome.thought = thought;
    outcome.lost = s->lost ? s->lost
                   : own && m->loses
                       ? prompt_count_lost(mc->choices, mc->choice_count, LOST_MISSING)
                       : 0;
    outcome.found = o.found;
    outcome.score = o.score;
    outcome.overlap = o.overlap;
    outcome.class = o.class;
    outcome.cut = cut;
    add_outcome(v, &outcome);
    free(id);
    return 0;
}

// --- the model -----------------------------------------------------------------------------------

bool shown_are(const struct shown *k, const struct dialogue *d)
{
    if (k->count != d->path_count) return false;
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->paths[i], d->paths[i]) != 0) return false;
    return true;
}

void shown_add(struct shown *k, const char *path)
{
    k->paths = xreallocarray(k->paths, k->count + 1, sizeof *k->paths);
    k->paths[k->count++] = xstrdup(path);
}

void shown_clear(struct shown *k)
{
    for (size_t i = 0; i < k->count; i++) free(k->paths[i]);
    free(k->paths);
    *k = (struct shown){ 0 };
}

static void clear_pictures(struct evaluating *v)
{
    conversation_clear(&v->c);
    shown_clear(&v->shown);
}

int evaluate_picture(const struct dataset *d, struct image_decoder *decoder, const char *path,
                     struct picture *p, struct err *err)
{
    size_t size;
    char *bytes = dataset_picture(d, path, IMAGE_MAX_FILE, &size, err);
    const int status = bytes ? picture_decode(p, decoder, path, bytes, size, err) : -1;
    free(bytes);
    return status;
}

// Attaches the sample's pictures as pending ones, so that dropping messages does not remove them.
// Decodes pictures that were not decoded in advance.
static int show_pictures(struct evaluating *v, struct ahead_sample *a, struct err *err)
{
    const struct dialogue *d = &a->sample.dialogue;
    if (a->sample.blind) return err_set(err, "no picture is given with the question");
    if (shown_are(&v->shown, d)) return 0;
    clear_pictures(v);
    for (size_t i = 0; i < d->path_count; i++) {
        const bool prepared = i < a->picture_count;
        struct picture own = { 0 }, *picture = prepared ? &a->pictures[i] : &own;
        int status = prepared ? 0 : evaluate_picture(v->r->data, NULL, d->paths[i], &own, err);
        if (status == 0 && conversation_attach_decoded(&v->c, picture, err) < 0) {
            if (!prepared) picture_release(&own);
            status = -1;
        }
        if (status < 0) {
            clear_pictures(v);
            return -1;
        }
        shown_add(&v->shown, d->paths[i]);
    }
    if (v->r->notices) data_notices_shown(v->r->notices, d, v->c.pictures, v->c.picture_count);
    return 0;
}

// Attaches the active methods, then other listeners.
static int attach_methods(struct evaluating *v, struct hooks *hooks, struct err *err)
{
    if (conversation_hooks(&v->c, v->settings, v->r->tensors, hooks, err) < 0) return -1;
    // The visual tokens that a method keeps may depend on the question: no cached rows are reused.
    if (hooks->count) conversation_stale(&v->c, STALE_KV);
    for (int i = 0; v->r->hooks && i < v->r->hooks->count; i++)
        hooks_add(hooks, &v->r->hooks->list[i]);
    v->passes = (struct evaluate_passes){
        .settings = v->settings, .hooks = hooks, .cancel = v->r->cancel, .c = &v->c
    };
    return 0;
}

// Records how many questions or choices share a pass, where that changes the rounding.
static void note_batch(struct evaluating *v, const struct hooks *hooks)
{
    const bool rounds = strcmp(v->e->arithmetic, "f32") != 0;
    const int most = rounds ? evaluate_batch_most(&v->c, v->settings, hooks) : 0;
    if (most > v->e->batch) v->e->batch = most;
}

struct message *evaluate_set_messages(struct evaluating *v, const struct dialogue *d,
                                      size_t question)
{
    conversation_drop(&v->c, v->c.message_count);
    const size_t first = evaluate_first_at(v, d);
    for (size_t i = 0; i <= question; i++)
        if (i == first)
            evaluate_put_first(v, &d->messages[i]);
        else
            conversation_append(&v->c, &d->messages[i], 1);
    return &v->c.messages[v->c.message_count - 1];
}

struct captured {
    char *text; // NULL: cancelled
    struct event_answer answer;
    struct ids ids;
};

static void capture(void *self, const struct event *event)
{
    struct captured *c = self;
    if (event->kind != EVENT_ANSWER) return;
    c->answer = *event->answer;
    if (!strcmp(c->answer.stop, "cancelled")) return;
    // Rules read the reasoning too; they remove it as their suite does (core/metrics/suite.h).
    c->text = xasprintf("%s%s", c->answer.unended ? c->answer.unended : "", c->answer.whole);
    ids_append(&c->ids, c->answer.ids, c->answer.count);
    c->answer.text = c->text;
    c->answer.ids = c->ids.data;
}

static int ask(struct evaluating *v, const struct sample *s, const struct question *q,
               const struct metric *m, struct metric_case *mc)
{
    static const struct answer_options options = { .steady = true };
    struct hooks hooks;
    struct err err;
    struct captured answer = { 0 };
    struct ready_answer ready;
    struct sinks sinks = { 0 };
    enum cut cut = CUT_NONE;
    bool answered;
    int status;
    if (v->r->answer_file) { // takes the answer from the file
        mc->answer = answer_file_find(v->r->answer_file, s->index, q->message, &err);
        if (mc->answer) return score_case(v, s, q, m, mc, CUT_NONE);
        skip(v, s, q, m, err.text);
        return 1;
    }
    status = attach_methods(v, &hooks, &err);
    if (status == 0 && evaluate_batch(v, s, m, &hooks, &ready)) {
        note_batch(v, &hooks);
        answer.text = ready.text;
        cut = ready.cut;
    } else if (status == 0) { // a single question
        sinks_add(&sinks, (struct sink){ .emit = capture, .self = &answer });
        evaluate_set_messages(v, &s->dialogue, q->message);
        v->passes.first_messages = v->c.message_count - (q->message + 1);
        status =
            answer_run(&v->c, v->settings, &hooks, v->r->cancel, &options, &sinks, &answered, &err);
        if (status == 0 && v->r->answered && answer.text)
            status = v->r->answered(v->r->self, &v->passes, &answer.answer, &err);
        if (status == 0) cut = cut_of(&answer.answer);
    }
    if (status < 0) {
        skip(v, s, q, m, err.text);
        status = 1;
    } else if (!answer.text) {
        v->stopped = true;
    } else {
        // The suites strip an answer when they decode it; some of their rules do not strip it
        // again.
        mc->answer = s->max_tokens ? python_strip(mc->scratch, answer.text, NULL) : answer.text;
        status = score_case(v, s, q, m, mc, cut);
    }
    free(answer.text);
    ids_release(&answer.ids);
    return status;
}

// --- choices -------------------------------------------------------------------------------------

// Appends the choices to a question that does not list them, as in MMLU:
// "QUESTION\nA. ...\nB. ...\nAnswer:".
static void list_choices(struct message *m, const struct metric_case *mc)
{
    struct content_item *last = NULL;
    for (size_t i = 0; i < m->content_count; i++)
        if (m->content[i].text) last = &m->content[i];
    struct buf b = { 0 };
    if (last) buf_puts(&b, last->text);
    for (size_t i = 0; i < mc->choice_count; i++)
        buf_printf(&b, "%s%c. %s", b.length ? "\n" : "", (char)('A' + i), mc->choices[i]);
    buf_puts(&b, "\nAnswer:");
    if (last) {
        free(last->text);
        last->text = buf_take(&b);
        return;
    }
    message_add_text(m, b.data);
    buf_release(&b);
}

static int rank(struct evaluating *v, const struct sample *s, const struct question *q,
                const struct metric *m, struct metric_case *mc)
{
    static const char *const letters[LETTERS] = { "A", "B", "C", "D", "E", "F", "G", "H", "I",
                                                  "J", "K", "L", "M", "N", "O", "P", "Q", "R",
                                                  "S", "T", "U", "V", "W", "X", "Y", "Z" };
    const size_t n = mc->choice_count;
    const char **texts = xcalloc(n + 1, sizeof *texts);
    int64_t *lengths = xcalloc(n + 1, sizeof *lengths);
    double *loglik = xcalloc(n + 1, sizeof *loglik);
    // If the data name the right choice by number or letter, the letters are ranked.
    const bool as_letters =
        !s->endings && n <= LETTERS && !choices_are_letters(mc) && choices_by_label(mc);
    struct hooks hooks;
    struct err err;
    int status = n < 2 ? err_set(&err, "fewer than two \"choices\"") : 0;
    struct message *asked = evaluate_set_messages(v, &s->dialogue, q->message);
    if (as_letters && !choices_listed(q->text)) list_choices(asked, mc);
    for (size_t i = 0; i < n; i++) {
        texts[i] = as_letters ? letters[i] : mc->choices[i];
        for (const char *c = texts[i]; *c; c++) lengths[i] += (*c & 0xC0) != 0x80; // characters
    }
    if (status == 0) status = attach_methods(v, &hooks, &err);
    if (status == 0) note_batch(v, &hooks);
    if (status == 0) status = evaluate_rank(&v->passes, texts, n, loglik, &err);
    mc->loglik = loglik;
    mc->lengths = lengths;
    if (status < 0)
        skip(v, s, q, m, err.text);
    else if (v->passes.cancelled)
        v->stopped = true;
    else
        status = score_case(v, s, q, m, mc, CUT_NONE);
    free(texts);
    free(lengths);
    free(loglik);
    return status != 0;
}

// --- samples -------------------------------------------------------------------------------------

static int lose(struct evaluating *v, const struct sample *s, const struct metric *m)
{
    const struct dialogue *d = &s->dialogue;
    struct scratch scratch = { 0 };
    struct metric_case mc = { .right = -1, .scratch = &scratch };
    struct question q = { 0 };
    struct hooks hooks;
    struct err err;
    int status = 1;
    // Reports the last question; the loss is that of all answers.
    for (size_t i = d->count; i-- > 0 && !q.text;) question_at(s, m, i, &q);
    if (!q.text) q.text = xstrdup("");
    if (attach_methods(v, &hooks, &err) < 0 ||
        evaluate_loss(&v->passes, d->messages, d->count, &mc.loss, &err) < 0)
        skip(v, s, &q, m, err.text);
    else if (v->passes.cancelled)
        v->stopped = true;
    else
        status = score_case(v, s, &q, m, &mc, CUT_NONE);
    question_release(&q);
    scratch_release(&scratch);
    return status;
}

// Asks every question of the sample; returns how many could not be scored.
static int ask_all(struct evaluating *v, const struct sample *s, const struct metric *m)
{
    int skipped = 0, asked = 0;
    for (size_t i = 0; i < s->dialogue.count && !v->stopped; i++) {
        struct question q;
        struct scratch scratch = { 0 };
        if (!question_at(s, m, i, &q)) continue;
        const bool last = question_is_last(&s->dialogue, i);
        struct metric_case mc = { .question = q.text,
                                  .kind = s->kind,
                                  .references = q.references,
                                  .reference_count = q.reference_count,
                                  .choices = (const char *const *)s->choices,
                                  .choice_count = last ? s->choice_count : 0,
                                  .right = last ? s->right : -1,
                                  .scratch = &scratch };
        // Choices belong to the last question.
        if (m->way == METRIC_ANSWERS || last) {
            asked++;
            skipped += m->way == METRIC_RANKS ? rank(v, s, &q, m, &mc) : ask(v, s, &q, m, &mc);
        }
        question_release(&q);
        scratch_release(&scratch);
    }
    if (!asked && !v->stopped) {
        char *why = xasprintf("no question has a reference answer%s%s", s->unanswered ? ": " : "",
                              s->unanswered ? s->unanswered : "");
        skip(v, s, NULL, m, why);
        free(why);
    }
    return skipped + !asked;
}

static bool evaluate_sample(struct evaluating *v, struct ahead_sample *a)
{
    const struct sample *s = &a->sample;
    struct err err;
    eval_set_limit_answers(v->settings, v->r->settings, s);
    const struct metric *m = evaluate_metric(v, s, &err);
    const bool needless = m && v->r->answer_file && m->way == METRIC_ANSWERS;
    int status = !m ? -1 : needless ? 0 : show_pictures(v, a, &err);
    // If one stage cannot read a picture, all skip the sample.
    status = stages_agree_status(stages_of(&v->r->model->decoder), v->c.number, (uint64_t)s->index,
                                 status, &err);
    if (!m || status < 0) {
        clear_pictures(v);
        skip(v, s, NULL, m, err.text);
        return false;
    }
    if (m->way == METRIC_LOSS) return lose(v, s, m) == 0;
    if (!needless && evaluate_first(v, &s->dialogue, &err) < 0) {
        skip(v, s, NULL, m, err.text);
        return false;
    }
    return ask_all(v, s, m) == 0;
}

bool evaluate_next(struct evaluating *v)
{
    const struct evaluate_request *r = v->r;
    const int64_t done = v->done;
    if (r->cancel && atomic_load(r->cancel)) v->stopped = true;
    const bool more = v->at < evaluate_sample_count(r) && (!r->limit || done < r->limit);
    if (more && !v->stopped) {
        struct ahead_sample a;
        if (r->ahead && !v->at) v->ahead = evaluate_ahead_new(v);
        const int64_t i = v->at++;
        if (!evaluate_take_next(v, &a)) evaluate_read(v, i, &a);
        const bool chosen = evaluate_is_chosen(r, &a.sample);
        if (a.status < 0 && r->cancel && atomic_load(r->cancel)) {
            v->stopped = true;                       // cancelling may have stopped the read
        } else if (chosen && v->passed < r->first) { // done by an earlier process
            v->passed++;
            v->done++;
            v->shared = v->done;
        } else if (chosen && !evaluate_is_mine(v, done)) { // another member of the team does it
            v->done++;
        } else if (chosen) {
            bool good = false;
            if (a.status < 0)
                skip(v, &a.sample, NULL, NULL, a.err.text);
            else
                good = evaluate_sample(v, &a);
            if (!v->stopped) evaluate_end_sample(v, !good);
            v->done += !v->stopped;
        }
        for (size_t k = 0; k < r->kind_count; k++)
            v->met[k] |= a.sample.kind && !strcmp(a.sample.kind, r->kinds[k]);
        if (v->done > done) evaluate_note_sample(v, &a.sample, a.status == 0);
        if (a.sample.repeats && r->notices && evaluate_is_of_kind(r, &a.sample))
            data_notices_repeated(r->notices, &a.sample);
        evaluate_ahead_release(&a);
    }
    evaluate_share(v, !more);
    return more && !v->stopped;
}

// --- the end -------------------------------------------------------------------------------------

// Returns "KEY=VALUE, ..." of changed settings of sampling; NULL: none is changed.
static char *sampling_of(const struct settings *s)
{
    const struct setting *row;
    struct buf b = { 0 };
    for (int i = 0; (row = settings_row(i)); i++)
        if (row->use == USE_SAMPLING && settings_changed(s, row->key))
            buf_printf(&b, "%s%s=%s", b.length ? ", " : "", row->key, settings_text(s, row->key));
    return b.length ? buf_take(&b) : NULL;
}

struct evaluating *evaluate_open(const struct evaluate_request *r, struct evaluation *e)
{
    static const char *const greedy[] = { "sample.temperature", "sample.repeat_penalty",
                                          "sample.ignore_eos" };
    struct evaluating *v = xcalloc(1, sizeof *v);
    v->r = r;
    v->e = e;
    if (!r->first) *e = (struct evaluation){ 0 };
    e->total = r->total;
    if (!e->first && evaluate_has_first(r->settings))
        e->first = xstrdup(settings_text(r->settings, "eval.first"));
    free(e->sampling);
    e->sampling = sampling_of(r->settings);
    e->answers_given = r->answer_file != NULL;
    e->arithmetic = model_arithmetic(r->model, r->backend, r->settings);
    v->settings = settings_copy(r->settings);
    for (size_t i = 0; i < sizeof greedy / sizeof *greedy; i++)
        settings_reset(v->settings, greedy[i]);
    v->count = evaluate_sample_count(v->r);
    v->met = xcalloc(r->kind_count + 1, sizeof *v->met);
    if (r->limit && r->limit < v->count) v->count = r->limit;
    v->team = ranks_count(r->ranks);
    v->number = ranks_number(r->ranks);
    v->packs = r->ranks != NULL;
    conversation_init(&v->c, r->backend);
    conversation_set_model(&v->c, r->model);
    return v;
}

int evaluate_close(struct evaluating *v, struct err *err)
{
    struct evaluation *e = v->e;
    evaluate_ahead_free(v->ahead);
    evaluate_batch_release(v);
    evaluate_first_release(v);
    buf_release(&v->kept);
    clear_pictures(v);
    conversation_release(&v->c);
    settings_free(v->settings);
    for (int i = 0; metrics[i]; i++)
        if (v->corpus[i]) metrics[i]->corpus_free(v->corpus[i]);
    e->samples = v->done;
    e->cancelled = v->stopped;
    // A limit may end before the first sample of a kind.
    for (size_t k = 0; k < v->r->kind_count && v->at == evaluate_sample_count(v->r); k++)
        if (v->r->notices && !v->met[k]) data_notices_absent(v->r->notices, v->r->kinds[k]);
    if (v->r->notices) e->notices = data_notices_text(v->r->notices);
    free(v->met);
    free(v);
    evaluate_totals(e);
    if (e->total_count || e->cancelled) return 0;
    err_set(err, e->why ? "no sample could be scored: %s" : "no sample of this kind%s",
            e->why ? e->why : "");
    evaluation_release(e);
    return -1;
}

int evaluate_run(const struct evaluate_request *r, struct evaluation *e, struct err *err)
{
    if (r->model->decoder.part) return evaluate_in_flights(r, e, err);
    struct evaluating *v = evaluate_open(r, e);
    while (evaluate_next(v)) continue;
    return evaluate_close(v, err);
}
