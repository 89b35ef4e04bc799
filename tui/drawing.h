// tui/drawing.h -- draws a picture with a map over it at any size, for the panels.
//
//   struct drawing d = { .picture = &image };
//   drawing_ramp(&d, "viridis");
//   struct area place = drawing_show(&d, &canvas, area);
#ifndef TUI_DRAWING_H
#define TUI_DRAWING_H

#include "core/picture/image.h"
#include "tui/canvas.h"
#include "tui/graphics.h"

enum { TILES_MAX = 32, SHADES = 256 };

struct map {
    char *name;
    int picture, layer, head, token, rows, cols;
    float min, max;
    float *values;    // NaN: no value
    double sum;       // of the values that are numbers
    uint8_t *dropped; // NULL: pruning dropped nothing
    char **words;     // [rows * cols] written over the cells; NULL: none
    char *tile;       // name of the tile; NULL: the whole picture
    double area[4];   // left, top, right, bottom of the tile, in fractions of the picture
    bool quick;       // a map of the last answer, requested by tui/maps.c
};
void map_release(struct map *m);

struct drawing {
    const struct image *picture;       // NULL: only the map
    uint64_t picture_key;              // differs between pictures
    const struct map *maps[TILES_MAX]; // tiles of one map
    int map_count;                     // number of tiles; 0: only the picture
    uint32_t ramp[SHADES + 1];         // colours of the map, from its minimum to its maximum
    bool smooth;                       // interpolates between the centres of patches
    bool bare;                         // draws the map without the picture
    bool steps;                        // for 256 colours: dithers the map over the picture
    bool marked;                       // frames an area
    double mark[4];                    // left, top, right, bottom in fractions of the picture
    int width, height;                 // in pixels
};

// Returns the smallest of `count` tiles that contain x, y (fractions of the picture), and sets the
// row and column of the patch there; NULL: no tile does.
const struct map *drawing_patch(const struct map *const *tiles, int count, double x, double y,
                                int *row, int *col);

void drawing_ramp(struct drawing *d, const char *ramp);
// Sets the largest size that fits into width x height pixels, each of which is `aspect` times as
// high as wide.
void drawing_fit(struct drawing *d, int width, int height, double aspect);
void drawing_free(struct drawing *d); // frees d, a copy made for painter_request
// Returns RGBA pixels [height, width, 4], which the caller frees: the drawing at the top, centred
// horizontally, on a transparent background.
uint8_t *drawing_pixels(const struct drawing *d, int width, int height);

// Draws characters into the cells of an area. If the terminal can show pictures, also requests a
// picture from canvas.painter; once the picture is ready, it replaces the characters. Returns the
// part of the area that the drawing fills.
struct area drawing_show(struct drawing *d, struct canvas *c, struct area area);

#endif
