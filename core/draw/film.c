// core/draw/film.c -- the frames of a film: maps with title and scale, the answer below them.
#include "core/draw/film.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/draw/heatmap.h"

// Points; a wider film has its maps in one row.
static const double margin = 12, letters = 10, line = 14, wide_most = 1200;
enum { PAUSE = 50, LAST_PAUSE = 200 }; // hundredths of a second

void film_add(struct film *f, const struct event_heatmap *maps, size_t count)
{
    f->frames = xreallocarray(f->frames, f->frame_count + 1, sizeof *f->frames);
    struct film_frame *frame = &f->frames[f->frame_count++];
    frame->count = count;
    frame->maps = xreallocarray(NULL, count + 1, sizeof *frame->maps);
    for (size_t i = 0; i < count; i++) {
        const size_t cells = (size_t)maps[i].rows * (size_t)maps[i].cols;
        float *values = xreallocarray(NULL, cells + 1, sizeof *values);
        uint8_t *dropped = maps[i].dropped ? xreallocarray(NULL, cells + 1, sizeof *dropped) : NULL;
        memcpy(values, maps[i].values, cells * sizeof *values);
        if (dropped) memcpy(dropped, maps[i].dropped, cells * sizeof *dropped);
        frame->maps[i] = maps[i];
        frame->maps[i].values = values;
        frame->maps[i].dropped = dropped;
    }
}

void film_release(struct film *f)
{
    for (size_t k = 0; k < f->frame_count; k++) {
        for (size_t i = 0; i < f->frames[k].count; i++) {
            free((float *)f->frames[k].maps[i].values);
            free((uint8_t *)f->frames[k].maps[i].dropped);
        }
        free(f->frames[k].maps);
    }
    free(f->frames);
    f->frames = NULL;
    f->frame_count = 0;
}

// One scale for all frames: brighter means more in each of them.
static void share_scale(struct film *f)
{
    float low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < f->frame_count; k++)
        for (size_t i = 0; i < f->frames[k].count; i++) {
            low = fminf(low, f->frames[k].maps[i].min);
            high = fmaxf(high, f->frames[k].maps[i].max);
        }
    for (size_t k = 0; k < f->frame_count; k++)
        for (size_t i = 0; i < f->frames[k].count; i++) {
            f->frames[k].maps[i].min = low;
            f->frames[k].maps[i].max = high;
        }
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

struct shape {
    double width, maps, height; // points; maps: height of the maps with their titles
};

static int draw_frame(const struct film *f, size_t token, const struct shape *s, uint8_t **pixels,
                      int *width, int *height, struct err *err)
{
    const struct film_frame *frame = &f->frames[token];
    const struct heatmap_words words = { .unit = f->unit };
    struct figure *to = figure_open_pixels(s->width, s->height, f->look, err);
    if (!to) return -1;
    heatmap_paint(to, frame->maps, frame->count, &words);
    put_words(f, to, to, s->maps, s->width, token);
    return figure_close_pixels(to, pixels, width, height, err);
}

// Of the first frame: all have the same maps.
static int find_shape(const struct film *f, struct shape *s, struct err *err)
{
    const struct heatmap_words words = { .unit = f->unit };
    heatmap_size(f->frames[0].maps, f->frames[0].count, &words, &s->width, &s->maps);
    if (s->width < 2 * margin + 160) s->width = 2 * margin + 160;
    if (s->width > wide_most)
        return err_set(err, "a film of %zu maps is too wide: choose --picture", f->frames[0].count);
    struct figure *by = figure_open_pixels(1, 1, f->look, err);
    if (!by) return -1;
    s->height = s->maps + put_words(f, NULL, by, s->maps, s->width, 0);
    uint8_t *pixels;
    int width, height;
    const int status = figure_close_pixels(by, &pixels, &width, &height, err);
    if (status == 0) free(pixels);
    return status;
}

int film_write(struct film *f, const char *path, struct err *err)
{
    struct shape s = { 0 };
    int width = 0, height = 0, status = 0;
    if (!f->frame_count) return err_set(err, "there is no token to show in '%s'", path);
    uint8_t **frames = xcalloc(f->frame_count, sizeof *frames);
    int *pauses = xcalloc(f->frame_count, sizeof *pauses);
    share_scale(f);
    status = find_shape(f, &s, err);
    for (size_t i = 0; i < f->frame_count && status == 0; i++) {
        pauses[i] = i + 1 < f->frame_count ? PAUSE : LAST_PAUSE;
        status = draw_frame(f, i, &s, &frames[i], &width, &height, err);
    }
    if (status == 0) status = film_gif(path, frames, pauses, f->frame_count, width, height, err);
    for (size_t i = 0; i < f->frame_count; i++) free(frames[i]);
    free(frames);
    free(pauses);
    return status;
}
