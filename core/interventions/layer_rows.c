// core/interventions/layer_rows.c -- rows of the residual stream at the input of a layer.
//
// The input of layer K is replaced where methods may change it: before the first layer
// (SITE_INPUT), or after layer K - 1 (SITE_LAYER_OUT), in both cases after the methods have run.
// For gradients the rows become a new tensor with its own gradient, so the backward pass ends
// there.
#include "core/interventions/layer_rows.h"

#include <stdlib.h>
#include <string.h>

#include "core/graph/tape.h"
#include "core/probes/passes.h"

void layer_rows_open(struct layer_rows *w, const struct probe_env *env, int layer)
{
    const int64_t n = env->sequence->n, width = env->model->decoder.config.hidden;
    *w = (struct layer_rows){
        .layer = layer, .positions = n, .width = width, .backend = env->backend
    };
    w->rows = xcalloc((size_t)(n * width) + 1, sizeof *w->rows);
    w->gradient = xcalloc((size_t)(n * width) + 1, sizeof *w->gradient);
    w->there = xcalloc((size_t)n + 1, sizeof *w->there);
    w->index = xcalloc((size_t)n + 1, sizeof *w->index);
}

static void drop_slope(struct layer_rows *w)
{
    grad_free(w->backend, w->slope);
    w->slope = NULL;
}

void layer_rows_close(struct layer_rows *w)
{
    drop_slope(w);
    free(w->rows);
    free(w->gradient);
    free(w->there);
    free(w->index);
    rows_release(&w->host);
}

static bool layer_rows_wants(void *self, const struct site *site, int layer)
{
    const struct layer_rows *w = self;
    if (site == SITE_FINAL) return true;
    if (!w->layer) return site == SITE_INPUT;
    return site == SITE_LAYER_OUT && (layer < 0 || layer == w->layer - 1);
}

static void hash_rows(struct layer_rows *w, const struct site_args *args)
{
    w->alive = 14695981039346656037U; // FNV-1a
    for (int64_t i = 0; i < args->x->shape[0]; i++)
        w->alive = (w->alive ^ (uint64_t)site_row(args, i)) * 1099511628211U;
}

static int layer_rows_run(void *self, struct graph *g, const struct site *site,
                          struct site_args *args)
{
    struct layer_rows *w = self;
    const int64_t m = args->x->shape[0];
    bool replaced = false;
    if (site == SITE_FINAL) return hash_rows(w, args), 0;
    if (!w->keep && !w->differentiate && !w->at) return 0;
    float *x = xcalloc((size_t)(m * w->width) + 1, sizeof *x); // [m,D]
    memcpy(x, rows_read(&w->host, g, args->x), (size_t)(m * w->width) * sizeof *x);
    for (int64_t i = 0; i < m && graph_ok(g); i++) {
        const int64_t row = site_row(args, i);
        w->there[row] = true;
        if (w->keep)
            memcpy(w->rows + row * w->width, x + i * w->width, (size_t)w->width * sizeof *x);
        if (w->differentiate) w->index[i] = (int32_t)row;
        if (!w->at || !w->at[row]) continue;
        memcpy(x + i * w->width, w->replacement + row * w->width, (size_t)w->width * sizeof *x);
        replaced = true;
    }
    if (replaced || w->differentiate)
        args->x = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ m, w->width }, x);
    free(x);
    if (!w->differentiate || !args->x) return graph_ok(g) ? 0 : -1;
    drop_slope(w);
    w->count = m;
    w->slope = args->x->grad = grad_new(g->backend, m * w->width);
    if (!w->slope)
        graph_fail(g, "out of memory for the gradient of %lld rows on %s", (long long)m,
                   g->backend->name);
    return graph_ok(g) ? 0 : -1;
}

struct hook layer_rows_hook(struct layer_rows *w)
{
    return (struct hook){
        .wants = layer_rows_wants, .run = layer_rows_run, .self = w, .changes = true
    };
}

int layer_rows_gradient(struct layer_rows *w, struct passing *p, const float *weight, double *logp,
                        struct err *err)
{
    const struct hook hook = layer_rows_hook(w);
    w->differentiate = true;
    const int status = passes_gradient(p, &hook, weight, logp, err);
    w->differentiate = false;
    memset(w->gradient, 0, (size_t)(w->positions * w->width) * sizeof *w->gradient);
    if (status == 0) {
        float *slope = xcalloc((size_t)(w->count * w->width) + 1, sizeof *slope);
        w->backend->download(slope, w->slope->data, (size_t)(w->count * w->width) * sizeof *slope);
        for (int64_t i = 0; i < w->count; i++)
            memcpy(w->gradient + w->index[i] * w->width, slope + i * w->width,
                   (size_t)w->width * sizeof *slope);
        free(slope);
    }
    drop_slope(w);
    return status;
}
