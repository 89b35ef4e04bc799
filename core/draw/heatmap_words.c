// core/draw/heatmap_words.c -- describes in words where a map has its largest values.
#include "core/draw/heatmap_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/picture/boxes.h"
#include "core/picture/image.h"

enum { NINTHS = 9, SHOWN = 3 };

static const char *const ninths[NINTHS] = { "upper left", "upper middle", "upper right",
                                            "left",       "middle",       "right",
                                            "lower left", "lower middle", "lower right" };

static bool over_picture(const struct event_heatmap *h)
{
    return !h->axes[0] && !h->axes[1];
}

// True if the map's area in its picture is known.
static bool is_placed(const struct event_heatmap *h)
{
    return h->image && h->area[2] > h->area[0] && h->area[3] > h->area[1];
}

// Returns the cell's rectangle (left, top, right, bottom) in pixels of the picture; without a
// picture, in cells.
static void cell_area(const struct event_heatmap *h, int row, int col, double area[4])
{
    const bool placed = is_placed(h);
    const double left = placed ? h->area[0] : 0, top = placed ? h->area[1] : 0;
    const double w = placed ? (h->area[2] - left) / h->cols : 1;
    const double high = placed ? (h->area[3] - top) / h->rows : 1;
    area[0] = left + w * col, area[1] = top + high * row;
    area[2] = area[0] + w, area[3] = area[1] + high;
}

static double overlap(double a, double b, double c, double d)
{
    return fmax(0, fmin(b, d) - fmax(a, c));
}

// A part of the picture.
struct part {
    const char *name;
    // sum: of the values, each weighted by the share of its cell that lies in the part. area: sum
    // of these shares.
    double sum, area;
};

static int by_sum(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->sum != y->sum ? (x->sum < y->sum ? 1 : -1) : strcmp(x->name, y->name);
}

static int by_mean(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const double p = x->area > 0 ? x->sum / x->area : -INFINITY;
    const double q = y->area > 0 ? y->sum / y->area : -INFINITY;
    return p != q ? (p < q ? 1 : -1) : strcmp(x->name, y->name);
}

// Adds up the values in a rectangle (left, top, right, bottom).
static struct part part_of(const struct event_heatmap *h, const char *name, const double in[4])
{
    struct part p = { .name = name };
    for (int r = 0; r < h->rows; r++)
        for (int c = 0; c < h->cols; c++) {
            const float v = h->values[r * h->cols + c];
            double a[4];
            if (!isfinite(v)) continue;
            cell_area(h, r, c, a);
            const double share = overlap(a[0], a[2], in[0], in[2]) *
                                 overlap(a[1], a[3], in[1], in[3]) /
                                 ((a[2] - a[0]) * (a[3] - a[1]));
            p.sum += (double)v * share;
            p.area += share;
        }
    return p;
}

static void find_ninths(const struct event_heatmap *h, struct part *parts)
{
    const double w = is_placed(h) ? (double)h->image->width : h->cols;
    const double high = is_placed(h) ? (double)h->image->height : h->rows;
    for (int i = 0; i < NINTHS; i++) {
        const int x = i % 3, y = i / 3;
        const double in[4] = { w * x / 3, high * y / 3, w * (x + 1) / 3, high * (y + 1) / 3 };
        parts[i] = part_of(h, ninths[i], in);
    }
}

static void put_share(struct buf *b, const struct part *p, double all, bool *any)
{
    buf_printf(b, "%s%s %.0f%%", *any ? ", " : "", p->name, 100 * p->sum / all);
    *any = true;
}

// Lists the objects whose share of the sum exceeds their share of the area; then the ninth with the
// largest share, and up to SHOWN - 1 others whose share exceeds that of their area by a quarter.
static void say_shares(const struct event_heatmap *h, const struct boxes *objects, double all,
                       double cells, struct buf *b)
{
    struct part parts[NINTHS];
    const bool looks = h->unit && strstr(h->unit, "attention");
    bool any = false;
    int shown = 0;
    buf_puts(b, looks ? "looks at: " : "mostly in: ");
    for (size_t i = 0; objects && h->image && i < objects->count; i++) {
        const struct picture_box *o = &objects->list[i];
        const double in[4] = { o->x, o->y, o->x + o->w, o->y + o->h };
        const struct part p = part_of(h, o->label, in);
        if (*o->label && !o->point && p.sum / all > p.area / cells) put_share(b, &p, all, &any);
    }
    find_ninths(h, parts);
    qsort(parts, NINTHS, sizeof *parts, by_sum);
    for (int i = 0; i < NINTHS && shown < SHOWN; i++) {
        if (shown && !(parts[i].sum / all > 1.25 * parts[i].area / cells)) continue;
        put_share(b, &parts[i], all, &any);
        shown++;
    }
}

static void say_cell(const struct event_heatmap *h, int at, struct buf *b)
{
    buf_printf(b, "highest: %s %d, %s %d: %.3g", h->axes[0] ? h->axes[0] : "row", at / h->cols,
               h->axes[1] ? h->axes[1] : "column", at % h->cols, (double)h->values[at]);
}

void heatmap_say(const struct event_heatmap *h, const struct boxes *objects, struct buf *b)
{
    double all = 0, cells = 0;
    bool negative = false;
    int most = -1;
    for (int i = 0; i < h->rows * h->cols; i++) {
        if (!isfinite(h->values[i])) continue;
        all += (double)h->values[i];
        cells++;
        negative |= h->values[i] < 0;
        if (most < 0 || h->values[i] > h->values[most]) most = i;
    }
    if (most < 0) return;
    if (!over_picture(h)) {
        say_cell(h, most, b);
    } else if (!negative && all > 0) {
        say_shares(h, objects, all, cells, b);
    } else {
        struct part parts[NINTHS];
        int last = NINTHS - 1;
        find_ninths(h, parts);
        qsort(parts, NINTHS, sizeof *parts, by_mean);
        while (last > 0 && !(parts[last].area > 0)) last--;
        buf_printf(b, "highest: %s (mean %.3g); lowest: %s (mean %.3g)", parts[0].name,
                   parts[0].sum / parts[0].area, parts[last].name,
                   parts[last].sum / parts[last].area);
    }
}
