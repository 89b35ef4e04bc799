// core/draw/heatmap.h -- heat maps in colour, over the picture if there is one.
//
//   heatmap_draw(&map, "viridis", 320, 320, pixels);
//   heatmap_figure("maps.pdf", &look, maps, count, &err);
#ifndef CORE_DRAW_HEATMAP_H
#define CORE_DRAW_HEATMAP_H

#include "core/base/err.h"
#include "core/base/event.h"

struct figure;
struct figure_look;

// Returns the height of a map that is `width` wide, from the aspect ratio of the part of the
// picture that it covers (without a picture: of its cells). Width and height are in pixels or, on a
// terminal, in half characters.
int heatmap_height(const struct event_heatmap *map, int width);
// Returns the opacity of a colour over the picture, from heatmap_share: it grows with the value
// from 0, so that the picture keeps its colours where the map is low.
double heatmap_alpha(double share);
// Draws RGB pixels [height, width, 3]: the picture, and over it the values in the colours of a ramp
// (core/draw/ramp.h); dropped tokens and cells without a value are grey.
void heatmap_draw(const struct event_heatmap *map, const char *ramp, int width, int height,
                  uint8_t *pixels);
// Writes a title: "off: attention, layer 3, all heads, all tokens, picture 0, tile 1 of 2".
void heatmap_title(const struct event_heatmap *map, char *text, size_t size);
// heatmap_paint draws all maps in rows of four (of more beyond 64 maps), from the upper left corner
// of an open figure, each with title, colour bar, unit and axes; heatmap_size computes their size
// in points. `cut`: values exceed the scale, and the colour bar says "or more".
void heatmap_size(const struct event_heatmap *maps, size_t count, double *width, double *height);
void heatmap_paint(struct figure *f, const struct event_heatmap *maps, size_t count, bool cut);
int heatmap_figure(const char *path, const struct figure_look *look,
                   const struct event_heatmap *maps, size_t count, struct err *err);
// Returns the position of a cell's value between min and max, 0..1; NaN if the cell has no value.
double heatmap_share(const struct event_heatmap *map, int row, int col);

#endif
