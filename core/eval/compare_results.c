// core/eval/compare_results.c -- the tables of /compare.
#include "core/eval/compare_results.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/engine/presets.h"
#include "core/eval/compare.h"
#include "core/eval/compare_data.h"
#include "core/eval/evaluate.h"
#include "core/probes/results.h"
#include "core/settings/changes.h"
#include "core/settings/settings.h"

// --- costs ---------------------------------------------------------------------------------------

static const struct cost_row {
    const char *what;
    enum compare_cost_number of;
    double unit;
} cost_rows[] = {
    { "prompt tokens", COST_PROMPT_TOKENS, 1 },
    { "visual tokens", COST_VISUAL_TOKENS, 1 },
    { "visual tokens kept", COST_KEPT, 1 },
    { "prefill GFLOP", COST_PREFILL_FLOPS, 1e9 },
    { "decode GFLOP", COST_DECODE_FLOPS, 1e9 },
    { "pictures s", COST_VISION_S, 1 },
    { "prefill s", COST_PREFILL_S, 1 },
    { "decode s", COST_DECODE_S, 1 },
    { "KV cache MiB", COST_KV_BYTES, 1048576 },
    { "norm of visual tokens, first layer", COST_NORM_FIRST, 1 },
    { "norm of text tokens, first layer", COST_NORM_FIRST + 1, 1 },
    { "norm of visual tokens, after the last", COST_NORM_LAST, 1 },
    { "norm of text tokens, after the last", COST_NORM_LAST + 1, 1 },
    { 0 },
};

static double cost_of(const struct cost_row *row, const struct compare_cost *c)
{
    return c->of[row->of] / row->unit;
}

static void put_both(struct result_table *t, const char *what, double a, double b)
{
    double *v = result_row(t, "%s", what);
    v[0] = a, v[1] = b;
    v[2] = a > 0 ? b / a : NAN;
}

static struct result_table *costs_table(struct results *r)
{
    return results_table(r, "compare", "what|A|B|B/A");
}

static struct result_table *distance_table(struct results *r)
{
    return results_table(r, "compare.distance", "what|value");
}

char *compare_title(const char *words, const struct preset_values *said, const struct settings *s)
{
    struct preset_values off = { 0 };
    struct buf b = { 0 };
    bool open = false;
    buf_puts(&b, words);
    preset_off(&off);
    for (size_t i = 0; i < off.count; i++) {
        const char *key = off.list[i].key, *value = settings_text(s, key);
        if (!strcmp(value, off.list[i].value) || preset_says(said, key)) continue;
        buf_printf(&b, "%s%s=%s", open ? " " : " (", key, value);
        open = true;
    }
    if (open) buf_putc(&b, ')');
    preset_values_release(&off);
    return buf_take(&b);
}

// --- one question --------------------------------------------------------------------------------

char *compare_conclusion(const struct comparison *c)
{
    if (!c->comparable)
        return xstrdup("the models have different vocabularies, so their distributions cannot be "
                       "compared");
    if (c->first < 0)
        return xasprintf("the answers are identical; mean Hellinger distance %.3g",
                         c->distance.mean);
    return xasprintf("the answers differ from token %lld on; mean Hellinger distance %.3g",
                     (long long)c->first, c->distance.mean);
}

void compare_results(struct results *r, const char *const title[2], const struct comparison *c)
{
    const struct compared_side *s = c->side;
    const char *const text[] = { s[0].text, s[1].text };
    char *named[2];
    for (int k = 0; k < 2; k++) named[k] = xasprintf("%c: %s", 'A' + k, title[k]);
    results_texts(r, (const char *const *)named, text);
    for (int k = 0; k < 2; k++) results_starts(r, k, s[k].starts, s[k].tokens);
    results_arithmetic(r, s[0].arithmetic, s[1].arithmetic);
    for (int k = 0; k < 2; k++) free(named[k]);

    struct result_table *t = costs_table(r);
    put_both(t, "answer tokens", (double)s[0].ids.count, (double)s[1].ids.count);
    for (const struct cost_row *row = cost_rows; row->what; row++)
        put_both(t, row->what, cost_of(row, &s[0].cost), cost_of(row, &s[1].cost));

    t = distance_table(r);
    if (c->first >= 0) result_row(t, "first token that differs")[0] = (double)c->first;
    result_row(t, "Hellinger distance, mean")[0] = c->distance.mean;
    result_row(t, "Hellinger distance, largest")[0] = c->distance.most;
    result_row(t, "steps")[0] = (double)c->distance.steps;
    result_row(t, "steps with the same likeliest token")[0] = (double)c->distance.agreed;
}

void compare_results_steps(struct results *r, const struct comparison *c)
{
    struct result_table *t = results_table(r, "compare.steps", "step|hellinger|token A|token B");
    t->curve = true;
    for (int64_t i = 0; i < c->distance.steps; i++) {
        double *v = result_row(t, "%lld", (long long)i);
        v[0] = c->distance.hellinger[i];
        v[1] = (double)c->distance.best[0][i], v[2] = (double)c->distance.best[1][i];
    }
}

// --- a data set ----------------------------------------------------------------------------------

static void put_mean(struct result_table *t, const char *what, const struct compare_mean *m)
{
    result_row(t, "%s", what)[0] = m->mean;
    result_row(t, "%s, 95%% low", what)[0] = m->low;
    result_row(t, "%s, 95%% high", what)[0] = m->high;
}

char *compare_data_notices(const struct compared_data *d)
{
    const char *a = d->evaluation[0].notices, *b = d->evaluation[1].notices;
    if (!a || !b || !strcmp(a, b)) return a || b ? xstrdup(a ? a : b) : NULL;
    return xasprintf("A: %s; B: %s", a, b);
}

void compare_data_results(struct results *r, const char *const title[2],
                          const struct compared_data *d)
{
    const struct evaluation *a = &d->evaluation[0], *b = &d->evaluation[1];
    const struct evaluation_total *x = evaluation_main(a);
    // If B could not score some questions, another metric may have most of its questions.
    const struct evaluation_total *y = x ? evaluation_of(b, x->metric) : NULL;
    for (int k = 0; k < 2; k++) results_note(r, "%c: %s", 'A' + k, title[k]);
    results_arithmetic(r, a->arithmetic, b->arithmetic);

    struct result_table *t = costs_table(r);
    put_both(t, x ? x->metric->name : "score", x ? x->tally.scores.mean : NAN,
             y ? y->tally.scores.mean : NAN);
    put_both(t, "95% low", x ? x->low : NAN, y ? y->low : NAN);
    put_both(t, "95% high", x ? x->high : NAN, y ? y->high : NAN);
    put_both(t, "questions", x ? (double)x->tally.scores.count : 0,
             y ? (double)y->tally.scores.count : 0);
    put_both(t, "samples skipped", (double)a->skipped, (double)b->skipped);
    for (enum cut cut = CUT_CONTEXT; cut < CUTS; cut++)
        if (a->cut[cut] || b->cut[cut])
            put_both(t,
                     cut == CUT_CONTEXT ? "answers that hit ctx.max"
                                        : "answers that reached sample.max_tokens",
                     (double)a->cut[cut], (double)b->cut[cut]);
    // Means over the questions that both sides answered.
    for (const struct cost_row *row = cost_rows; row->what && d->generated; row++) {
        double mean[2] = { 0 };
        for (size_t i = 0; i < d->count; i++)
            for (int k = 0; k < 2 && d->list[i].generated; k++)
                mean[k] += cost_of(row, &d->list[i].side[k].cost) / (double)d->generated;
        put_both(t, row->what, mean[0], mean[1]);
    }

    t = distance_table(r);
    put_mean(t, "difference B - A", &d->difference);
    if (d->metric && d->metric->smaller) results_note(r, "lower %s is better", d->metric->name);
    result_row(t, "pairs")[0] = (double)d->pairs;
    result_row(t, "better in A alone")[0] = (double)d->only[0];
    result_row(t, "better in B alone")[0] = (double)d->only[1];
    if (d->metric && !d->metric->graded) result_row(t, "McNemar's exact test, p")[0] = d->mcnemar;
    for (int k = 0; k < 2 && d->generated; k++)
        if (d->evaluation[k].sampling)
            results_note(r, "%c: answers are greedy, so these settings are not used: %s", 'A' + k,
                         d->evaluation[k].sampling);
    char *notices = compare_data_notices(d);
    if (notices) results_note(r, "data: %s", notices);
    free(notices);
    if (!d->generated) return;
    put_mean(t, "Hellinger distance, mean", &d->hellinger);
    result_row(t, "share of identical answers")[0] = (double)d->same / (double)d->generated;
    result_row(t, "share of steps with the same likeliest token")[0] =
        (double)d->agreed / (double)d->steps;

    if (d->step_count < 2) return; // answers of one token
    t = results_table(r, "compare.steps", "step|hellinger|answers|95% low|95% high");
    t->curve = true;
    for (int64_t i = 0; i < d->step_count; i++) {
        double *v = result_row(t, "%" PRId64, i);
        v[0] = tally_mean(&d->by_step[i]);
        v[1] = (double)d->by_step[i].count;
        tally_interval(&d->by_step[i], &v[2], &v[3]);
        if (v[2] < 0) v[2] = 0; // distances are between 0 and 1
        if (v[3] > 1) v[3] = 1;
    }
}

void compare_data_results_questions(struct results *r, const struct compared_data *d)
{
    struct result_table *t = results_table(
        r, "compare.questions", "question|score A|score B|hellinger|largest|steps|first|same best");
    t->own = true;
    for (size_t i = 0; i < d->count; i++) {
        const struct compared_question *q = &d->list[i];
        const struct compare_distance *distance = &q->side[1].distance;
        double *v = result_row(t, "%s", q->side[0].outcome.id);
        for (int k = 0; k < 2; k++) v[k] = q->side[k].outcome.score;
        if (!q->generated) continue;
        v[2] = distance->mean, v[3] = distance->most;
        v[4] = (double)distance->steps;
        if (q->first >= 0) v[5] = (double)q->first;
        v[6] = (double)distance->agreed;
    }
}
