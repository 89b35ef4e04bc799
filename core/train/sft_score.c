// core/train/sft_score.c -- validation by evaluation sets, or by a metric over the held-out
// samples, if train.score or the data names one. Otherwise validation uses the held-out samples'
// loss (sft_pass.c).
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapters.h"
#include "core/eval/evaluate.h"
#include "core/sets/set.h"
#include "core/settings/settings.h"
#include "core/train/sft_parts.h"

// Returns the data set of the held-out samples.
static const struct dataset *data_of_validation(const struct sft *t)
{
    return t->validation_file ? &t->validation.data : &t->train.data;
}

// Returns the metric that most held-out samples name; NULL: none.
static const struct metric *named(const struct sft *t)
{
    int64_t count[METRIC_COUNT] = { 0 }, most = 0;
    const struct metric *found = NULL;
    for (int64_t i = 0; i < t->validation.count; i++) {
        struct sample s;
        const struct metric *m = NULL;
        if (dataset_read(data_of_validation(t), t->validation.item[i], &s, NULL) == 0 && s.metric)
            m = metric_find(s.metric);
        sample_release(&s);
        if (m && ++count[metric_index(m)] > most) most = count[metric_index(m)], found = m;
    }
    return found;
}

void sft_score_choose(struct sft *t)
{
    const char *name = settings_text(t->job->settings, "train.score");
    t->plan.metric = t->sets.metric;
    if (!t->validation.count) return;
    t->plan.metric = !strcmp(name, "auto") ? named(t) : metric_find(name);
    if (t->plan.metric && t->plan.metric->way == METRIC_LOSS)
        t->plan.metric = NULL; // as if the data named none
}

// Returns the current tensor of a method's parameter: the one in training, else the base adapter's.
static const struct tensor *find_tensor(void *self, const char *name)
{
    const struct sft *t = self;
    const struct param *p = params_find(&t->params, name);
    return p && p->kind == PARAM_EXTRA ? p->tensor : adapter_find(t->base, name);
}

static bool report(void *self, const struct evaluated *e)
{
    struct sft *t = self;
    return job_stopped(t->job) != JOB_CANCEL;
}

// Evaluates the model in training.
static int evaluate(struct sft *t, struct evaluate_request request, struct evaluation *e,
                    struct err *err)
{
    struct job *j = t->job;
    struct hooks hooks = { 0 };
    job_hooks(j, &hooks);
    // Frees the activations for the evaluation's passes, which use their own arena; no step is in
    // progress.
    arena_release(&t->arena);
    request.model = j->model;
    request.backend = j->backend;
    request.hooks = &hooks;
    request.tensors = (struct method_tensors){ find_tensor, t };
    request.report = report;
    request.self = t;
    request.cancel = &j->cancel;
    request.ranks = j->ranks;
    const int status = evaluate_run(&request, e, err);
    t->in_step = status < 0; // all ranks have all scores
    if (status < 0 || !e->cancelled) return status;
    t->graph.cancelled = true;
    return err_set(err, "cancelled");
}

// Returns the score that /eval reports first for a set: the first number of its total, unless that
// is `apart`; else the mean of the main metric.
static double score_of(const struct evaluation *e)
{
    if (e->number_count && !e->total->apart) return e->numbers[0].value;
    return evaluation_main(e)->tally.scores.mean;
}

// Appends what the score leaves out: samples that it could not score, and questions of other
// metrics. `set`: the name of the evaluation set, or NULL.
static void put_unscored(struct buf *to, const char *set, const struct evaluation *e,
                         const struct metric *m)
{
    int64_t others = 0;
    for (size_t i = 0; i < e->total_count; i++)
        if (!e->totals[i].kind && e->totals[i].metric != m)
            others += e->totals[i].tally.scores.count;
    if (!e->skipped && !others) return;
    buf_printf(to, "%s%s%s", to->length ? "; " : "", set ? set : "", set ? ": " : "");
    if (e->skipped)
        buf_printf(to, "%lld of %lld samples, the first: %s", (long long)e->skipped,
                   (long long)e->samples, e->why);
    if (others)
        buf_printf(to, "%s%lld question%s of other metrics", e->skipped ? "; " : "",
                   (long long)others, others == 1 ? "" : "s");
}

// Logs what the score of a validation leaves out, unless it is the same as last time. Empties the
// buffer.
static void report_unscored(struct sft *t, struct buf *text)
{
    const char *last = t->report.unscored;
    if (text->length && (!last || strcmp(last, text->data) != 0))
        job_log(t->job, "validation: not scored: %s", text->data);
    free(t->report.unscored);
    t->report.unscored = text->length ? buf_take(text) : NULL;
    buf_release(text);
}

static int score_sets(struct sft *t, double *score, double *of_set, struct err *err)
{
    struct buf unscored = { 0 };
    *score = 0;
    for (size_t i = 0; i < t->sets.count; i++) {
        const struct sft_scored *one = &t->sets.list[i];
        const struct evaluate_request request = { .settings = t->job->settings,
                                                  .data = &one->data,
                                                  .total = one->from.way->total };
        struct evaluation e = { 0 };
        const int status = evaluate(t, request, &e, err);
        if (status == 0) of_set[i] = score_of(&e);
        if (status == 0) put_unscored(&unscored, one->name, &e, evaluation_main(&e)->metric);
        evaluation_release(&e);
        if (status < 0) {
            buf_release(&unscored);
            return err_in(err, "validation: %s", one->name);
        }
        *score += of_set[i] / (double)t->sets.count;
    }
    report_unscored(t, &unscored);
    return 0;
}

int sft_score(struct sft *t, double *score, double *of_set, struct err *err)
{
    if (t->sets.count) return score_sets(t, score, of_set, err);
    struct settings *settings = settings_copy(t->job->settings);
    struct evaluation e = { 0 };
    // Limits answers to about twice the longest one in the data: a model that has learned little
    // may never end its answer.
    const int64_t most = 2 * (t->validation_file ? t->validation.answer : t->train.answer) + 8;
    if (settings_integer(settings, "sample.max_tokens") > most) {
        char *text = xasprintf("%lld", (long long)most);
        settings_set(settings, "sample.max_tokens", text, NULL);
        free(text);
    }
    const bool any = settings_is(settings, "train.score", "auto");
    const struct evaluate_request request = { .settings = settings,
                                              .data = data_of_validation(t),
                                              .indices = t->validation.item,
                                              .index_count = t->validation.count,
                                              .metric = any ? NULL : t->plan.metric };
    int status = evaluate(t, request, &e, err);
    const struct evaluation_total *total = evaluation_of(&e, t->plan.metric);
    if (status == 0 && total) {
        struct buf unscored = { 0 };
        *score = total->tally.scores.mean;
        put_unscored(&unscored, NULL, &e, t->plan.metric);
        report_unscored(t, &unscored);
    } else if (status == 0) {
        t->in_step = true;
        status = err_set(err, "no held-out sample could be scored by %s%s%s", t->plan.metric->name,
                         e.why ? ": " : "", e.why ? e.why : "");
    }
    evaluation_release(&e);
    settings_free(settings);
    return status < 0 ? err_in(err, "validation") : 0;
}
