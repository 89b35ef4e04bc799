// core/train/sft_pass.c -- gradients of a step, validation, and gradient statistics of norms.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/order.h"
#include "core/eval/loss.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"
#include "core/train/sft_parts.h"

// Samples per pass: enough to use the processor efficiently but not more, because memory grows with
// them. A GPU needs more, or it waits for the host to launch kernels.
enum { PASS_NUMBERS = 1 << 20, PASS_NUMBERS_GPU = 12 << 20 }; // rows times hidden size
enum { PASS_SAMPLES = 64 };

// Samples that go through the model together.
struct micro_batch {
    struct feed_item items[PASS_SAMPLES];
    struct loss_item list[PASS_SAMPLES];
    double losses[PASS_SAMPLES];
    struct graph_kl kl[PASS_SAMPLES];
    size_t count;
    int64_t rows;
};

static int micro_batch_add(struct sft *t, struct sft_set *set, struct micro_batch *p, int64_t index,
                           uint64_t number, struct err *err)
{
    struct feed_item *item = &p->items[p->count];
    if (feed_read(&set->feed, &t->graph, index, item, err) < 0) return -1;
    p->kl[p->count] = (struct graph_kl){ 0 };
    p->list[p->count] = (struct loss_item){ .pictures = item->pictures,
                                            .picture_count = item->picture_count,
                                            .labels = &item->labels,
                                            .number = number,
                                            .kl = &p->kl[p->count] };
    p->count++;
    p->rows += item->labels.sequence.n;
    return 0;
}

static int micro_batch_losses(struct sft *t, struct micro_batch *p, double share)
{
    const struct model *m = t->job->model;
    if (t->lanes.params && p->count > 1)
        return lanes_run(&t->lanes, &t->graph, m, p->list, p->count, share, p->losses);
    return loss_batch(&t->graph, m, p->list, p->count, share, p->losses);
}

// The losses of the samples collected, and `share` times their gradients; none is left.
static int micro_batch_run(struct sft *t, struct sft_set *set, struct micro_batch *p, double share,
                           struct err *err)
{
    struct graph *g = &t->graph;
    int status = 0;
    if (p->count && micro_batch_losses(t, p, share) < 0)
        status = err_set(err, "%s", g->cancelled ? "cancelled" : g->err.text);
    for (size_t i = 0; i < p->count; i++) feed_item_release(&set->feed, &p->items[i]);
    p->count = 0;
    p->rows = 0;
    return status;
}

// It does if the rows so far leave room for one as long.
bool sft_pass_takes(const struct sft *t, int64_t count, int64_t rows)
{
    const int64_t numbers = t->where->own_memory ? PASS_NUMBERS_GPU : PASS_NUMBERS;
    const int64_t most = numbers / t->job->model->decoder.config.hidden;
    return !count || (count < PASS_SAMPLES && rows + rows / count <= most);
}

int sft_run(struct sft *t, struct sft_set *set, const int64_t *which, int64_t count,
            uint64_t number, double share, struct sft_losses *losses, int64_t *rows,
            struct err *err)
{
    struct micro_batch *p = xcalloc(1, sizeof *p);
    int status = 0;
    for (int64_t i = 0; i < count && status == 0;) {
        while (status == 0 && i < count && sft_pass_takes(t, (int64_t)p->count, p->rows)) {
            // Noise of settings in a validation is that of /eval, which has one draw for all.
            status =
                micro_batch_add(t, set, p, which[i], t->graph.tape ? number + (uint64_t)i : 0, err);
            i += status == 0;
        }
        *rows += p->rows;
        const size_t n = p->count;
        if (status == 0) status = micro_batch_run(t, set, p, share, err);
        for (size_t k = 0; k < n && status == 0; k++)
            *losses++ = (struct sft_losses){ p->losses[k], p->kl[k] };
        ranks_did(t->job->ranks, (int64_t)n);
        if (status == 0 && job_stopped(t->job) == JOB_CANCEL) t->graph.cancelled = true;
        if (status == 0 && graph_stop(&t->graph)) status = err_set(err, "cancelled");
    }
    for (size_t i = 0; i < p->count; i++) feed_item_release(&set->feed, &p->items[i]);
    free(p);
    return status;
}

// Rows of the largest pass that these samples are cut into.
static int64_t most_rows(const struct sft *t, const int64_t *sample, int64_t count)
{
    int64_t most = 0, rows = 0, taken = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!sft_pass_takes(t, taken, rows)) rows = taken = 0;
        rows += t->train.length[sample[i]];
        taken++;
        if (rows > most) most = rows;
    }
    return most;
}

int64_t *sft_heaviest(const struct sft *t, int64_t *count)
{
    enum { EPOCHS = 4 };
    const struct settings *s = t->job->settings;
    const int64_t n = t->train.count,
                  epochs = (t->plan.steps + t->plan.per_epoch - 1) / t->plan.per_epoch,
                  step = t->plan.accumulate * t->plan.batch;
    int64_t *order = xreallocarray(NULL, (size_t)n + 1, sizeof *order), most = -1;
    int64_t *which = xreallocarray(NULL, (size_t)n + 1, sizeof *which);
    int32_t *rows = xreallocarray(NULL, (size_t)n + 1, sizeof *rows);
    struct sft_work *work = xreallocarray(NULL, (size_t)n + 1, sizeof *work);
    *count = 0;
    for (int64_t e = 0; e < epochs && e < EPOCHS; e++) {
        order_epoch(order, n, settings_flag(s, "train.shuffle"),
                    (uint64_t)settings_integer(s, "train.seed"), e);
        for (int64_t i = 0; i < n; i++) rows[i] = t->train.length[order[i]];
        for (int64_t i = 0; i < n; i += step) {
            const int64_t parts = sft_deal_all(t, rows + i, n - i < step ? n - i : step, work);
            for (int64_t k = 0; k < parts; k++) {
                const int64_t *first = order + i + work[k].from, size = work[k].to - work[k].from,
                              there = most_rows(t, first, size);
                if (there <= most) continue;
                most = there;
                *count = size;
                for (int64_t j = 0; j < size; j++) which[j] = t->train.item[first[j]];
            }
        }
    }
    free(work);
    free(rows);
    free(order);
    return which;
}

// The samples of a step.
struct span {
    int64_t first, count; // in t->state.order
    struct sft_losses *losses;
};

// Gradients of samples from..to of the step.
static int run_part(struct sft *t, const struct span *s, const struct sft_work *w, int64_t *rows,
                    struct err *err)
{
    const int64_t at = s->first + w->from;
    return sft_run(t, &t->train, t->state.order + at, w->to - w->from,
                   (uint64_t)(t->state.epoch * t->train.count + at), 1 / (double)s->count,
                   s->losses + w->from, rows, err);
}

// In rounds of one micro-batch a rank; in the last one some may have none.
static int run_exact(struct sft *t, const struct span *s, int64_t *rows, struct err *err)
{
    const int64_t n = (s->count + t->plan.batch - 1) / t->plan.batch,
                  ranks = ranks_count(t->job->ranks);
    int status = 0;
    sft_exact_begin(t);
    for (int64_t b = 0; b < n && status == 0; b += ranks) {
        struct sft_work w = { .from = (b + ranks_number(t->job->ranks)) * t->plan.batch };
        w.to = w.from + t->plan.batch < s->count ? w.from + t->plan.batch : s->count;
        status = params_clear(&t->params, err);
        if (status == 0 && w.from < s->count) status = run_part(t, s, &w, rows, err);
        if (status == 0) sft_exact_add(t, n - b < ranks ? n - b : ranks);
    }
    if (status == 0) sft_exact_end(t);
    return status;
}

int sft_gradients(struct sft *t, int64_t *rows, struct err *err)
{
    const struct settings *settings = t->job->settings;
    const struct sft_plan *plan = &t->plan;
    struct sft_state *state = &t->state;
    const int64_t n = t->train.count, epoch = state->place.step / plan->per_epoch;

    // A new epoch has its order of samples.
    if (epoch != state->epoch) {
        order_epoch(state->order, n, settings_flag(settings, "train.shuffle"),
                    (uint64_t)settings_integer(settings, "train.seed"), epoch);
        for (int64_t i = 0; i < n; i++) {
            state->rows[i] = t->train.length[state->order[i]];
            state->order[i] = t->train.item[state->order[i]];
        }
        state->epoch = epoch;
    }

    // The samples of the step: `accumulate` micro-batches of `batch`; fewer at an epoch's end.
    const int64_t most = plan->accumulate * plan->batch,
                  first = state->place.step % plan->per_epoch * most,
                  count = n - first < most ? n - first : most;
    struct span s = { first, count, xcalloc((size_t)count + 1, sizeof(struct sft_losses)) };
    int status;
    *rows = 0;

    // This rank's part of them, pass by pass; then the sums over all ranks.
    t->graph.tape = &t->tape;
    if (settings_flag(settings, "train.exact_sum")) {
        status = run_exact(t, &s, rows, err);
    } else {
        struct sft_work *work;
        const int64_t parts = sft_deal(t, state->rows + first, count, &work);
        status = params_clear(&t->params, err);
        for (int64_t i = 0; i < parts && status == 0; i++)
            status = run_part(t, &s, &work[i], rows, err);
        free(work);
        if (status == 0) status = sft_sum_gradients(t, err);
    }
    t->graph.tape = NULL;
    if (status == 0) sft_gather_losses(t, s.losses, count);

    // The step's loss is the mean of its samples'.
    state->loss = 0;
    state->kl = (struct graph_kl){ 0 };
    *rows = 0;
    for (int64_t i = 0; i < count; i++) {
        state->loss += 1 / (double)count * s.losses[i].loss;
        state->kl.plain += 1 / (double)count * s.losses[i].kl.plain;
        state->kl.weighted += 1 / (double)count * s.losses[i].kl.weighted;
        *rows += state->rows[first + i];
    }
    free(s.losses);
    return status;
}

// Each rank computes a run of the samples; the losses are added in their order.
int sft_validate(struct sft *t, double *loss, struct err *err)
{
    struct sft_set *set = t->validation_file ? &t->held : &t->train;
    const int64_t n = t->held.count, ranks = ranks_count(t->job->ranks),
                  rank = ranks_number(t->job->ranks), from = n * rank / ranks,
                  to = n * (rank + 1) / ranks;
    struct sft_losses *losses = xcalloc((size_t)n + 1, sizeof *losses);
    int64_t rows = 0;
    methods_validate(&t->methods, true);
    const int status = sft_run(t, set, t->held.item + from, to - from, 0, 1 / (double)n,
                               losses + from, &rows, err);
    methods_validate(&t->methods, false);
    int64_t finite = 0;
    if (status == 0) sft_gather_losses(t, losses, n);
    for (int64_t i = 0; i < n; i++) finite += isfinite(losses[i].loss);
    *loss = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(losses[i].loss)) *loss += 1 / (double)finite * losses[i].loss;
    free(losses);
    if (status < 0) return err_in(err, "validation");
    if (!finite)
        return err_set(err, "validation: no held-out sample has a finite loss: lower train.lr, or "
                            "check the weights for damage");
    if (finite < n)
        job_log(t->job, "validation: the loss of %lld of %lld samples is not finite: left out",
                (long long)(n - finite), (long long)n);
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

static void report_one(struct sft *t, int64_t step, const struct param *p)
{
    float *g = xreallocarray(NULL, (size_t)p->count, sizeof *g);
    double sum = 0, squares = 0;
    p->where->download(g, p->grad->data, (size_t)p->count * sizeof *g);
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

void sft_report_norms(struct sft *t, int64_t step)
{
    for (size_t i = 0; i < t->params.count; i++)
        if (is_gain(&t->params.list[i])) report_one(t, step, &t->params.list[i]);
}
