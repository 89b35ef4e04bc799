// tui/graphics.h -- finds out how a terminal can show pictures and which colours it has, and
// encodes pictures.
//
//   struct graphics g = { 0 };
//   graphics_query(&g, &question);                        // written to the terminal once
//   graphics_take_reply(&g, reply, length);                 // for each reply
//   const struct graphics_way *way = graphics_way(graphics_choose(&g, "auto"));
//   if (way->encode) way->encode(&picture, g.tmux, &out);
//
// A way without `encode` draws with characters (tui/drawing.h). The encoded bytes draw at the
// cursor; a caller that needs the old cursor position puts them between ESC 7 and ESC 8.
#ifndef TUI_GRAPHICS_H
#define TUI_GRAPHICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"

enum graphics_kind {
    GRAPHICS_BLOCKS, // two pixels per cell
    GRAPHICS_ASCII,  // letters from sparse to dense
    GRAPHICS_QUADRANTS,
    GRAPHICS_SEXTANTS,
    GRAPHICS_KITTY,
    GRAPHICS_ITERM,
    GRAPHICS_SIXEL,
};

// pixels [height, width, 4]: RGBA, alpha 0 or 255. The picture covers columns x lines cells.
struct graphics_picture {
    const uint8_t *pixels;
    int width, height, columns, lines;
    uint32_t id;  // kitty's name of the picture, 16..255
    bool confirm; // kitty confirms that it received the picture
};

struct graphics_way {
    const char *name;
    // NULL: draws with characters.
    void (*encode)(const struct graphics_picture *p, bool tmux, struct buf *out);
    void (*forget)(uint32_t id, bool tmux, struct buf *out); // NULL: overwriting is enough
};
const struct graphics_way *graphics_way(enum graphics_kind kind);

// The terminal's capabilities, as the terminal has reported them, or guessed (graphics_guess).
struct graphics {
    enum graphics_kind found;    // the best way known so far; GRAPHICS_BLOCKS at first
    bool tmux;                   // inside tmux: sequences for the outer terminal are wrapped
    bool complete;               // the query's last reply (DA1) has arrived, or no query was sent
    int cell_width, cell_height; // pixels; 0: unknown
    int colours;                 // size of the terminal's palette: 256; 0: unknown
    bool true_colour;
    bool has_background; // the terminal has reported its background
    uint32_t background; // 0xRRGGBB
};
// Appends the query for the terminal, or nothing if the terminal might display it as text (judged
// by TERM, TERM_PROGRAM and STY).
void graphics_query(struct graphics *g, struct buf *out);
// Appends only kitty's query, for a second try: tmux may drop the first.
void graphics_query_kitty(const struct graphics *g, struct buf *out);
// Reads one reply, a whole escape sequence. False: not a reply to the queries above.
bool graphics_take_reply(struct graphics *g, const char *reply, size_t length);
// Queries the terminal `fd` and waits at most `seconds` for its replies; appends keys typed
// meanwhile to `typed`.
void graphics_query_now(struct graphics *g, int fd, double seconds, struct buf *typed);
// Guesses the way from the environment, without a query.
void graphics_guess(struct graphics *g);
// Returns the size of a cell in pixels: from the terminal driver, from the terminal's reply, or a
// common size.
void graphics_cell(const struct graphics *g, int fd, int *width, int *height);
// Returns the way for a value of screen.graphics: "auto" is the best way found.
enum graphics_kind graphics_choose(const struct graphics *g, const char *setting);

// Appends bytes for the outer terminal: in tmux's passthrough sequence (ESC doubled) if `tmux`,
// else unchanged.
void graphics_wrap(struct buf *out, bool tmux, const char *bytes, size_t length);

void graphics_encode_sixel(const struct graphics_picture *p, bool tmux, struct buf *out);

#endif
