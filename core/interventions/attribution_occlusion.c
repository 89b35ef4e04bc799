// core/interventions/attribution_occlusion.c -- the drop in the answer's log-probability when rows
// are replaced with the baseline (Zeiler and Fergus 2014, arXiv 1311.2901): one position at a time,
// or a square of visual tokens around it.
//
// A pass computes the rows from the first replaced one on; earlier rows come from the cache.
// Squares are occluded from the last one to the first, so that the cached rows before each square
// are unchanged: on average a pass costs half a prefill.
#include <stdlib.h>

#include "core/interventions/attribution.h"
#include "core/interventions/layer_rows.h"
#include "core/model/families/family.h"
#include "core/probes/passes.h"

// A position's cell in the grid of its picture.
struct place {
    int picture, tile; // picture -1: text; tile -1: outside the grid
    int64_t row, col;
};

struct square {
    int64_t at, first; // its centre, and the first position that it covers
};

static struct place *find_places(const struct probe_env *env)
{
    const struct sequence *s = env->sequence;
    struct place *list = xcalloc((size_t)s->n + 1, sizeof *list);
    struct picture_tile *tiles = NULL;
    int picture = -1, count = 0;
    for (int64_t i = 0; i < s->n; i++) {
        list[i] = (struct place){ s->picture[i], -1, 0, 0 };
        if (s->picture[i] < 0) continue;
        if (s->picture[i] != picture) {
            free(tiles);
            tiles = probe_tiles(env, picture = s->picture[i], &count);
        }
        for (int t = 0; t < count; t++) {
            const int64_t cell = s->cell[i] - tiles[t].first;
            if (cell < 0 || cell / tiles[t].pitch >= tiles[t].rows ||
                cell % tiles[t].pitch >= tiles[t].cols)
                continue;
            list[i] = (struct place){ picture, t, cell / tiles[t].pitch, cell % tiles[t].pitch };
        }
    }
    free(tiles);
    return list;
}

static bool covers(const struct place *list, int64_t centre, int64_t i, int64_t window)
{
    const struct place *a = &list[centre], *b = &list[i];
    const int64_t before = (window - 1) / 2, row = b->row - a->row, col = b->col - a->col;
    if (a->tile < 0) return i == centre;
    return a->picture == b->picture && a->tile == b->tile && row >= -before && col >= -before &&
           row < window - before && col < window - before;
}

static int last_first(const void *a, const void *b)
{
    const struct square *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? 1 : -1;
    return x->at < y->at ? 1 : -1;
}

// Lists the squares around the attributed positions that the layer computes, the last one first.
static struct square *find_squares(const struct attributing *w, const struct layer_rows *rows,
                                   const struct place *places, int64_t window, int64_t *count)
{
    const int64_t n = w->env->sequence->n;
    struct square *list = xcalloc((size_t)n + 1, sizeof *list);
    *count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = 0;
        if (!w->at[i] || !rows->there[i]) continue;
        while (!covers(places, i, first, window)) first++;
        list[(*count)++] = (struct square){ i, first };
    }
    qsort(list, (size_t)*count, sizeof *list, last_first);
    return list;
}

static int occlude(struct attributing *w, struct passing *p, struct layer_rows *rows,
                   struct attribution *to, struct err *err)
{
    const struct sequence *s = w->env->sequence;
    const int64_t window = w->env->options->window ? w->env->options->window : 1;
    const struct hook hook = layer_rows_hook(rows);
    double *logp = xcalloc((size_t)(s->n - s->prompt) + 1, sizeof *logp);
    float *base = xcalloc((size_t)(s->n * rows->width) + 1, sizeof *base);
    bool *covered = xcalloc((size_t)s->n + 1, sizeof *covered);
    struct place *places = find_places(w->env);
    int64_t count;

    rows->keep = true;
    attribution_progress(w, p);
    passes_keep(p);
    int status = passes_run(p, &hook, 0, logp, err);
    const double whole = attribution_sum(w, logp);
    rows->keep = false;
    attribution_baseline(w, rows->rows, rows->there, base);
    rows->at = covered, rows->replacement = base;
    struct square *squares = find_squares(w, rows, places, window, &count);
    w->all = w->done + count;
    for (int64_t k = 0; k < count && status == 0; k++) {
        for (int64_t i = 0; i < s->n; i++) covered[i] = covers(places, squares[k].at, i, window);
        attribution_progress(w, p);
        status = passes_run_layers(p, &hook, squares[k].first, rows->layer ? rows->layer - 1 : 0,
                                   logp, err); // rows are replaced after the previous layer
        to->rows[squares[k].at] = whole - attribution_sum(w, logp);
    }
    free(squares);
    free(places);
    free(covered);
    free(base);
    free(logp);
    return status;
}

int attribute_occlusion(struct attributing *w, struct passing *p, struct attribution *to,
                        struct err *err)
{
    struct layer_rows rows;
    layer_rows_open(&rows, w->env, attribution_layer(w, 0));
    const int status = occlude(w, p, &rows, to, err);
    layer_rows_close(&rows);
    return status;
}
