// core/train/sft_pass.c -- from the samples of a step to gradients; validation; norms' gradients.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/train/loss.h"
#include "core/train/order.h"
#include "core/train/sft_parts.h"

// One sample: its loss, and `share` times its gradient. Without a tape the loss alone.
static int pass(struct sft *t, struct sft_set *set, int64_t index, double share, double *loss,
                int64_t *rows, struct err *err)
{
    struct feed_item item;
    struct graph *g = &t->graph;
    if (feed_read(&set->feed, g, index, &item, err) < 0) return -1;
    int status =
        loss_sample(g, t->job->model, item.pictures, item.picture_count, &item.labels, share, loss);
    if (status < 0) err_set(err, "%s", g->cancelled ? "cancelled" : g->err.text);
    *rows += item.labels.sequence.n;
    feed_item_release(&set->feed, &item);
    return status;
}

// Samples [from, end) of the epoch's order are one micro-batch of a step of `micros`.
static int micro_batch(struct sft *t, int64_t from, int64_t end, int64_t micros, int64_t *rows,
                       struct err *err)
{
    const double share = 1 / (double)(micros * (end - from));
    for (int64_t i = from; i < end; i++) {
        double loss;
        if (pass(t, &t->train, t->train.item[t->order[i]], share, &loss, rows, err) < 0) return -1;
        t->loss += share * loss;
        if (job_stopped(t->job) == JOB_CANCEL) t->graph.cancelled = true;
        if (graph_stop(&t->graph)) return err_set(err, "cancelled");
    }
    return 0;
}

int sft_gradients(struct sft *t, int64_t *rows, struct err *err)
{
    const int64_t epoch = t->place.step / t->per_epoch, within = t->place.step % t->per_epoch;
    const int64_t n = t->train.count, batches = (n + t->batch - 1) / t->batch;
    if (epoch != t->epoch) {
        order_epoch(t->order, n, t->train.length, t->batch,
                    settings_flag(t->job->settings, "train.shuffle"),
                    (uint64_t)settings_integer(t->job->settings, "train.seed"), epoch);
        t->epoch = epoch;
    }
    const int64_t first = within * t->accumulate;
    const int64_t end = first + t->accumulate < batches ? first + t->accumulate : batches;
    t->loss = 0;
    *rows = 0;
    t->graph.tape = &t->tape;
    int status = params_clear(&t->params, err);
    for (int64_t b = first; b < end && status == 0; b++) {
        const int64_t from = b * t->batch, to = from + t->batch < n ? from + t->batch : n;
        status = micro_batch(t, from, to, end - first, rows, err);
    }
    t->graph.tape = NULL;
    return status;
}

int sft_validate(struct sft *t, double *loss, struct err *err)
{
    struct sft_set *set = t->held_apart ? &t->held : &t->train;
    int64_t rows = 0;
    *loss = 0;
    for (int64_t i = 0; i < t->held.count; i++) {
        double one;
        if (pass(t, set, t->held.item[i], 1, &one, &rows, err) < 0)
            return err_in(err, "validation");
        *loss += one / (double)t->held.count;
    }
    return 0;
}

// --- gradients of norms --------------------------------------------------------------------------

static bool is_gain(const struct param *p)
{
    if (p->kind != PARAM_WEIGHT || p->weight->part != PART_DECODER || p->tensor->rank != 1)
        return false;
    const size_t n = strlen(p->name), tail = strlen("norm.weight");
    return n >= tail && !strcmp(p->name + n - tail, "norm.weight");
}

static void tell_one(struct sft *t, int64_t step, const struct param *p)
{
    float *g = xreallocarray(NULL, (size_t)p->count, sizeof *g);
    double sum = 0, squares = 0;
    t->job->backend->download(g, p->grad->data, (size_t)p->count * sizeof *g);
    for (int64_t i = 0; i < p->count; i++) sum += g[i];
    const double mean = sum / (double)p->count;
    for (int64_t i = 0; i < p->count; i++) squares += (g[i] - mean) * (g[i] - mean);
    free(g);
    char *name = weight_plain_name(p->name);
    name[strlen(name) - strlen(".weight")] = 0;
    char *series = xasprintf("grad_mean.%s", name);
    job_metric(t->job, series, step, mean);
    free(series);
    series = xasprintf("grad_var.%s", name);
    job_metric(t->job, series, step, squares / (double)p->count);
    free(series);
    free(name);
}

void sft_tell_norms(struct sft *t, int64_t step)
{
    for (size_t i = 0; i < t->params.count; i++)
        if (is_gain(&t->params.list[i])) tell_one(t, step, &t->params.list[i]);
}
