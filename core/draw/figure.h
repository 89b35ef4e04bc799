// core/draw/figure.h -- a figure for a file, drawn through Cairo: one code for PNG, SVG and PDF.
//
//   const struct figure_look look = figure_look(settings);
//   struct figure *f = figure_open("loss.pdf", 480, 300, &look, &err);   // in points
//   cairo_move_to(f->cr, 20, 20); ...
//   figure_text(f, &(struct figure_text){ .x = 240, .y = 20, .size = 10, .text = "Loss" });
//   if (figure_close(f, &err) < 0) ...                                   // writes it
//
// Text comes from files and models and may contain anything. In SVG it stays text, which can be
// searched and edited; its width is fixed, so that another font does not move it.
#ifndef CORE_DRAW_FIGURE_H
#define CORE_DRAW_FIGURE_H

#include <cairo/cairo.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct settings;

enum { FIGURE_LINES = 8 }; // colours of lines

struct figure_theme {
    const char *name;
    uint32_t paper, text, axis, grid; // 0xRRGGBB
    uint32_t lines[FIGURE_LINES];
};

// How figures look: settings plot.*, and the ramp of maps.
struct figure_look {
    const struct figure_theme *theme;
    const char *font, *ramp;
    double scale; // pixels of a PNG for each point
};

struct figure {
    cairo_t *cr;
    struct figure_look look;
    struct figure_file *file;
};

// settings NULL: the defaults. Borrows texts of the settings.
struct figure_look figure_look(const struct settings *settings);
// Does the file name end in .png, .svg or .pdf?
int figure_check(const char *path, struct err *err);
// width, height in points. NULL: figure_check, or too large.
struct figure *figure_open(const char *path, double width, double height,
                           const struct figure_look *look, struct err *err);
// Writes the file as a whole or not at all, and frees the figure.
int figure_close(struct figure *f, struct err *err);
// The same as pixels: RGB [height, width, 3], which the caller frees.
struct figure *figure_open_pixels(double width, double height, const struct figure_look *look,
                                  struct err *err);
int figure_close_pixels(struct figure *f, uint8_t **pixels, int *width, int *height,
                        struct err *err);
// The title that the file gives itself (SVG, PDF).
void figure_name(struct figure *f, const char *title);

void figure_colour(const struct figure *f, uint32_t rgb, double alpha);
// Adds a straight line to the path, on whole pixels where it is upright or level.
void figure_line(const struct figure *f, double x0, double y0, double x1, double y1);
// Draws pixels [height, width, 3] stretched over the box, without smoothing.
void figure_pixels(const struct figure *f, const uint8_t *pixels, int width, int height, double x,
                   double y, double over, double down);

// A line of text; x, y: the start of its base line (`at` 0), or the share `at` of it.
struct figure_text {
    double x, y, size, at;
    double turn; // degrees, against the clock
    uint32_t rgb;
    const char *text;
};

void figure_text(struct figure *f, const struct figure_text *t);
// The same in the theme's colour of text.
void figure_label(struct figure *f, double x, double y, double at, double turn, double size,
                  const char *text);
// Its width in points.
double figure_text_width(const struct figure *f, double size, const char *text);
// Shortened in the middle ("...") to at most `width` points; the caller frees it.
char *figure_text_fit(const struct figure *f, double size, const char *text, double width);
// Breaks the text at blanks into at most `most` lines of `width` points and shortens the rest;
// returns the number of lines. whole, or NULL: was nothing shortened? The caller frees each line.
int figure_text_wrap(const struct figure *f, double size, const char *text, double width,
                     char **lines, int most, bool *whole);

// Does this machine have any font? Without one Cairo draws plain strokes, ASCII alone.
bool figure_has_fonts(void);
// The font that replaces `font` if that one is not installed. NULL: it is installed, or the machine
// has no fonts. The caller frees it.
char *figure_font_instead(const char *font);

#endif
