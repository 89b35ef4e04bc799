// core/train/sft_pass.c -- gradients of a step, validation, and the heaviest pass for a forecast.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/order.h"
#include "core/eval/loss.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"
#include "core/train/sft_parts.h"

// Samples per pass: enough to use the processor efficiently, but no more, because memory grows with
// their number. A GPU needs more: otherwise it waits for the host to launch kernels.
enum { PASS_NUMBERS = 1 << 20, PASS_NUMBERS_GPU = 12 << 20 }; // rows times hidden size
enum { PASS_SAMPLES = 64 };

// The samples of a pass: in training, at most as many as a micro-batch has.
struct sft_pass {
    struct loader_item items[PASS_SAMPLES];
    struct loss_item list[PASS_SAMPLES];
    double losses[PASS_SAMPLES];
    struct graph_kl kl[PASS_SAMPLES];
    size_t count;
    int64_t rows;
};

// Assumes that the next sample has the mean number of rows of the pass.
bool sft_pass_takes(const struct sft *t, int64_t count, int64_t rows)
{
    const int64_t numbers = t->where->own_memory ? PASS_NUMBERS_GPU : PASS_NUMBERS;
    const int64_t most = numbers / t->job->model->decoder.config.hidden;
    if (settings_flag(t->job->settings, "train.prune")) return !count; // kept rows differ by sample
    return !count || (count < PASS_SAMPLES && rows + rows / count <= most);
}

// Returns the number of rows before the last answer: the last of them, whose target is the answer's
// first token, is the query of pruning.
static int64_t prompt_of(const struct labels *l)
{
    int64_t i = l->sequence.n - 1;
    while (i > 0 && l->target[i] < 0) i--;
    while (i > 0 && l->target[i - 1] >= 0) i--;
    return i + 1;
}

int sft_run(struct sft *t, struct sft_set *set, const int64_t *which, int64_t count,
            uint64_t number, double share, double tokens, struct sft_losses *losses, int64_t *rows,
            struct err *err)
{
    struct graph *g = &t->graph;
    const struct model *m = t->job->model;
    struct sft_pass *p = xcalloc(1, sizeof *p);
    int status = 0;
    for (int64_t i = 0; i < count && status == 0;) {
        // Reads the samples of a pass. In validation all samples draw the same noise, as in /eval.
        p->count = 0;
        p->rows = 0;
        for (; i < count && sft_pass_takes(t, (int64_t)p->count, p->rows); i++, p->count++) {
            const size_t k = p->count;
            struct loader_item *item = &p->items[k];
            status = loader_read(&set->loader, g, which[i], item, err);
            if (status < 0) break;
            if (settings_flag(t->job->settings, "train.prune"))
                item->labels.sequence.prompt = prompt_of(&item->labels);
            p->kl[k] = (struct graph_kl){ 0 };
            p->list[k] = (struct loss_item){ .pictures = item->pictures,
                                             .picture_count = item->picture_count,
                                             .labels = &item->labels,
                                             .number = g->tape ? number + (uint64_t)i : 0,
                                             .kl = &p->kl[k],
                                             .tokens = tokens };
            p->rows += item->labels.sequence.n;
        }

        // Computes their losses, and `share` times their gradients.
        if (status == 0) {
            if (g->tape) sft_pass_begin(t, true);
            status = t->lanes.params && p->count > 1
                         ? lanes_run(&t->lanes, g, m, p->list, p->count, share, p->losses)
                         : loss_batch(g, m, p->list, p->count, share, p->losses);
            if (status < 0) err_set(err, "%s", g->cancelled ? "cancelled" : g->err.text);
            if (status == 0 && g->tape) status = sft_pass_end(t, err);
        }
        for (size_t k = 0; k < p->count; k++) {
            loader_item_release(&set->loader, &p->items[k]);
            if (status == 0) *losses++ = (struct sft_losses){ p->losses[k], p->kl[k] };
        }
        if (rows) *rows += p->rows;
        ranks_add_done(t->job->ranks, (int64_t)p->count);
        if (status == 0 && job_stopped(t->job) == JOB_CANCEL) g->cancelled = true;
        if (status == 0 && graph_stop(g)) status = err_set(err, "cancelled");
    }
    free(p);
    return status;
}

// --- a step --------------------------------------------------------------------------------------

// The samples of a step.
struct step_samples {
    int64_t first, count; // in t->state.order
    double tokens;        // as in struct loss_item
    struct sft_losses *losses;
};

// Computes losses and gradients of samples from..to of the step.
static int run_part(struct sft *t, const struct step_samples *s, const struct sft_work *w,
                    struct err *err)
{
    const int64_t at = s->first + w->from;
    return sft_run(t, &t->train, t->state.order + at, w->to - w->from,
                   (uint64_t)(t->state.epoch * t->train.count + at), 1 / (double)s->count,
                   s->tokens, s->losses + w->from, NULL, err);
}

// train.exact_sum: each round computes one micro-batch per rank and adds their gradients in order;
// in the last round some ranks may have none.
static int run_exact(struct sft *t, const struct step_samples *s, struct err *err)
{
    const int64_t n = (s->count + t->plan.batch - 1) / t->plan.batch,
                  ranks = ranks_count(t->job->ranks);
    int status = 0;
    sft_exact_begin(t);
    for (int64_t b = 0; b < n && status == 0; b += ranks) {
        struct sft_work w = { .from = (b + ranks_number(t->job->ranks)) * t->plan.batch };
        w.to = w.from + t->plan.batch < s->count ? w.from + t->plan.batch : s->count;
        status = params_clear(&t->params, err);
        if (status == 0 && w.from < s->count) status = run_part(t, s, &w, err);
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
    const int64_t n = t->train.count, epoch = state->point.step / plan->per_epoch;

    // A new epoch has a new order of samples.
    if (epoch != state->epoch) {
        order_epoch(state->order, n, settings_flag(settings, "train.shuffle"),
                    (uint64_t)settings_integer(settings, "train.seed"), epoch);
        for (int64_t i = 0; i < n; i++) {
            state->rows[i] = t->train.length[state->order[i]];
            state->tokens[i] = t->train.trained[state->order[i]];
            state->order[i] = t->train.item[state->order[i]];
        }
        state->epoch = epoch;
    }

    // The samples of the step: `accumulate` micro-batches of `batch`; fewer at an epoch's end.
    const int64_t most = plan->accumulate * plan->batch,
                  first = state->point.step % plan->per_epoch * most,
                  count = n - first < most ? n - first : most;
    struct step_samples s = {
        .first = first,
        .count = count,
        .losses = xcalloc((size_t)count + 1, sizeof(struct sft_losses)),
    };
    for (int64_t i = 0; i < count && settings_is(settings, "train.loss", "tokens"); i++)
        s.tokens += (double)state->tokens[first + i] / (double)count;
    int status;

    // Computes this rank's part of the samples, then sums over all ranks.
    t->graph.tape = &t->tape;
    if (settings_flag(settings, "train.exact_sum")) {
        status = run_exact(t, &s, err);
    } else {
        struct sft_work *work = xcalloc((size_t)count + 1, sizeof *work);
        const int64_t parts =
            sft_assign(t, state->rows + first, count, ranks_number(t->job->ranks), work);
        status = params_clear(&t->params, err);
        for (int64_t i = 0; i < parts && status == 0; i++) status = run_part(t, &s, &work[i], err);
        free(work);
        while (status == 0 && sft_pass_begin(t, false)) status = sft_pass_end(t, err);
        if (status == 0) status = sft_sum_gradients(t, err);
    }
    t->graph.tape = NULL;
    if (status == 0) sft_gather_losses(t, s.losses, count);

    // The loss of the step is the mean over its samples.
    state->loss = 0;
    state->kl = (struct graph_kl){ 0 };
    state->not_finite = -1;
    *rows = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(s.losses[i].loss) && state->not_finite < 0)
            state->not_finite = state->order[first + i];
        state->loss += 1 / (double)count * s.losses[i].loss;
        state->kl.plain += 1 / (double)count * s.losses[i].kl.plain;
        state->kl.weighted += 1 / (double)count * s.losses[i].kl.weighted;
        *rows += state->rows[first + i];
    }
    free(s.losses);
    return status;
}

// --- validation ----------------------------------------------------------------------------------

// Each rank computes a range of the samples; the losses are summed in the order of the samples.
int sft_validate(struct sft *t, double *loss, struct err *err)
{
    struct sft_set *set = t->validation_file ? &t->validation : &t->train;
    const int64_t n = t->validation.count, ranks = ranks_count(t->job->ranks),
                  rank = ranks_number(t->job->ranks), from = n * rank / ranks,
                  to = n * (rank + 1) / ranks;
    struct sft_losses *losses = xcalloc((size_t)n + 1, sizeof *losses);
    methods_validate(&t->methods, true);
    const int status = sft_run(t, set, t->validation.item + from, to - from, 0, 1 / (double)n, 0,
                               losses + from, NULL, err);
    methods_validate(&t->methods, false);
    int64_t finite = 0;
    if (status == 0) sft_gather_losses(t, losses, n);
    for (int64_t i = 0; i < n; i++) finite += isfinite(losses[i].loss);
    *loss = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(losses[i].loss)) *loss += 1 / (double)finite * losses[i].loss;
    free(losses);
    if (status < 0) return err_in(err, "validation");
    t->in_step = !finite;
    if (!finite)
        return err_set(err, "validation: no held-out sample has a finite loss: lower train.lr, or "
                            "check the weights for damage");
    if (finite < n)
        job_log(t->job, "validation: the loss of %lld of %lld samples is not finite: left out",
                (long long)(n - finite), (long long)n);
    return 0;
}

// --- the heaviest pass, for a forecast -----------------------------------------------------------

// Returns the rows of the largest pass over these samples.
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
            const int64_t parts = sft_assign(t, rows + i, n - i < step ? n - i : step, -1, work);
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
