// tui/theme.h -- styles, and their colours and attributes in each theme.
//
//   const struct look *look = theme_look(theme_find("light"), STYLE_NOTICE);
//
// A theme is a column of a table with a row per style. Colours are indices of the 256-colour
// palette, of which the terminal's scheme may change the first 16; terminals with 16 colours get
// the nearest, those with 8 the hue, monochrome ones only the attributes (tui/pen.h).
#ifndef TUI_THEME_H
#define TUI_THEME_H

#include <stdint.h>

enum style {
    STYLE_TEXT,
    STYLE_DIM,
    STYLE_TITLE,
    STYLE_USER,
    STYLE_ANSWER,
    STYLE_CODE,
    STYLE_STRONG,   // bold words of an answer
    STYLE_EMPHASIS, // italic words of an answer
    STYLE_NOTICE,
    STYLE_ERROR,
    STYLE_BORDER,
    STYLE_FOCUS, // border of the focused panel
    STYLE_STATUS,
    STYLE_BADGE,
    STYLE_SELECTED,
    STYLE_CHANGED,
    STYLE_STALE,
    STYLE_MATCH, // a match, or the selected token
    STYLE_KEY,
    STYLE_PROMPT,
    STYLE_CURVE1,
    STYLE_CURVE2,
    STYLE_CURVE3,
    STYLE_CURVE4,
    STYLE_GHOST, // curves of earlier runs, and the spread of a curve's points
    STYLE_BAR,
    STYLE_COUNT
};

enum { LOOK_BOLD = 1, LOOK_DIM = 2, LOOK_REVERSE = 4, LOOK_UNDERLINE = 8, LOOK_ITALIC = 16 };
enum { COLOUR_DEFAULT = -1 };

struct look {
    int16_t ink, paper; // 0..255, or COLOUR_DEFAULT: the terminal's own
    uint8_t attributes;
};

struct theme {
    const char *name;
    uint16_t inks; // bits: which of the first 16 colours are readable on its background
};

extern const char *const theme_names[];           // NULL at the end
const struct theme *theme_find(const char *name); // the first if unknown
// Returns the theme that fits the terminal's background (0xRRGGBB; -1: unknown): `dark` or `light`
// for the default theme, else the theme itself.
const struct theme *theme_on(const struct theme *theme, int64_t background);
const struct look *theme_look(const struct theme *theme, enum style style);

uint32_t colour_of(int index); // 0xRRGGBB of one of the 256 colours
// Returns the nearest of 256 colours (cube and greys only), of the first 16, or of the first 8.
int colour_nearest(uint32_t rgb, int colours);
// Returns the nearest of theme->inks that is grey if `rgb` is; COLOUR_DEFAULT: none is.
int colour_readable(uint32_t rgb, const struct theme *theme);
uint32_t colour_cube(uint32_t rgb); // the nearest colour of the cube, never of the greys: 0xRRGGBB
int colour_hue(uint32_t rgb);       // one of the first eight, 1..6 by hue; -1: grey
// Returns one of the first eight colours for a share of a map's range: -1 (none), blue, cyan,
// green, yellow.
int step_of_eight(double share);

#endif
