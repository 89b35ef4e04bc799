// tui/image_sinks.c -- the maps of the picture panel without attention sinks: patches whose phi
// (core/methods/sinks.h) exceeds sinks.tau have no value, and the scale fits the others.
#include <math.h>
#include <stdlib.h>

#include "core/methods/sinks.h"
#include "tui/image_parts.h"
#include "tui/maps.h"

// Returns whether the map is shown without its sinks, which are known.
static bool is_corrected(const struct view *v, const struct map *m)
{
    return v->image.corrected && v->snapshot && maps_has_sinks(m) && maps_phi(&v->image, m);
}

// Makes a copy of the map without the patches whose phi exceeds sinks.tau; the caller frees its
// values. Returns their number.
static int without_sinks(const struct view *v, const struct map *m, struct map *copy)
{
    const int count = m->rows * m->cols;
    const struct map *phi = maps_phi(&v->image, m);
    const double tau = sinks_tau(v->settings, v->snapshot->width);
    int sinks = 0;
    *copy = *m;
    copy->values = xreallocarray(NULL, (size_t)count, sizeof *copy->values);
    copy->min = INFINITY;
    copy->max = -INFINITY;
    for (int i = 0; i < count; i++) {
        const bool sink = (double)phi->values[i] > tau;
        copy->values[i] = sink ? NAN : m->values[i];
        sinks += sink;
        if (!isfinite(copy->values[i])) continue;
        copy->min = fminf(copy->min, m->values[i]);
        copy->max = fmaxf(copy->max, m->values[i]);
    }
    if (copy->min > copy->max) copy->min = copy->max = 0;
    return sinks;
}

// Replaces the maps of the drawing by copies without sinks, with one scale; returns the number of
// sinks. release_copies frees the copies.
static int correct(const struct view *v, struct drawing *d, struct map *copies)
{
    float min = INFINITY, max = -INFINITY;
    int sinks = 0;
    for (int k = 0; k < d->map_count; k++) {
        sinks += without_sinks(v, d->maps[k], &copies[k]);
        min = fminf(min, copies[k].min);
        max = fmaxf(max, copies[k].max);
    }
    for (int k = 0; k < d->map_count; k++) {
        copies[k].min = min;
        copies[k].max = max;
        d->maps[k] = &copies[k];
    }
    return sinks;
}

static void release_copies(struct map *copies, int count)
{
    for (int k = 0; k < count; k++) free(copies[k].values);
}

static bool all_corrected(const struct view *v, const struct drawing *d)
{
    bool known = d->map_count > 0;
    for (int k = 0; k < d->map_count; k++) known &= is_corrected(v, d->maps[k]);
    return known;
}

void image_range(const struct view *v, const struct map *m, float *min, float *max)
{
    struct drawing d = { 0 };
    struct map copies[TILES_MAX] = { 0 };
    *min = m->min;
    *max = m->max;
    image_tiles(v, &v->image, m, &d);
    if (!all_corrected(v, &d)) return;
    correct(v, &d, copies);
    *min = copies[0].min;
    *max = copies[0].max;
    release_copies(copies, d.map_count);
}

bool image_highest(const struct view *v, double *x, double *y)
{
    struct drawing d = { 0 };
    struct map copies[TILES_MAX] = { 0 };
    float most = -INFINITY;
    image_tiles(v, &v->image, view_map(v), &d);
    const bool corrected = all_corrected(v, &d);
    if (corrected) correct(v, &d, copies);
    for (int t = 0; t < d.map_count; t++)
        for (int k = 0; k < d.maps[t]->rows * d.maps[t]->cols; k++) {
            const struct map *m = d.maps[t];
            const double *a = m->area;
            const int row = k / m->cols, col = k % m->cols;
            if (!(m->values[k] > most)) continue; // also NaN
            most = m->values[k];
            *x = a[0] + (col + 0.5) * (a[2] - a[0]) / m->cols;
            *y = a[1] + (row + 0.5) * (a[3] - a[1]) / m->rows;
        }
    if (corrected) release_copies(copies, d.map_count);
    return most > -INFINITY;
}

struct area image_show(const struct view *v, struct drawing *d, struct canvas *c, struct area area)
{
    struct map copies[TILES_MAX] = { 0 };
    if (!all_corrected(v, d)) return drawing_show(d, c, area);
    correct(v, d, copies);
    const struct area place = drawing_show(d, c, area); // copies what the painter needs
    release_copies(copies, d->map_count);
    return place;
}

void image_sinks_draw(const struct view *v, struct canvas *c, struct area line, const struct map *m)
{
    struct drawing d = { 0 };
    struct map copies[TILES_MAX] = { 0 };
    image_tiles(v, &v->image, m, &d);
    if (!maps_has_sinks(m)) {
        canvas_text(c, line, 0, 0, STYLE_DIM, "this kind of map has no sinks to leave out");
    } else if (!all_corrected(v, &d)) {
        canvas_printf(c, line, 0, 0, STYLE_DIM, "measuring the sinks of layer %d ...", m->layer);
    } else {
        const int sinks = correct(v, &d, copies);
        release_copies(copies, d.map_count);
        canvas_printf(c, line, 0, 0, STYLE_CHANGED, "%d sink%s left out (phi > %.3g)", sinks,
                      sinks == 1 ? "" : "s", sinks_tau(v->settings, v->snapshot->width));
    }
}
