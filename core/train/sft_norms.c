// core/train/sft_norms.c -- reports the gradients of the decoder's trained norms at each step (the
// LayerNorm paper's figure 4), and, with train.norm_inputs, those of their inputs (its appendix
// A.2.2).
//
// With a = dl/dx of a token through the norm alone, y = x / rms(x) (LayerNorm: (x - mean) / std)
// and b = dl/dy, a = P b / rms(x) (LayerNorm: / std), where P removes the part of b along y (with
// LayerNorm, its mean, too). So a has mean 0 for LayerNorm but not for RMSNorm, and for both
// rms(x)^2 |a|^2 <= |b|^2 (LayerNorm: std^2 |a|^2, and b without its mean).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/weights.h"
#include "core/settings/settings.h"
#include "core/train/sft_parts.h"

struct norm_sums {
    double rows, mean, var, var_out, share;
};

struct sft_norms {
    struct norm_watch watch;
    const struct params *params;
    struct norm_sums *sums; // [params][LANES + 1]
};

static bool is_norm(const struct param *p)
{
    const size_t n = strlen(p->name), tail = strlen("norm.weight");
    return p->kind == PARAM_WEIGHT && p->weight->part == PART_DECODER && p->tensor->rank == 1 &&
           n >= tail && !strcmp(p->name + n - tail, "norm.weight");
}

// Sets the mean and the variance of n numbers.
static void spread(const float *x, int64_t n, double *mean, double *var)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *var = squares / (double)n;
}

// Adds one token: x, dx = a and dy [n], the gradient of the norm's output. Multiplies dy by the
// gain, which makes it b.
static void add_row(struct norm_sums *to, const float *x, const float *dx, float *dy,
                    const float *gain, int64_t n, bool centred)
{
    double mean_x, var_x, mean, var, mean_out, var_out;
    for (int64_t i = 0; i < n; i++) dy[i] *= gain[i];
    spread(x, n, &mean_x, &var_x);
    spread(dx, n, &mean, &var);
    spread(dy, n, &mean_out, &var_out);
    const double scale = centred ? var_x : var_x + mean_x * mean_x;
    const double in = centred ? var : var + mean * mean;
    const double out = centred ? var_out : var_out + mean_out * mean_out;
    if (!(out > 0)) return; // no loss reaches the token
    to->rows++;
    to->mean += fabs(mean);
    to->var += var;
    to->var_out += var_out;
    to->share += scale * in / out;
}

static void seen(struct norm_watch *watch, struct graph *g, const struct norm_gradients *n)
{
    struct sft_norms *t = (struct sft_norms *)watch;
    const struct params *p = t->params;
    const int64_t width = n->x->shape[n->x->rank - 1], count = tensor_count(n->x);
    size_t which = 0;
    while (which < p->count && p->list[which].grad != n->gain->grad) which++;
    if (!n->gain->grad || which == p->count || !is_norm(&p->list[which])) return;
    float *x = xreallocarray(NULL, 3 * (size_t)count + (size_t)width, sizeof *x);
    float *dx = x + count, *dy = dx + count, *gain = dy + count;
    graph_download(g, x, n->x);
    graph_download(g, dx, n->dx);
    graph_download(g, dy, n->dy);
    graph_download(g, gain, n->gain);
    for (int64_t i = 0; i < count; i += width)
        add_row(&t->sums[which * (LANES + 1) + (size_t)n->lane], x + i, dx + i, dy + i, gain, width,
                n->centred);
    free(x);
}

struct norm_watch *sft_norms_watch(struct sft *t)
{
    if (!settings_flag(t->job->settings, "train.norm_inputs")) return NULL;
    t->norms = xcalloc(1, sizeof *t->norms);
    t->norms->watch.seen = seen;
    t->norms->params = &t->params;
    t->norms->sums = xcalloc(t->params.count * (LANES + 1) + 1, sizeof *t->norms->sums);
    return &t->norms->watch;
}

void sft_norms_release(struct sft *t)
{
    if (t->norms) free(t->norms->sums);
    free(t->norms);
    t->norms = NULL;
}

static void report(struct sft *t, int64_t step, const char *what, const char *name, double value)
{
    char *series = xasprintf("%s.%s", what, name);
    job_metric(t->job, series, step, value);
    free(series);
}

// Reports the means over this rank's tokens since the last report. Leaves out tokens that the loss
// does not reach.
static void report_inputs(struct sft *t, int64_t step, size_t which, const char *name)
{
    struct norm_sums *lane = t->norms->sums + which * (LANES + 1), sum = { 0 };
    for (int k = 0; k <= LANES; k++) {
        sum.rows += lane[k].rows;
        sum.mean += lane[k].mean;
        sum.var += lane[k].var;
        sum.var_out += lane[k].var_out;
        sum.share += lane[k].share;
        lane[k] = (struct norm_sums){ 0 };
    }
    if (!(sum.rows > 0)) return;
    report(t, step, "grad_x_mean", name, sum.mean / sum.rows);
    report(t, step, "grad_x_var", name, sum.var / sum.rows);
    report(t, step, "grad_y_var", name, sum.var_out / sum.rows);
    report(t, step, "grad_x_share", name, sum.share / sum.rows);
}

// Reports mean and variance of the gradient of one gain.
static void report_gain(struct sft *t, int64_t step, const struct param *p, const char *name)
{
    float *g = xreallocarray(NULL, (size_t)p->count, sizeof *g);
    double mean, var;
    p->where->download(g, p->grad->data, (size_t)p->count * sizeof *g);
    spread(g, p->count, &mean, &var);
    free(g);
    report(t, step, "grad_mean", name, mean);
    report(t, step, "grad_var", name, var);
}

void sft_report_norms(struct sft *t, int64_t step)
{
    for (size_t i = 0; i < t->params.count; i++) {
        const struct param *p = &t->params.list[i];
        if (!is_norm(p)) continue;
        char *name = weight_plain_name(p->name);
        name[strlen(name) - strlen(".weight")] = 0;
        report_gain(t, step, p, name);
        if (t->norms) report_inputs(t, step, i, name);
        free(name);
    }
}
