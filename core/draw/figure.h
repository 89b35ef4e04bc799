// core/draw/figure.h -- a figure for a file, drawn with Cairo: the same code for PNG, SVG and PDF.
//
//   const struct figure_look look = figure_look(settings);
//   struct figure *f = figure_open("loss.pdf", 480, 300, &look, &err);   // in points
//   cairo_move_to(f->cr, 20, 20); ...
//   figure_text(f, &(struct figure_text){ .x = 240, .y = 20, .size = 10, .text = "Loss" });
//   if (figure_close(f, &err) < 0) ...                                   // writes it
//
// Texts come from files and models and are sanitised: they may contain any bytes. In SVG they stay
// searchable, editable text with fixed widths, so that another font does not shift them.
#ifndef CORE_DRAW_FIGURE_H
#define CORE_DRAW_FIGURE_H

#include <cairo/cairo.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct settings;

enum { FIGURE_LINES = 8 }; // number of line colours

struct figure_theme {
    const char *name;
    uint32_t paper, text, axis, grid; // 0xRRGGBB
    uint32_t lines[FIGURE_LINES];
};

// Appearance of figures: settings plot.*, and the ramp of maps.
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

// Reads the appearance; settings NULL: the defaults. Borrows texts of the settings.
struct figure_look figure_look(const struct settings *settings);
// Fails unless the file can be written, and its name ends in .png, .svg or .pdf. Other names are
// allowed only for pipes and terminals, which get a PNG.
int figure_check(const char *path, struct err *err);
// `width` and `height` are in points. Returns NULL if figure_check fails or the figure is too
// large.
struct figure *figure_open(const char *path, double width, double height,
                           const struct figure_look *look, struct err *err);
// Writes the file as a whole or not at all, and frees the figure.
int figure_close(struct figure *f, struct err *err);
// Draws to pixels instead of a file. The size is in points; figure_close_pixels returns RGB
// [height, width, 3] with look->scale pixels per point (fewer for a very large figure), which the
// caller frees.
struct figure *figure_open_pixels(double width, double height, const struct figure_look *look,
                                  struct err *err);
int figure_close_pixels(struct figure *f, uint8_t **pixels, int *width, int *height,
                        struct err *err);
// Sets the title in the file's metadata (SVG, PDF).
void figure_name(struct figure *f, const char *title);

void figure_colour(const struct figure *f, uint32_t rgb, double alpha);
// Adds a straight line to the path, aligned to pixels if vertical or horizontal.
void figure_line(const struct figure *f, double x0, double y0, double x1, double y1);
// Draws pixels [height, width, 3] stretched over the box, without smoothing.
void figure_pixels(const struct figure *f, const uint8_t *pixels, int width, int height, double x,
                   double y, double over, double down);

// A line of text; (x, y) is the point at share `at` of its baseline: 0 is the start, 1 the end. SVG
// rounds `at` to halves.
struct figure_text {
    double x, y, size, at;
    double turn; // degrees, counterclockwise
    uint32_t rgb;
    const char *text;
};

void figure_text(struct figure *f, const struct figure_text *t);
// Draws a text in the theme's text colour.
void figure_label(struct figure *f, double x, double y, double at, double turn, double size,
                  const char *text);
// Returns the width of a text in points.
double figure_text_width(const struct figure *f, double size, const char *text);
// Shortens a text in the middle ("...") to at most `width` points; the caller frees it.
char *figure_text_fit(const struct figure *f, double size, const char *text, double width);
// Breaks the text at spaces into at most `most` lines of `width` points and shortens the rest;
// returns the number of lines. *whole (unless NULL): true if nothing was shortened. The caller
// frees each line.
int figure_text_wrap(const struct figure *f, double size, const char *text, double width,
                     char **lines, int most, bool *whole);

// True if this machine has any font. Without one, Cairo draws plain strokes, ASCII only.
bool figure_has_fonts(void);
// Returns the substitute for a missing font, which the caller frees; NULL if `font` is installed or
// generic ("sans"), or the machine has no fonts.
char *figure_font_instead(const char *font);

#endif
