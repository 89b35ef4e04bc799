// core/probes/measure_data.c -- runs a probe over a data set.
#include "core/probes/measure_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pace.h"
#include "core/base/scratch.h"
#include "core/data/notices.h"
#include "core/metrics/python.h"
#include "core/metrics/suite.h"
#include "core/probes/kit.h"
#include "core/probes/masks.h"
#include "core/probes/measure.h"
#include "core/probes/results.h"
#include "core/sets/set.h"
#include "core/talk/answer.h"

// The measured samples.
struct series {
    struct measured_sample {
        char *key;
        struct point at; // x: the probe's scalar; y: the answer's score
    } * list;
    size_t count, capacity;
};

struct data_pass {
    const struct measure_request *request;
    struct measuring m; // with `options` and `settings` below
    struct probe_options options;
    const struct settings *request_settings;
    struct settings *settings;  // request_settings, with the sample's answer length
    void *corpus[METRIC_COUNT]; // by index in metrics[]; NULL for metrics without a corpus
    struct dataset data;
    struct masks masks;
    struct conversation c;
    struct results_mean mean;
    struct results kept; // tables marked as kept, with the rows of all samples
    struct series series;
    struct data_notices notices;
    int64_t broken;       // number of samples skipped
    int64_t bare;         // number of samples measured without a picture
    const char *replaced; // the data's metric, if it cannot score an answer alone; else NULL
    struct err why;       // why the first skipped sample was skipped
};

static int answer(struct data_pass *w, struct err *err)
{
    struct hooks hooks;
    const struct sinks nobody = { 0 };
    const struct answer_options options = { 0 };
    bool answered;
    if (conversation_hooks(&w->c, w->m.settings, w->m.tensors, &hooks, err) < 0) return -1;
    return answer_run(&w->c, w->m.settings, &hooks, w->m.cancel, &options, &nobody, &answered, err);
}

// Returns a sample's references, or if it has none, the answer that follows the question; *turn is
// then the text of this answer, which the caller frees, else NULL.
static const char *const *references_of(const struct sample *s, size_t question, const char **turn,
                                        size_t *count)
{
    const struct dialogue *d = &s->dialogue;
    *turn = NULL;
    *count = s->reference_count;
    if (s->reference_count) return (const char *const *)s->references;
    if (question < d->count) *turn = message_text(&d->messages[question]);
    *count = *turn != NULL;
    return turn;
}

// Collects the references of the first `limit` samples, for a metric that needs them.
static const void *corpus_of(struct data_pass *w, const struct metric *metric)
{
    void **corpus = &w->corpus[metric_index(metric)];
    if (!metric->corpus_new || *corpus) return *corpus;
    *corpus = metric->corpus_new();
    for (int64_t i = 0; i < w->data.count && i < w->request->limit; i++) {
        struct sample s;
        const char *turn = NULL;
        size_t count;
        if (dataset_read(&w->data, i, &s, NULL) == 0) {
            const char *const *list =
                references_of(&s, dialogue_question(&s.dialogue), &turn, &count);
            metric->corpus_add(metric, *corpus, list, count);
        }
        free((char *)(uintptr_t)turn);
        sample_release(&s);
    }
    return *corpus;
}

// Scores the generated answer with the sample's metric, or with "contains" if there is no metric or
// it cannot score an answer alone. NaN if the sample has nothing to compare the answer with, or
// cannot be scored.
static double score_of(struct data_pass *w, const struct sample *s, size_t question)
{
    const struct metric *metric = metric_find(s->metric ? s->metric : "contains");
    const struct message *said = conversation_last(&w->c);
    struct metric_outcome o = { 0 };
    struct err ignored;
    if (!metric || metric->way != METRIC_ANSWERS) {
        w->replaced = metric ? metric->name : "unknown";
        metric = metric_find("contains");
    }
    const enum suite suite = s->suite ? suite_find(s->suite) : metric->suite;
    const char *turn;
    char *asked = message_text(&s->dialogue.messages[question - 1]), *text = message_text(said);
    enum thought ignored_thought;
    struct scratch scratch = { 0 };
    // Samples with max_tokens come from evaluation sets, whose suites strip an answer when they
    // decode it.
    const char *raw = s->max_tokens ? python_strip(&scratch, text, NULL) : text;
    struct metric_case c = {
        .question = asked,
        .kind = s->kind,
        .answer = suite_answer(&scratch, suite, metric, raw, &w->m.model->thinking, THINKING_AUTO,
                               &ignored_thought),
        .choices = (const char *const *)s->choices,
        .choice_count = s->choice_count,
        .right = s->right,
        .corpus = corpus_of(w, metric),
        .scratch = &scratch,
    };
    c.references = references_of(s, question, &turn, &c.reference_count);
    double score = NAN;
    const bool known = c.reference_count || (s->choice_count && (s->right >= 0 || metric->none));
    if (known && metric->score(metric, &c, &o, &ignored) == 0) score = o.score;
    scratch_release(&scratch);
    free(asked);
    free(text);
    free((char *)(uintptr_t)turn);
    return score;
}

// If the dialogue ends with the question, appends the first reference as the answer, or, without
// references, the text of the right choice.
static void give_reference(struct data_pass *w, const struct sample *s)
{
    struct message m = { .role = ROLE_ASSISTANT };
    const char *text = s->reference_count                                    ? s->references[0]
                       : s->right >= 0 && (size_t)s->right < s->choice_count ? s->choices[s->right]
                                                                             : NULL;
    const struct message *last = conversation_last(&w->c);
    if (!text || !last || last->role != ROLE_USER) return;
    message_add_text(&m, text);
    conversation_append(&w->c, &m, 1);
    message_release(&m);
}

// Makes a mask of the objects in --picture (default: the first) that the sample's texts name; of
// all objects if they name none.
static int find_objects(struct data_pass *w, const struct sample *s, struct image *mask,
                        struct err *err)
{
    struct buf text = { 0 };
    const size_t picture = w->options.picture < 0 ? 0 : (size_t)w->options.picture;
    if (!s->dialogue.path_count || !w->c.picture_count) return err_set(err, "it has no picture");
    if (picture >= s->dialogue.path_count || picture >= w->c.picture_count)
        return err_set(err, "--picture %zu: it has only %zu picture%s, counted from 0", picture,
                       w->c.picture_count, w->c.picture_count == 1 ? "" : "s");
    for (size_t i = 0; i < s->dialogue.count; i++) {
        char *said = message_text(&s->dialogue.messages[i]);
        buf_printf(&text, "%s\n", said);
        free(said);
    }
    const struct masks_query query = { .picture = s->dialogue.paths[picture],
                                       .text = text.data ? text.data : "",
                                       .width = (double)w->c.pictures[picture].image.width,
                                       .height = (double)w->c.pictures[picture].image.height,
                                       .boxes = w->request->boxes };
    const int status = masks_read(&w->masks, &query, mask, err);
    w->options.mask = mask;
    buf_release(&text);
    return status;
}

// True if the pass generates answers and scores them.
static bool generates(const struct measure_request *r)
{
    return !r->given && (r->probe->answer || r->probe->answered);
}

static int measure_sample(struct data_pass *w, const struct sample *s, struct err *err)
{
    const struct probe *probe = w->request->probe;
    const size_t question = dialogue_question(&s->dialogue);
    const size_t count = w->request->given ? s->dialogue.count : question;
    const bool generate = generates(w->request);
    struct image mask = { 0 };
    struct results one = { 0 };
    double score = NAN;
    int status = conversation_show(&w->c, &w->data, s, count, err);
    eval_set_limit_answers(w->settings, w->request_settings, s);
    if (status == 0 && w->request->given) give_reference(w, s);
    if (status == 0 && generate) status = answer(w, err);
    if (status == 0 && generate) score = score_of(w, s, question);
    if (status == 0 && w->request->objects && !probe->words)
        status = find_objects(w, s, &mask, err);
    if (status == 0) status = measure(&w->m, &w->c, probe, &one, err);
    if (status == 0) results_mean_add(&w->mean, &one);
    if (status == 0) results_keep(&w->kept, &one, s->index);
    if (status == 0 && w->request->sample) w->request->sample(w->request->self, s->index, &one);
    if (status == 0 && probe->scalar) {
        struct series *y = &w->series;
        const struct result_table *t = results_find(&one, probe->scalar);
        y->list = xgrow(y->list, &y->capacity, y->count, sizeof *y->list);
        y->list[y->count++] = (struct measured_sample){
            .key = s->id ? xstrdup(s->id) : xasprintf("#%lld", (long long)s->index),
            .at = { t && t->row_count ? t->rows[0].value[0] : NAN, score },
        };
    }
    results_release(&one);
    image_release(&mask);
    w->options.mask = w->request->options.mask;
    return status;
}

static int measure_samples(struct data_pass *w, const struct sinks *sinks, struct err *err)
{
    const int64_t limit = w->request->limit, all = w->data.count < limit ? w->data.count : limit;
    struct pace pace = pace_from(0);
    for (int64_t i = 0; i < w->data.count && w->mean.samples < limit; i++) {
        struct sample s;
        struct err why;
        const int64_t measured = w->mean.samples;
        sinks_progress(sinks, &pace, "measuring", (double)w->mean.samples, (double)all);
        const bool read = dataset_read(&w->data, i, &s, &why) == 0;
        if (s.repeats) { // as in evaluations, it counts once
            data_notices_repeated(&w->notices, &s);
            sample_release(&s);
            continue;
        }
        if ((!read || measure_sample(w, &s, &why) < 0) && !w->broken++) w->why = why;
        w->bare += w->mean.samples > measured && !s.dialogue.path_count;
        int parts = generates(w->request) ? 0 : DATA_UNUSED_CHOICES;
        if (read) parts |= w->request->given ? DATA_PROMPT | DATA_ANSWERS : DATA_PROMPT;
        data_notices_sample(&w->notices, w->m.model->tokenizer, &s, parts);
        if (read) data_notices_shown(&w->notices, &s.dialogue, w->c.pictures, w->c.picture_count);
        sample_release(&s);
        if (atomic_load(w->m.cancel)) return err_set(err, "stopped");
    }
    sinks_progress(sinks, &pace, "measuring", (double)all, (double)all);
    if (w->mean.samples) return 0;
    return err_set(err, "no sample of '%s' could be measured: %s", w->request->set.data,
                   w->why.text);
}

static void put_series(const struct series *y, const char *probe, struct results *r)
{
    struct point *points = xcalloc(y->count + 1, sizeof *points);
    char *name = xasprintf("%s.samples", probe);
    struct result_table *t = results_table(r, name, "sample|value|score");
    for (size_t i = 0; i < y->count; i++) {
        double *v = result_row(t, "%s", y->list[i].key);
        points[i] = y->list[i].at;
        v[0] = points[i].x, v[1] = points[i].y;
    }
    free(name);
    t->own = t->points = true;
    name = xasprintf("%s.data", probe);
    t = results_table(r, name, "what|value");
    result_row(t, "samples")[0] = (double)y->count;
    const struct correlation c = rank_correlate(points, y->count);
    put_correlation(t, "Spearman of value and score", &c);
    if (isnan(c.r) && c.points > 2)
        results_note(r, "no rank correlation: all values or all scores are equal");
    free(name);
    free(points);
}

int measure_data(const struct measuring *m, const struct measure_request *request,
                 const struct sinks *sinks, struct results *r, struct err *err)
{
    struct data_pass w = { .request = request,
                           .m = *m,
                           .request_settings = m->settings,
                           .settings = settings_copy(m->settings),
                           .options = request->options,
                           .data = { .file = -1 },
                           .notices = data_notices_new(m->settings),
                           .masks = { .lines.file = -1 } };
    w.m.options = &w.options;
    w.m.settings = w.settings;
    w.m.sinks = NULL; // this function reports the progress
    if (request->objects) w.options.objects = &w.masks;
    w.options.object_boxes = request->boxes;
    if (request->probe->data_start) w.m.data = request->probe->data_start();
    conversation_init(&w.c, m->backend);
    int status = set_source_open(&request->set, &w.data, err);
    if (status == 0 && request->objects) status = masks_open(&w.masks, request->objects, err);
    if (status == 0) {
        conversation_set_model(&w.c, m->model);
        status = measure_samples(&w, sinks, err);
    }
    const int64_t samples = w.mean.samples;
    results_mean_take(&w.mean, r);
    results_move_tables(r, &w.kept);
    if (w.m.data) request->probe->data_finish(w.m.data, r);
    if (status == 0) {
        results_note(r, "means over %lld sample%s%s", (long long)samples, samples == 1 ? "" : "s",
                     request->given ? " with the reference answers" : "");
        if (w.broken)
            results_note(r, "%lld sample%s skipped, the first because: %s", (long long)w.broken,
                         w.broken == 1 ? " is" : "s are", w.why.text);
        if (w.bare && w.bare < samples) // otherwise columns about pictures are full or empty
            results_note(r, "%lld sample%s no picture: means over visual tokens leave %s out",
                         (long long)w.bare, w.bare == 1 ? " has" : "s have",
                         w.bare == 1 ? "it" : "them");
        if (w.replaced)
            results_note(r,
                         "answers are scored by contains: the metric %s of the data does not "
                         "score a generated answer",
                         w.replaced);
        char *text = data_notices_text(&w.notices);
        if (text) results_note(r, "data: %s", text);
        free(text);
        if (request->probe->scalar) put_series(&w.series, request->probe->name, r);
    }
    for (size_t i = 0; i < w.series.count; i++) free(w.series.list[i].key);
    free(w.series.list);
    for (int k = 0; k < METRIC_COUNT; k++)
        if (w.corpus[k]) metrics[k]->corpus_free(w.corpus[k]);
    data_notices_release(&w.notices);
    conversation_release(&w.c);
    settings_free(w.settings);
    masks_close(&w.masks);
    dataset_close(&w.data);
    return status;
}
