// core/draw/boxes_figure.c -- draws boxes, points and their labels over a picture.
#include "core/draw/boxes_figure.h"

#include <math.h>
#include <stdlib.h>

#include "core/draw/figure.h"
#include "core/picture/boxes.h"
#include "core/picture/resize.h"

enum { LEAST = 320, MOST = 800 }; // limits of the longer side, in points

// Draws the label on a background of the box's colour: above the box, or inside it at the picture's
// edge.
static void draw_label(struct figure *f, const struct picture_box *b, uint32_t rgb, double x,
                       double y, double width)
{
    enum { SIZE = 9, PAD = 2 };
    char *text = figure_text_fit(f, SIZE, b->label, width - 2 * PAD);
    const double wide = figure_text_width(f, SIZE, text) + 2 * PAD, high = SIZE + 2 * PAD;
    const double left = fmax(fmin(x, width - wide), 0), top = y < high ? y : y - high;
    figure_colour(f, rgb, 1);
    cairo_rectangle(f->cr, left, top, wide, high);
    cairo_fill(f->cr);
    figure_text(f, &(struct figure_text){ .x = left + PAD,
                                          .y = top + high - PAD - 1,
                                          .size = SIZE,
                                          .rgb = 0xffffff,
                                          .text = text });
    free(text);
}

int boxes_figure(const char *path, const struct figure_look *look, const struct image *image,
                 const struct boxes *b, struct err *err)
{
    static const uint8_t white[3] = { 255, 255, 255 };
    struct image flat = { 0 };
    if (figure_check(path, err) < 0 || image_flat_copy(&flat, image, white, err) < 0) return -1;
    const double longest = (double)(flat.width > flat.height ? flat.width : flat.height);
    const double scale = fmin(fmax(longest, LEAST), MOST) / longest;
    const double width = fmax((double)flat.width * scale, 1);
    const double height = fmax((double)flat.height * scale, 1);
    struct figure *f = figure_open(path, width, height, look, err);
    if (!f) {
        image_release(&flat);
        return -1;
    }
    figure_pixels(f, flat.pixels, (int)flat.width, (int)flat.height, 0, 0, width, height);
    cairo_set_line_width(f->cr, 2);
    for (size_t i = 0; i < b->count; i++) {
        const struct picture_box *box = &b->list[i];
        const double x = box->x * scale, y = box->y * scale;
        figure_colour(f, box_colour(i), 1);
        if (box->point) {
            cairo_arc(f->cr, x, y, 4, 0, 2 * M_PI);
            cairo_fill(f->cr);
        } else {
            cairo_rectangle(f->cr, x, y, box->w * scale, box->h * scale);
            cairo_stroke(f->cr);
        }
        if (*box->label) draw_label(f, box, box_colour(i), x, y, width);
    }
    image_release(&flat);
    return figure_close(f, err);
}
