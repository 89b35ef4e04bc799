// tui/drawing.h -- a picture with a map over it as pixels, at any size: what the panels show.
//
//   struct drawing d = { .picture = &image };
//   drawing_ramp(&d, "viridis");
//   drawing_fit(&d, area.width, 2 * area.height);       // keeps the proportions
//   uint32_t rgb = drawing_colour(&d, x, y);
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
    uint8_t *dropped; // NULL: pruning dropped nothing
    char **words;     // [rows * cols] written over the cells; NULL: none
    char *tile;       // NULL: all of the picture
    double area[4];   // left, top, right, bottom of its area, in fractions of the picture
    bool quick;       // of the last answer, asked for by a step (tui/maps.h)
};
void map_release(struct map *m);

struct drawing {
    const struct image *picture;       // NULL: the map alone
    uint64_t picture_key;              // differs between pictures
    const struct map *maps[TILES_MAX]; // tiles of one map
    int map_count;                     // 0: the picture alone
    uint32_t ramp[SHADES + 1];         // colours of the map, from its least to its most
    bool smooth;                       // between the middles of patches
    bool bare;                         // the map alone, though there is a picture
    bool steps;                        // for 256 colours: the map over some of the picture's pixels
    int width, height;                 // in pixels
};

void drawing_ramp(struct drawing *d, const char *ramp);
// The largest size within width x height pixels, each `aspect` times as high as wide.
void drawing_fit(struct drawing *d, int width, int height, double aspect);
uint32_t drawing_colour(const struct drawing *d, int x, int y); // 0xRRGGBB
// How much ink a letter has that stands for the pixel: brightness, or the map's share of its most.
double drawing_ink(const struct drawing *d, int x, int y);
// The map's share there, 0..1; below 0: no value, dropped, or no map.
double drawing_share(const struct drawing *d, int x, int y);
// The picture's colour there, whatever lies over it.
uint32_t drawing_below(const struct drawing *d, int x, int y);
double drawing_brightness(const struct drawing *d, int x, int y); // of the picture, 0..1
// A number that differs when anything differs that the pixels depend on.
uint64_t drawing_key(const struct drawing *d);
// With all it refers to; for another thread.
struct drawing *drawing_copy(const struct drawing *d);
void drawing_free(struct drawing *d);
// RGBA pixels [height, width, 4] of `columns` x `lines` cells of that size, the drawing in their
// middle, clear around it.
uint8_t *drawing_pixels(const struct drawing *d, int width, int height);

// Draws into the cells of an area: with characters, and where the terminal shows pictures also asks
// for one (canvas.painter), which replaces them as soon as it is ready.
// Returns the cells that it fills.
struct area drawing_show(struct drawing *d, struct canvas *c, struct area area);

#endif
