// core/draw/film.c -- the frames of a film: maps with title and scale, the answer below them.
#include "core/draw/film.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/draw/figure.h"
#include "core/draw/heatmap.h"

// Points; a wider film has its maps in one row.
static const double margin = 12, letters = 10, line = 14, wide_most = 1200;
enum {
    PAUSE = 50, // hundredths of a second
    LAST_PAUSE = 200,
    MAPS_MOST = 64 // beyond, heatmap_size puts so many beside each other that letters get too small
};

static size_t cells_of(const struct event_heatmap *map)
{
    return (size_t)map->rows * (size_t)map->cols;
}

// Writes the words from `top` on, `now` marked, in lines of `width`; draw NULL: measures alone.
// Returns the height.
static double put_words(const struct film *f, struct figure *draw, const struct figure *by,
                        double top, double width, size_t now)
{
    double x = margin, y = top + line;
    for (size_t i = 0; i < f->count; i++) {
        const char *word = f->words[i];
        const double wide = figure_text_width(by, letters, word);
        if (x > margin && x + wide > width - margin) {
            x = margin;
            y += line;
        }
        if (draw && i == now) {
            figure_colour(draw, draw->look.theme->lines[1], 0.45);
            cairo_rectangle(draw->cr, x - 1, y - letters, wide + 2, line - 1);
            cairo_fill(draw->cr);
        }
        if (draw)
            figure_text(
                draw,
                &(struct figure_text){
                    .x = x, .y = y, .size = letters, .rgb = draw->look.theme->text, .text = word });
        x += wide;
    }
    return y + margin - top;
}

// Of the first frame: all have the same maps.
static int find_shape(struct film *f, const struct event_heatmap *maps, size_t count,
                      struct err *err)
{
    heatmap_size(maps, count, &f->width, &f->maps_height);
    if (f->width < 2 * margin + 160) f->width = 2 * margin + 160;
    if (count > MAPS_MOST || f->width > wide_most)
        return err_set(err,
                       "a film shows at most %d maps, not %zu: choose a layer with --layer, or a "
                       "picture with --picture",
                       MAPS_MOST, count);
    struct figure *by = figure_open_pixels(1, 1, f->look, err);
    if (!by) return -1;
    f->height = f->maps_height + put_words(f, NULL, by, f->maps_height, f->width, 0);
    uint8_t *pixels;
    int width, height;
    if (figure_close_pixels(by, &pixels, &width, &height, err) < 0) return -1;
    free(pixels);
    return 0;
}

int film_open(struct film *f, const char *path, struct err *err)
{
    return (f->gif = film_gif_open(path, err)) ? 0 : -1;
}

int film_add(struct film *f, size_t word, const struct event_heatmap *maps, size_t count,
             struct err *err)
{
    if (!f->frame_count && find_shape(f, maps, count, err) < 0) return -1;
    f->frames = xreallocarray(f->frames, f->frame_count + 1, sizeof *f->frames);
    struct film_frame *frame = &f->frames[f->frame_count++];
    *frame = (struct film_frame){ .count = count, .word = word };
    frame->maps = xreallocarray(NULL, count + 1, sizeof *frame->maps);
    memcpy(frame->maps, maps, count * sizeof *maps);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// All finite values, ascending; the caller frees them.
static float *all_values(const struct film *f, size_t *count)
{
    size_t most = 0;
    *count = 0;
    for (size_t k = 0; k < f->frame_count; k++)
        for (size_t i = 0; i < f->frames[k].count; i++) most += cells_of(&f->frames[k].maps[i]);
    float *all = xreallocarray(NULL, most + 1, sizeof *all);
    for (size_t k = 0; k < f->frame_count; k++)
        for (size_t i = 0; i < f->frames[k].count; i++) {
            const struct event_heatmap *map = &f->frames[k].maps[i];
            for (size_t c = 0; c < cells_of(map); c++)
                if (isfinite(map->values[c])) all[(*count)++] = map->values[c];
        }
    qsort(all, *count, sizeof *all, by_value);
    return all;
}

// One scale for all frames: brighter means more in each of them.
static void share_scale(struct film *f)
{
    size_t n;
    float *all = all_values(f, &n);
    const float low = n ? all[0] : 0, most = n ? all[n - 1] : 0;
    float high = n ? all[(size_t)((double)(n - 1) * FILM_SHARE)] : 0;
    if (high <= low) high = most; // nearly all alike: the few others are what there is to see
    f->cut = high < most;
    for (size_t k = 0; k < f->frame_count; k++)
        for (size_t i = 0; i < f->frames[k].count; i++) {
            f->frames[k].maps[i].min = low;
            f->frames[k].maps[i].max = high;
        }
    free(all);
}

int film_draw(struct film *f, size_t i, struct err *err)
{
    const struct film_frame *frame = &f->frames[i];
    uint8_t *pixels;
    int width, height;
    if (i == 0) share_scale(f);
    struct figure *to = figure_open_pixels(f->width, f->height, f->look, err);
    if (!to) return -1;
    heatmap_paint(to, frame->maps, frame->count, f->cut);
    put_words(f, to, to, f->maps_height, f->width, frame->word);
    if (figure_close_pixels(to, &pixels, &width, &height, err) < 0) return -1;
    const int status = film_gif_add(f->gif, pixels, width, height,
                                    i + 1 < f->frame_count ? PAUSE : LAST_PAUSE, err);
    free(pixels);
    return status;
}

int film_close(struct film *f, struct err *err)
{
    struct film_gif *gif = f->gif;
    f->gif = NULL;
    return film_gif_close(gif, err);
}

void film_release(struct film *f)
{
    film_gif_abandon(f->gif);
    for (size_t k = 0; k < f->frame_count; k++) free(f->frames[k].maps);
    free(f->frames);
    *f = (struct film){ 0 };
}
