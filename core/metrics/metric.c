// core/metrics/metric.c -- the table of metrics, sums of scores and their intervals.
#include "core/metrics/metric.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

const struct metric *const metrics[] = {
#define X(id, name) &metric_##id,
#include "core/metrics/list.h"
#undef X
    NULL
};

const struct metric *metric_find(const char *name)
{
    for (int i = 0; metrics[i]; i++)
        if (!strcmp(metrics[i]->name, name)) return metrics[i];
    return NULL;
}

const struct metric *metric_need(const char *name, struct err *err)
{
    const struct metric *m = metric_find(name);
    if (m) return m;
    struct buf b = { 0 };
    for (int i = 0; metrics[i]; i++) buf_printf(&b, "%s%s", i ? ", " : "", metrics[i]->name);
    err_set(err, "no metric '%s': choose one of %s", name, b.data);
    buf_release(&b);
    return NULL;
}

int metric_index(const struct metric *m)
{
    int i = 0;
    while (metrics[i] != m) i++;
    return i;
}

bool metric_better(const struct metric *m, double a, double b)
{
    return m->smaller ? a < b : a > b;
}

void metric_tally_add(struct metric_tally *t, const struct metric_outcome *o)
{
    tally_add(&t->scores, o->score);
    if (o->class >= 0 && o->class < METRIC_CLASSES) t->classes[o->class]++;
    t->overlap += o->overlap;
}

void metric_tally_merge(struct metric_tally *t, const struct metric_tally *other)
{
    tally_merge(&t->scores, &other->scores);
    for (int i = 0; i < METRIC_CLASSES; i++) t->classes[i] += other->classes[i];
    t->overlap += other->overlap;
}

void metric_interval(const struct metric *m, const struct metric_tally *t, double *low,
                     double *high)
{
    const double n = (double)t->scores.count;
    *low = *high = NAN;
    if (t->scores.count < (m->graded ? 2 : 1)) return;
    if (m->graded) {
        const double half = normal_quantile * sqrt(t->scores.squares / (n - 1) / n);
        *low = fmax(0, t->scores.mean - half); // no score is negative
        *high = t->scores.mean + half;
        return;
    }
    share_interval(fmin(1, fmax(0, t->scores.mean)), n, low, high);
}
