// tui/image_parts.h -- shared by the files of the picture panel: panel_image.c (picture, strip,
// keys), image_grid.c (heads), image_cursor.c (patches), image_sinks.c (without attention sinks).
#ifndef TUI_IMAGE_PARTS_H
#define TUI_IMAGE_PARTS_H

#include "tui/panel.h"

// Adds all tiles of the map: maps that differ only in their part of the picture.
void image_tiles(const struct view *v, const struct image_view *i, const struct map *m,
                 struct drawing *d);
// Draws d. If the panel leaves attention sinks out, and those of all its maps are known, draws the
// maps without them.
struct area image_show(const struct view *v, struct drawing *d, struct canvas *c, struct area area);
// Sets the range of the map's colours, without attention sinks if the panel leaves them out.
void image_range(const struct view *v, const struct map *m, float *min, float *max);
// Writes how many sinks are left out, or why none is.
void image_sinks_draw(const struct view *v, struct canvas *c, struct area line,
                      const struct map *m);

// The grid shows the maps of heads; `now` is the chosen one.
void image_grid_draw(struct view *v, struct canvas *c, struct area area, const struct map *now);
unsigned image_grid_act(struct view *v, const char *action);
// Chooses the map at a column and line of the screen; false: no grid is there.
bool image_grid_click(struct view *v, int column, int line);

// Returns the tile at a point of the picture, and the row and column of its patch; NULL: no map is
// there.
const struct map *image_patch(const struct view *v, double x, double y, int *row, int *col);
// Finds the middle of the patch with the highest value that is drawn; false: no map has values.
bool image_highest(const struct view *v, double *x, double *y);
// The cursor on patches.
void image_cursor_set(struct view *v); // sets it to the highest value
unsigned image_cursor_act(struct view *v, const char *action);
void image_mark(const struct view *v, struct drawing *d); // frames its patch
// Writes the token, row, column, value and share of its patch.
void image_cursor_draw(const struct view *v, struct canvas *c, struct area line);
// Describes the patch under the mouse pointer in `b`, in at most `width` columns if the shorter
// form fits; false: the pointer is over no patch.
bool image_hover_name(const struct view *v, int width, struct buf *b);

#endif
