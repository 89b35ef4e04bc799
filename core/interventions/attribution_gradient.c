// core/interventions/attribution_gradient.c -- attributions from gradients of the answer's
// log-probability with respect to the rows h [N,D] that a layer reads.
//
//   gradient:    sum over D of h g
//   integrated:  sum over D of (h - b) times the mean of g on the straight path from the baseline b
//                to h (Sundararajan, Taly and Yan 2017, arXiv 1703.01365); summed over the rows it
//                is log p(h) - log p(b)
//   gradcam:     max(0, sum over D of a h), a: the mean of g over the attributed rows of the same
//                picture, or of text (Selvaraju et al. 2017, arXiv 1610.02391, with visual tokens
//                as the cells of the map)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/interventions/attribution.h"
#include "core/interventions/layer_rows.h"
#include "core/probes/passes.h"

enum { STEPS = 33 };

static bool attributed(const struct attributing *w, const struct layer_rows *rows, int64_t i)
{
    return w->at[i] && rows->there[i];
}

// Runs a pass with gradients; keeps the rows that the layer reads.
static int read_gradient(struct attributing *w, struct passing *p, int layer,
                         struct layer_rows *rows, struct err *err)
{
    const struct sequence *s = w->env->sequence;
    double *logp = xcalloc((size_t)(s->n - s->prompt) + 1, sizeof *logp);
    float *weight = attribution_weights(w);
    layer_rows_open(rows, w->env, layer);
    rows->keep = true;
    attribution_progress(w, p);
    const int status = layer_rows_gradient(rows, p, weight, logp, err);
    free(weight);
    free(logp);
    return status;
}

int attribute_gradient(struct attributing *w, struct passing *p, struct attribution *to,
                       struct err *err)
{
    struct layer_rows rows;
    const int status = read_gradient(w, p, attribution_layer(w, 0), &rows, err);
    for (int64_t i = 0; i < rows.positions && status == 0; i++)
        if (attributed(w, &rows, i))
            to->rows[i] =
                rows_dot(rows.rows + i * rows.width, rows.gradient + i * rows.width, rows.width);
    layer_rows_close(&rows);
    return status;
}

// --- Grad-CAM ------------------------------------------------------------------------------------

// Sets to->rows at the positions of one picture (-1: of text), which share the mean gradient.
static void put_cam(const struct attributing *w, const struct layer_rows *rows, int picture,
                    struct attribution *to)
{
    const struct sequence *s = w->env->sequence;
    double *mean = xcalloc((size_t)rows->width, sizeof *mean);
    int64_t count = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->picture[i] != picture || !attributed(w, rows, i)) continue;
        count++;
        for (int64_t k = 0; k < rows->width; k++)
            mean[k] += ((double)rows->gradient[i * rows->width + k] - mean[k]) / (double)count;
    }
    for (int64_t i = 0; i < s->n; i++) {
        double sum = 0;
        if (s->picture[i] != picture || !attributed(w, rows, i)) continue;
        for (int64_t k = 0; k < rows->width; k++)
            sum += mean[k] * (double)rows->rows[i * rows->width + k];
        to->rows[i] = fmax(sum, 0);
    }
    free(mean);
}

int attribute_gradcam(struct attributing *w, struct passing *p, struct attribution *to,
                      struct err *err)
{
    struct layer_rows rows;
    const int middle = probe_middle(w->env->model);
    const int status = read_gradient(w, p, attribution_layer(w, middle), &rows, err);
    for (int picture = -1; picture < (int)w->env->picture_count && status == 0; picture++)
        put_cam(w, &rows, picture, to);
    layer_rows_close(&rows);
    return status;
}

// --- integrated gradients ------------------------------------------------------------------------
//
// A trained model's probability may jump on a short part of the path, so the intervals of Simpson's
// rule adapt: the interval whose sum differs most from the difference of the log-probabilities at
// its ends is halved.

// A point on the path.
struct point_of_path {
    double along, logp; // 0 (baseline) .. 1; sum of the selected tokens' log-probabilities
    double *rows;       // [N] sum over D of (h - b) g
};

// An interval: indices in the list of points.
struct interval {
    size_t start, middle, end;
    double off; // its error: Simpson's sum minus the difference of the log-probabilities
};

struct path {
    struct attributing *w;
    struct passing *p;
    struct layer_rows *rows;
    float *base, *between; // [N,D] baseline; rows of the pass
    float *weight;         // [tokens of the answer]
    struct point_of_path *points;
    size_t count, capacity;
    struct interval *intervals;
    size_t parts, part_capacity;
    uint64_t alive; // layer_rows.alive of every point
};

// Sets the rows at w->at to those of a point.
static void put_on_path(const struct path *s, double along)
{
    const struct layer_rows *rows = s->rows;
    for (int64_t i = 0; i < rows->positions; i++)
        for (int64_t k = i * rows->width; s->w->at[i] && k < (i + 1) * rows->width; k++)
            s->between[k] =
                (float)((double)s->base[k] + along * ((double)rows->rows[k] - (double)s->base[k]));
}

static int add_point(struct path *s, double along, size_t *number, struct err *err)
{
    const struct sequence *q = s->w->env->sequence;
    const struct layer_rows *rows = s->rows;
    double *logp = xcalloc((size_t)(q->n - q->prompt) + 1, sizeof *logp);
    struct point_of_path at = { .along = along, .rows = xcalloc((size_t)q->n + 1, sizeof(double)) };
    put_on_path(s, along);
    attribution_progress(s->w, s->p);
    int status = layer_rows_gradient(s->rows, s->p, s->weight, logp, err);
    if (status == 0 && s->count && rows->alive != s->alive)
        status = err_set(err, "pruning keeps different tokens along the path from the baseline, so "
                              "the gradients have no integral: prune by uniform or random, or name "
                              "the other kinds in --by");
    s->alive = rows->alive;
    at.logp = attribution_sum(s->w, logp);
    for (int64_t i = 0; i < q->n; i++)
        for (int64_t k = i * rows->width; attributed(s->w, rows, i) && k < (i + 1) * rows->width;
             k++)
            at.rows[i] += (double)rows->gradient[k] * ((double)rows->rows[k] - (double)s->base[k]);
    free(logp);
    s->points = xgrow(s->points, &s->capacity, s->count, sizeof *s->points);
    s->points[ *number = s->count++] = at;
    return status;
}

// Simpson's rule for one row.
static double simpson(const struct path *s, const struct interval *part, int64_t row)
{
    const struct point_of_path *a = &s->points[part->start], *m = &s->points[part->middle],
                               *b = &s->points[part->end];
    return (b->along - a->along) / 6 * (a->rows[row] + 4 * m->rows[row] + b->rows[row]);
}

// Adds the interval between two points, with a point in its middle.
static int add_interval(struct path *s, size_t start, size_t end, struct err *err)
{
    struct interval part = { .start = start, .end = end };
    const double middle = (s->points[start].along + s->points[end].along) / 2;
    const int status = add_point(s, middle, &part.middle, err);
    part.off = s->points[start].logp - s->points[end].logp;
    for (int64_t i = 0; i < s->rows->positions; i++) part.off += simpson(s, &part, i);
    s->intervals = xgrow(s->intervals, &s->part_capacity, s->parts, sizeof *s->intervals);
    s->intervals[s->parts++] = part;
    return status;
}

// Halves intervals until their errors add up to at most 0.1% of the whole difference, or --steps
// allows no more points.
static int refine(struct path *s, struct err *err)
{
    const size_t most = (size_t)(s->w->env->options->steps ? s->w->env->options->steps : STEPS);
    size_t first, last;
    int status = add_point(s, 0, &first, err);
    if (status == 0) status = add_point(s, 1, &last, err);
    if (status == 0) status = add_interval(s, first, last, err);
    while (status == 0 && s->count + 2 <= most) {
        size_t worst = 0;
        double off = 0;
        for (size_t k = 0; k < s->parts; k++) {
            off += fabs(s->intervals[k].off);
            if (fabs(s->intervals[k].off) > fabs(s->intervals[worst].off)) worst = k;
        }
        if (off <= 1e-3 * fabs(s->points[1].logp - s->points[0].logp)) break;
        const struct interval former = s->intervals[worst];
        s->intervals[worst] = s->intervals[--s->parts];
        status = add_interval(s, former.start, former.middle, err);
        if (status == 0) status = add_interval(s, former.middle, former.end, err);
    }
    return status;
}

static int integrate(struct path *s, struct attribution *to, struct err *err)
{
    const struct sequence *q = s->w->env->sequence;
    const struct hook hook = layer_rows_hook(s->rows);
    double *logp = xcalloc((size_t)(q->n - q->prompt) + 1, sizeof *logp);
    s->rows->keep = true;
    attribution_progress(s->w, s->p);
    int status = passes_run(s->p, &hook, 0, logp, err);
    s->rows->keep = false;
    free(logp);
    attribution_baseline(s->w, s->rows->rows, s->rows->there, s->base);
    s->rows->at = s->w->at, s->rows->replacement = s->between;
    if (status == 0) status = refine(s, err);
    for (int64_t i = 0; i < q->n && status == 0; i++) {
        if (!attributed(s->w, s->rows, i)) continue;
        to->rows[i] = 0;
        for (size_t k = 0; k < s->parts; k++) to->rows[i] += simpson(s, &s->intervals[k], i);
    }
    if (status == 0) to->should = s->points[1].logp - s->points[0].logp;
    return status;
}

int attribute_integrated(struct attributing *w, struct passing *p, struct attribution *to,
                         struct err *err)
{
    struct layer_rows rows;
    layer_rows_open(&rows, w->env, attribution_layer(w, 0));
    const size_t count = (size_t)(rows.positions * rows.width) + 1;
    struct path s = { .w = w,
                      .p = p,
                      .rows = &rows,
                      .base = xcalloc(count, sizeof(float)),
                      .between = xcalloc(count, sizeof(float)),
                      .weight = attribution_weights(w) };
    const int status = integrate(&s, to, err);
    for (size_t k = 0; k < s.count; k++) free(s.points[k].rows);
    free(s.points);
    free(s.intervals);
    free(s.base);
    free(s.between);
    free(s.weight);
    layer_rows_close(&rows);
    return status;
}
