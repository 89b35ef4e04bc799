// core/eval/evaluate_totals.c -- totals of an evaluation: sums of scores by metric and kind, and
// the lines that report them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/eval/evaluate_parts.h"
#include "core/jobs/job.h"

// --- sums ----------------------------------------------------------------------------------------

// Returns the tally of a metric and kind, created on first use.
static struct metric_tally *tally_of(struct evaluation *e, const struct metric *m, const char *kind)
{
    // Looked up by hash: a data set may have as many kinds as samples.
    char *name = xasprintf("%s\n%s", m->name, kind);
    bool known;
    const size_t at = names_add(&e->total_names, name, &known);
    free(name);
    if (known) return &e->totals[at].tally;
    e->totals = xgrow(e->totals, &e->total_capacity, e->total_count, sizeof *e->totals);
    const size_t number = names_add(&e->kinds, kind, NULL);
    e->totals[e->total_count] =
        (struct evaluation_total){ .metric = m, .kind = e->kinds.list[number] };
    return &e->totals[e->total_count++].tally;
}

void evaluation_note(struct evaluation *e, const struct evaluated *outcome)
{
    metric_tally_add(tally_of(e, outcome->metric, outcome->kind),
                     &(struct metric_outcome){ .score = outcome->score,
                                               .overlap = outcome->overlap,
                                               .class = outcome->class });
    if (!e->total) return;
    const size_t kind = names_add(&e->kinds, outcome->kind, NULL);
    const size_t group = names_add(&e->groups, outcome->group, NULL);
    e->scores = xgrow(e->scores, &e->score_capacity, e->score_count, sizeof *e->scores);
    e->scores[e->score_count++] = (struct set_score){ .kind = e->kinds.list[kind],
                                                      .group = e->groups.list[group],
                                                      .sample = outcome->done,
                                                      .score = outcome->score,
                                                      .overlap = outcome->overlap,
                                                      .class = outcome->class };
}

const char *evaluated_answer(const struct evaluated *outcome)
{
    if (outcome->skipped) return NULL;
    if (outcome->metric->way != METRIC_RANKS) return outcome->scored_text;
    return outcome->found ? outcome->found : "";
}

// --- answers that a limit ended ------------------------------------------------------------------

enum cut cut_of(const struct event_answer *a)
{
    if (!a->stop || strcmp(a->stop, "length") != 0) return CUT_NONE;
    return a->full ? CUT_CONTEXT : CUT_LENGTH;
}

char *cut_text(const int64_t counts[CUTS])
{
    static const char *const what[CUTS] = { [CUT_CONTEXT] = "hit the context limit (ctx.max)",
                                            [CUT_LENGTH] = "reached sample.max_tokens" };
    struct buf b = { 0 };
    for (int i = CUT_CONTEXT; i < CUTS; i++)
        if (counts[i])
            buf_printf(&b, "%s%lld %s", b.length ? "; " : "", (long long)counts[i], what[i]);
    return b.length ? buf_take(&b) : NULL;
}

// --- the end -------------------------------------------------------------------------------------

static int compare_totals(const void *a, const void *b)
{
    const struct evaluation_total *x = a, *y = b;
    if (x->tally.scores.count != y->tally.scores.count)
        return x->tally.scores.count > y->tally.scores.count ? -1 : 1;
    return metric_index(x->metric) - metric_index(y->metric);
}

// Lists each metric's sum over all kinds; then, if a metric has several kinds, every sum by kind.
void evaluate_totals(struct evaluation *e)
{
    const size_t parts = e->total_count;
    struct evaluation_total *all = xcalloc(2 * parts + 1, sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < parts; i++) {
        size_t at = 0;
        while (at < n && all[at].metric != e->totals[i].metric) at++;
        if (at == n) all[n++] = (struct evaluation_total){ .metric = e->totals[i].metric };
        metric_tally_merge(&all[at].tally, &e->totals[i].tally);
    }
    if (n) qsort(all, n, sizeof *all, compare_totals);
    const size_t metric_count = n;
    for (size_t i = 0; i < parts && parts > metric_count; i++) all[n++] = e->totals[i];
    for (size_t i = 0; i < n; i++) {
        struct evaluation_total *t = &all[i];
        metric_interval(t->metric, &t->tally, &t->low, &t->high);
        if (t->metric->summary) t->number_count = t->metric->summary(&t->tally, t->numbers);
    }
    free(e->totals);
    e->totals = all;
    e->total_count = n;
    if (!e->total || !n) return;
    e->number_count =
        e->total->count(e->total, e->scores, e->score_count, all[0].metric, e->numbers);
    set_total_interval(e->total, e->scores, e->score_count, all[0].metric, &e->low, &e->high);
}

void evaluation_release(struct evaluation *e)
{
    free(e->totals);
    free(e->why);
    free(e->first);
    free(e->sampling);
    free(e->notices);
    free(e->scores);
    names_release(&e->total_names);
    names_release(&e->kinds);
    names_release(&e->groups);
    *e = (struct evaluation){ 0 };
}

const struct evaluation_total *evaluation_main(const struct evaluation *e)
{
    return e->total_count ? &e->totals[0] : NULL;
}

const struct evaluation_total *evaluation_of(const struct evaluation *e, const struct metric *m)
{
    for (size_t i = 0; i < e->total_count; i++)
        if (e->totals[i].metric == m && !e->totals[i].kind) return &e->totals[i];
    return NULL;
}

// --- reports -------------------------------------------------------------------------------------

static char *number_text(double x)
{
    if (isnan(x)) return xstrdup("-");
    return x == floor(x) && fabs(x) < 1e15 ? xasprintf("%.0f", x) : xasprintf("%.6f", x);
}

static char *total_text(const struct evaluation_total *t)
{
    const long long n = (long long)t->tally.scores.count;
    if (isnan(t->low)) return xasprintf("%.6f, n %lld", t->tally.scores.mean, n);
    return xasprintf("%.6f (95%%: %.4f to %.4f), n %lld", t->tally.scores.mean, t->low, t->high, n);
}

static void put_numbers(struct job_results *to, const struct evaluation_total *t, const char *of)
{
    for (int i = 0; i < t->number_count; i++) {
        char *key = xasprintf("%s%s%s", t->numbers[i].name, of ? " " : "", of ? of : "");
        job_results_add(to, key, number_text(t->numbers[i].value));
        free(key);
    }
}

// True if a metric of the totals reads what the model does in this way. Answers from a file are not
// the model's.
static bool scores_way(const struct evaluation *e, enum metric_way way)
{
    const struct evaluation_total *totals = evaluation_main(e);
    bool found = false;
    for (size_t i = 0; totals && i < e->total_count; i++) found |= totals[i].metric->way == way;
    return found && !(way == METRIC_ANSWERS && e->answers_given);
}

const char *evaluation_first(const struct evaluation *e)
{
    return scores_way(e, METRIC_RANKS) || scores_way(e, METRIC_ANSWERS) ? e->first : NULL;
}

static char *choices_lost(const struct evaluation *e)
{
    return e->lost ? xasprintf("%lld", (long long)e->lost) : NULL;
}

// Counts the answers by what happened to their thinking.
static char *thinking(const struct evaluation *e)
{
    static const char *const words[THOUGHTS] = {
        [THOUGHT_REMOVED] = "removed from",
        [THOUGHT_KEPT] = "seen by the rule in",
        [THOUGHT_OPEN] = "not ended in",
    };
    struct buf b = { 0 };
    for (int i = THOUGHT_REMOVED; i < THOUGHTS; i++)
        if (e->thoughts[i])
            buf_printf(&b, "%s%s %lld %s", b.length ? "; " : "", words[i],
                       (long long)e->thoughts[i], e->thoughts[i] == 1 ? "answer" : "answers");
    return b.length ? buf_take(&b) : NULL;
}

static char *cut_off(const struct evaluation *e)
{
    return cut_text(e->cut);
}

static char *data(const struct evaluation *e)
{
    return e->notices ? xstrdup(e->notices) : NULL;
}

static char *skipped(const struct evaluation *e)
{
    if (!e->skipped) return NULL;
    return xasprintf("%lld of %lld sample%s, the first: %s", (long long)e->skipped,
                     (long long)e->samples, e->samples == 1 ? "" : "s", e->why ? e->why : "");
}

const struct evaluation_remark evaluation_remarks[EVALUATION_REMARKS] = {
    { "choices lost", choices_lost }, { "thinking", thinking },
    { "cut off", cut_off },           { "data", data },
    { "skipped", skipped },
};

void evaluation_report(const struct evaluation *e, struct job_results *to)
{
    // The main total, and the numbers of the set's own total.
    const struct evaluation_total *main = evaluation_main(e);
    if (main) {
        job_results_add(to, "metric", xstrdup(main->metric->name));
        job_results_add(to, "rule", xstrdup(main->metric->rule));
        job_results_add(to, "score", xasprintf("%.9g", main->tally.scores.mean));
        job_results_add(to, "low", isnan(main->low) ? xstrdup("-") : xasprintf("%.6g", main->low));
        job_results_add(to, "high",
                        isnan(main->high) ? xstrdup("-") : xasprintf("%.6g", main->high));
        job_results_add(to, "n", xasprintf("%lld", (long long)main->tally.scores.count));
        put_numbers(to, main, NULL);
        for (int i = 0; i < e->number_count; i++)
            job_results_add(to, e->numbers[i].name,
                            i || isnan(e->low) ? number_text(e->numbers[i].value)
                                               : xasprintf("%.6f (95%%: %.4f to %.4f)",
                                                           e->numbers[i].value, e->low, e->high));
        if (e->number_count) job_results_add(to, "total", xstrdup(e->total->rule));
    }
    for (size_t i = 1; main && i < e->total_count; i++) {
        const struct evaluation_total *t = main + i;
        const bool other = t->metric != main->metric;
        char *key = !t->kind ? xasprintf("score %s", t->metric->name)
                    : other  ? xasprintf("score %s %s", t->metric->name, t->kind)
                             : xasprintf("score %s", *t->kind ? t->kind : "(no kind)");
        job_results_add(to, key, total_text(t));
        free(key);
        put_numbers(to, t, t->kind ? t->kind : t->metric->name);
    }
    if (e->total_count && e->arithmetic) job_results_add(to, "arithmetic", xstrdup(e->arithmetic));
    if (e->total_count && e->batch > 1)
        job_results_add(to, "eval.batch", xasprintf("%d", e->batch));
    const char *first = evaluation_first(e);
    if (first) job_results_add(to, "eval.first", xstrdup(first));
    if (e->sampling && scores_way(e, METRIC_ANSWERS))
        job_results_add(to, "ignored (greedy)", xstrdup(e->sampling));
    for (int i = 0; i < EVALUATION_REMARKS; i++) {
        char *text = evaluation_remarks[i].text(e);
        if (text) job_results_add(to, evaluation_remarks[i].key, text);
    }
}
