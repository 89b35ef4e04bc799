// core/eval/compare_data.c -- two evaluations side by side, sample by sample. A job keeps each
// sample that both sides have processed as a line of its state:
//
//   {"done": N, "at": INDEX, "pictures": hash, "sides": [[question, ...], [question, ...]]}
#include "core/eval/compare_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/random.h"
#include "core/eval/evaluate_parts.h"
#include "core/jobs/identity.h"
#include "core/jobs/job.h"
#include "core/jobs/job_data.h"
#include "core/model/model.h"
#include "core/sets/set.h"
#include "core/settings/settings.h"
#include "core/talk/conversation.h"

struct side {
    struct comparing *comparing;
    int number;
    struct evaluate_request request;
    struct compare_meter meter;
    struct step_logits logits;
    struct hooks hooks;
    struct data_notices notices;
    struct compared_answer *list; // of the current sample
    size_t count;
    bool open; // the last answer of the list has not been scored yet
};

struct comparing {
    struct grid *g;
    struct compared_data *d;
    struct dataset data;
    struct side side[2];
    int64_t done, all; // number of samples processed; number of all samples
};

// --- statistics ----------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct compare_mean bootstrap_mean(const double *x, size_t n)
{
    enum { TIMES = 2000, SEED = 42 };
    struct compare_mean m = { NAN, NAN, NAN };
    double *means = xcalloc(TIMES, sizeof *means), sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    if (n) m.mean = sum / (double)n;
    for (size_t t = 0; t < TIMES && n > 1; t++) {
        for (size_t i = 0; i < n; i++)
            means[t] += x[(size_t)(random_unit(SEED, RANDOM_BOOTSTRAP, t * n + i) * (double)n)];
        means[t] /= (double)n;
    }
    qsort(means, TIMES, sizeof *means, compare_doubles);
    if (n > 1) {
        m.low = means[TIMES / 40];
        m.high = means[TIMES - 1 - TIMES / 40];
    }
    free(means);
    return m;
}

double mcnemar_exact(int64_t a, int64_t b)
{
    const int64_t n = a + b, less = a < b ? a : b;
    double sum = 0;
    if (!n) return NAN;
    for (int64_t k = 0; k <= less; k++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) -
                   (double)n * log(2));
    return fmin(1, 2 * sum);
}

// --- questions -----------------------------------------------------------------------------------

static void answer_release(struct compared_answer *a)
{
    const char **text;
    for (int i = 0; evaluated_text(&a->outcome, i, &text); i++) free((char *)(uintptr_t)*text);
    ids_release(&a->ids);
    step_logits_release(&a->full);
    compare_distance_release(&a->distance);
    *a = (struct compared_answer){ 0 };
}

static struct compared_answer *add_answer(struct side *s)
{
    s->list = xreallocarray(s->list, s->count + 1, sizeof *s->list);
    s->list[s->count] = (struct compared_answer){ 0 };
    return &s->list[s->count++];
}

static int answered(void *self, struct evaluate_passes *p, const struct event_answer *answer,
                    struct err *err)
{
    struct side *s = self;
    struct side *other = &s->comparing->side[0];
    struct compared_answer *a = add_answer(s);
    s->open = a->answered = true;
    // Does not count the messages of eval.first, which may be set on one side only.
    a->message = p->c->message_count - p->first_messages;
    ids_append(&a->ids, answer->ids, answer->count);
    compare_meter_end(&s->meter, p->c, answer);
    a->cost = s->meter.cost;
    compare_meter_hook(&s->meter, p->settings); // resets the meter
    a->full = s->logits;
    s->logits = (struct step_logits){ 0 };
    int status = 0;
    for (size_t i = 0; s != other && i < other->count; i++)
        if (other->list[i].answered && other->list[i].message == a->message) {
            conversation_drop(p->c, 1); // the second side's answer
            status = compare_forced(p->c, p->settings, p->hooks, p->cancel, &other->list[i].full,
                                    &other->list[i].ids, &a->distance, err);
            break;
        }
    compare_meter_hook(&s->meter, p->settings);
    // No question reuses another's cache, so that the costs of both sides are comparable.
    conversation_stale(p->c, STALE_KV);
    return status;
}

static bool report(void *self, const struct evaluated *e)
{
    struct side *s = self;
    struct grid *g = s->comparing->g;
    struct compared_answer *a = s->open ? &s->list[s->count - 1] : add_answer(s);
    const char **text;
    s->open = false;
    a->scored = !e->skipped;
    a->outcome = *e;
    if (!a->answered) a->outcome.answer = e->found ? e->found : "";
    a->outcome.found = a->outcome.scored_text = NULL;
    for (int i = 0; evaluated_text(&a->outcome, i, &text); i++)
        if (*text) *text = xstrdup(*text);
    s->comparing->done = e->done;
    s->comparing->all = e->count;
    if (!g->job)
        grid_progress(g, "comparing", (double)(e->done - (s->number == 0)), (double)e->count);
    return !atomic_load(grid_cancel(g));
}

// --- pairs ---------------------------------------------------------------------------------------

// Adds the distances of the second side's steps to by_step, then pairs the questions of the sample
// that both sides have scored.
static void pair(struct comparing *c)
{
    struct side *a = &c->side[0], *b = &c->side[1];
    struct compared_data *d = c->d;
    for (size_t k = 0; k < b->count; k++) {
        const struct compare_distance *one = &b->list[k].distance;
        if (one->steps > d->step_count) {
            d->by_step = xreallocarray(d->by_step, (size_t)one->steps, sizeof *d->by_step);
            while (d->step_count < one->steps) d->by_step[d->step_count++] = (struct tally){ 0 };
        }
        for (int64_t t = 0; t < one->steps; t++) tally_add(&d->by_step[t], one->hellinger[t]);
    }
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++) {
            struct compared_answer *x = &a->list[i], *y = &b->list[k];
            if (!x->scored || !y->scored || x->outcome.turn != y->outcome.turn ||
                x->outcome.metric != y->outcome.metric)
                continue;
            step_logits_release(&x->full);
            compare_distance_release(&y->distance);
            d->list = xreallocarray(d->list, d->count + 1, sizeof *d->list);
            d->list[d->count++] =
                (struct compared_question){ .side = { *x, *y },
                                            .generated = x->answered && y->answered,
                                            .first = compare_first(&x->ids, &y->ids) };
            *x = *y = (struct compared_answer){ 0 };
        }
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < c->side[k].count; i++) answer_release(&c->side[k].list[i]);
        c->side[k].count = 0;
        c->side[k].open = false;
    }
}

// --- the state of a job --------------------------------------------------------------------------

static void add_list(cJSON *o, const char *key, const double *list, size_t count)
{
    cJSON *a = cJSON_AddArrayToObject(o, key);
    for (size_t i = 0; i < count; i++) cJSON_AddItemToArray(a, job_data_number(list[i]));
}

static cJSON *answer_json(struct compared_answer *q)
{
    cJSON *o = cJSON_CreateObject();
    struct evaluated *e = &q->outcome;
    const struct compare_distance *d = &q->distance;
    const double numbers[] = { e->turn, e->class, q->scored,        q->answered,      e->score,
                               d->mean, d->most,  (double)d->steps, (double)d->agreed };
    const char *key, **text;
    add_list(o, "numbers", numbers, sizeof numbers / sizeof *numbers);
    add_list(o, "cost", q->cost.of, COMPARE_COSTS);
    if (d->steps) add_list(o, "distances", d->hellinger, (size_t)d->steps);
    if (e->cut) cJSON_AddNumberToObject(o, "cut", e->cut);
    if (e->metric) cJSON_AddStringToObject(o, "metric", e->metric->name);
    for (int i = 0; (key = evaluated_text(e, i, &text)); i++)
        if (*text && text != &e->group) cJSON_AddStringToObject(o, key, *text);
    cJSON *ids = cJSON_AddArrayToObject(o, "ids");
    for (size_t i = 0; i < q->ids.count; i++)
        cJSON_AddItemToArray(ids, cJSON_CreateNumber(q->ids.data[i]));
    return o;
}

static int write_state(struct comparing *c, struct err *err)
{
    char pictures[HASH_HEX] = "";
    if (!c->g->state || !c->side[0].count || !c->side[1].count) return 0;
    const int64_t index = c->side[0].list[0].outcome.index;
    identity_add_pictures_at(&c->data, index, pictures, NULL);
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "done", (double)c->done);
    cJSON_AddNumberToObject(line, "at", (double)index);
    cJSON_AddStringToObject(line, "pictures", pictures);
    cJSON *sides = cJSON_AddArrayToObject(line, "sides");
    for (int k = 0; k < 2; k++) {
        cJSON *side = cJSON_CreateArray();
        for (size_t i = 0; i < c->side[k].count; i++)
            cJSON_AddItemToArray(side, answer_json(&c->side[k].list[i]));
        cJSON_AddItemToArray(sides, side);
    }
    return grid_keep_line(c->g, line, err);
}

static bool read_list(const cJSON *o, const char *key, double *list, int count)
{
    const cJSON *a = json_get(o, key), *x;
    int n = 0;
    if (cJSON_GetArraySize(a) != count) return false;
    cJSON_ArrayForEach(x, a) list[n++] = cJSON_IsNumber(x) ? x->valuedouble : NAN;
    return true;
}

static bool read_answer(struct compared_answer *q, const cJSON *o)
{
    double n[9] = { 0 }, *cost = q->cost.of;
    const char *metric = cJSON_GetStringValue(json_get(o, "metric")), *key, **text;
    const cJSON *x;
    struct evaluated *e = &q->outcome;
    struct compare_distance *d = &q->distance;
    *q = (struct compared_answer){ 0 };
    if (!read_list(o, "numbers", n, 9) || !read_list(o, "cost", cost, COMPARE_COSTS)) return false;
    // These numbers become integers below.
    const double counts[] = { n[7],
                              n[8],
                              cost[COST_PROMPT_TOKENS],
                              cost[COST_VISUAL_TOKENS],
                              cost[COST_KEPT],
                              cost[COST_KV_BYTES] };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!(counts[i] >= 0 && counts[i] <= 1e15)) return false;
    if (!(fabs(n[0]) <= 1e9 && fabs(n[1]) <= 1e9)) return false;
    e->turn = (int)n[0], e->class = (int)n[1];
    q->scored = n[2] > 0, q->answered = n[3] > 0;
    if (q->scored && !isfinite(n[4])) return false;
    e->score = n[4], d->mean = n[5], d->most = n[6];
    d->steps = (int64_t)n[7], d->agreed = (int64_t)n[8];
    // Also bounds d->steps.
    if (cJSON_GetArraySize(json_get(o, "distances")) != d->steps) return false;
    d->hellinger = xcalloc((size_t)d->steps + 1, sizeof *d->hellinger);
    if (!read_list(o, "distances", d->hellinger, (int)d->steps)) return false;
    e->metric = metric ? metric_find(metric) : NULL;
    const int64_t cut = json_whole(json_get(o, "cut"), CUT_NONE);
    e->cut = cut > CUT_NONE && cut < CUTS ? (enum cut)cut : CUT_NONE;
    for (int k = 0; (key = evaluated_text(e, k, &text)); k++) {
        const char *written = cJSON_GetStringValue(json_get(o, key));
        if (written) *text = xstrdup(written);
    }
    if (!e->group) e->group = xstrdup(""); // comparisons have no totals of groups
    cJSON_ArrayForEach(x, json_get(o, "ids"))
    {
        const int32_t id = cJSON_IsNumber(x) ? x->valueint : -1;
        ids_append(&q->ids, &id, 1);
    }
    return e->id && e->kind &&
           (!q->scored || (e->metric && e->prompt && e->reference && e->answer));
}

// Returns false if the line is invalid.
static bool read_sides(const cJSON *line, struct compared_answer *list[2], size_t count[2])
{
    const cJSON *sides = json_get(line, "sides"), *o;
    bool good = cJSON_GetArraySize(sides) == 2;
    for (int k = 0; k < 2; k++) {
        const cJSON *side = good ? cJSON_GetArrayItem(sides, k) : NULL;
        list[k] = xcalloc((size_t)cJSON_GetArraySize(side) + 1, sizeof **list);
        count[k] = 0;
        cJSON_ArrayForEach(o, side) good = read_answer(&list[k][count[k]++], o) && good;
    }
    for (int k = 0; k < 2 && !good; k++) {
        for (size_t i = 0; i < count[k]; i++) answer_release(&list[k][i]);
        free(list[k]);
        list[k] = NULL;
        count[k] = 0;
    }
    return good;
}

// Takes over a sample of an earlier process, and counts it in the evaluations of both sides.
static bool take_sample(void *self, const cJSON *line)
{
    struct comparing *c = self;
    struct compared_answer *list[2];
    size_t count[2];
    if (!read_sides(line, list, count)) return false;
    c->done = json_whole(json_get(line, "done"), 0);
    for (int k = 0; k < 2; k++) {
        struct evaluation *e = &c->d->evaluation[k];
        bool skipped = false;
        for (size_t i = 0; i < count[k]; i++) {
            struct evaluated *q = &list[k][i].outcome;
            q->index = json_whole(json_get(line, "at"), c->done - 1);
            if (list[k][i].scored) evaluation_note(e, q);
            e->cut[q->cut]++;
            if (!q->skipped) continue;
            if (!e->why) e->why = xasprintf("sample %s: %s", q->id, q->skipped);
            skipped = true;
        }
        e->skipped += skipped;
        free(c->side[k].list);
        c->side[k].list = list[k];
        c->side[k].count = count[k];
    }
    pair(c);
    return true;
}

int compare_data_read(const char *state, struct compared_data *d, struct err *err)
{
    struct comparing c = { .d = d };
    *d = (struct compared_data){ 0 };
    const int status = job_data_read(state, take_sample, &c, err);
    for (int k = 0; k < 2; k++) free(c.side[k].list);
    return status;
}

// --- the end -------------------------------------------------------------------------------------

static void sum_up(struct compared_data *d)
{
    const struct evaluation_total *main = evaluation_main(&d->evaluation[0]);
    double *difference = xcalloc(d->count + 1, sizeof *difference);
    double *distance = xcalloc(d->count + 1, sizeof *distance);
    d->metric = main ? main->metric : NULL;
    for (size_t i = 0; i < d->count; i++) {
        const struct compared_question *q = &d->list[i];
        const struct evaluated *a = &q->side[0].outcome, *b = &q->side[1].outcome;
        if (a->metric == d->metric) {
            difference[d->pairs++] = b->score - a->score;
            d->only[0] += metric_better(a->metric, a->score, b->score);
            d->only[1] += metric_better(a->metric, b->score, a->score);
        }
        if (!q->generated) continue;
        distance[d->generated++] = q->side[1].distance.mean;
        d->same += q->first < 0;
        d->steps += q->side[1].distance.steps;
        d->agreed += q->side[1].distance.agreed;
    }
    d->difference = bootstrap_mean(difference, (size_t)d->pairs);
    d->hellinger = bootstrap_mean(distance, (size_t)d->generated);
    d->mcnemar = d->metric && !d->metric->graded ? mcnemar_exact(d->only[0], d->only[1]) : NAN;
    free(difference);
    free(distance);
}

// Evaluates one sample on both sides; *more: whether to continue.
static int next_sample(struct comparing *c, struct evaluating *const v[2], bool *more,
                       struct err *err)
{
    *more = true;
    for (int k = 0; k < 2; k++) {
        if (grid_use(c->g, (size_t)k, err) < 0) return -1;
        c->side[k].request.tensors = c->g->tensors;
        *more &= evaluate_next(v[k]);
        step_logits_clear(&c->side[0].logits); // ranked choices leave logits that no answer takes
    }
    // A cancelled sample is not written: a resumed job repeats it.
    const bool cancelled = atomic_load(grid_cancel(c->g));
    if (!cancelled && write_state(c, err) < 0) return -1;
    pair(c);
    c->d->stopped = cancelled;
    if (!cancelled && c->g->job && c->all) { // c->all 0: this process has evaluated no sample yet
        grid_progress(c->g, NULL, (double)c->done, (double)c->all);
        job_step(c->g->job, c->done);
        c->d->stopped = grid_stopped(c->g);
    }
    *more &= !c->d->stopped;
    return 0;
}

static int compare(struct grid *g, size_t cell, struct err *err)
{
    struct compare_work *w = g->self;
    struct compared_data *d = &w->result;
    struct comparing c = { .g = g, .d = d };
    struct evaluating *v[2];
    struct err later;
    bool more = true;
    int status = 0;
    *d = (struct compared_data){ 0 };
    if (set_source_open(&g->cells[cell].set, &c.data, err) < 0) return -1;
    for (int k = 0; k < 2; k++) c.side[k].notices = data_notices_new(g->cells[k].settings);
    const struct job_data of = { .data = c.data.path,
                                 .hash = eval_set_hash(&c.data),
                                 .shots = g->cells[cell].set.shots,
                                 .pictures = &c.data,
                                 .notices = model_has_vision(g->model) ? &c.side[0].notices : NULL,
                                 .whole = true };
    status = grid_keep(g, cell, "compare.jsonl", of, take_sample, &c, err);
    data_notices_same_pictures(&c.side[1].notices, &c.side[0].notices);
    for (int k = 0; k < 2; k++) {
        struct side *s = &c.side[k];
        s->comparing = &c;
        s->number = k;
        s->meter.model = g->model;
        struct hook hook = compare_meter_hook(&s->meter, g->cells[k].settings);
        hooks_add(&s->hooks, &hook);
        hook = step_logits_hook(&s->logits);
        if (k == 0) hooks_add(&s->hooks, &hook);
        if (g->job) job_hooks(g->job, &s->hooks);
        s->request = (struct evaluate_request){ .model = g->model,
                                                .backend = g->backend,
                                                .settings = g->cells[k].settings,
                                                .hooks = &s->hooks,
                                                .data = &c.data,
                                                .first = c.done,
                                                .limit = w->options.limit,
                                                .metric = w->options.metric,
                                                .notices = &s->notices,
                                                .report = report,
                                                .answered = answered,
                                                .self = s,
                                                .cancel = grid_cancel(g) };
        v[k] = evaluate_open(&c.side[k].request, &d->evaluation[k]);
    }
    g->pace = pace_from((double)c.done);
    while (more && status == 0) status = next_sample(&c, v, &more, err);
    for (int k = 0; k < 2; k++) {
        if (evaluate_close(v[k], status == 0 ? err : &later) < 0) status = -1;
        step_logits_release(&c.side[k].logits);
        data_notices_release(&c.side[k].notices);
        free(c.side[k].list);
    }
    dataset_close(&c.data);
    if (status < 0) {
        compared_data_release(d);
        return -1;
    }
    sum_up(d);
    return d->stopped ? JOB_STOPPED : 0;
}

const struct grid_plan compare_plan = { .run = compare, .together = true };

void compared_data_release(struct compared_data *d)
{
    for (size_t i = 0; i < d->count; i++)
        for (int k = 0; k < 2; k++) answer_release(&d->list[i].side[k]);
    free(d->list);
    free(d->by_step);
    for (int k = 0; k < 2; k++) evaluation_release(&d->evaluation[k]);
    *d = (struct compared_data){ 0 };
}
