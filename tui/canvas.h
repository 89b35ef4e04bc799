// tui/canvas.h -- a character grid that panels draw on; the terminal and /screen show it.
//
//   struct canvas c = { 0 };
//   canvas_resize(&c, 24, 80);
//   struct area area = { 0, 0, 80, 24 };
//   canvas_text(&c, area, 0, 2, STYLE_TITLE, "vlmsh");
//   canvas_write(&c, &text);                      // as lines of text
//   canvas_release(&c);
//
// A wide character fills two cells, of which the second has code 0; combining marks belong to the
// cell of the character before them. Functions draw only inside the given area.
#ifndef TUI_CANVAS_H
#define TUI_CANVAS_H

#include <stdbool.h>

#include "core/base/mem.h"
#include "tui/graphics.h"
#include "tui/theme.h"

enum { CELL_MARKS = 2, CANVAS_PICTURES = 8, CANVAS_HINTS = 8 };
#define CELL_RGB 0x1000000u // flag of ink and paper: an RGB colour replaces the style's

struct cell {
    uint32_t code;              // Unicode; 0: the second half of a wide character
    uint32_t marks[CELL_MARKS]; // combining, 0 = none
    uint32_t ink, paper;        // CELL_RGB | 0xRRGGBB; 0: the style's
    uint8_t style, width;
    uint8_t picture; // number of the picture that covers the cell, from 1; 0: none
};

struct area {
    int x, y, width, height;
};

// Returns whether the cell at x, y of the screen is in the area.
static inline bool area_has(struct area a, int x, int y)
{
    return x >= a.x && y >= a.y && x < a.x + a.width && y < a.y + a.height;
}

// A picture that the terminal draws over the cells of its area, unless one of these cells was drawn
// on later.
struct canvas_picture {
    struct area area;
    uint64_t key;      // the painter's key of the picture
    int width, height; // in pixels; the picture is at the top of its area, centred
};

struct painter;

struct canvas {
    int lines, columns;
    struct cell *cells;     // [lines, columns]
    int cursor_x, cursor_y; // -1: no cursor
    bool ascii;             // borders and shades in ASCII only
    bool mono;              // no colours, or too few for pictures
    int colours;            // number of the terminal's colours; 0: unlimited
    enum graphics_kind graphics;
    bool tmux;
    int cell_width, cell_height; // pixels
    struct painter *painter;     // encodes pictures; NULL: characters only
    struct canvas_picture drawn[CANVAS_PICTURES];
    int drawn_count;
    struct area hints[CANVAS_HINTS]; // lines whose words name keys (tui/hints.h), in drawing order
    int hint_count;
};

void canvas_resize(struct canvas *c, int lines, int columns);
void canvas_release(struct canvas *c);
void canvas_clear(struct canvas *c);
struct cell *canvas_at(const struct canvas *c, int x, int y); // NULL outside

// Draws text (UTF-8, untrusted: control characters are made visible) at x, y of the area, clipped
// at the area's right edge. Returns the x after the text.
int canvas_text(struct canvas *c, struct area area, int x, int y, enum style style,
                const char *text);
int canvas_text_n(struct canvas *c, struct area area, int x, int y, enum style style,
                  const char *text, size_t length);
int canvas_printf(struct canvas *c, struct area area, int x, int y, enum style style,
                  const char *format, ...) __attribute__((format(printf, 6, 7)));
void canvas_put(struct canvas *c, struct area area, int x, int y, enum style style, uint32_t code);
void canvas_fill(struct canvas *c, struct area area, enum style style, uint32_t code);
// Changes the style of cells x..x+width-1 of a line.
void canvas_style(struct canvas *c, struct area area, int x, int y, int width, enum style style);
// Draws a frame with a title along the inside of the area's edge; returns the area inside the
// frame.
struct area canvas_box(struct canvas *c, struct area area, const char *title, bool focused);
// Asks the terminal to draw a picture of width x height pixels over cells already drawn.
void canvas_picture(struct canvas *c, struct area area, uint64_t key, int width, int height);
// Writes as many parts of the text as fit into the bottom line of the frame (two spaces separate
// parts), and marks that line by canvas_hints.
void canvas_foot(struct canvas *c, struct area area, const char *text);
// Marks a line whose words name keys: a click on them presses the key.
void canvas_hints(struct canvas *c, struct area line);
// Draws a horizontal bar, filled to the share 0..1.
void canvas_bar(struct canvas *c, struct area area, int x, int y, int width, double share);
// Writes the cells as lines of text without trailing spaces.
void canvas_write(const struct canvas *c, struct buf *out);

// Reads the character at `text`: returns its length in bytes, *code (-1: invalid) and *width in
// cells. Characters that cells cannot hold (joiners, variation selectors) have width 0 and code 0.
size_t character_next(const char *text, size_t left, int32_t *code, int *width);

#endif
