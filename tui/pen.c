// tui/pen.c -- reduces styles and colours of cells to the colours of the terminal.
#include "tui/pen.h"

enum { BLACK = 0, WHITE = 7, PALETTE = 256 };

// Returns an ink that is legible on one of the first eight colours: white on black, red and blue,
// otherwise black.
static int ink_on(int paper)
{
    return paper == BLACK || paper == 1 || paper == 4 ? WHITE : BLACK;
}

// --- eight colours -------------------------------------------------------------------------------

// Replaces grey ink with the terminal's default, grey paper with reverse video, and other colours
// with those of the theme `terminal`, or with their hue; on coloured paper, ink is black or white.
// Black paper stays black, because reverse video would invert all text of a black theme.
static void look_in_eight(const struct look *look, const struct look *named, struct pen *pen)
{
    const bool own = look->paper < 0 && named->ink >= 0;
    const int hue = own ? named->ink : look->ink < 0 ? -1 : colour_hue(colour_of(look->ink));
    pen->ink = hue;
    if (look->paper >= 0 && !colour_of(look->paper)) { // black
        pen->paper = BLACK;
        if (hue < 0) pen->ink = WHITE;
    } else if (look->paper > 0 && colour_hue(colour_of(look->paper)) < 0) {
        pen->ink = COLOUR_DEFAULT;
        pen->attributes |= LOOK_REVERSE;
    } else if (look->paper > 0) {
        pen->paper = colour_hue(colour_of(look->paper));
        pen->ink = ink_on(pen->paper);
    }
}

// --- any number of colours -----------------------------------------------------------------------

static int number_of(int index, int colours, bool exact)
{
    // From 16 on, a palette of 88 colours has others than one of 256.
    const int own = colours > PALETTE ? 8 : colours < PALETTE && colours > 16 ? 16 : colours;
    if (index < 8 || index < own) return index;
    return exact && colours > PALETTE ? (int)(CELL_RGB | colour_of(index))
                                      : colour_nearest(colour_of(index), colours);
}

static int own_colour(uint32_t rgb, int colours, bool exact)
{
    return exact ? (int)rgb : colour_nearest(rgb & 0xffffff, colours);
}

struct pen pen_of(const struct theme *theme, const struct cell *cell, int colours, bool exact)
{
    const struct look *look = theme_look(theme, cell->style);
    struct pen pen = { COLOUR_DEFAULT, COLOUR_DEFAULT, look->attributes };
    if (colours < 8) { // only attributes
        const bool faint = cell->style == STYLE_NOTICE || cell->style == STYLE_DIM;
        if (look->paper > 0 && colour_of(look->paper)) pen.attributes |= LOOK_REVERSE;
        if (faint && look->ink != theme_look(theme, STYLE_TEXT)->ink) pen.attributes |= LOOK_DIM;
        return pen;
    }
    if (colours < 16) {
        look_in_eight(look, theme_look(theme_find("terminal"), cell->style), &pen);
    } else {
        const bool few = colours < PALETTE && look->ink >= 8 && look->paper < 0;
        pen.ink = few ? colour_readable(colour_of(look->ink), theme)
                      : number_of(look->ink, colours, exact);
        pen.paper = number_of(look->paper, colours, exact);
        if (pen.paper > 0 && colours < PALETTE) pen.ink = ink_on(pen.paper);
    }
    if (cell->ink) pen.ink = own_colour(cell->ink, colours, exact);
    if (cell->paper) pen.paper = own_colour(cell->paper, colours, exact);
    // Many terminals show bold black as grey.
    if (pen.ink == BLACK && pen.paper >= 0) pen.attributes &= ~(unsigned)LOOK_BOLD;
    return pen;
}
