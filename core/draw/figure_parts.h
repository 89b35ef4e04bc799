// core/draw/figure_parts.h -- shared by figure.c and figure_text.c; others use core/draw/figure.h.
#ifndef CORE_DRAW_FIGURE_PARTS_H
#define CORE_DRAW_FIGURE_PARTS_H

#include "core/base/mem.h"
#include "core/draw/figure.h"

void figure_set_font(const struct figure *f);
// Text as it can be drawn: valid UTF-8 without control characters, of bounded length.
void figure_text_clean(struct buf *to, const char *text);
// Appends clean text as XML.
void figure_xml(struct buf *to, const char *text);
// Opens the group of all texts of an SVG.
void figure_svg_font(struct buf *to, const struct figure *f);
// Where the texts of an SVG are kept; NULL: of another kind.
struct buf *figure_svg_texts(struct figure *f);

#endif
