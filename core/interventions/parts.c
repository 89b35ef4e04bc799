// core/interventions/parts.c -- reads and replaces the outputs of one part of each layer, with
// hooks at sites.
#include "core/interventions/parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"

void parts_open(struct parts *w, const struct probe_env *env, enum part part)
{
    const struct decoder_config *c = &env->model->decoder.config;
    const size_t n = (size_t)env->sequence->n, L = (size_t)c->layers;
    *w = (struct parts){ .env = env, .part = part, .layer = -1, .head = -1 };
    w->layers = xcalloc(L, sizeof *w->layers);
    w->at = xcalloc(n + 1, sizeof *w->at);
    w->outputs = xcalloc(L, sizeof *w->outputs);
    w->reached = xcalloc(L, sizeof *w->reached);
    w->before = xcalloc(n * (size_t)c->hidden + 1, sizeof *w->before);
}

void parts_close(struct parts *w)
{
    for (int l = 0; w->outputs && l < w->env->model->decoder.config.layers; l++) {
        free(w->outputs[l].output);
        free(w->outputs[l].there);
    }
    free(w->outputs);
    free(w->layers);
    free(w->at);
    free(w->reached);
    free(w->before);
    rows_release(&w->rows);
}

// Stores x [m,width], a layer's outputs for m rows. `minus`: stores x minus the residual stream
// before the part.
static void collect(struct parts *w, const struct site_args *args, const float *x, int64_t m,
                    int64_t width, bool minus)
{
    const int64_t n = w->env->sequence->n;
    struct outputs *o = &w->outputs[args->layer];
    if (!o->output) {
        o->output = xcalloc((size_t)(n * width) + 1, sizeof *o->output);
        o->there = xcalloc((size_t)n + 1, sizeof *o->there);
        o->width = width;
    }
    for (int64_t i = 0; i < m; i++) {
        const int64_t row = site_row(args, i);
        o->there[row] = true;
        for (int64_t k = 0; k < width; k++)
            o->output[row * width + k] =
                x[i * width + k] - (minus ? w->before[row * width + k] : 0);
    }
}

// Stores the residual stream x [m,width] before the part. A method may drop rows before the part
// ends, so rows are stored by their row number in the sequence.
static void keep_before(struct parts *w, const struct site_args *args, const float *x, int64_t m,
                        int64_t width)
{
    for (int64_t i = 0; i < m; i++)
        memcpy(w->before + site_row(args, i) * width, x + i * width, (size_t)width * sizeof *x);
}

// Lists the rows among 0..m-1 that are at positions to replace.
static int32_t *rows_at(const struct parts *w, const struct site_args *args, int64_t m,
                        int64_t *count)
{
    int32_t *list = xreallocarray(NULL, (size_t)m + 1, sizeof *list);
    *count = 0;
    for (int32_t i = 0; i < m; i++)
        if (w->at[site_row(args, i)]) list[(*count)++] = i;
    return list;
}

// Replaces columns first .. first + columns - 1 of rows list[count] of x [m,width]; columns 0:
// replaces whole rows. `add`: adds the residual stream before the part to the replacement.
static int put(struct parts *w, struct graph *g, const struct site_args *args, struct tensor *x,
               const int32_t *list, int64_t count, int64_t first, int64_t columns, bool add)
{
    if (!x || !count) return graph_ok(g) ? 0 : -1;
    const int64_t width = x->shape[1];
    float *host = xcalloc((size_t)(count * width) + 1, sizeof *host);
    for (int64_t i = 0; i < count; i++) {
        float *to = host + i * width;
        const int64_t row = site_row(args, list[i]);
        w->replacement(w->self, args->layer, row, width, to);
        for (int64_t k = 0; k < width && add; k++) to[k] += w->before[row * width + k];
    }
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *values = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ count, width }, host);
    struct tensor *rows = columns ? op_gather_rows(g, x, list, count) : values;
    const struct columns part = { first, 1, columns };
    if (columns && rows && values && g->backend->put_columns(rows, first, values, part) < 0)
        graph_fail(g, "replacing outputs: %s", g->backend->failure());
    op_scatter_rows(g, x, rows, list);
    graph_scratch_end(g, scratch);
    free(host);
    return graph_ok(g) ? 0 : -1;
}

static bool parts_wants(void *self, const struct site *site, int layer)
{
    const struct parts *w = self;
    bool here = false;
    switch (w->part) {
    case OUTPUT_RESIDUAL: here = site == SITE_LAYER_OUT; break;
    case OUTPUT_LAYER: here = site == SITE_LAYER_IN || site == SITE_LAYER_OUT; break;
    case OUTPUT_ATTENTION:
    case OUTPUT_HEAD: here = site == SITE_HEADS; break;
    case OUTPUT_FFN:
        // Methods may compute FFNs between these sites.
        here = site == SITE_FFN_IN || site == SITE_FFN_OUT;
        break;
    case OUTPUT_VALUE: here = site == SITE_VALUES; break;
    }
    return here && (layer < 0 || w->layers[layer]);
}

static int parts_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct parts *w = self;
    const bool now = !w->collecting && args->layer == w->layer;
    const bool delta = w->part == OUTPUT_LAYER || w->part == OUTPUT_FFN;
    const int64_t m = site == SITE_VALUES ? args->q->shape[0] : args->x->shape[0];
    // At SITE_VALUES, args->x begins with the cached rows: takes only the new rows after them.
    struct tensor *x = site == SITE_VALUES ? graph_rows(g, args->x, args->past, m) : args->x;
    const int64_t width = x ? tensor_count(x) / m : 0;
    w->reached[args->layer] = true;
    if (!graph_ok(g)) return -1;
    const bool begins = site == SITE_LAYER_IN || site == SITE_FFN_IN;
    if (begins && (now || w->collecting)) {
        keep_before(w, args, rows_read(&w->rows, g, x), m, width);
    } else if (!begins && w->collecting) {
        collect(w, args, rows_read(&w->rows, g, x), m, width, delta);
    }
    if (!now || begins) return graph_ok(g) ? 0 : -1;
    int64_t count;
    int32_t *list = rows_at(w, args, m, &count);
    const int64_t head = w->part == OUTPUT_HEAD ? args->x->shape[2] : 0;
    const int status = put(w, g, args, graph_view(g, x, 2, (int64_t[]){ m, width }), list, count,
                           head * w->head, head, delta);
    free(list);
    return status;
}

struct hook parts_hook(struct parts *w)
{
    return (struct hook){ .wants = parts_wants,
                          .run = parts_run,
                          .self = w,
                          .changes = true,
                          .values = w->part == OUTPUT_VALUE };
}
