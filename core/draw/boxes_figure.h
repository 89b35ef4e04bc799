// core/draw/boxes_figure.h -- a picture with boxes and points, for a file.
#ifndef CORE_DRAW_BOXES_FIGURE_H
#define CORE_DRAW_BOXES_FIGURE_H

#include "core/base/err.h"

struct boxes;
struct figure_look;
struct image;

// Writes the picture with its boxes, points and labels to a .png, .svg or .pdf.
int boxes_figure(const char *path, const struct figure_look *look, const struct image *image,
                 const struct boxes *b, struct err *err);

#endif
